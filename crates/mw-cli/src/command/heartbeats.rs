//! `memwright heartbeats`: lines by which cluster software reports a late heartbeat, and what the recording has of the
//! seconds before each.
//!
//! - `known`: the lines that are looked for; pure
//! - `stamp`: when a line was written; pure
//! - `logs`: reads logs and the journal, within limits
//! - `join`: what the recording has of that time

mod join;
mod known;
mod logs;
mod stamp;

use crate::args::HeartbeatsArgs;
use crate::config::Config;
use crate::output::without_interruption;
use crate::{Exit, Failure, terminal};
use join::{Explained, Heartbeats};
use known::Says;
use std::fmt::Write;

/// How much is looked at where no time is given.
const USUAL_SPAN_MS: u64 = 24 * 3_600_000;

pub(crate) fn run(args: &HeartbeatsArgs, config: &Config) -> Result<Exit, Failure> {
    let patterns =
        args.pattern.iter().map(|text| known::parse(text)).collect::<Result<Vec<_>, _>>();
    let mut wanted = patterns.map_err(|why| Failure::new(Exit::Usage, why))?;
    wanted.extend(known::shipped());
    let now = mw_sys::unix_ms();
    let range = logs::Range {
        since: args.since.map_or(now.saturating_sub(USUAL_SPAN_MS), |since| since.unix_ms(now)),
        until: args.until.map_or(now, |until| until.unix_ms(now)),
    };
    let found = without_interruption(|| logs::read(&args.log, &wanted, range))?;
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
    Ok(if heartbeats.lines.is_empty() { Exit::Fine } else { Exit::Findings })
}

/// What `heartbeats --json` prints: the version of the format, and its JSON schema.
#[cfg(feature = "schema")]
pub(crate) fn schema() -> (u32, schemars::Schema) {
    (join::SCHEMA, schemars::schema_for!(Heartbeats))
}

/// The answer in the first line, then the lines, each with what is recorded of the time before it.
fn text(heartbeats: &Heartbeats) -> String {
    let Heartbeats { lines, left_out, .. } = heartbeats;
    if lines.is_empty() {
        return "no line reports a late heartbeat\n".to_owned();
    }
    let count = |is: fn(&Explained) -> bool| lines.iter().filter(|line| is(line)).count();
    let memory = count(|line| line.is_memory() == Some(true));
    let other = count(|line| line.is_memory() == Some(false));
    let unrecorded = count(|line| line.is_memory().is_none());
    let reports = if lines.len() == 1 { "report" } else { "reports" };
    let mut text = format!("{} {reports} of a late heartbeat: ", lines.len());
    let parts = [
        (memory, "after a stall that memory caused"),
        (other, "without one"),
        (unrecorded, "at times without a recording"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts.map(|(count, what)| format!("{count} {what}")).collect();
    text += &parts.join(", ");
    if *left_out > 0 {
        let _ = write!(text, "; {left_out} more were left out");
    }
    text.push('\n');
    for line in lines {
        let times = if line.times > 1 { format!(" ({} times)", line.times) } else { String::new() };
        let _ = writeln!(
            text,
            "  {}  {}{times}: {}",
            join::shown(line.unix_ms),
            line.software,
            line.line
        );
        let _ = writeln!(text, "    {}", line.explanation);
        if line.says == Says::Unheard {
            let _ = writeln!(
                text,
                "    the line is about another machine: ask there, too; the network may have lost the heartbeat"
            );
        }
    }
    text
}
