//! Who may write: one process, which says who it is.

use crate::RecordError;
use crate::format::beside;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
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
        let mut file = open(&name).map_err(failed)?;
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

/// Opens the file of the lock. Nobody else can open it, and so nobody else can lock it.
fn open(path: &Path) -> io::Result<File> {
    let refused = |why: &str| Err(io::Error::other(format!("{why}; remove it")));
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    let file = match options.open(path) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => {
            return refused("it is a symbolic link");
        }
        opened => opened?,
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return refused("not a regular file");
    }
    let user = rustix::process::geteuid().as_raw();
    if metadata.uid() != user && metadata.uid() != 0 {
        return refused(&format!("user {} owns it", metadata.uid()));
    }
    if metadata.mode() & 0o077 != 0 && metadata.uid() == user {
        // As earlier versions made it.
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}
