//! Opening a recording for reading only.

use super::limits::WorkLimit;
use super::rest::QuietFile;
use crate::RecordError;
use crate::format::{self, damaged, failed, log, meta, size};
use mw_model::{Host, bounded_json};
use mw_sys::guarded;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};
use rustix::fs::{Access, AtFlags, CWD};
use std::cell::RefCell;
use std::fmt::Write;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use tempfile::TempDir;

/// Time that a writer may hold a lock that a reader waits for.
const BUSY: Duration = Duration::from_secs(5);

/// Length limit of the name of a machine and its size.
const MAX_HOST_BYTES: usize = 64 << 10;

/// A copy is for this user alone, and can be written even if the recording cannot.
const COPY_MODE: u32 = 0o600;

/// A recording of which at least the tables and the facts can be read.
#[derive(Debug)]
pub(super) struct OpenRecording {
    pub(super) connection: Connection,
    pub(super) work: WorkLimit,
    pub(super) host: Host,
    pub(super) memwright: String,
    pub(super) created_unix_ms: u64,
    /// The layout that was read last, with its names.
    pub(super) last_layout: RefCell<Option<(u64, Rc<[String]>)>>,
    /// Error of the file as a whole.
    pub(super) problem: Option<String>,
    /// The file at rest, where it is read without a look at what a writer does.
    rest: Option<QuietFile>,
    /// Copy of the file, because its log cannot be read in its place.
    _copy: Option<TempDir>,
}

impl OpenRecording {
    /// True if what is read of it is of one state: no writer has begun since.
    pub(super) fn is_as_it_was(&self, path: &Path) -> bool {
        self.rest.as_ref().is_none_or(|rest| rest.lasts(path))
    }
}

pub(super) fn open(path: &Path) -> Result<OpenRecording, RecordError> {
    look_at(path)?;
    let Some(rest) = QuietFile::open(path) else { return beside_a_writer(path) };
    let opened = immutable(path)
        .map_err(|error| failed(path, error))
        .and_then(|confined| examine(path, confined));
    if !rest.lasts(path) {
        return beside_a_writer(path);
    }
    Ok(OpenRecording { rest: Some(rest), ..opened? })
}

/// Opens a recording that is written, or was until its writer was killed.
pub(super) fn beside_a_writer(path: &Path) -> Result<OpenRecording, RecordError> {
    let (confined, copy) = connect(path)?;
    Ok(OpenRecording { _copy: copy, ..examine(path, confined)? })
}

/// A connection whose work is limited.
struct LimitedConnection {
    connection: Connection,
    work: WorkLimit,
}

/// Reads the facts about a recording.
fn examine(path: &Path, confined: LimitedConnection) -> Result<OpenRecording, RecordError> {
    let LimitedConnection { connection, work } = confined;
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
    let host = bounded_json::from_slice(host.as_bytes(), MAX_HOST_BYTES)
        .map_err(|error| damaged(path.to_owned(), format!("meta host: {error}")))?;
    let memwright = meta(&connection, "memwright").map_err(fail)?;
    let created = meta(&connection, "created_unix_ms").map_err(fail)?;
    let created_unix_ms = created.parse().unwrap_or_default();
    Ok(OpenRecording {
        connection,
        work,
        host,
        memwright,
        created_unix_ms,
        last_layout: RefCell::default(),
        problem,
        rest: None,
        _copy: None,
    })
}

/// Facts that need no read of the file.
fn look_at(path: &Path) -> Result<(), RecordError> {
    let not =
        |why: &str| Err(RecordError::NotARecording { path: path.to_owned(), why: why.to_owned() });
    match std::fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(RecordError::NotFound { path: path.to_owned() })
        }
        Err(source) => Err(RecordError::Io { path: path.to_owned(), source }),
        Ok(found) if !found.is_file() => not("not a regular file"),
        Ok(found) if found.len() == 0 && size(&log(path)) == 0 => not("empty"),
        // SQLite does not tell EACCES from other reasons.
        Ok(_) => rustix::fs::accessat(CWD, path, Access::READ_OK, AtFlags::EACCESS)
            .map_err(|errno| RecordError::Io { path: path.to_owned(), source: errno.into() }),
    }
}

/// A connection that reads the log too.
fn connect(path: &Path) -> Result<(LimitedConnection, Option<TempDir>), RecordError> {
    let fail = |error| failed(path, error);
    let plain = plain(path).and_then(|confined| match first_look(&confined.connection) {
        Err(error) if needs_copy(&error) => Err(error),
        _ => Ok(confined),
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

/// True if the log cannot be read in its place: read-only media, or a directory of another user.
fn needs_copy(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied))
}

/// Beside a writer, or after one that was killed: its log is read where it is.
fn plain(path: &Path) -> rusqlite::Result<LimitedConnection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    ready(Connection::open_with_flags(path, flags)?)
}

/// A file that nobody writes: SQLite makes no files beside it.
fn immutable(path: &Path) -> rusqlite::Result<LimitedConnection> {
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

fn ready(mut connection: Connection) -> rusqlite::Result<LimitedConnection> {
    connection.busy_timeout(BUSY)?;
    // Before the first page is read.
    let work = WorkLimit::limit(&mut connection)?;
    format::confine(&connection)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(LimitedConnection { connection, work })
}

/// Reads the definitions of the tables.
fn first_look(connection: &Connection) -> rusqlite::Result<()> {
    let any = connection.query_row("SELECT 1 FROM sqlite_schema LIMIT 1", [], |_| Ok(()));
    any.optional().map(|_| ())
}

fn copy(path: &Path) -> io::Result<TempDir> {
    let private = std::fs::Permissions::from_mode(0o700);
    let dir = tempfile::Builder::new().prefix("memwright-").permissions(private).tempdir()?;
    let to = dir.path().join("recording.db");
    copy_file(path, &to)?;
    match copy_file(&log(path), &log(&to)) {
        // Its writer has ended meanwhile: the file lacks nothing.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            guarded::replace(&log(&to), &[], COPY_MODE)?;
        }
        copied => copied?,
    }
    Ok(dir)
}

fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let place = guarded::entry(to)?;
    let mut new = place.create(COPY_MODE)?;
    io::copy(&mut guarded::open(from)?, new.file())?;
    new.persist()
}
