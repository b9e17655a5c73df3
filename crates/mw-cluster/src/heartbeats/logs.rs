//! Reads logs and the journal. Anyone may have written them: lines, bytes and what is kept are bounded.

use super::known::KnownLine;
use super::stamp;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use mw_collect::{JournalSearch, read_journal};
use mw_model::{bounded_json, format_bytes, format_count};
use mw_sys::InputFile;
use mw_sys::guarded::{FileReader, ReadLimits};
use serde::Deserialize;
use std::borrow::Cow;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Length limit of a line that is searched; the rest is skipped.
const MAX_LINE_BYTES: u64 = 16 << 10;

/// Size limit of a log that the user names: its end is read, or the beginning of what comes through a pipe.
const MAX_LOG_BYTES: u64 = 4 << 30;

/// Number of lines that are kept of all logs: the latest.
const MAX_LINES: usize = 10_000;

/// Length limit of a line.
const MAX_LINE_CHARS: usize = 300;

/// Size limit of the output of journalctl.
const MAX_JOURNAL_BYTES: usize = 64 << 20;

/// A period, in milliseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub struct TimeRange {
    pub since: u64,
    pub until: u64,
}

impl TimeRange {
    fn has(self, unix_ms: u64) -> bool {
        (self.since..=self.until).contains(&unix_ms)
    }
}

/// A line that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundLine {
    pub unix_ms: u64,
    /// Index of the known line.
    pub known: usize,
    pub text: String,
}

/// Lines that were found, by time.
#[derive(Debug, Default)]
pub struct FoundLines {
    pub found: Vec<FoundLine>,
    /// Number of lines beyond the limit; they are the oldest.
    pub left_out: usize,
    /// Logs that were not read, in words.
    pub not_read: Vec<String>,
    /// The journal and logs that could not be read.
    pub failures: Vec<LogError>,
    /// True if that is all of them.
    pub is_unread: bool,
}

/// Sources of lines.
#[derive(Debug)]
pub enum LogSources<'a> {
    /// A source that the user names: a file, a pipe, or standard input.
    Named(&'a [PathBuf]),
    /// This machine's journal, and regular files, which other users may write to and replace.
    Configured(&'a [PathBuf]),
}

/// A log that could not be read.
#[derive(Debug)]
pub enum LogError {
    File(PathBuf, std::io::Error),
    Journal(String),
}

/// Reads logs; `limits` are of the journal and of each configured log.
///
/// # Errors
/// A log that the user names could not be read. Others are left out, and listed.
pub fn read(
    logs: &LogSources<'_>,
    wanted: &[KnownLine],
    range: TimeRange,
    limits: ReadLimits,
) -> Result<FoundLines, LogError> {
    let mut lines = FoundLines::default();
    match *logs {
        LogSources::Named(files) => {
            for path in files {
                let log = InputFile::open(path).map(LogReader::Named);
                add(path, log, MAX_LOG_BYTES, wanted, range, &mut lines)?;
            }
        }
        LogSources::Configured(files) => {
            let journal = journal(wanted, range, limits.time, &mut lines);
            lines.failures.extend(journal.err().map(LogError::Journal));
            for path in files {
                let log =
                    FileReader::open(path, limits).map(|log| LogReader::Configured(Box::new(log)));
                let added = add(path, log, limits.bytes, wanted, range, &mut lines);
                lines.failures.extend(added.err());
            }
            lines.is_unread = lines.failures.len() > files.len();
        }
    }
    lines.keep_latest();
    Ok(lines)
}

/// Adds the lines of a log.
fn add(
    path: &Path,
    log: std::io::Result<LogReader>,
    max_bytes: u64,
    wanted: &[KnownLine],
    range: TimeRange,
    lines: &mut FoundLines,
) -> Result<(), LogError> {
    let read = log.and_then(|log| file(log, max_bytes, wanted, range, lines));
    let not_read = read.map_err(|error| LogError::File(path.to_owned(), error))?;
    lines.not_read.extend(not_read.map(|what| format!("{} of {}", what, path.display())));
    Ok(())
}

/// A log that is read.
enum LogReader {
    Named(InputFile),
    Configured(Box<FileReader>),
}

impl LogReader {
    /// Goes to the last `max_bytes` of a file that has more, and gives how many are before them.
    fn skip_to_last(&mut self, max_bytes: u64) -> std::io::Result<u64> {
        match self {
            Self::Named(input) => input.skip_to_last(max_bytes),
            Self::Configured(reader) => Ok(reader.skip_to_last()),
        }
    }

    /// True if a pipe has more.
    fn has_more(&mut self) -> std::io::Result<bool> {
        match self {
            Self::Named(input) => input.has_more(),
            Self::Configured(_) => Ok(false),
        }
    }
}

impl Read for LogReader {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Named(input) => input.read(bytes),
            Self::Configured(_) if mw_sys::is_termination_requested() => {
                Err(std::io::Error::other("interrupted"))
            }
            Self::Configured(reader) => reader.read(bytes),
        }
    }
}

impl FoundLines {
    fn add(&mut self, unix_ms: u64, text: &str, wanted: &[KnownLine]) {
        let Some(known) = wanted.iter().position(|known| known.is_in(text)) else { return };
        let text = text.trim().chars().take(MAX_LINE_CHARS).collect();
        self.found.push(FoundLine { unix_ms, known, text });
        if self.found.len() >= 2 * MAX_LINES {
            self.keep_latest();
        }
    }

    /// Sorts by time, and drops the oldest beyond the limit.
    fn keep_latest(&mut self) {
        self.found.sort_by_key(|found| found.unix_ms);
        let beyond = self.found.len().saturating_sub(MAX_LINES);
        self.found.drain(..beyond);
        self.left_out += beyond;
    }
}

/// Reads a log, of one that is longer its last `max_bytes`; says what was not read.
fn file(
    mut log: LogReader,
    max_bytes: u64,
    wanted: &[KnownLine],
    range: TimeRange,
    lines: &mut FoundLines,
) -> std::io::Result<Option<String>> {
    let skipped = log.skip_to_last(max_bytes)?;
    let mut reader = BufReader::new(log.take(max_bytes));
    let (zone, now) = (TimeZone::system(), Timestamp::now());
    let mut bytes = Vec::new();
    if skipped > 0 {
        // The rest of a line.
        next(&mut reader, &mut bytes)?;
    }
    // Lines without a time belong to the one before.
    let mut last = None;
    while next(&mut reader, &mut bytes)? {
        last = stamp::unix_ms(&bytes, &zone, now).or(last);
        let Some(unix_ms) = last.filter(|unix_ms| range.has(*unix_ms)) else { continue };
        lines.add(unix_ms, &String::from_utf8_lossy(&bytes), wanted);
    }
    // A pipe has no end that could be gone to.
    let is_cut =
        skipped == 0 && reader.get_ref().limit() == 0 && reader.get_mut().get_mut().has_more()?;
    let size = format_bytes(max_bytes);
    Ok(match (skipped, is_cut) {
        (0, false) => None,
        (0, true) => Some(format!("what follows the first {size}")),
        _ => Some(format!("the first {}", format_bytes(skipped))),
    })
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

/// Memory limit of an entry: journalctl leaves out what is longer than 4 KiB.
const MAX_ENTRY_BYTES: usize = 4 << 20;

/// An entry of the journal.
#[derive(Deserialize)]
struct JournalEntry {
    #[serde(rename = "__REALTIME_TIMESTAMP")]
    micros: String,
    #[serde(rename = "MESSAGE")]
    message: Option<JournalMessage>,
}

/// A message that is no text is a list of bytes; one that was set twice is a list of both.
#[derive(Deserialize)]
#[serde(untagged)]
enum JournalMessage {
    Text(String),
    Bytes(Vec<u8>),
    Several(Vec<JournalMessage>),
}

impl JournalMessage {
    fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Bytes(bytes) => String::from_utf8_lossy(bytes),
            Self::Several(list) => list.first().map_or(Cow::Borrowed(""), Self::text),
        }
    }
}

/// The lines of this machine's journal, the latest first; journalctl looks for them.
fn journal(
    wanted: &[KnownLine],
    range: TimeRange,
    at_most: Duration,
    lines: &mut FoundLines,
) -> Result<(), String> {
    let expressions: Vec<String> = wanted.iter().map(KnownLine::expression).collect();
    let search = JournalSearch {
        since_unix_ms: range.since,
        until_unix_ms: range.until,
        words: &expressions.iter().map(String::as_str).collect::<Vec<_>>(),
        arguments: &["--all".to_owned(), "--output-fields=MESSAGE".to_owned()],
        max_lines: 2 * MAX_LINES,
        max_bytes: MAX_JOURNAL_BYTES,
        time: at_most,
    };
    let entries =
        read_journal(search).map_err(|why| format!("{why}; name a log with --log FILE"))?;
    let mut unreadable = 0_usize;
    for line in entries.each() {
        let entry = bounded_json::from_slice::<JournalEntry>(line, MAX_ENTRY_BYTES).ok();
        let found =
            entry.and_then(|entry| Some((entry.micros.parse::<u64>().ok()?, entry.message?)));
        match found {
            Some((micros, message)) => lines.add(micros / 1000, &message.text(), wanted),
            None => unreadable += 1,
        }
    }
    let is_cut = entries.is_cut;
    lines.not_read.extend(entries.not_read);
    if is_cut {
        lines.not_read.push("older lines of the journal".to_owned());
    }
    // The last line of an output that was cut is none.
    if unreadable > usize::from(is_cut) {
        lines.not_read.push(format!("{} of the journal", format_count(unreadable, "line")));
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::known;
    use super::*;

    const LINE: &str =
        "2023-11-14T22:14:11Z WARNING: Loop time exceeded, rescheduling immediately.\n";

    fn read_to(max_bytes: u64, log: &str) -> (FoundLines, Option<String>) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), log).unwrap();
        let (mut lines, all) = (FoundLines::default(), TimeRange { since: 0, until: u64::MAX });
        let limits = ReadLimits { bytes: max_bytes, time: Duration::from_secs(60) };
        let known = known::shipped();
        let log = LogReader::Named(InputFile::open(file.path()).unwrap());
        let not_read = super::file(log, max_bytes, &known, all, &mut lines).unwrap();
        // A configured log is read as one that the user names.
        let mut again = FoundLines::default();
        let log = LogReader::Configured(Box::new(FileReader::open(file.path(), limits).unwrap()));
        assert_eq!(super::file(log, max_bytes, &known, all, &mut again).unwrap(), not_read);
        assert_eq!(again.found, lines.found);
        (lines, not_read)
    }

    /// Promise (Fixing): Of a log, the journal and the lines in them `heartbeats` reads the latest, and says what it
    /// did not read.
    #[test]
    fn of_a_long_log_the_end_is_read() {
        let log = LINE.repeat(100);
        let (lines, not_read) = read_to(LINE.len() as u64 * 10 + 5, &log);
        assert_eq!(lines.found.len(), 10);
        assert_eq!(
            not_read.unwrap(),
            format!("the first {}", format_bytes(LINE.len() as u64 * 90 - 5))
        );
        assert_eq!(read_to(LINE.len() as u64 * 100, &log).1, None);
    }

    #[test]
    fn the_latest_lines_are_kept() {
        let mut lines = FoundLines::default();
        for unix_ms in 0..25_000 {
            lines.add(unix_ms, LINE, &known::shipped());
        }
        lines.keep_latest();
        assert_eq!((lines.found.len(), lines.left_out), (MAX_LINES, 15_000));
        assert_eq!(lines.found.first().unwrap().unix_ms, 15_000);
    }

    #[test]
    fn a_message_may_be_bytes() {
        for (message, text) in
            [("\"a\"", "a"), ("[97,255,98]", "a\u{fffd}b"), ("[\"a\",\"b\"]", "a")]
        {
            let json = format!("{{\"__REALTIME_TIMESTAMP\":\"5\",\"MESSAGE\":{message}}}");
            let entry: JournalEntry = serde_json::from_str(&json).unwrap();
            assert_eq!(entry.message.unwrap().text(), text);
        }
    }
}
