//! The recording as one connection sees it.

use super::open::Opened;
use super::scan;
use super::union::{Union, append};
use crate::RecordError;
use crate::chunk::Chunk;
use crate::format::{self, FORMAT_WITH_STATE, damaged, failed};
use crate::incident;
use crate::lock::is_recorded;
use crate::store;
use mw_model::{Column, Incident, IncidentRow, IncidentState, Table};
use rusqlite::{OptionalExtension, Transaction};
use serde::de::DeserializeOwned;
use std::path::Path;

/// The most values that [`crate::Recording::table`] gives at once: 256 MiB.
pub const MAX_TABLE_VALUES: u64 = 32 << 20;

#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) opened: &'a Opened,
    pub(super) path: &'a Path,
}

impl<'a> View<'a> {
    /// Until it is dropped, every look is at the same state of the file; nothing where another one
    /// holds it already.
    pub(super) fn hold(self) -> Result<Option<Transaction<'a>>, RecordError> {
        let connection = &self.opened.connection;
        let begin = connection.is_autocommit().then(|| connection.unchecked_transaction());
        begin.transpose().map_err(|error| failed(self.path, error))
    }

    pub(super) fn damage(self) -> Option<String> {
        let scan = scan::scan(&self.opened.connection);
        let problem = scan.problem.clone().or_else(|| self.opened.problem.clone())?;
        Some(format!("{}: damaged: {problem}; {}", self.path.display(), scan.readable()))
    }

    pub(super) fn range(self) -> Result<Option<(u64, u64)>, RecordError> {
        let scan = scan::scan(&self.opened.connection);
        match scan.range() {
            None => scan.problem.map_or(Ok(None), |problem| Err(self.damaged(problem))),
            range => Ok(range),
        }
    }

    pub(super) fn columns(self, since: u64, until: u64) -> Result<Vec<String>, RecordError> {
        let chunks = self.chunks(since, until)?;
        let mut union = Union::default();
        let mut last = None;
        for chunk in chunks.iter().filter(|chunk| last.replace(chunk.layout) != Some(chunk.layout))
        {
            union.places(chunk.layout, || self.names(chunk.layout))?;
        }
        Ok(union.names)
    }

    pub(super) fn table(self, since: u64, until: u64) -> Result<Table, RecordError> {
        let _state = self.hold()?;
        let names = self.columns(since, until)?;
        let rows = self.count(since, until)?;
        let values = rows.saturating_mul(names.len() as u64 + 1);
        self.limit(values, MAX_TABLE_VALUES, since, until)?;
        let mut table = Table::new(names);
        for chunk in self.chunks(since, until)? {
            append(&mut table, self.rows(&chunk, 0, since, until)?);
        }
        Ok(table)
    }

    pub(super) fn incidents(self) -> Result<Vec<IncidentRow>, RecordError> {
        let read = || {
            let mut statement = self.opened.connection.prepare_cached(&format!(
                "SELECT id, started_unix_ms, ended_unix_ms, trigger_kind, trigger_name, \
                 worst_ms, verdict, cause, confidence_percent, {} FROM incident ORDER BY id",
                self.state_columns()?
            ))?;
            let rows = statement.query_map([], |row| {
                Ok(IncidentRow {
                    id: row.get(0)?,
                    started_unix_ms: row.get(1)?,
                    ended_unix_ms: row.get(2)?,
                    // A kind of a later version is shown as a probe.
                    trigger_kind: word(row, 3)?.unwrap_or_default(),
                    trigger_name: row.get(4)?,
                    worst_ms: row.get(5)?,
                    verdict: row.get(6)?,
                    cause: row.get(7)?,
                    confidence_percent: row.get(8)?,
                    state: word(row, 9)?.unwrap_or_default(),
                    subject: word(row, 10)?,
                    failure_kind: word(row, 11)?,
                })
            })?;
            rows.collect::<rusqlite::Result<_>>()
        };
        let mut rows: Vec<IncidentRow> = read().map_err(|error| failed(self.path, error))?;
        self.settle(rows.iter_mut().map(|row| &mut row.state));
        Ok(rows)
    }

    /// The columns that tell an incident's state, its subject and its failure.
    fn state_columns(self) -> rusqlite::Result<&'static str> {
        Ok(if format::format(&self.opened.connection)? < FORMAT_WITH_STATE {
            "'closed', NULL, NULL"
        } else {
            "state, subject, failure_kind"
        })
    }

    /// An open incident whose recorder is gone was interrupted.
    fn settle<'s>(self, states: impl Iterator<Item = &'s mut IncidentState>) {
        let mut open = states.filter(|state| **state == IncidentState::Open).peekable();
        if open.peek().is_some() && !is_recorded(self.path) {
            open.for_each(|state| *state = IncidentState::Interrupted);
        }
    }

    pub(super) fn incident(self, id: u64) -> Result<Option<Incident>, RecordError> {
        let Ok(number) = i64::try_from(id) else { return Ok(None) };
        let read = || {
            let columns = self.state_columns()?;
            let query = format!("SELECT body, rows, {columns} FROM incident WHERE id = ?");
            let found = self.opened.connection.query_row(&query, [number], |row| {
                Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, Vec<u8>>(1)?, word(row, 2)?))
            });
            found.optional()
        };
        let Some((body, rows, state)) = read().map_err(|error| failed(self.path, error))? else {
            return Ok(None);
        };
        let unpacked = incident::unpack(&body, &rows);
        let incident = unpacked.map_err(|why| self.damaged(format!("incident {id}: {why}")))?;
        // The column is up to date where the recorder was killed.
        let mut incident = Incident { id, state: state.unwrap_or_default(), ..incident };
        self.settle(std::iter::once(&mut incident.state));
        Ok(Some(incident))
    }

    pub(super) fn capture_before(self, at: u64) -> Result<Option<(u64, Vec<u8>)>, RecordError> {
        let query = "SELECT unix_ms, body FROM capture WHERE unix_ms <= ? \
                     ORDER BY unix_ms DESC, id DESC LIMIT 1";
        let until = i64::try_from(at).unwrap_or(i64::MAX);
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let found = self.opened.connection.query_row(query, [until], read);
        found.optional().map_err(|error| failed(self.path, error))
    }

    /// The chunks that may have rows of this time.
    pub(super) fn chunks(self, since: u64, until: u64) -> Result<Vec<Chunk>, RecordError> {
        let scan = scan::scan(&self.opened.connection);
        if !scan.is_whole(since, until) {
            let (path, readable) = (self.path.to_owned(), scan.readable());
            let problem = scan.problem.unwrap_or_default();
            return Err(RecordError::Damaged { path, problem, readable });
        }
        let touches = |chunk: &Chunk| chunk.since_unix_ms <= until && chunk.until_unix_ms >= since;
        Ok(scan.chunks.into_iter().filter(touches).collect())
    }

    /// At most so many rows lie between two times.
    pub(super) fn count(self, since: u64, until: u64) -> Result<u64, RecordError> {
        let chunks = self.chunks(since, until)?;
        Ok(chunks.iter().fold(0, |sum: u64, chunk| sum.saturating_add(chunk.rows)))
    }

    /// The rows of a chunk from number `from` on that lie between two times.
    pub(super) fn rows(
        self,
        chunk: &Chunk,
        from: u64,
        since: u64,
        until: u64,
    ) -> Result<Table, RecordError> {
        let names = self.names(chunk.layout)?;
        let mut block = store::block(&self.opened.connection, chunk.seq, names.len())
            .map_err(|error| error.at(self.path))
            .map_err(|error| self.around(error, chunk))?;
        if block.rows() as u64 != chunk.rows {
            let problem = format!("chunk {}: its header claims {} rows", chunk.seq, chunk.rows);
            return Err(self.around(self.damaged(problem), chunk));
        }
        block.skip(usize::try_from(from.saturating_sub(chunk.seq)).unwrap_or(usize::MAX));
        block.keep(since, until);
        let column = |(name, values)| Column { name, values };
        Ok(Table {
            at_unix_ms: block.at_unix_ms,
            columns: names.into_iter().zip(block.columns).map(column).collect(),
        })
    }

    fn names(self, layout: u64) -> Result<Vec<String>, RecordError> {
        store::names(&self.opened.connection, layout).map_err(|error| error.at(self.path))
    }

    pub(super) fn limit(
        self,
        values: u64,
        limit: u64,
        since: u64,
        until: u64,
    ) -> Result<(), RecordError> {
        if values <= limit {
            return Ok(());
        }
        let path = self.path.to_owned();
        let (since_unix_ms, until_unix_ms) = (since, until);
        Err(RecordError::TooMuch { path, values, limit, since_unix_ms, until_unix_ms })
    }

    pub(super) fn damaged(self, problem: String) -> RecordError {
        damaged(self.path.to_owned(), problem)
    }

    /// Says how to read what is before and after a chunk that cannot be read.
    fn around(self, error: RecordError, chunk: &Chunk) -> RecordError {
        let RecordError::Damaged { path, problem, .. } = error else { return error };
        let readable = format!(
            "readable before {} and after {} (milliseconds since 1970)",
            chunk.since_unix_ms, chunk.until_unix_ms
        );
        RecordError::Damaged { path, problem, readable }
    }
}

/// The variant whose word a column has; `None` where it has none, or one of a later version.
fn word<T: DeserializeOwned>(
    row: &rusqlite::Row<'_>,
    column: usize,
) -> rusqlite::Result<Option<T>> {
    let word = row.get::<_, Option<String>>(column)?;
    Ok(word.and_then(|word| incident::from_word(&word)))
}
