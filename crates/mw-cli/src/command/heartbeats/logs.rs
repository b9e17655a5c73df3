//! Reads logs and the journal. Anyone may have written them: lines, bytes and what is kept are bounded.

use super::known::Known;
use super::stamp;
use crate::command::bounded::{self, Limits};
use crate::input::Input;
use crate::{Exit, Failure};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Of a line, so much is looked at; the rest is skipped.
const MAX_LINE_BYTES: u64 = 16 << 10;

/// Of a log, so much is read. What is beyond is newer and is said to be left out.
const MAX_LOG_BYTES: u64 = 4 << 30;

/// So many lines are kept, of all logs.
pub(super) const MAX_LINES: usize = 10_000;

const JOURNAL: Limits = Limits { time: Duration::from_secs(60), bytes: 64 << 20 };

/// In milliseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub(super) since: u64,
    pub(super) until: u64,
}

impl Range {
    fn has(self, unix_ms: u64) -> bool {
        (self.since..=self.until).contains(&unix_ms)
    }
}

/// A line that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) unix_ms: u64,
    /// Which of the known ones.
    pub(super) known: usize,
    pub(super) text: String,
}

/// What was found, by time, and how many lines there were beyond the limit.
pub(super) struct Lines {
    pub(super) found: Vec<Found>,
    pub(super) left_out: usize,
}

/// Reads the logs, or the journal if there is none.
pub(super) fn read(logs: &[PathBuf], wanted: &[Known], range: Range) -> Result<Lines, Failure> {
    let mut lines = Lines { found: Vec::new(), left_out: 0 };
    if logs.is_empty() {
        journal(wanted, range, &mut lines)?;
    }
    for log in logs {
        let read = file(log, wanted, range, &mut lines);
        read.map_err(|error| {
            Failure::new(Exit::CouldNotCheck, format!("{}: {error}", log.display()))
        })?;
    }
    lines.found.sort_by_key(|found| found.unix_ms);
    Ok(lines)
}

impl Lines {
    fn add(&mut self, found: Found) {
        if self.found.len() < MAX_LINES {
            self.found.push(found);
        } else {
            self.left_out += 1;
        }
    }
}

fn file(path: &Path, wanted: &[Known], range: Range, lines: &mut Lines) -> std::io::Result<()> {
    let mut reader = BufReader::new(Input::open(path)?.take(MAX_LOG_BYTES));
    let (zone, now) = (TimeZone::system(), Timestamp::now());
    let mut bytes = Vec::new();
    // Lines without a time belong to the one before.
    let mut last = None;
    while next(&mut reader, &mut bytes)? {
        last = stamp::unix_ms(&bytes, &zone, now).or(last);
        let Some(unix_ms) = last.filter(|unix_ms| range.has(*unix_ms)) else { continue };
        let text = String::from_utf8_lossy(&bytes);
        if let Some(known) = wanted.iter().position(|known| known.is_in(&text)) {
            lines.add(Found { unix_ms, known, text: text.trim().to_owned() });
        }
    }
    Ok(())
}

/// The next line, cut where it is long; `false` at the end.
fn next(reader: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<bool> {
    line.clear();
    if reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', line)? == 0 {
        return Ok(false);
    }
    while line.last() != Some(&b'\n') {
        let rest = reader.fill_buf()?;
        if rest.is_empty() {
            break;
        }
        match rest.iter().position(|byte| *byte == b'\n') {
            Some(at) => {
                reader.consume(at + 1);
                break;
            }
            None => {
                let length = rest.len();
                reader.consume(length);
            }
        }
    }
    Ok(true)
}

/// The lines of this machine's journal; journalctl looks for them.
fn journal(wanted: &[Known], range: Range, lines: &mut Lines) -> Result<(), Failure> {
    let failed = |why: String| {
        Failure::new(Exit::CouldNotCheck, format!("{why}; name a log with --log FILE"))
    };
    let expressions: Vec<String> = wanted.iter().map(Known::expression).collect();
    let mut command = Command::new("journalctl");
    command.args(["--quiet", "--no-pager", "--output=json", "--output-fields=MESSAGE"]);
    command.arg("--case-sensitive=yes").arg(format!("--grep={}", expressions.join("|")));
    command.arg(format!("--since=@{}", range.since / 1000));
    command.arg(format!("--until=@{}", range.until.div_ceil(1000)));
    let ended = bounded::run(command, JOURNAL).map_err(failed)?;
    // It ends with 1 where no line was found.
    if !ended.status.success() && ended.has_errors() {
        return Err(failed(format!("journalctl: {}", ended.last_line())));
    }
    for line in ended.output.split(|byte| *byte == b'\n') {
        let Ok(entry) = serde_json::from_slice::<Value>(line) else { continue };
        let micros =
            entry["__REALTIME_TIMESTAMP"].as_str().and_then(|text| text.parse::<u64>().ok());
        // A message that is no text is a list of bytes.
        let (Some(micros), Some(text)) = (micros, entry["MESSAGE"].as_str()) else { continue };
        if let Some(known) = wanted.iter().position(|known| known.is_in(text)) {
            lines.add(Found { unix_ms: micros / 1000, known, text: text.trim().to_owned() });
        }
    }
    Ok(())
}
