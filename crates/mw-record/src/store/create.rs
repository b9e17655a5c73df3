//! Opening a recording for writing.

use crate::RecordError;
use crate::format::{self, KILL_TABLE, LIST_INDEX, TABLES, beside, failed};
use crate::version::{APPLICATION_ID, FORMAT};
use mw_model::Host;
use mw_sys::guarded;
use rusqlite::{Connection, Transaction, params};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Permissions of a recording: it names processes and files.
const MODE: u32 = 0o640;

/// Time that a reader may hold a lock before the writer gives up.
const BUSY: Duration = Duration::from_secs(2);

/// SQLite's default for a new database, whatever the machine's page.
const DATABASE_PAGE_BYTES: u32 = 4096;

/// Pages of the log after which it is copied into the file: 2 MiB.
const CHECKPOINT_PAGES: u32 = 512;

/// The smallest page of a database.
const MIN_PAGE_BYTES: u64 = 512;

/// A connection for writing, and what was done to get there.
pub(super) fn open(path: &Path, host: &Host) -> Result<(Connection, Option<String>), RecordError> {
    make(path)?;
    let (why, aside) = match prepare(path, host) {
        Err(RecordError::Damaged { problem, .. }) => {
            (format!("{}: {problem}", path.display()), beside(path, ".damaged"))
        }
        // As after a downgrade: a recorder that refused to record would miss the next stall.
        Err(newer @ RecordError::Newer { .. }) => (newer.to_string(), unused(path)),
        done => return Ok((done?, None)),
    };
    set_aside(path, &aside).map_err(|source| RecordError::io(path, source))?;
    make(path)?;
    Ok((prepare(path, host)?, Some(format!("{why}; moved to {}", aside.display()))))
}

/// Makes an empty file where there is none. What is shorter than any database, SQLite would take for
/// an empty one.
fn make(path: &Path) -> Result<(), RecordError> {
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        guarded::create_dirs(dir).map_err(|source| RecordError::io(dir, source))?;
    }
    // SQLite would follow a link in its place.
    let place = guarded::place(path).map_err(|source| RecordError::io(path, source))?;
    match place.make(MODE) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(RecordError::io(path, error)),
        _ if (1..MIN_PAGE_BYTES).contains(&format::size(path)) => {
            let why = "too short for a database".to_owned();
            Err(RecordError::NotARecording { path: path.to_owned(), why })
        }
        _ => Ok(()),
    }
}

/// Path for a newer recording, which is whole: beside those of earlier downgrades.
fn unused(path: &Path) -> PathBuf {
    let numbered = (2..).map(|number| beside(path, &format!(".newer-{number}")));
    let mut all = std::iter::once(beside(path, ".newer")).chain(numbered);
    all.find(|aside| !aside.exists()).unwrap_or_else(|| beside(path, ".newer"))
}

/// Moves a recording out of the way; of what was there before nothing is left.
fn set_aside(path: &Path, aside: &Path) -> io::Result<()> {
    for suffix in ["-wal", "-shm"] {
        match std::fs::rename(beside(path, suffix), beside(aside, suffix)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    std::fs::rename(path, aside)
}

fn prepare(path: &Path, host: &Host) -> Result<Connection, RecordError> {
    let fail = |error| failed(path, error);
    let mut connection = Connection::open(path).map_err(fail)?;
    format::confine(&connection).map_err(fail)?;
    let new = is_new(&connection).map_err(|error| cut_short(&connection, path, error))?;
    if !new {
        format::check(&connection, path)?;
    }
    settings(&connection).map_err(fail)?;
    fill(&mut connection, new, host).map_err(fail)?;
    // Whoever copies the file alone gets at least these.
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(fail)?;
    Ok(connection)
}

/// A file that was cut short does not even tell whose it is: only one of memwright's may be moved.
fn cut_short(connection: &Connection, path: &Path, error: rusqlite::Error) -> RecordError {
    let damage = failed(path, error);
    let ours = || {
        connection.pragma_update(None, "writable_schema", true)?;
        connection.pragma_query_value(None, "application_id", |row| row.get::<_, i32>(0))
    };
    match damage {
        RecordError::Damaged { problem, .. } if ours() != Ok(APPLICATION_ID) => {
            RecordError::NotARecording { path: path.to_owned(), why: problem }
        }
        damage => damage,
    }
}

fn settings(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY)?;
    // Before the first table, or it has no effect.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.query_row("PRAGMA journal_mode=WAL", [], |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    // After a burst the log is cut back to its usual size.
    connection.pragma_update(None, "journal_size_limit", CHECKPOINT_PAGES * DATABASE_PAGE_BYTES * 2)
}

fn is_new(connection: &Connection) -> rusqlite::Result<bool> {
    let tables: u64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let id: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    Ok(tables == 0 && id == 0)
}

/// Notes who writes, and on which machine; what is new gets its tables in the same transaction, so that there is never a
/// recording without them.
fn fill(connection: &mut Connection, new: bool, host: &Host) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    if new {
        tables(&transaction)?;
    }
    if !format::has_kills(&transaction)? {
        transaction.execute_batch(KILL_TABLE.1)?;
    }
    let host_json = serde_json::to_string(host)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    for (key, value) in [("host", host_json.as_str()), ("memwright", &host.memwright)] {
        transaction.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", params![key, value])?;
    }
    transaction.commit()
}

fn tables(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    for (_, definition) in TABLES.into_iter().chain([LIST_INDEX]) {
        transaction.execute_batch(definition)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", FORMAT as i64)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let insert = "INSERT INTO meta VALUES ('created_unix_ms', ?)";
    transaction.execute(insert, [now.to_string()])?;
    Ok(())
}
