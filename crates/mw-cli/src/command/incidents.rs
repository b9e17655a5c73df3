//! `memwright incidents`: the stalls of a recording, open ones first, the latest last.

use super::{could_not_read, report};
use crate::args::IncidentsArgs;
use crate::config::Config;
use crate::terminal;
use crate::{Exit, Failure};
use mw_model::{IncidentRow, TriggerKind};
use mw_record::Recording;
use mw_render::text::{self, IncidentList};

/// Substitute for the cause of incidents that have none.
const UNKNOWN: &str = "unknown";

pub(crate) fn run(args: &IncidentsArgs, config: &Config) -> Result<Exit, Failure> {
    let recording = super::recording_without_rows(args.recording.as_deref(), config)?;
    if let Some(id) = args.id {
        let incident = report::find(&recording, id)?;
        if args.format.is_json() {
            super::print_json(&incident)?;
        } else {
            terminal::print_page(&text::incident(&incident, terminal::layout(false)));
        }
        return Ok(Exit::Fine);
    }
    let mut rows = recording.incidents().map_err(could_not_read)?;
    let total = rows.len();
    select(&mut rows, args, &recording)?;
    if args.format.is_json() {
        super::print_json(&rows)?;
    } else {
        let list = IncidentList {
            rows: &rows,
            others: total - rows.len(),
            is_grouped: !args.all,
            now_unix_ms: mw_sys::unix_ms(),
        };
        terminal::print_page(&text::incidents(list, terminal::layout(false)));
    }
    Ok(Exit::Fine)
}

/// Leaves the incidents that were asked for.
fn select(
    rows: &mut Vec<IncidentRow>,
    args: &IncidentsArgs,
    recording: &Recording,
) -> Result<(), Failure> {
    if let Some(cause) = &args.cause {
        // A recording may have causes of another version.
        let is_known = cause == UNKNOWN || rows.iter().any(|row| row.cause.as_ref() == Some(cause));
        if !is_known {
            super::rule(cause)?;
        }
        rows.retain(|row| row.cause.as_deref().unwrap_or(UNKNOWN) == cause);
    }
    if let Some(since) = args.since {
        let last = recording.range().map_err(could_not_read)?.map_or(0, |(_, last)| last);
        let since = since.unix_ms(rows.iter().map(|row| row.ended_unix_ms).fold(last, u64::max));
        rows.retain(|row| row.ended_unix_ms >= since);
    }
    if let Some(probe) = &args.probe {
        rows.retain(|row| row.trigger_kind == TriggerKind::Probe && row.trigger_name == *probe);
    }
    Ok(())
}
