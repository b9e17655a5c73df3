//! `memwright trends`: what grows steadily in a recording and when memory or a limit is full, and when huge pages
//! run out.

use crate::args::TrendsArgs;
use crate::config::Config;
use crate::{Exit, Failure, terminal};
use jiff::tz::TimeZone;
use mw_record::Recording;
use mw_render::text;

/// Period that is judged where no time is given: a batch of every night has come back six times.
const USUAL_SPAN_MS: u64 = 7 * 24 * 3_600_000;

pub(crate) fn run(args: &TrendsArgs, config: &Config) -> Result<Exit, Failure> {
    let recording = super::recording_without_rows(args.recording.as_deref(), config)?;
    let (since, until) = range(args, &recording)?;
    let history = recording.sizes(since, until).map_err(could_not)?;
    let trends =
        mw_rules::trends(&history, &recording.path().display().to_string(), args.request.as_ref());
    let trends = trends.map_err(could_not)?;
    if args.format.is_json() {
        super::print_json(&trends)?;
    } else {
        let layout = terminal::layout(false);
        terminal::print_page(&text::trends(&trends, &TimeZone::system(), layout));
    }
    Ok(if trends.trends.is_empty() && trends.exhaustion.is_empty() {
        Exit::Fine
    } else {
        Exit::Findings
    })
}

/// Period that is judged, in milliseconds since 1970.
fn range(args: &TrendsArgs, recording: &Recording) -> Result<(u64, u64), Failure> {
    let last = recording.last_sizes().map_err(could_not)?.unwrap_or(0);
    let until = args.until.map_or(last, |until| until.unix_ms(last));
    let usual = || until.saturating_sub(USUAL_SPAN_MS);
    Ok((args.since.map_or_else(usual, |since| since.unix_ms(last)), until))
}

fn could_not(error: impl std::error::Error + 'static) -> Failure {
    Failure::from_error(&error)
}
