//! The journal: what was changed, so that it can be reverted.
//!
//! **Where.** `journal.jsonl` in the state directory (`/var/lib/memwright`, mode 0700), which only
//! its owner may write: its contents are written to the kernel as root. The directory is opened
//! once, its owner is checked on that descriptor, and the journal is opened in it.
//!
//! **Format.** One JSON record a line, see [`crate::record`]: checksum, version, sequence number,
//! change, time, event. Records are only ever appended.
//!
//! **Atomicity.** A record counts once it was synced; the kernel's file is touched after that and
//! never before. A record that could not be written is cut off again, so that a full disk leaves no
//! half of one. A last line cut short (memwright or the machine died within the append) never got
//! its sync, nothing was done on its account, and the next append cuts it off. A bad line anywhere
//! else is damage: `changes` shows the others, `fix` and `undo` refuse.
//!
//! **One at a time.** Who changes anything holds an exclusive `flock` on `journal.lock`, which nobody
//! else can open; the kernel drops it when its holder dies. Reading takes no lock.
//!
//! **Versions.** Every record carries the version of its format. A reader refuses records of a newer
//! one, reads all older ones, and never rewrites any.
//!
//! **Bounds.** Planning stops at [`JOURNAL_BYTES_MAX`]; reverting goes on above it.

use crate::history::History;
use crate::record::{ChangeEvent, FORMAT_VERSION, JournalRecord, RECORD_BYTES_MAX};
use mw_sys::{LockFileError, open_lock_file};
use rustix::fs::{FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Default directory of the journal.
pub const STATE_DIR: &str = "/var/lib/memwright";
/// The journal's name in the state directory.
pub const JOURNAL_FILE: &str = "journal.jsonl";
/// The name of the lock's file in the state directory.
const LOCK_FILE: &str = "journal.lock";
/// Length of the journal at which nothing more is planned.
pub const JOURNAL_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Default time to wait for another memwright.
pub const LOCK_WAIT: Duration = Duration::from_secs(5);

/// Length at which the journal is not read any more: room to revert everything is below it.
const JOURNAL_READ_BYTES_MAX: u64 = 4 * JOURNAL_BYTES_MAX;
const LOCK_POLL: Duration = Duration::from_millis(50);

/// The reason why the journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("cannot {what} {}: permission denied", path.display())]
    Denied { what: &'static str, path: PathBuf },
    /// Another memwright is at work.
    #[error("another memwright is changing settings (it holds {}); waited {waited_s} s; try again later", path.display())]
    Busy {
        path: PathBuf,
        /// Time that was waited for it.
        waited_s: u64,
    },
    /// Others may write the directory, so that its contents cannot be trusted.
    #[error("{} may be written by others (mode {mode:04o}, owner {owner}); memwright writes its contents to the kernel: chown it to yourself and chmod 700 it", path.display())]
    Unsafe { path: PathBuf, mode: u32, owner: u32 },
    #[error("{}, line {line}: {why}; 'memwright changes' shows the changes that can be read, 'memwright undo --force' reverts those; then move the file away: mv {0} {0}.damaged", path.display())]
    Corrupt {
        path: PathBuf,
        /// The line's number, from 1.
        line: usize,
        /// Its error.
        why: String,
    },
    /// A line was written by a newer memwright.
    #[error("{}, line {line}: written by a newer memwright (journal version {version}, this one knows {FORMAT_VERSION}); use that memwright", path.display())]
    Newer {
        path: PathBuf,
        /// The line's number, from 1.
        line: usize,
        /// The version that it was written in.
        version: u32,
    },
    /// The journal has reached its greatest length.
    #[error("{} has {bytes} bytes, more than the limit of {max}; revert what should be reverted ('memwright undo'), then move it away: mv {0} {0}.old", path.display())]
    Full {
        path: PathBuf,
        bytes: u64,
        /// The length that it may have.
        max: u64,
    },
    /// One record would be longer than a record may be.
    #[error("a record for {} would have {bytes} bytes, more than the limit of {RECORD_BYTES_MAX}; nothing was changed", path.display())]
    TooLong {
        path: PathBuf,
        /// The length that it would have.
        bytes: usize,
    },
    #[error("no space left to write {}; a change is journalled before it is made: free some space", path.display())]
    NoSpace { path: PathBuf },
    #[error("cannot {what} {}: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: std::io::Error },
}

impl JournalError {
    /// True if more privilege would help: exit code 4.
    pub fn is_privilege(&self) -> bool {
        matches!(self, Self::Denied { .. })
    }

    fn new(what: &'static str, path: &Path, source: std::io::Error) -> Self {
        let path = path.to_owned();
        match Errno::from_io_error(&source) {
            Some(Errno::ACCESS | Errno::PERM) => Self::Denied { what, path },
            Some(Errno::NOSPC | Errno::DQUOT) => Self::NoSpace { path },
            _ => Self::Io { what, path, source },
        }
    }
}

impl History {
    /// Reads the journal of a state directory without a lock; none there is an empty one.
    ///
    /// # Errors
    /// The file cannot be read. Damaged lines are no error here, see [`History::damage`].
    pub fn read(state_dir: &Path) -> Result<Self, JournalError> {
        match open_dir(state_dir, OFlags::PATH) {
            Ok(dir) => Self::read_in(&dir, state_dir),
            Err(Errno::NOENT) => Ok(Self::parse(&state_dir.join(JOURNAL_FILE), b"")),
            Err(errno) => Err(JournalError::new("read", state_dir, errno.into())),
        }
    }

    /// Reads the journal in a directory that is open; its path is for messages.
    fn read_in(dir: &File, state_dir: &Path) -> Result<Self, JournalError> {
        let path = state_dir.join(JOURNAL_FILE);
        let fail = |error| JournalError::new("read", &path, error);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(dir, JOURNAL_FILE, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(Self::parse(&path, b"")),
            Err(errno) => return Err(fail(errno.into())),
        };
        let mut bytes = Vec::new();
        file.take(JOURNAL_READ_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(fail)?;
        let length = bytes.len() as u64;
        if length > JOURNAL_READ_BYTES_MAX {
            return Err(JournalError::Full { path, bytes: length, max: JOURNAL_READ_BYTES_MAX });
        }
        Ok(Self::parse(&path, &bytes))
    }

    /// Fails where a newer memwright wrote a line, or, unless `despite_damage`, where one is
    /// damaged.
    ///
    /// # Errors
    /// The first such line.
    pub fn usable(&self, despite_damage: bool) -> Result<(), JournalError> {
        let path = self.file.clone();
        if let Some((line, version)) =
            self.damage.iter().find_map(|damage| Some((damage.line, damage.newer_version?)))
        {
            return Err(JournalError::Newer { path, line, version });
        }
        match self.damage.first() {
            Some(damage) if !despite_damage => {
                let why = damage.why.clone();
                Err(JournalError::Corrupt { path, line: damage.line, why })
            }
            _ => Ok(()),
        }
    }
}

/// The journal, locked: nobody else plans, applies or reverts meanwhile.
#[derive(Debug)]
pub struct Journal {
    state_dir: PathBuf,
    history: History,
    /// Opened at the first append, so that a state directory gone read-only does not keep anybody
    /// from taking a change back.
    file: Option<File>,
    /// The state directory, whose owner was checked. The journal is opened in it: what lies at its
    /// path may be another directory by then.
    dir: File,
    _lock: File,
}

impl Journal {
    /// Locks the journal of a state directory, which is made where it is missing, and reads it.
    ///
    /// # Errors
    /// Another memwright holds it for longer than `wait`, the directory cannot be made or may be
    /// written by others, or the journal cannot be read.
    pub fn lock(state_dir: &Path, wait: Duration) -> Result<Self, JournalError> {
        make_state_dir(state_dir)?;
        Self::lock_in_place(state_dir, wait)
    }

    /// As [`Journal::lock`], but creates nothing: `None` where there is no journal.
    ///
    /// # Errors
    /// As [`Journal::lock`].
    pub fn lock_existing(state_dir: &Path, wait: Duration) -> Result<Option<Self>, JournalError> {
        let journal = state_dir.join(JOURNAL_FILE);
        match journal.symlink_metadata() {
            Ok(_) => Self::lock_in_place(state_dir, wait).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(JournalError::new("read", &journal, error)),
        }
    }

    fn lock_in_place(state_dir: &Path, wait: Duration) -> Result<Self, JournalError> {
        let dir = open_dir(state_dir, OFlags::RDONLY)
            .map_err(|errno| JournalError::new("lock", state_dir, errno.into()))?;
        check_owner(state_dir, &dir)?;
        let lock = lock_in(&dir, state_dir, wait)?;
        let history = History::read_in(&dir, state_dir)?;
        Ok(Self { state_dir: state_dir.to_owned(), history, file: None, dir, _lock: lock })
    }

    pub fn history(&self) -> &History {
        &self.history
    }

    /// Reserves space for `bytes` more before anything is changed.
    pub(crate) fn reserve(&mut self, bytes: u64) -> Result<(), JournalError> {
        let path = self.history.file.clone();
        let length = self.history.whole_bytes;
        if length.saturating_add(bytes) > JOURNAL_BYTES_MAX {
            return Err(JournalError::Full { path, bytes: length, max: JOURNAL_BYTES_MAX });
        }
        match rustix::fs::fallocate(self.writable()?, FallocateFlags::KEEP_SIZE, length, bytes) {
            Err(Errno::NOSPC | Errno::DQUOT) => Err(JournalError::NoSpace { path }),
            // Not every filesystem can; the appends find out then.
            _ => Ok(()),
        }
    }

    /// Appends one record and syncs it; what could not be written whole is cut off again.
    pub(crate) fn append(&mut self, change: u64, event: ChangeEvent) -> Result<(), JournalError> {
        let path = self.history.file.clone();
        let record = JournalRecord {
            v: FORMAT_VERSION,
            seq: self.history.next_seq,
            change,
            time_ms: mw_sys::unix_ms(),
            event,
        };
        let encoded = record.encode();
        let line = encoded.map_err(|error| JournalError::new("write", &path, error.into()))?;
        if line.len() > RECORD_BYTES_MAX {
            return Err(JournalError::TooLong { path, bytes: line.len() });
        }
        let start = self.history.whole_bytes;
        let text = format!("{}{line}\n", if self.history.unterminated { "\n" } else { "" });
        let file = self.writable()?;
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_data());
        if let Err(error) = written {
            // Should this fail too, the rest is a last line cut short, which the next append cuts.
            let _ = file.set_len(start);
            return Err(JournalError::new("write", &path, error));
        }
        self.history.whole_bytes = start + text.len() as u64;
        self.history.unterminated = false;
        self.history.next_seq += 1;
        // Our own events are in order; were one not, the next reader would say so.
        let _ = self.history.fold(record);
        Ok(())
    }

    /// Appends one record; where that fails, this run goes on as if it stood there.
    pub(crate) fn append_or_remember(
        &mut self,
        change: u64,
        event: ChangeEvent,
    ) -> Result<(), JournalError> {
        let appended = self.append(change, event.clone());
        if appended.is_err() {
            let (v, seq) = (FORMAT_VERSION, self.history.next_seq);
            let _ = self.history.fold(JournalRecord {
                v,
                seq,
                change,
                time_ms: mw_sys::unix_ms(),
                event,
            });
        }
        appended
    }

    /// The file, ready to take a record at its end; without a last line that was cut short.
    fn writable(&mut self) -> Result<&mut File, JournalError> {
        let file = match self.file.take() {
            Some(file) => file,
            None => self.open()?,
        };
        let path = &self.history.file;
        let length = file.metadata().map_err(|error| JournalError::new("read", path, error))?.len();
        if length > self.history.whole_bytes {
            file.set_len(self.history.whole_bytes)
                .map_err(|error| JournalError::new("write", path, error))?;
        }
        Ok(self.file.insert(file))
    }

    fn open(&self) -> Result<File, JournalError> {
        let fail = |errno: Errno| JournalError::new("write", &self.history.file, errno.into());
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.dir, JOURNAL_FILE, flags, Mode::empty()) {
            Ok(file) => return Ok(File::from(file)),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(fail(errno)),
        }
        let flags = flags | OFlags::CREATE | OFlags::EXCL;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = rustix::fs::openat(&self.dir, JOURNAL_FILE, flags, mode).map_err(fail)?;
        let synced = self.dir.sync_all();
        synced.map_err(|error| JournalError::new("sync", &self.state_dir, error))?;
        Ok(File::from(file))
    }
}

fn make_state_dir(path: &Path) -> Result<(), JournalError> {
    if path.is_dir() {
        return Ok(());
    }
    let fail = |error| JournalError::new("make", path, error);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(fail)?;
    path.parent().map_or(Ok(()), sync_dir).map_err(fail)
}

/// Opens the state directory, by a symbolic link too: what counts is whose the directory is.
fn open_dir(path: &Path, access: OFlags) -> rustix::io::Result<File> {
    let flags = access | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map(File::from)
}

/// Holds the lock of a state directory, whose path is for messages.
fn lock_in(dir: &File, path: &Path, wait: Duration) -> Result<File, JournalError> {
    let fail = |errno: Errno| JournalError::new("lock", path, errno.into());
    let file = match open_lock(dir, path) {
        // Without the file a full or read-only disk keeps nobody from taking a change back.
        Err(JournalError::NoSpace { .. }) => dir.try_clone(),
        Err(JournalError::Io { source, .. })
            if Errno::from_io_error(&source) == Some(Errno::ROFS) =>
        {
            dir.try_clone()
        }
        opened => Ok(opened?),
    };
    let file = file.map_err(|error| JournalError::new("lock", path, error))?;
    let start = Instant::now();
    loop {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::WOULDBLOCK | Errno::INTR) if start.elapsed() < wait => {
                std::thread::sleep(LOCK_POLL.min(wait));
            }
            Err(Errno::WOULDBLOCK | Errno::INTR) => {
                return Err(JournalError::Busy { path: path.to_owned(), waited_s: wait.as_secs() });
            }
            Err(errno) => return Err(fail(errno)),
        }
    }
}

fn open_lock(dir: &File, state_dir: &Path) -> Result<File, JournalError> {
    let path = state_dir.join(LOCK_FILE);
    open_lock_file(dir, Path::new(LOCK_FILE), OFlags::RDONLY).map_err(|error| match error {
        LockFileError::Io(error) => JournalError::new("lock", &path, error),
        LockFileError::NotAFile => {
            JournalError::new("lock", &path, std::io::Error::other(error.to_string()))
        }
        LockFileError::Foreign { owner, mode } => JournalError::Unsafe { path, mode, owner },
    })
}

fn check_owner(path: &Path, dir: &File) -> Result<(), JournalError> {
    let meta = dir.metadata().map_err(|error| JournalError::new("read", path, error))?;
    let (mode, owner) = (meta.mode() & 0o7777, meta.uid());
    if is_own(owner) && mode & 0o022 == 0 {
        return Ok(());
    }
    Err(JournalError::Unsafe { path: path.to_owned(), mode, owner })
}

fn is_own(owner: u32) -> bool {
    owner == rustix::process::geteuid().as_raw() || owner == 0
}

pub(crate) fn sync_dir(path: &Path) -> std::io::Result<()> {
    mw_sys::guarded::sync_dir(path)
}
