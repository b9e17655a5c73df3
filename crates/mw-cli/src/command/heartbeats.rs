//! `memwright heartbeats`: late heartbeats in the logs of cluster software, and the stall before each.

use crate::args::{HeartbeatsArgs, TimeArg};
use crate::config::Config;
use crate::output::without_interruption;
use crate::{Exit, Failure, terminal};
use mw_cluster::heartbeats::{self, FoundLines, KnownLine, LogError, LogSources, TimeRange};
use mw_model::{HeartbeatReport, Incident};
use mw_sys::guarded::ReadLimits;
use std::path::PathBuf;
use std::time::Duration;

/// Time limit of the journal and of each configured log, and the period searched, for a command that does nothing
/// else,
const SEARCH: ReadLimits = ReadLimits { bytes: 4 << 30, time: Duration::from_secs(60) };

/// and for one whose answer is there already.
const SHORT_SEARCH: ReadLimits = ReadLimits { bytes: 256 << 20, time: Duration::from_secs(5) };

pub(crate) fn run(args: &HeartbeatsArgs, config: &Config) -> Result<Exit, Failure> {
    let configured = config.heartbeats();
    let wanted = wanted(args.pattern.iter().chain(&configured.pattern))?;
    let now = mw_sys::unix_ms();
    let range = TimeRange {
        since: TimeArg::since(args.since, now, super::DAY_MS),
        until: args.until.map_or(now, |until| until.unix_ms(now)),
    };
    let logs = logs(&args.log, &configured.log);
    let found = without_interruption(|| read(&logs, &wanted, range, SEARCH))?;
    let has_failed = !found.failures.is_empty();
    let recording = super::recording(args.recording.as_deref(), config);
    let late = heartbeats::join(found, recording.as_ref().ok(), &wanted)
        .map_err(|error| Failure::from_error(&error))?;
    if args.format.is_json() {
        super::print_json(&late)?;
    } else {
        terminal::print(&late.text());
        if let (Err(failure), false) = (&recording, late.lines.is_empty()) {
            terminal::tell(format_args!("memwright: without a recording: {failure}"));
        }
    }
    Ok(match late.lines.is_empty() {
        false => Exit::Findings,
        true if has_failed => Exit::CouldNotCheck,
        true => Exit::Fine,
    })
}

/// Reports of cluster software while an incident lasted and shortly after: in the logs that are named, or in this
/// machine's journal and the configured logs, which know nothing of an incident of another machine. Then which of them
/// were not read, in words.
///
/// # Errors
/// No log could be read, or not one that is named.
pub(super) fn of_incident(
    incident: &Incident,
    named: &[PathBuf],
    config: &Config,
) -> Result<(Vec<HeartbeatReport>, Vec<String>), Failure> {
    let configured = config.heartbeats();
    let own_name = rustix::system::uname();
    let is_own = own_name.nodename().to_string_lossy() == incident.host.name.as_str();
    if named.is_empty() && !is_own {
        return Ok(Default::default());
    }
    let wanted = wanted(configured.pattern.iter())?;
    let range = heartbeats::around(incident);
    let found = read(&logs(named, &configured.log), &wanted, range, SHORT_SEARCH)?;
    let mut reports = heartbeats::reports(&found.found, &wanted);
    reports.retain(|report| {
        heartbeats::is_of(report, incident.started_unix_ms, incident.ended_unix_ms)
    });
    Ok((reports, found.not_read))
}

/// The logs that are named, or else those of this machine.
fn logs<'a>(named: &'a [PathBuf], configured: &'a [PathBuf]) -> LogSources<'a> {
    match named {
        [] => LogSources::Configured(configured),
        named => LogSources::Named(named),
    }
}

/// The lines that are looked for: the user's, and all that are shipped.
fn wanted<'a>(patterns: impl Iterator<Item = &'a String>) -> Result<Vec<KnownLine>, Failure> {
    let parsed = patterns.map(|text| heartbeats::parse(text)).collect::<Result<Vec<_>, _>>();
    let mut wanted = parsed.map_err(|why| Failure::new(Exit::Usage, why))?;
    wanted.extend(heartbeats::shipped());
    Ok(wanted)
}

/// Reads logs; those that could not be read are listed in words.
///
/// # Errors
/// No log could be read, or not one that is named.
fn read(
    logs: &LogSources<'_>,
    wanted: &[KnownLine],
    range: TimeRange,
    limits: ReadLimits,
) -> Result<FoundLines, Failure> {
    let failure = |error: &LogError| match error {
        LogError::File(path, error) => Failure::of_file(path, error),
        LogError::Journal(why) => Failure::new(Exit::CouldNotCheck, why),
    };
    let mut found =
        heartbeats::read(logs, wanted, range, limits).map_err(|error| failure(&error))?;
    let failures = found.failures.iter().map(|error| failure(error).to_string());
    let failures: Vec<String> = failures.collect();
    if found.is_unread {
        return Err(Failure::new(Exit::CouldNotCheck, failures.join("; ")));
    }
    found.not_read.extend(failures);
    Ok(found)
}
