//! The tables, and what tells a recording from another file.

use crate::RecordError;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// `mwRE`: what `application_id` of a recording says.
pub const APPLICATION_ID: i32 = 0x6d77_5245;

/// Version of the format; a reader refuses a newer one.
pub const FORMAT: u64 = 1;

/// `chunk.step_ms` of a row that waits to be packed.
pub(crate) const LOOSE: u64 = 0;

/// `chunk.step_ms` of rows as they were taken.
pub(crate) const AS_TAKEN: u64 = 1;

/// The longest value that is read from the file.
const MAX_VALUE_BYTES: i32 = 64 << 20;

/// Memory for pages of the file, in KiB.
const CACHE_KIB: i64 = 512;

/// The tables, each as SQLite keeps its definition.
pub(crate) const TABLES: [(&str, &str); 5] = [
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
         rows BLOB NOT NULL)",
    ),
    (
        "capture",
        "CREATE TABLE capture (id INTEGER PRIMARY KEY AUTOINCREMENT, unix_ms INTEGER NOT NULL, \
         body BLOB NOT NULL)",
    ),
];

/// A file beside the recording: `FILE-wal`.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

/// Size of a file; 0 where it is not there.
pub(crate) fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// Bounds what a connection takes from its file, which may come from anywhere.
pub(crate) fn confine(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "mmap_size", 0)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)
}

/// Whether the file is a recording of this format.
///
/// # Errors
/// It is not, and what it is instead.
pub(crate) fn check(connection: &Connection, path: &Path) -> Result<(), RecordError> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let id = number("application_id").map_err(|error| failed(path, error))?;
    if id != i64::from(APPLICATION_ID) {
        let why = "a database of another program".to_owned();
        return Err(RecordError::NotARecording { path: path.to_owned(), why });
    }
    let format = number("user_version").map_err(|error| failed(path, error))?;
    if format > FORMAT as i64 {
        let memwright = meta(connection, "memwright").unwrap_or_else(|_| "(unknown)".to_owned());
        let format = format.unsigned_abs();
        return Err(RecordError::Newer { path: path.to_owned(), format, memwright });
    }
    check_tables(connection, path)
}

/// A fact about the file.
pub(crate) fn meta(connection: &Connection, key: &str) -> rusqlite::Result<String> {
    connection.query_row("SELECT value FROM meta WHERE key = ?", [key], |row| row.get(0))
}

/// A table that is defined in another way could be a view that computes without end.
fn check_tables(connection: &Connection, path: &Path) -> Result<(), RecordError> {
    for (name, definition) in TABLES {
        let query = "SELECT sql FROM sqlite_schema WHERE name = ? AND type = 'table'";
        let found = connection.query_row(query, [name], |row| row.get::<_, String>(0));
        let why = match found {
            Ok(found) if found == definition => continue,
            Ok(_) => format!("table '{name}' has another definition"),
            Err(rusqlite::Error::QueryReturnedNoRows) => format!("no table '{name}'"),
            Err(error) => return Err(failed(path, error)),
        };
        return Err(RecordError::NotARecording { path: path.to_owned(), why });
    }
    Ok(())
}

/// What an error of SQLite means for a file.
pub(crate) fn failed(path: &Path, error: rusqlite::Error) -> RecordError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => {
            RecordError::NotARecording { path, why: "not a database".to_owned() }
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::TooBig) => damaged(path, error.to_string()),
        None => damaged(path, error.to_string()),
        Some(_) => RecordError::Store { path, source: error },
    }
}

/// Damage of which nothing more is known.
pub(crate) fn damaged(path: PathBuf, problem: String) -> RecordError {
    let readable = "none of it can be read".to_owned();
    RecordError::Damaged { path, problem, readable }
}
