//! Detects a recorder that writes a recording.

use crate::format::{beside, log, size};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A file without a log beside it: nobody writes it, and there is nothing that it lacks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct QuietFile {
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl QuietFile {
    /// The file as it is, where it is at rest.
    pub(super) fn open(path: &Path) -> Option<Self> {
        let found = std::fs::metadata(path).ok()?;
        let rest = Self {
            inode: found.ino(),
            bytes: found.len(),
            changed: (found.ctime(), found.ctime_nsec()),
        };
        // A writer makes its log before it changes the file.
        (size(&log(path)) == 0 && !beside(path, "-shm").exists()).then_some(rest)
    }

    /// True if it has been at rest since.
    pub(super) fn lasts(&self, path: &Path) -> bool {
        Self::open(path).as_ref() == Some(self)
    }
}
