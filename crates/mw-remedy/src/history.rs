//! What the journal says: its records folded into changes, and its damage.

use crate::device::DeviceId;
use crate::kernel::{same_setting, setting_of};
use crate::record::{
    BadLine, ChangeEvent, Content, Intent, JournalRecord, PersistRecord, UndoMethod,
};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Progress of a change, by the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeStage {
    /// It was about to be written; nothing says that it was.
    Planned,
    Applied,
    RolledBack,
    Undone(UndoMethod),
}

/// One change that the journal knows.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) id: u64,
    pub(crate) time_ms: u64,
    pub(crate) rule: String,
    pub(crate) path: String,
    pub(crate) value: String,
    /// Absent for an action that cannot be reverted.
    pub(crate) before: Option<Vec<u8>>,
    pub(crate) sides: Vec<Side>,
    /// The block device that the file belonged to.
    pub(crate) device: Option<DeviceId>,
    pub(crate) stage: ChangeStage,
    pub(crate) persist: Option<PersistedLine>,
    /// True if taking it back was begun, so that affected files may hold something in between.
    pub(crate) restoring: bool,
    /// The reason why the last attempt to take it back did not.
    pub(crate) left: Option<String>,
}

/// A file that the kernel may have changed along with a change's own.
#[derive(Debug, Clone)]
pub(crate) struct Side {
    pub(crate) path: String,
    pub(crate) before: Vec<u8>,
    /// Value after the change; absent where memwright was killed before it was known.
    pub(crate) after: Option<Vec<u8>>,
}

/// Entry of a change in a file of ours under /etc.
#[derive(Debug, Clone)]
pub(crate) struct PersistedLine {
    pub(crate) file: String,
    pub(crate) line: String,
    pub(crate) former: Option<Vec<u8>>,
    pub(crate) made_dir: bool,
    /// True if the journal says that the line got there.
    pub(crate) done: bool,
}

impl Change {
    /// True if there may be something to revert.
    pub(crate) fn is_active(&self) -> bool {
        matches!(self.stage, ChangeStage::Planned | ChangeStage::Applied)
    }

    /// True if it was an action, of which nothing can be reverted.
    pub(crate) fn is_once(&self) -> bool {
        self.before.is_none()
    }

    /// True if two changes of one path may be of one device; old records do not say of which.
    fn may_share_device(&self, other: &Self) -> bool {
        self.device.is_none() || other.device.is_none() || self.device == other.device
    }

    /// True if taking the older one back would disturb this newer one.
    pub(crate) fn lies_on(&self, older: &Self) -> bool {
        let touches =
            |path: &str| older.path == path || older.sides.iter().any(|side| side.path == path);
        self.id > older.id
            && self.may_share_device(older)
            && self.is_active()
            && !self.is_once()
            && (touches(&self.path) || self.sides.iter().any(|side| touches(&side.path)))
    }
}

/// A line of the journal that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// The line's number, from 1.
    pub line: usize,
    /// Its error.
    pub why: String,
    /// The version of the newer memwright that wrote it, where that is what is wrong.
    pub newer_version: Option<u32>,
}

/// The journal as it was read: its changes in order, and what could not be read of it.
#[derive(Debug, Clone, Default)]
pub struct History {
    pub(crate) file: PathBuf,
    pub(crate) changes: Vec<Change>,
    pub(crate) damage: Vec<Damage>,
    pub(crate) next_seq: u64,
    /// Length of the journal without a last line that was cut short.
    pub(crate) whole_bytes: u64,
    /// True if the last whole record lacks its newline.
    pub(crate) unterminated: bool,
}

impl History {
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Lines that cannot be used; a last line that was cut short is not among them.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// The number of the newest change; 0 where there is none.
    pub fn newest_change(&self) -> u64 {
        self.changes.last().map_or(0, |change| change.id)
    }

    pub(crate) fn change(&self, id: u64) -> Option<&Change> {
        self.changes.iter().find(|change| change.id == id)
    }

    /// True if a value is what a setting had before this change, or an older one that is not reverted either.
    pub(crate) fn is_below(&self, change: &Change, now: &str) -> bool {
        self.changes.iter().any(|older| {
            let before = older.before.as_deref().map(setting_of);
            older.is_active()
                && older.id <= change.id
                && older.path == change.path
                && older.may_share_device(change)
                && before.is_some_and(|before| same_setting(&before, now))
        })
    }

    pub(crate) fn parse(file: &Path, bytes: &[u8]) -> Self {
        let mut history = Self { file: file.to_owned(), next_seq: 1, ..Self::default() };
        for (index, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
            let (text, ended) = match line.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (line, false),
            };
            let record = JournalRecord::decode(text);
            // A record without its end never got its sync, so nothing was done on its account.
            if !ended && matches!(record, Err(BadLine::Damaged(_))) {
                break;
            }
            history.take_line(index + 1, record);
            history.whole_bytes += line.len() as u64;
            history.unterminated = !ended;
        }
        history
    }

    fn take_line(&mut self, line: usize, record: Result<JournalRecord, BadLine>) {
        let after_damage = self.damage.last().is_some_and(|damage| damage.line + 1 == line);
        let damage = match record {
            Err(BadLine::Newer(version)) => Some((
                format!("written by a newer memwright (journal version {version})"),
                Some(version),
            )),
            Err(BadLine::Damaged(why)) => Some((why, None)),
            Ok(record) => {
                let expected = self.next_seq;
                let seq = record.seq;
                self.next_seq = seq.saturating_add(1);
                let folded = self.fold(record);
                let gap = seq != expected && !(after_damage && seq > expected);
                gap.then(|| format!("expected record {expected}, found {seq}"))
                    .or_else(|| folded.err())
                    .map(|why| (why, None))
            }
        };
        if let Some((why, newer_version)) = damage {
            self.damage.push(Damage { line, why, newer_version });
        }
    }

    /// Takes one record in, as a line of the file or as one just appended.
    pub(crate) fn fold(&mut self, record: JournalRecord) -> Result<(), String> {
        let id = record.change;
        if let ChangeEvent::Planned(intent) = record.event {
            if id <= self.newest_change() {
                return Err(format!("change {id} is planned twice"));
            }
            self.changes.push(Change::planned(id, record.time_ms, intent)?);
            return Ok(());
        }
        let Some(change) = self.changes.iter_mut().find(|change| change.id == id) else {
            return Err(format!("change {id} was never planned"));
        };
        let is_undone = matches!(record.event, ChangeEvent::Undone { .. });
        change.take(record.event)?;
        if is_undone {
            self.take_pages_away(id);
        }
        Ok(())
    }
}

impl Change {
    fn planned(id: u64, time_ms: u64, intent: Intent) -> Result<Self, String> {
        let before = intent.before.as_ref().map(bytes_of).transpose()?;
        let side = |saved: crate::record::SavedFile| {
            Ok(Side { before: bytes_of(&saved.before)?, path: saved.path, after: None })
        };
        Ok(Self {
            id,
            time_ms,
            rule: intent.rule,
            path: intent.path,
            value: intent.value,
            before,
            sides: intent.sides.into_iter().map(side).collect::<Result<_, String>>()?,
            device: intent.device,
            stage: ChangeStage::Planned,
            persist: None,
            restoring: false,
            left: None,
        })
    }

    fn take(&mut self, event: ChangeEvent) -> Result<(), String> {
        if !self.is_active() {
            return Err(format!("change {} had already ended", self.id));
        }
        match event {
            ChangeEvent::Planned(_) | ChangeEvent::Failed { .. } => {}
            ChangeEvent::Applied { after } => {
                for (side, after) in self.sides.iter_mut().zip(&after) {
                    side.after = Some(bytes_of(after)?);
                }
                self.stage = ChangeStage::Applied;
            }
            ChangeEvent::Persisting(persisting) => {
                self.persist = Some(PersistedLine::new(persisting)?)
            }
            ChangeEvent::Persisted => match &mut self.persist {
                Some(kept) => kept.done = true,
                None => return Err(format!("change {} was never to be persisted", self.id)),
            },
            ChangeEvent::Restoring => self.restoring = true,
            ChangeEvent::RolledBack => self.stage = ChangeStage::RolledBack,
            ChangeEvent::Undone { how } => self.stage = ChangeStage::Undone(how),
            ChangeEvent::Left { why } => self.left = Some(why),
        }
        Ok(())
    }
}

impl PersistedLine {
    fn new(persisting: PersistRecord) -> Result<Self, String> {
        Ok(Self {
            former: persisting.former.as_ref().map(bytes_of).transpose()?,
            file: persisting.file,
            line: persisting.line,
            made_dir: persisting.made_dir,
            done: false,
        })
    }
}

fn bytes_of(content: &Content) -> Result<Vec<u8>, String> {
    content.bytes().ok_or_else(|| "its former content is not hexadecimal".to_owned())
}
