//! This machine's journal, by journalctl, and its lines about killed processes.
//!
//! Only fields that journald itself writes say who wrote a line (systemd.journal-fields(7), "Trusted journal fields"):
//! the kernel, systemd, and units of the system. Other users' programs cannot write as these.

use mw_model::{JournalLine, bounded_json};
use mw_sys::{ProgramLimits, run_command};
use serde::Deserialize;
use std::process::Command;
use std::time::Duration;

/// Lines that are read, the latest.
const MAX_LINES: usize = 20_000;

/// Size limit of the output of journalctl.
const MAX_BYTES: usize = 32 << 20;

/// Memory limit of an entry: journalctl leaves out fields that are longer than 4 KiB.
const MAX_ENTRY_BYTES: usize = 1 << 20;

/// Lines, the earliest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalLines {
    pub lines: Vec<JournalLine>,
    /// Parts that were not read, in words.
    pub not_read: Vec<String>,
}

/// Lines that are searched.
#[derive(Debug, Clone, Copy)]
pub struct JournalQuery<'a> {
    /// In milliseconds since 1970.
    pub since_unix_ms: u64,
    pub until_unix_ms: u64,
    /// Units of the system, beside the kernel and the manager.
    pub units: &'a [&'a str],
    /// Words of which a line has one: an extended regular expression each.
    pub words: &'a [&'a str],
    pub time: Duration,
}

#[derive(Deserialize)]
struct EntryFields {
    #[serde(rename = "__REALTIME_TIMESTAMP")]
    micros: String,
    /// Bytes where it is no text; such a line is of no program that is read here.
    #[serde(rename = "MESSAGE")]
    message: serde_json::Value,
    #[serde(rename = "_PID")]
    pid: Option<String>,
    #[serde(rename = "_SYSTEMD_UNIT")]
    unit: Option<String>,
    #[serde(rename = "_TRANSPORT")]
    transport: Option<String>,
}

/// A search of the journal, by journalctl.
#[derive(Debug, Clone, Copy)]
pub struct JournalSearch<'a> {
    /// In milliseconds since 1970.
    pub since_unix_ms: u64,
    pub until_unix_ms: u64,
    /// Extended regular expressions of which a line has one.
    pub words: &'a [&'a str],
    /// Further arguments of journalctl: fields and matches.
    pub arguments: &'a [String],
    pub max_lines: usize,
    pub max_bytes: usize,
    pub time: Duration,
}

/// Entries in JSON, the latest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalEntries {
    output: Vec<u8>,
    /// True if there were more bytes.
    pub is_cut: bool,
    /// Parts that were not read, in words.
    pub not_read: Vec<String>,
}

impl JournalEntries {
    /// The entries; the last may be cut.
    pub fn each(&self) -> impl Iterator<Item = &[u8]> {
        self.output.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"{"))
    }
}

/// Searches the journal of this machine.
///
/// # Errors
/// There is none that this user may read, or journalctl failed.
pub fn read_journal(search: JournalSearch<'_>) -> Result<JournalEntries, String> {
    let limits = ProgramLimits { input: &[], time: search.time, bytes: search.max_bytes };
    let mut command = Command::new("journalctl");
    command.env("LC_ALL", "C.UTF-8").env("SYSTEMD_COLORS", "0");
    command.args(["--no-pager", "--output=json", "--case-sensitive=yes", "--reverse"]);
    command.arg(format!("--lines={}", search.max_lines));
    command.arg(format!("--grep={}", search.words.join("|")));
    command.arg(format!("--since=@{}", search.since_unix_ms / 1000));
    command.arg(format!("--until=@{}", search.until_unix_ms.div_ceil(1000)));
    command.args(search.arguments);
    let ended = run_command(command, limits)?;
    // It ends with 1 where no line was found, and says on standard error whose lines this user may not read.
    let error = ended.first_error().map(|error| mw_model::visible::line(&error).to_string());
    let mut entries =
        JournalEntries { output: ended.output, is_cut: ended.is_cut, ..JournalEntries::default() };
    let has_found = entries.each().next().is_some();
    match (error, has_found) {
        (Some(error), false) => return Err(format!("journalctl: {error}")),
        (Some(error), true) => entries.not_read.push(format!("all of the journal ({error})")),
        (None, false) if !has_entries(limits) => {
            return Err("the journal has no entries that this user may read".to_owned());
        }
        (None, _) => {}
    }
    Ok(entries)
}

/// True if the journal has anything to be read.
fn has_entries(limits: ProgramLimits<'_>) -> bool {
    let mut command = Command::new("journalctl");
    command.args(["--no-pager", "--quiet", "--lines=1", "--output=cat"]);
    run_command(command, limits).is_ok_and(|ended| !ended.output.is_empty())
}

/// Searches the journal for lines about killed processes.
///
/// # Errors
/// As of [`read_journal`].
pub fn search_journal(query: JournalQuery<'_>) -> Result<JournalLines, String> {
    let mut arguments = vec![
        "--output-fields=MESSAGE,_PID,_SYSTEMD_UNIT,_TRANSPORT".to_owned(),
        "_TRANSPORT=kernel".to_owned(),
        "+".to_owned(),
        "_PID=1".to_owned(),
    ];
    for unit in query.units {
        arguments.extend(["+".to_owned(), format!("_SYSTEMD_UNIT={unit}")]);
    }
    let entries = read_journal(JournalSearch {
        since_unix_ms: query.since_unix_ms,
        until_unix_ms: query.until_unix_ms,
        words: query.words,
        arguments: &arguments,
        max_lines: MAX_LINES,
        max_bytes: MAX_BYTES,
        time: query.time,
    })?;
    let mut lines: Vec<JournalLine> = entries.each().filter_map(line).collect();
    lines.reverse();
    let has_more = entries.is_cut || lines.len() >= MAX_LINES;
    let mut not_read = entries.not_read;
    not_read.extend(has_more.then(|| "older lines of the journal".to_owned()));
    Ok(JournalLines { lines, not_read })
}

fn line(entry: &[u8]) -> Option<JournalLine> {
    let fields: EntryFields = bounded_json::from_slice(entry, MAX_ENTRY_BYTES).ok()?;
    let is_of_kernel = fields.transport.as_deref() == Some("kernel");
    Some(JournalLine {
        unix_ms: fields.micros.parse::<u64>().ok()? / 1000,
        message: fields.message.as_str()?.to_owned(),
        is_of_manager: !is_of_kernel && fields.pid.as_deref() == Some("1"),
        unit: fields.unit.filter(|_| !is_of_kernel),
        is_of_kernel,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_journald_say_who_wrote() {
        let entry = r#"{"__REALTIME_TIMESTAMP":"1700000000123456","MESSAGE":"a","_PID":"1","_TRANSPORT":"journal"}"#;
        let line = line(entry.as_bytes()).unwrap();
        assert_eq!(
            (line.unix_ms, line.is_of_manager, line.is_of_kernel),
            (1_700_000_000_123, true, false)
        );
        let entry = r#"{"__REALTIME_TIMESTAMP":"1000","MESSAGE":"a","_TRANSPORT":"kernel","_SYSTEMD_UNIT":"x"}"#;
        let line = super::line(entry.as_bytes()).unwrap();
        assert_eq!((line.is_of_kernel, line.unit), (true, None));
        for no_line in
            [r#"{"MESSAGE":"a"}"#, r#"{"__REALTIME_TIMESTAMP":"1000","MESSAGE":[1,2]}"#, "{", ""]
        {
            assert_eq!(super::line(no_line.as_bytes()), None, "{no_line}");
        }
    }
}
