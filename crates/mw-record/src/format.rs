//! The tables, and what tells a recording from another file.

use crate::RecordError;
use crate::version::{APPLICATION_ID, FORMAT};
use rusqlite::ffi::SQLITE_IOERR_SHMSIZE;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, OptionalExtension};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// `chunk.step_ms` of a row that waits to be packed.
pub(crate) const LOOSE: u64 = 0;

/// `chunk.step_ms` of rows as they were taken.
pub(crate) const AS_TAKEN: u64 = 1;

/// The longest value that is read from the file.
const MAX_VALUE_BYTES: i32 = 64 << 20;

/// The longest definition of a table or an index in the file; those of memwright have some 300 bytes.
const MAX_DEFINITION_BYTES: i32 = 16 << 10;

/// Memory for pages of the file, in KiB.
const CACHE_KIB: i64 = 512;

/// Memory that SQLite may take in this process: two of the longest values, and as much again to sort and to log.
const MAX_HEAP_BYTES: i64 = 256 << 20;

/// The tables, each as SQLite keeps its definition.
pub(crate) const TABLES: [(&str, &str); 6] = [
    ("meta", "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"),
    ("layout", "CREATE TABLE layout (id INTEGER PRIMARY KEY, names BLOB NOT NULL)"),
    (
        "chunk",
        "CREATE TABLE chunk (seq INTEGER PRIMARY KEY, since_unix_ms INTEGER NOT NULL, \
         until_unix_ms INTEGER NOT NULL, rows INTEGER NOT NULL, span_ms INTEGER NOT NULL, \
         step_ms INTEGER NOT NULL, layout INTEGER NOT NULL, body BLOB NOT NULL)",
    ),
    (
        "incident",
        "CREATE TABLE incident (id INTEGER PRIMARY KEY AUTOINCREMENT, \
         started_unix_ms INTEGER NOT NULL, ended_unix_ms INTEGER NOT NULL, \
         trigger_kind TEXT NOT NULL, trigger_name TEXT NOT NULL, worst_ms REAL NOT NULL, \
         verdict TEXT NOT NULL, cause TEXT, confidence_percent INTEGER, body BLOB NOT NULL, \
         rows BLOB NOT NULL, state TEXT NOT NULL DEFAULT 'closed', subject TEXT, failure_kind TEXT)",
    ),
    (
        "capture",
        "CREATE TABLE capture (id INTEGER PRIMARY KEY AUTOINCREMENT, unix_ms INTEGER NOT NULL, \
         body BLOB NOT NULL)",
    ),
    (
        "sizes",
        "CREATE TABLE sizes (id INTEGER PRIMARY KEY AUTOINCREMENT, since_unix_ms INTEGER NOT NULL, \
         until_unix_ms INTEGER NOT NULL, samples INTEGER NOT NULL, holders BLOB NOT NULL, \
         body BLOB NOT NULL)",
    ),
];

/// A table that recordings of before 0.3 do not have.
pub(crate) const KILL_TABLE: (&str, &str) = (
    "kill",
    "CREATE TABLE kill (id INTEGER PRIMARY KEY AUTOINCREMENT, unix_ms INTEGER NOT NULL, \
     source TEXT NOT NULL, body TEXT NOT NULL)",
);

/// The columns of the list of incidents, one after the other: in the table their evidence lies in between, so that a list
/// would read two pages of each.
pub(crate) const LIST_INDEX: (&str, &str) = (
    "incident_list",
    "CREATE INDEX incident_list ON incident (id, started_unix_ms, ended_unix_ms, trigger_kind, \
     trigger_name, worst_ms, verdict, cause, confidence_percent, state, subject, failure_kind)",
);

/// A file beside the recording: `FILE-wal`.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

/// The log of changes beside a recording.
pub(crate) fn log(path: &Path) -> PathBuf {
    beside(path, "-wal")
}

/// Size of a file; 0 where it is not there.
pub(crate) fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// Bounds what a connection takes from its file, which may come from anywhere.
pub(crate) fn confine(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)?;
    connection.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, MAX_DEFINITION_BYTES)?;
    connection.pragma_update(None, "hard_heap_limit", MAX_HEAP_BYTES)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "mmap_size", 0)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)
}

/// Checks that the file is a recording of this format.
///
/// # Errors
/// It is no recording, or one of another format.
pub(crate) fn check(connection: &Connection, path: &Path) -> Result<(), RecordError> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let id = number("application_id").map_err(|error| failed(path, error))?;
    if id != i64::from(APPLICATION_ID) {
        let why = "a database of another program".to_owned();
        return Err(RecordError::NotARecording { path: path.to_owned(), why });
    }
    let format = number("user_version").map_err(|error| failed(path, error))?;
    let format = u64::try_from(format).unwrap_or(0);
    if format < FORMAT {
        let why = format!("format {format}, of memwright before its first release");
        return Err(RecordError::NotARecording { path: path.to_owned(), why });
    }
    if format > FORMAT {
        let memwright = meta(connection, "memwright").unwrap_or_else(|_| "(unknown)".to_owned());
        return Err(RecordError::Newer { path: path.to_owned(), format, memwright });
    }
    for (name, definition) in TABLES {
        check_table(connection, path, name, definition)?;
    }
    let (name, definition) = KILL_TABLE;
    match has_kills(connection).map_err(|error| failed(path, error))? {
        true => check_table(connection, path, name, definition),
        false => Ok(()),
    }
}

/// True if the recording has [`KILL_TABLE`].
pub(crate) fn has_kills(connection: &Connection) -> rusqlite::Result<bool> {
    let found = "SELECT 1 FROM sqlite_schema WHERE name = ?";
    let found = connection.query_row(found, [KILL_TABLE.0], |_| Ok(()));
    found.optional().map(|found| found.is_some())
}

/// True if the recording has [`LIST_INDEX`], which a damaged one may lack.
pub(crate) fn has_list(connection: &Connection) -> rusqlite::Result<bool> {
    let (name, definition) = LIST_INDEX;
    let found = "SELECT 1 FROM sqlite_schema WHERE type = 'index' AND name = ? AND sql = ?";
    let found = connection.query_row(found, [name, definition], |_| Ok(()));
    found.optional().map(|found| found.is_some())
}

/// A fact about the file.
pub(crate) fn meta(connection: &Connection, key: &str) -> rusqlite::Result<String> {
    connection.query_row("SELECT value FROM meta WHERE key = ?", [key], |row| row.get(0))
}

/// A table that is defined in another way could be a view that computes without end.
fn check_table(
    connection: &Connection,
    path: &Path,
    name: &str,
    definition: &str,
) -> Result<(), RecordError> {
    let query = "SELECT sql FROM sqlite_schema WHERE name = ? AND type = 'table'";
    let found = connection.query_row(query, [name], |row| row.get::<_, Option<String>>(0));
    let found = found.optional().map_err(|error| failed(path, error))?;
    let why = match found {
        Some(Some(found)) if found == definition => return Ok(()),
        Some(_) => format!("table '{name}' has another definition"),
        None => format!("no table '{name}'"),
    };
    Err(RecordError::NotARecording { path: path.to_owned(), why })
}

/// Meaning of an error of SQLite for a file.
pub(crate) fn failed(path: &Path, error: rusqlite::Error) -> RecordError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => {
            RecordError::NotARecording { path, why: "not a database".to_owned() }
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::TooBig) => damaged(path, error.to_string()),
        Some(ErrorCode::OutOfMemory) => {
            damaged(path, "it takes more memory to read than any recording".to_owned())
        }
        Some(ErrorCode::OperationInterrupted) => {
            damaged(path, "it takes more time to read than any recording".to_owned())
        }
        None => damaged(path, error.to_string()),
        Some(ErrorCode::DiskFull) => RecordError::Full { path },
        // Its index of the log could not be enlarged.
        Some(_) if extended_code(&error) == Some(SQLITE_IOERR_SHMSIZE) => {
            RecordError::Full { path }
        }
        Some(_) => RecordError::Store { path, source: error },
    }
}

fn extended_code(error: &rusqlite::Error) -> Option<i32> {
    error.sqlite_error().map(|error| error.extended_code)
}

/// Damage of which nothing more is known.
pub(crate) fn damaged(path: PathBuf, problem: String) -> RecordError {
    let readable = "none of it can be read".to_owned();
    RecordError::Damaged { path, problem, readable }
}
