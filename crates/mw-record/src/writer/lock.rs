//! Who may write: one process, which says who it is.

use crate::RecordError;
use crate::format::beside;
use mw_sys::{LockFileError, open_lock_file};
use rustix::fs::{CWD, FlockOperation, OFlags, flock};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

/// The longest process number, with a line's end.
const MAX_PID_BYTES: u64 = 16;

/// The right to write a recording; it ends with the process that has it.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock, and notes this process in it.
    pub(super) fn take(path: &Path) -> Result<Self, RecordError> {
        let name = beside(path, "-writer");
        let failed = |source| RecordError::Io { path: name.clone(), source };
        if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            std::fs::create_dir_all(dir).map_err(failed)?;
        }
        let opened = open_lock_file(CWD, &name, OFlags::RDWR);
        let mut file = opened.map_err(|error| match error {
            LockFileError::Io(error) => failed(error),
            error => failed(std::io::Error::other(error.to_string())),
        })?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
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
