//! Lines of this machine's journal about killed processes, by journalctl.
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

/// Searches the journal.
///
/// # Errors
/// There is none, or journalctl failed.
pub fn search_journal(query: JournalQuery<'_>) -> Result<JournalLines, String> {
    let limits = ProgramLimits { input: &[], time: query.time, bytes: MAX_BYTES };
    let ended = run_command(command(query), limits)?;
    let mut found = JournalLines::default();
    let entries = ended.output.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"{"));
    for entry in entries {
        found.lines.extend(line(entry));
    }
    // It ends with 1 where no line was found, and says on standard error whose lines this user may not read.
    match (ended.first_error(), found.lines.is_empty()) {
        (Some(error), true) => {
            return Err(format!("journalctl: {}", mw_model::visible::line(&error)));
        }
        (Some(error), false) => {
            found
                .not_read
                .push(format!("all of the journal ({})", mw_model::visible::line(&error)));
        }
        (None, true) if !has_entries(limits) => {
            return Err("the journal has no entries that this user may read".to_owned());
        }
        (None, _) => {}
    }
    if ended.is_cut || found.lines.len() >= MAX_LINES {
        found.not_read.push("older lines of the journal".to_owned());
    }
    found.lines.reverse();
    Ok(found)
}

/// True if the journal has anything to be read.
fn has_entries(limits: ProgramLimits<'_>) -> bool {
    let mut command = Command::new("journalctl");
    command.args(["--no-pager", "--quiet", "--lines=1", "--output=json"]);
    run_command(command, limits).is_ok_and(|ended| ended.output.starts_with(b"{"))
}

fn command(query: JournalQuery<'_>) -> Command {
    let mut command = Command::new("journalctl");
    command.env("LC_ALL", "C.UTF-8").env("SYSTEMD_COLORS", "0");
    command.args(["--no-pager", "--output=json", "--case-sensitive=yes", "--reverse"]);
    command.arg("--output-fields=MESSAGE,_PID,_SYSTEMD_UNIT,_TRANSPORT");
    command.arg(format!("--lines={MAX_LINES}"));
    command.arg(format!("--grep={}", query.words.join("|")));
    command.arg(format!("--since=@{}", query.since_unix_ms / 1000));
    command.arg(format!("--until=@{}", query.until_unix_ms.div_ceil(1000)));
    command.args(["_TRANSPORT=kernel", "+", "_PID=1"]);
    for unit in query.units {
        command.arg("+").arg(format!("_SYSTEMD_UNIT={unit}"));
    }
    command
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
