//! `memwright blame`: who lost time in the stalls of a recording, and to whom.

use super::{DAY_MS, could_not_read};
use crate::args::{BlameArgs, TimeArg};
use crate::config::Config;
use crate::{Exit, Failure, terminal};
use jiff::tz::TimeZone;
use mw_model::{BLAME_SCHEMA, BlameList, IncidentRow};
use mw_record::Recording;
use mw_render::text;

/// A recording that ended longer ago is not that of the last day.
const RECENT_MS: u64 = 3_600_000;

/// Incidents that are read: the latest.
const MAX_INCIDENTS: usize = 5000;

pub(crate) fn run(args: &BlameArgs, config: &Config) -> Result<Exit, Failure> {
    let recording = super::recording_without_rows(args.recording.as_deref(), config)?;
    let rows = recording.incidents().map_err(could_not_read)?;
    let last = recording.range().map_err(could_not_read)?.map_or(0, |(_, last)| last);
    let end = rows.iter().map(|row| row.ended_unix_ms).fold(last, u64::max);
    let since_unix_ms = TimeArg::since(args.since, end, DAY_MS);
    let mut list = BlameList {
        schema: BLAME_SCHEMA,
        memwright: env!("CARGO_PKG_VERSION").to_owned(),
        since_unix_ms,
        ..BlameList::default()
    };
    add(&mut list, &recording, &rows);
    let is_recent = mw_sys::unix_ms().saturating_sub(end) < RECENT_MS;
    let span = match args.since {
        Some(_) => {
            let at = text::time(since_unix_ms, &TimeZone::system());
            format!("since {}", at.unwrap_or_else(|| since_unix_ms.to_string()))
        }
        None if is_recent => "in the last day".to_owned(),
        None => "in the last day of the recording".to_owned(),
    };
    list.summary = text::blame_summary(&list, &span);
    if args.format.is_json() {
        super::print_json(&list)?;
    } else {
        terminal::print_page(&text::blame(&list, terminal::layout(false)));
    }
    Ok(Exit::Fine)
}

/// Sums up the incidents of the list's period. One that cannot be read is a note.
fn add(list: &mut BlameList, recording: &Recording, rows: &[IncidentRow]) {
    let wanted: Vec<&IncidentRow> =
        rows.iter().filter(|row| row.ended_unix_ms >= list.since_unix_ms).collect();
    let beyond = wanted.len().saturating_sub(MAX_INCIDENTS);
    if beyond > 0 {
        list.notes.push(format!("{beyond} earlier incidents are not summed up"));
    }
    let mut shares = Vec::new();
    for row in wanted.into_iter().skip(beyond) {
        match recording.incident(row.id) {
            Ok(Some(incident)) => shares.push((row.id, mw_rules::blame(&incident))),
            // Retention has removed it since.
            Ok(None) => {}
            Err(error) => list.notes.push(format!("not read: {error}")),
        }
    }
    list.add_all(shares);
}
