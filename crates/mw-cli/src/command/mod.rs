//! The commands, one file each.

pub(crate) mod bench;
pub(crate) mod blame;
pub(crate) mod capture;
mod captured;
pub(crate) mod changes;
pub(crate) mod check;
mod child;
mod confined;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod fix;
pub(crate) mod fleet;
pub(crate) mod heartbeats;
pub(crate) mod incidents;
pub(crate) mod iotune;
pub(crate) mod k8s;
pub(crate) mod killed;
pub(crate) mod lab;
mod lasting;
pub(crate) mod make_room;
pub(crate) mod notify;
pub(crate) mod pool;
mod replay;
pub(crate) mod report;
mod reserved;
pub(crate) mod run;
pub(crate) mod ship;
pub(crate) mod slurm;
pub(crate) mod top;
mod tree;
pub(crate) mod trends;
pub(crate) mod undo;
pub(crate) mod watch;
pub(crate) mod why;

use crate::{Exit, Failure};
use mw_rules::Rule;

/// Period of a list where no time is given.
const DAY_MS: u64 = 24 * 3_600_000;

/// The names nearest to a misspelt one are offered from this similarity on.
const SIMILAR: f64 = 0.7;

/// The rule of this id.
fn rule(id: &str) -> Result<&'static Rule, Failure> {
    mw_rules::find(id).ok_or_else(|| {
        let near = mw_rules::RULES
            .iter()
            .map(|rule| (strsim::jaro_winkler(id, rule.id), rule.id))
            .filter(|(similarity, _)| *similarity >= SIMILAR)
            .max_by(|a, b| a.0.total_cmp(&b.0));
        let hint = near.map_or_else(
            || "'memwright explain' lists the rules".to_owned(),
            |(_, id)| format!("did you mean '{id}'? 'memwright explain' lists the rules"),
        );
        Failure::new(Exit::Usage, format!("no rule '{id}'; {hint}"))
    })
}

/// The recording that is named, or the usual one. What is lost of its rows is said on standard error.
fn recording(
    named: Option<&std::path::Path>,
    config: &crate::config::Config,
) -> Result<mw_record::Recording, Failure> {
    let recording = open_recording(&config.recording(named))?;
    if let Some(damage) = recording.damage() {
        crate::terminal::tell(format_args!("memwright: {damage}"));
    }
    Ok(recording)
}

/// The same for a command that shows incidents or sizes, within limits. Its rows are not read: on a machine that
/// reclaims, a thousand pages of a file take seconds.
fn recording_without_rows(
    named: Option<&std::path::Path>,
    config: &crate::config::Config,
) -> Result<mw_record::Recording, Failure> {
    let path = config.recording(named);
    confined::confine(&path);
    let recording = open_recording(&path)?;
    if let Some(problem) = recording.problem() {
        crate::terminal::tell(format_args!("memwright: {problem}"));
    }
    Ok(recording)
}

fn open_recording(path: &std::path::Path) -> Result<mw_record::Recording, Failure> {
    mw_record::Recording::open(path).map_err(could_not_read)
}

/// The failure of a command that reads a recording.
fn could_not_read(error: mw_record::RecordError) -> Failure {
    Failure::from_error(&error)
}

/// Time limit for reading the recorder's forecast: a file system may not respond. It takes a millisecond, but on busy
/// CPUs the thread that reads may wait for one.
const FORECAST_PATIENCE: std::time::Duration = std::time::Duration::from_millis(250);

/// Forecasts of the recorder of this machine; nothing where there are none.
fn forecast(
    recording: std::path::PathBuf,
    request: Option<&mw_model::Request>,
) -> Vec<mw_model::Exhaustion> {
    let read = move |_: u32, (): &()| mw_record::supplies(&recording);
    let helper = mw_sys::HelperThread::new(FORECAST_PATIENCE, read);
    let supplies = helper.ok().and_then(|mut helper| helper.run(&[(0, ())]).pop().flatten());
    let supplies = supplies.and_then(Result::ok).unwrap_or_default();
    mw_rules::forecast(&supplies, request, mw_sys::unix_ms())
}

/// Prints a value as JSON.
fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::new(Exit::CouldNotCheck, format!("as JSON: {error}")))?;
    crate::terminal::print_page(&(mw_model::visible::json(&json) + "\n"));
    Ok(())
}
