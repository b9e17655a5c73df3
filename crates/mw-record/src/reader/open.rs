//! Opening a recording for reading only.

use super::log;
use crate::RecordError;
use crate::format::{self, beside, damaged, failed, meta, size};
use mw_model::Host;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::fmt::Write;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// How long a writer may hold a lock that a reader waits for.
const BUSY: Duration = Duration::from_secs(5);

/// A recording of which at least the tables and the facts can be read.
pub(super) struct Opened {
    pub(super) connection: Connection,
    pub(super) host: Host,
    pub(super) memwright: String,
    /// What is wrong with the file as a whole.
    pub(super) problem: Option<String>,
    pub(super) copy: Option<TempDir>,
}

pub(super) fn open(path: &Path) -> Result<Opened, RecordError> {
    look_at(path)?;
    let (connection, copy) = connect(path)?;
    let fail = |error| failed(path, error);
    let problem = match first_look(&connection).map_err(fail) {
        Ok(()) => None,
        Err(RecordError::Damaged { problem, .. }) => {
            // A file that was cut short can be opened so, up to its end.
            let salvage = connection.pragma_update(None, "writable_schema", true);
            salvage.and_then(|()| first_look(&connection)).map_err(fail)?;
            Some(problem)
        }
        Err(error) => return Err(error),
    };
    format::check(&connection, path)?;
    let host = meta(&connection, "host").map_err(fail)?;
    let host = serde_json::from_str(&host)
        .map_err(|error| damaged(path.to_owned(), format!("meta host: {error}")))?;
    let memwright = meta(&connection, "memwright").map_err(fail)?;
    Ok(Opened { connection, host, memwright, problem, copy })
}

/// What needs no look into the file.
fn look_at(path: &Path) -> Result<(), RecordError> {
    let not =
        |why: &str| Err(RecordError::NotARecording { path: path.to_owned(), why: why.to_owned() });
    match std::fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(RecordError::NotFound { path: path.to_owned() })
        }
        Err(source) => Err(RecordError::Io { path: path.to_owned(), source }),
        Ok(found) if !found.is_file() => not("it is no file"),
        Ok(found) if found.len() == 0 && size(&log(path)) == 0 => not("it is empty"),
        Ok(_) => Ok(()),
    }
}

/// A connection that leaves the file as it is.
fn connect(path: &Path) -> Result<(Connection, Option<TempDir>), RecordError> {
    let fail = |error| failed(path, error);
    // Without a log there is nobody who writes, and nothing that the file lacks.
    if size(&log(path)) == 0 && !beside(path, "-shm").exists() {
        return Ok((immutable(path).map_err(fail)?, None));
    }
    let plain = plain(path).and_then(|connection| match first_look(&connection) {
        Err(error) if needs_copy(&error) => Err(error),
        _ => Ok(connection),
    });
    match plain {
        Err(error) if needs_copy(&error) => {
            let copied =
                copy(path).map_err(|source| RecordError::Io { path: path.to_owned(), source })?;
            let at = copied.path().join("recording.db");
            Ok((Connection::open(at).and_then(ready).map_err(fail)?, Some(copied)))
        }
        plain => Ok((plain.map_err(fail)?, None)),
    }
}

/// Whether the log cannot be read in its place: read-only media, or a folder of somebody else.
fn needs_copy(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied))
}

/// Beside a writer, or after one that was killed: its log is read where it is.
fn plain(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    ready(Connection::open_with_flags(path, flags)?)
}

/// A file that nobody writes: SQLite makes no files beside it.
fn immutable(path: &Path) -> rusqlite::Result<Connection> {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte));
            }
            other => {
                let _ = write!(uri, "%{other:02x}");
            }
        }
    }
    uri.push_str("?immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    ready(Connection::open_with_flags(uri, flags)?)
}

fn ready(connection: Connection) -> rusqlite::Result<Connection> {
    connection.busy_timeout(BUSY)?;
    format::confine(&connection)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(connection)
}

fn first_look(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
}

fn copy(path: &Path) -> io::Result<TempDir> {
    let dir = TempDir::with_prefix("memwright-")?;
    let to = dir.path().join("recording.db");
    std::fs::copy(path, &to)?;
    std::fs::copy(log(path), log(&to))?;
    // The copy of a read-only file is read-only too.
    for file in [&to, &log(&to)] {
        let mut permissions = std::fs::metadata(file)?.permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o600);
        std::fs::set_permissions(file, permissions)?;
    }
    Ok(dir)
}
