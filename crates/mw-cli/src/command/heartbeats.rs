//! `memwright heartbeats`: lines by which cluster software reports a late heartbeat, and what the recording has of the
//! seconds before each.
//!
//! - `known`: the lines that are looked for; pure
//! - `stamp`: when a line was written; pure
//! - `logs`: reads logs and the journal, within limits
//! - `join`: what the recording has of that time

pub(crate) mod join;
mod known;
mod logs;
mod stamp;

use crate::args::HeartbeatsArgs;
use crate::config::Config;
use crate::output::without_interruption;
use crate::{Exit, Failure, terminal};
use join::{After, Heartbeats};
use known::Known;
use logs::{Limits, Logs};
use mw_model::{HeartbeatKind, HeartbeatReport, Incident};
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

/// Period that is searched where no time is given.
const USUAL_SPAN_MS: u64 = 24 * 3_600_000;

/// Time limit of the journal and of each configured log, and the period searched, for a command that does nothing
/// else,
const SEARCH: Limits = Limits { bytes: 4 << 30, time: Duration::from_secs(60) };

/// and for one whose answer is there already.
const SHORT_SEARCH: Limits = Limits { bytes: 256 << 20, time: Duration::from_secs(5) };

pub(crate) fn run(args: &HeartbeatsArgs, config: &Config) -> Result<Exit, Failure> {
    let configured = config.heartbeats();
    let wanted = wanted(args.pattern.iter().chain(&configured.pattern))?;
    let now = mw_sys::unix_ms();
    let range = logs::Range {
        since: args.since.map_or(now.saturating_sub(USUAL_SPAN_MS), |since| since.unix_ms(now)),
        until: args.until.map_or(now, |until| until.unix_ms(now)),
    };
    let logs = logs(&args.log, &configured.log);
    let found = without_interruption(|| logs::read(&logs, &wanted, range, SEARCH))?;
    let has_failed = found.has_failed;
    let recording = super::recording(args.recording.as_deref(), config);
    let heartbeats = join::join(found, recording.as_ref().ok(), &wanted)?;
    if args.format.is_json() {
        super::print_json(&heartbeats)?;
    } else {
        terminal::print(&text(&heartbeats));
        if let (Err(failure), false) = (&recording, heartbeats.lines.is_empty()) {
            terminal::tell(format_args!("memwright: without a recording: {failure}"));
        }
    }
    Ok(match heartbeats.lines.is_empty() {
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
    let range = join::around(incident);
    let found = logs::read(&logs(named, &configured.log), &wanted, range, SHORT_SEARCH)?;
    let mut reports = join::reports(&found.found, &wanted);
    reports.retain(|report| join::is_of(report, incident.started_unix_ms, incident.ended_unix_ms));
    Ok((reports, found.not_read))
}

/// The logs that are named, or else those of this machine.
fn logs<'a>(named: &'a [PathBuf], configured: &'a [PathBuf]) -> Logs<'a> {
    match named {
        [] => Logs::Configured(configured),
        named => Logs::Named(named),
    }
}

/// The lines that are looked for: the user's, and all that are shipped.
fn wanted<'a>(patterns: impl Iterator<Item = &'a String>) -> Result<Vec<Known>, Failure> {
    let parsed = patterns.map(|text| known::parse(text)).collect::<Result<Vec<_>, _>>();
    let mut wanted = parsed.map_err(|why| Failure::new(Exit::Usage, why))?;
    wanted.extend(known::shipped());
    Ok(wanted)
}

/// The answer in the first line, then the lines, each with what is recorded of the time before it.
fn text(heartbeats: &Heartbeats) -> String {
    let Heartbeats { lines, left_out, not_read, .. } = heartbeats;
    let mut text = match lines.len() {
        0 => "no line reports a late heartbeat".to_owned(),
        1 => "1 report of a late heartbeat: ".to_owned(),
        count => format!("{count} reports of a late heartbeat: "),
    };
    let count = |after| lines.iter().filter(|line| line.after() == after).count();
    let parts = [
        (After::Memory, "after a memory stall"),
        (After::Other, "after another stall"),
        (After::Unexplained, "after a stall of unknown cause"),
        (After::Nothing, "without a stall"),
        (After::Unrecorded, "at times without a recording"),
    ];
    let parts = parts.iter().map(|(after, what)| (count(*after), what));
    let parts = parts.filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts.map(|(count, what)| format!("{count} {what}")).collect();
    text += &parts.join(", ");
    if *left_out > 0 {
        let _ = write!(text, "; {left_out} earlier lines were left out");
    }
    if !not_read.is_empty() {
        let _ = write!(text, "; not read: {}", not_read.join(", "));
    }
    text.push('\n');
    for line in lines {
        let HeartbeatReport { unix_ms, software, says, line: said, times, .. } = &line.report;
        let times = if *times > 1 { format!(" ({times} times)") } else { String::new() };
        let _ = writeln!(text, "  {}  {software}{times}: {said}", join::shown(*unix_ms));
        let _ = writeln!(text, "    {}", line.explanation);
        if *says == HeartbeatKind::Unheard {
            let _ = writeln!(
                text,
                "    the line is about another machine: ask there, too; the network may have lost the heartbeat"
            );
        }
    }
    text
}
