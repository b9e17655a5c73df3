//! One line of the journal.
//!
//! ```text
//! {"crc":"9ae0daaf","v":1,"seq":4,"change":2,"time_ms":1760000000000,"event":"applied","after":[]}
//! ```
//! `crc` comes first and is the CRC-32 of everything behind its comma, up to but without the line's
//! end; `v` comes second. Every version keeps these two, so that any memwright can distinguish a damaged
//! line from one that a newer memwright wrote.

use crate::device::DeviceId;
use serde::{Deserialize, Serialize};

/// The version of the record format that this build writes and reads.
pub const FORMAT_VERSION: u32 = 1;

/// Longest line of the journal.
pub const RECORD_BYTES_MAX: usize = 256 * 1024;

const CRC_OPEN: &str = "{\"crc\":\"";
const CRC_CLOSE: &str = "\",";
const CRC_DIGITS: usize = 8;

/// One record of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JournalRecord {
    pub(crate) v: u32,
    pub(crate) seq: u64,
    pub(crate) change: u64,
    pub(crate) time_ms: u64,
    #[serde(flatten)]
    pub(crate) event: ChangeEvent,
}

/// Event of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum ChangeEvent {
    /// It is about to be written; from here on the kernel may hold either value.
    Planned(Intent),
    /// It was written and reads back; what the affected files hold now, in the order of `sides`.
    Applied {
        after: Vec<Content>,
    },
    /// A line is about to be added to one of our own files under /etc.
    Persisting(PersistRecord),
    Persisted,
    /// The former value is about to be written.
    Restoring,
    Failed {
        why: String,
    },
    /// The former value is back, because the same run failed.
    RolledBack,
    /// The former value is back, because a person requested it.
    Undone {
        how: UndoMethod,
    },
    /// A person requested the former value, and restoring it failed.
    Left {
        why: String,
    },
}

/// A change as it was decided, with all that is needed to take it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Intent {
    pub(crate) rule: String,
    pub(crate) path: String,
    pub(crate) value: String,
    /// Absent for an action that cannot be reverted.
    pub(crate) before: Option<Content>,
    /// Files that the kernel may change along with this one.
    pub(crate) sides: Vec<SavedFile>,
    /// The block device that the file belongs to; records of memwright 0.1 lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) device: Option<DeviceId>,
}

/// A file's content before the change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedFile {
    pub(crate) path: String,
    pub(crate) before: Content,
}

/// A line in one of our own files under /etc.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PersistRecord {
    pub(crate) file: String,
    pub(crate) line: String,
    /// The whole file before; absent where there was none.
    pub(crate) former: Option<Content>,
    /// True if its directory had to be made.
    pub(crate) made_dir: bool,
}

/// Way in which a change was reverted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UndoMethod {
    /// The former value was written.
    Restored,
    /// The former value was there already.
    AlreadyBefore,
    /// The former value was written over one that another program had set.
    Forced,
    /// There is nothing to revert: an action, or a file that this kernel does not have.
    Nothing,
}

/// Bytes of a file: as text where they are text, else in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Content {
    Text(String),
    Hex(String),
}

impl Content {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Hex(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        }
    }

    /// The bytes; `None` where the hexadecimal digits are not.
    pub(crate) fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Text(text) => Some(text.clone().into_bytes()),
            Self::Hex(digits) => digits.as_bytes().chunks(2).map(byte_of).collect(),
        }
    }
}

fn byte_of(pair: &[u8]) -> Option<u8> {
    match pair {
        [high, low] => {
            let digit = |c: u8| char::from(c).to_digit(16);
            u8::try_from(digit(*high)? << 4 | digit(*low)?).ok()
        }
        _ => None,
    }
}

/// The reason why a line of the journal is not a record of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BadLine {
    Damaged(String),
    Newer(u32),
}

impl JournalRecord {
    /// The line of this record, without the newline.
    pub(crate) fn encode(&self) -> Result<String, serde_json::Error> {
        let json = serde_json::to_string(self)?;
        let rest = &json[1..];
        let crc = crc32fast::hash(rest.as_bytes());
        Ok(format!("{CRC_OPEN}{crc:08x}{CRC_CLOSE}{rest}"))
    }

    /// The record of a line without its newline.
    pub(crate) fn decode(line: &[u8]) -> Result<Self, BadLine> {
        let damaged = |why: &str| BadLine::Damaged(why.to_owned());
        if line.len() > RECORD_BYTES_MAX {
            return Err(damaged("longer than any record"));
        }
        let line = std::str::from_utf8(line).map_err(|_| damaged("not text"))?;
        let (crc, rest) = split_crc(line).ok_or_else(|| damaged("not a record"))?;
        if crc != format!("{:08x}", crc32fast::hash(rest.as_bytes())) {
            return Err(damaged("checksum mismatch"));
        }
        let json = format!("{{{rest}");
        let version: RecordVersion =
            serde_json::from_str(&json).map_err(|_| damaged("no version"))?;
        if version.v > FORMAT_VERSION {
            return Err(BadLine::Newer(version.v));
        }
        serde_json::from_str(&json).map_err(|error| BadLine::Damaged(format!("{error}")))
    }
}

#[derive(Deserialize)]
struct RecordVersion {
    v: u32,
}

fn split_crc(line: &str) -> Option<(&str, &str)> {
    let (crc, rest) = line.strip_prefix(CRC_OPEN)?.split_at_checked(CRC_DIGITS)?;
    Some((crc, rest.strip_prefix(CRC_CLOSE)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(event: ChangeEvent) -> JournalRecord {
        JournalRecord { v: FORMAT_VERSION, seq: 4, change: 2, time_ms: 1_760_000_000_000, event }
    }

    fn check(event: ChangeEvent) {
        let record = record(event);
        let line = record.encode().unwrap();
        assert!(!line.contains('\n'), "{line}");
        assert!(serde_json::from_str::<serde_json::Value>(&line).is_ok(), "{line}");
        assert_eq!(JournalRecord::decode(line.as_bytes()), Ok(record));
    }

    #[test]
    fn every_event_survives_the_way_through_a_line() {
        check(ChangeEvent::Planned(Intent {
            rule: "zone-reclaim".into(),
            path: "/proc/sys/vm/zone_reclaim_mode".into(),
            value: "0".into(),
            before: Some(Content::new(b"7\n")),
            sides: vec![SavedFile { path: "/a".into(), before: Content::new(b"\xff\x00") }],
            device: None,
        }));
        check(ChangeEvent::Applied { after: vec![Content::new(b"1\n")] });
        check(ChangeEvent::Persisting(PersistRecord {
            file: "/etc/sysctl.d/x.conf".into(),
            line: "vm.a = \"1\"\\".into(),
            former: None,
            made_dir: true,
        }));
        check(ChangeEvent::Persisted);
        check(ChangeEvent::Restoring);
        check(ChangeEvent::Failed { why: "a\nb".into() });
        check(ChangeEvent::RolledBack);
        check(ChangeEvent::Undone { how: UndoMethod::AlreadyBefore });
        check(ChangeEvent::Left { why: String::new() });
    }

    #[test]
    fn the_format_stays_readable() {
        let line = record(ChangeEvent::Applied { after: vec![] }).encode().unwrap();
        let rest = "\"v\":1,\"seq\":4,\"change\":2,\"time_ms\":1760000000000,\"event\":\"applied\",\"after\":[]}";
        assert_eq!(&line[CRC_OPEN.len() + CRC_DIGITS + CRC_CLOSE.len()..], rest);
    }

    #[test]
    fn a_flipped_bit_is_seen() {
        let line = record(ChangeEvent::RolledBack).encode().unwrap().into_bytes();
        for at in 0..line.len() * 8 {
            let mut bad = line.clone();
            bad[at / 8] ^= 1 << (at % 8);
            assert!(JournalRecord::decode(&bad).is_err(), "bit {at}");
        }
    }

    #[test]
    fn a_newer_version_is_told_from_damage() {
        let mut newer = record(ChangeEvent::RolledBack);
        newer.v = FORMAT_VERSION + 1;
        let line = newer.encode().unwrap().replace("rolled-back", "hovered");
        assert!(matches!(JournalRecord::decode(line.as_bytes()), Err(BadLine::Damaged(_))));
        let (_, rest) = split_crc(&line).unwrap();
        let line = format!("{CRC_OPEN}{:08x}{CRC_CLOSE}{rest}", crc32fast::hash(rest.as_bytes()));
        assert_eq!(JournalRecord::decode(line.as_bytes()), Err(BadLine::Newer(FORMAT_VERSION + 1)));
    }

    #[test]
    fn bytes_come_back_from_hexadecimal() {
        for bytes in [&b""[..], b"7\n", b"\xff\xfe\x00"] {
            assert_eq!(Content::new(bytes).bytes().as_deref(), Some(bytes));
        }
        assert_eq!(Content::Hex("f".into()).bytes(), None);
        assert_eq!(Content::Hex("zz".into()).bytes(), None);
    }
}
