//! The lock of the one process that may write, which notes its number in it.

use crate::RecordError;
use crate::format::beside;
use mw_sys::{LockFileError, guarded, open_lock_file};
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// The longest process number, with a line's end.
const MAX_PID_BYTES: u64 = 16;

/// Number of times that the lock is tried: a reader that checks whether a process records holds it for a moment.
const TRIES: u32 = 25;

/// From one try to the next.
const PAUSE: Duration = Duration::from_millis(2);

/// Age of a change up to which a recording counts as written, for a reader that may not see the lock: a disk
/// may keep its writer waiting.
const RECENT: Duration = Duration::from_secs(60);

/// The right to write a recording; it ends with the process that has it.
#[derive(Debug)]
pub(crate) struct WriterLock {
    _file: File,
}

impl WriterLock {
    /// Takes the lock, and notes this process in it.
    pub(crate) fn take(path: &Path) -> Result<Self, RecordError> {
        let name = beside(path, "-writer");
        let failed = |source| RecordError::io(&name, source);
        if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            guarded::create_dirs(dir).map_err(failed)?;
        }
        let opened = open_lock_file(CWD, &name, OFlags::RDWR);
        let mut file = opened.map_err(|error| match error {
            LockFileError::Io(error) => failed(error),
            error => failed(std::io::Error::other(error.to_string())),
        })?;
        match try_lock(&file) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut pid = String::new();
                let _ = file.take(MAX_PID_BYTES).read_to_string(&mut pid);
                let pid = pid.trim().to_owned();
                return Err(RecordError::Busy { path: path.to_owned(), pid });
            }
            Err(errno) => return Err(failed(errno.into())),
        }
        // On a full disk the number is missing, and the lock holds.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { _file: file })
    }
}

fn try_lock(file: &File) -> Result<(), Errno> {
    let lock = || flock(file, FlockOperation::NonBlockingLockExclusive);
    for _ in 1..TRIES {
        match lock() {
            Err(Errno::WOULDBLOCK) => thread::sleep(PAUSE),
            locked => return locked,
        }
    }
    lock()
}

/// True if a process records into a file.
pub(crate) fn is_recorded(path: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match openat(CWD, beside(path, "-writer"), flags, Mode::empty()) {
        Ok(file) => flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK),
        Err(Errno::ACCESS) => [path, &beside(path, "-wal")].into_iter().any(is_recent),
        Err(_) => false,
    }
}

fn is_recent(path: &Path) -> bool {
    let changed = std::fs::metadata(path).and_then(|found| found.modified());
    changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age < RECENT))
}
