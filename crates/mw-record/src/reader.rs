//! Reading a recording, without writing anything.

mod open;
mod scan;

use crate::format::{beside, damaged, failed};
use crate::incident;
use crate::store::{self, Chunk};
use crate::{RecordError, codec};
use mw_model::{Column, Host, Incident, IncidentRow, Layout, Table, Tick};
use rusqlite::{Connection, OptionalExtension, Transaction};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The most values that [`Recording::table`] gives at once: 256 MiB.
pub const MAX_TABLE_VALUES: u64 = 32 << 20;

/// The most ticks that [`Recording::ticks`] gives at once.
pub const MAX_TICKS: u64 = 10_000;

/// A recording that is open for reading: beside its writer, after it was killed, as a copy, on
/// read-only media. Every call sees the file as it is at that moment.
#[derive(Debug)]
pub struct Recording {
    connection: Connection,
    path: PathBuf,
    host: Host,
    memwright: String,
    problem: Option<String>,
    /// Where the file was copied to because its log cannot be read in its place.
    _copy: Option<TempDir>,
}

impl Recording {
    /// Opens a recording.
    ///
    /// # Errors
    /// There is no such file, it is not a recording, a newer memwright wrote it, or so much of it
    /// is lost that nothing can be read. Of a recording that is damaged in part the rest can be
    /// read: see [`Self::damage`].
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        let opened = open::open(path)?;
        Ok(Self {
            connection: opened.connection,
            path: path.to_owned(),
            host: opened.host,
            memwright: opened.memwright,
            problem: opened.problem,
            _copy: opened.copy,
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The machine that it is from.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Version of memwright that wrote last.
    pub fn memwright(&self) -> &str {
        &self.memwright
    }

    /// What is lost of the file, and what can be read still; for people.
    pub fn damage(&self) -> Option<String> {
        let scan = scan::scan(&self.connection);
        let problem = scan.problem.clone().or_else(|| self.problem.clone())?;
        Some(format!("{}: damaged: {problem}; {}", self.path.display(), scan.readable()))
    }

    /// The earliest and the latest time in it; `None` where it has no rows yet.
    ///
    /// # Errors
    /// Nothing of the rows can be read.
    pub fn range(&self) -> Result<Option<(u64, u64)>, RecordError> {
        let scan = scan::scan(&self.connection);
        match scan.range() {
            None => scan.problem.map_or(Ok(None), |problem| Err(self.damaged(problem))),
            range => Ok(range),
        }
    }

    /// Names of all columns that there are between two times, both included, in the order in which
    /// they were first recorded.
    ///
    /// # Errors
    /// Part of what was asked for is damaged.
    pub fn columns(
        &self,
        since_unix_ms: u64,
        until_unix_ms: u64,
    ) -> Result<Vec<String>, RecordError> {
        let chunks = self.chunks(since_unix_ms, until_unix_ms)?;
        let mut union = Union::default();
        let mut last = None;
        for chunk in chunks.iter().filter(|chunk| last.replace(chunk.layout) != Some(chunk.layout))
        {
            union.places(chunk.layout, || self.names(chunk.layout))?;
        }
        Ok(union.names)
    }

    /// Goes through the rows between two times, both included, in the order in which they were
    /// taken, a bounded number at a time; all are from one state of the file.
    ///
    /// # Errors
    /// Part of what was asked for is damaged, or `each` failed.
    pub fn stream<E: From<RecordError>>(
        &self,
        since_unix_ms: u64,
        until_unix_ms: u64,
        each: impl FnMut(Table) -> Result<(), E>,
    ) -> Result<(), E> {
        let _state = self.hold()?;
        self.walk(since_unix_ms, until_unix_ms, each)
    }

    /// The rows between two times, both included, in the order in which they were taken.
    ///
    /// # Errors
    /// They are more than [`MAX_TABLE_VALUES`], or part of them is damaged.
    pub fn table(&self, since_unix_ms: u64, until_unix_ms: u64) -> Result<Table, RecordError> {
        let _state = self.hold()?;
        let names = self.columns(since_unix_ms, until_unix_ms)?;
        let rows = self.count(since_unix_ms, until_unix_ms)?;
        let values = rows.saturating_mul(names.len() as u64 + 1);
        self.limit(values, MAX_TABLE_VALUES, since_unix_ms, until_unix_ms)?;
        let mut table = Table::of(names);
        self.walk(since_unix_ms, until_unix_ms, |part| {
            append(&mut table, part);
            Ok::<(), RecordError>(())
        })?;
        Ok(table)
    }

    /// Until it is dropped, every look is at the same state of the file.
    pub(crate) fn hold(&self) -> Result<Transaction<'_>, RecordError> {
        self.connection.unchecked_transaction().map_err(|error| failed(&self.path, error))
    }

    /// As [`Self::stream`], in whatever state the file is.
    pub(crate) fn walk<E: From<RecordError>>(
        &self,
        since_unix_ms: u64,
        until_unix_ms: u64,
        mut each: impl FnMut(Table) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut names = (None, Vec::new());
        for chunk in self.chunks(since_unix_ms, until_unix_ms)? {
            if names.0 != Some(chunk.layout) {
                names = (Some(chunk.layout), self.names(chunk.layout)?);
            }
            each(self.rows(&chunk, &names.1, since_unix_ms, until_unix_ms)?)?;
        }
        Ok(())
    }

    /// The ticks between two times, both included, in the order in which they were taken.
    ///
    /// # Errors
    /// They are more than [`MAX_TICKS`], or part of them is damaged.
    pub fn ticks(&self, since_unix_ms: u64, until_unix_ms: u64) -> Result<Vec<Tick>, RecordError> {
        let rows = self.count(since_unix_ms, until_unix_ms)?;
        self.limit(rows, MAX_TICKS, since_unix_ms, until_unix_ms)?;
        let mut ticks = Vec::new();
        let mut row = Vec::new();
        self.stream(since_unix_ms, until_unix_ms, |part| {
            let names: Vec<&str> = part.columns.iter().map(|column| column.name.as_str()).collect();
            let layout = Layout::named(&names);
            for (at, unix_ms) in part.at_unix_ms.iter().enumerate() {
                part.row(at, &mut row);
                ticks.push(layout.read(*unix_ms, &row));
            }
            Ok::<(), RecordError>(())
        })?;
        Ok(ticks)
    }

    /// All incidents, the oldest first.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn incidents(&self) -> Result<Vec<IncidentRow>, RecordError> {
        let read = || {
            let mut statement = self.connection.prepare_cached(
                "SELECT id, started_unix_ms, ended_unix_ms, trigger_kind, trigger_name, worst_ms, \
                 verdict, cause, confidence_percent FROM incident ORDER BY id",
            )?;
            let rows = statement.query_map([], |row| {
                Ok(IncidentRow {
                    id: row.get(0)?,
                    started_unix_ms: row.get(1)?,
                    ended_unix_ms: row.get(2)?,
                    // A kind of a later version is shown as a probe.
                    trigger_kind: incident::kind_of(&row.get::<_, String>(3)?).unwrap_or_default(),
                    trigger_name: row.get(4)?,
                    worst_ms: row.get(5)?,
                    verdict: row.get(6)?,
                    cause: row.get(7)?,
                    confidence_percent: row.get(8)?,
                })
            })?;
            rows.collect::<rusqlite::Result<_>>()
        };
        read().map_err(|error| failed(&self.path, error))
    }

    /// An incident; `None` where there is none of this number.
    ///
    /// # Errors
    /// It is damaged, or of a newer version.
    pub fn incident(&self, id: u64) -> Result<Option<Incident>, RecordError> {
        let Ok(number) = i64::try_from(id) else { return Ok(None) };
        let query = "SELECT body, rows FROM incident WHERE id = ?";
        let found = self.connection.query_row(query, [number], |row| {
            Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, Vec<u8>>(1)?))
        });
        let found = found.optional().map_err(|error| failed(&self.path, error))?;
        let Some((body, rows)) = found else { return Ok(None) };
        let unpacked = incident::unpack(&body, &rows);
        let incident = unpacked.map_err(|why| self.damaged(format!("incident {id}: {why}")))?;
        Ok(Some(Incident { id, ..incident }))
    }

    /// The latest capture that was taken at this time or before, with its time.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn capture_before(&self, unix_ms: u64) -> Result<Option<(u64, Vec<u8>)>, RecordError> {
        let query = "SELECT unix_ms, body FROM capture WHERE unix_ms <= ? \
                     ORDER BY unix_ms DESC, id DESC LIMIT 1";
        let until = i64::try_from(unix_ms).unwrap_or(i64::MAX);
        let found = self.connection.query_row(query, [until], |row| Ok((row.get(0)?, row.get(1)?)));
        found.optional().map_err(|error| failed(&self.path, error))
    }

    /// The chunks that may have rows of this time.
    fn chunks(&self, since_unix_ms: u64, until_unix_ms: u64) -> Result<Vec<Chunk>, RecordError> {
        let scan = scan::scan(&self.connection);
        if !scan.is_whole(since_unix_ms, until_unix_ms) {
            let (path, readable) = (self.path.clone(), scan.readable());
            let problem = scan.problem.unwrap_or_default();
            return Err(RecordError::Damaged { path, problem, readable });
        }
        let touches = |chunk: &Chunk| {
            chunk.since_unix_ms <= until_unix_ms && chunk.until_unix_ms >= since_unix_ms
        };
        Ok(scan.chunks.into_iter().filter(touches).collect())
    }

    /// At most so many rows lie between two times.
    fn count(&self, since_unix_ms: u64, until_unix_ms: u64) -> Result<u64, RecordError> {
        let chunks = self.chunks(since_unix_ms, until_unix_ms)?;
        Ok(chunks.iter().fold(0, |sum: u64, chunk| sum.saturating_add(chunk.rows)))
    }

    fn rows(
        &self,
        chunk: &Chunk,
        names: &[String],
        since_unix_ms: u64,
        until_unix_ms: u64,
    ) -> Result<Table, RecordError> {
        let mut block = store::block(&self.connection, chunk.seq, names.len())
            .map_err(|error| error.at(&self.path))
            .map_err(|error| self.around(error, chunk))?;
        if block.rows() as u64 != chunk.rows {
            let problem = format!("chunk {}: its head claims {} rows", chunk.seq, chunk.rows);
            return Err(self.around(self.damaged(problem), chunk));
        }
        block.keep(since_unix_ms, until_unix_ms);
        let column = |(name, values): (&String, _)| Column { name: name.clone(), values };
        Ok(Table {
            at_unix_ms: block.at_unix_ms,
            columns: names.iter().zip(block.columns).map(column).collect(),
        })
    }

    fn names(&self, layout: u64) -> Result<Vec<String>, RecordError> {
        store::names(&self.connection, layout).map_err(|error| error.at(&self.path))
    }

    fn limit(&self, values: u64, limit: u64, since: u64, until: u64) -> Result<(), RecordError> {
        if values <= limit {
            return Ok(());
        }
        let path = self.path.clone();
        let (since_unix_ms, until_unix_ms) = (since, until);
        Err(RecordError::TooMuch { path, values, limit, since_unix_ms, until_unix_ms })
    }

    fn damaged(&self, problem: String) -> RecordError {
        damaged(self.path.clone(), problem)
    }

    /// Says how to read what is before and after a chunk that cannot be read.
    fn around(&self, error: RecordError, chunk: &Chunk) -> RecordError {
        let RecordError::Damaged { path, problem, .. } = error else { return error };
        let readable = format!(
            "what was recorded before {} and after {} (milliseconds since 1970) can be read",
            chunk.since_unix_ms, chunk.until_unix_ms
        );
        RecordError::Damaged { path, problem, readable }
    }
}

/// Columns of several layouts, side by side.
#[derive(Debug, Default)]
struct Union {
    names: Vec<String>,
    places: HashMap<String, usize>,
    seen: Vec<u64>,
}

impl Union {
    /// Adds the columns of a layout that was not seen yet.
    fn places(
        &mut self,
        layout: u64,
        names: impl FnOnce() -> Result<Vec<String>, RecordError>,
    ) -> Result<(), RecordError> {
        if self.seen.contains(&layout) {
            return Ok(());
        }
        self.seen.push(layout);
        for name in names()? {
            let place = self.names.len();
            if self.names.len() < codec::MAX_COLUMNS && !self.places.contains_key(&name) {
                self.places.insert(name.clone(), place);
                self.names.push(name);
            }
        }
        Ok(())
    }
}

/// Adds rows to a table that has all of their columns.
pub(crate) fn append(table: &mut Table, part: Table) {
    let rows = part.rows();
    table.at_unix_ms.extend(part.at_unix_ms);
    let same = table.columns.iter().map(|c| &c.name).eq(part.columns.iter().map(|c| &c.name));
    if same {
        for (column, more) in table.columns.iter_mut().zip(part.columns) {
            column.values.extend(more.values);
        }
        return;
    }
    let mut parts: HashMap<String, Vec<u64>> =
        part.columns.into_iter().map(|column| (column.name, column.values)).collect();
    for column in &mut table.columns {
        match parts.remove(&column.name) {
            Some(more) => column.values.extend(more),
            None => column.values.resize(column.values.len() + rows, mw_model::NO_VALUE),
        }
    }
}

/// The log of changes beside a recording.
fn log(path: &Path) -> PathBuf {
    beside(path, "-wal")
}
