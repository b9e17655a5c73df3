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
use join::{After, Heartbeats};
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
    let Heartbeats { lines, left_out, not_read, .. } = heartbeats;
    let mut text = match lines.len() {
        0 => "no line reports a late heartbeat".to_owned(),
        1 => "1 report of a late heartbeat: ".to_owned(),
        count => format!("{count} reports of a late heartbeat: "),
    };
    let count = |after| lines.iter().filter(|line| line.after() == after).count();
    let parts = [
        (After::Memory, "after a stall that memory caused"),
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
