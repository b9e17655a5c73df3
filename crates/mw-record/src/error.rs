//! Errors of recordings.

use crate::version::FORMAT;
use std::io;
use std::path::{Path, PathBuf};

/// A recording that cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// There is no such file.
    #[error("{path}: no such file; 'memwright watch' creates one, --recording names another")]
    NotFound { path: PathBuf },
    /// It is another kind of file.
    #[error("{path}: not a memwright recording: {why}")]
    NotARecording { path: PathBuf, why: String },
    /// A newer memwright wrote it.
    #[error(
        "{path}: format {format}, written by memwright {memwright}; this one knows formats up to \
         {FORMAT}: use memwright {memwright} or a newer one"
    )]
    Newer {
        path: PathBuf,
        format: u64,
        /// The version of memwright that wrote it.
        memwright: String,
    },
    /// Part of it is lost.
    #[error("{path}: damaged: {problem}; {readable}")]
    Damaged {
        path: PathBuf,
        /// Its error.
        problem: String,
        /// Readable parts, and the way to read them.
        readable: String,
    },
    /// Another process records into it.
    #[error("{path}: process {pid} is recording to it; name another file, or stop that process")]
    Busy {
        path: PathBuf,
        /// That process, as it says itself.
        pid: String,
    },
    /// There is no room for it.
    #[error(
        "{path}: its file system is full; free some space there, or name a file on another one with --recording"
    )]
    Full { path: PathBuf },
    /// Readers hold back the log of changes.
    #[error(
        "{path}-wal has grown to {bytes} bytes, because a program keeps reading the recording; \
         stop it (fuser {path})"
    )]
    HeldBack { path: PathBuf, bytes: u64 },
    /// More was asked for than is held in memory at once.
    #[error(
        "{path}: {values} values from {since_unix_ms} to {until_unix_ms} are too many at once \
         (limit {limit}); choose a shorter range, or export it"
    )]
    TooMuch {
        path: PathBuf,
        /// Values that were asked for.
        values: u64,
        limit: u64,
        since_unix_ms: u64,
        until_unix_ms: u64,
    },
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{path}: {source}")]
    Store { path: PathBuf, source: rusqlite::Error },
    /// The writer waits for the file to become writable again.
    #[error("not recorded: {why}")]
    Trouble {
        /// Obstacle that keeps it from writing.
        why: String,
    },
    /// The thread that writes has ended.
    #[error("{path}: the writer has stopped")]
    Stopped { path: PathBuf },
}

impl RecordError {
    /// Of reading or writing a file.
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path },
            _ => Self::Io { path, source },
        }
    }
}
