//! The recording as one connection sees it.

use super::limits::RowLimits;
use super::open::OpenRecording;
use super::scan;
use super::union::{Union, append};
use crate::RecordError;
use crate::chunk::ChunkHead;
use crate::format::{self, LIST_INDEX, damaged, failed};
use crate::incident;
use crate::lock::is_recorded;
use crate::store::{self, ReadFailure};
use mw_model::{Column, Incident, IncidentRow, IncidentState, Table};
use rusqlite::types::ValueRef;
use rusqlite::{OptionalExtension, Row, Transaction};
use serde::de::DeserializeOwned;
use std::path::Path;
use std::rc::Rc;

/// The most values that [`crate::Recording::table`] gives at once: 256 MiB.
pub const MAX_TABLE_VALUES: u64 = 32 << 20;

/// The most incidents that are listed.
const MAX_INCIDENTS: usize = 200_000;

/// The most bytes of texts that a list of incidents has; an incident has some 200.
const MAX_LIST_BYTES: usize = 64 << 20;

#[derive(Debug, Clone, Copy)]
pub(super) struct RecordingView<'a> {
    pub(super) opened: &'a OpenRecording,
    pub(super) path: &'a Path,
}

impl<'a> RecordingView<'a> {
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
            let added = union.places(chunk.layout, || self.names(chunk.layout))?;
            added.map_err(|problem| self.damaged(problem))?;
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
            let has_list = format::has_list(&self.opened.connection)?;
            let by = if has_list { format!("INDEXED BY {}", LIST_INDEX.0) } else { String::new() };
            let mut statement = self.opened.connection.prepare_cached(&format!(
                "SELECT id, started_unix_ms, ended_unix_ms, trigger_kind, trigger_name, \
                 worst_ms, verdict, cause, confidence_percent, state, subject, failure_kind \
                 FROM incident {by} ORDER BY id"
            ))?;
            let mut found = statement.query([])?;
            let mut limits = RowLimits::new("incident", MAX_INCIDENTS, MAX_LIST_BYTES);
            let mut rows = Vec::new();
            while let Some(row) = found.next()? {
                limits.add(row.get(0)?).map_err(ReadFailure::Content)?;
                limits.take(text_bytes(row)?).map_err(ReadFailure::Content)?;
                rows.push(listed(row)?);
            }
            Ok(rows)
        };
        let mut rows = read().map_err(|error: ReadFailure| error.at(self.path))?;
        self.settle(rows.iter_mut().map(|row| &mut row.state));
        Ok(rows)
    }

    pub(super) fn last_incident(self) -> Result<Option<u64>, RecordError> {
        let last = "SELECT max(id) FROM incident";
        let last = self.opened.connection.query_row(last, [], |row| row.get(0));
        last.map_err(|error| failed(self.path, error))
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
            let query = "SELECT body, rows, state FROM incident WHERE id = ?";
            let found = self.opened.connection.query_row(query, [number], |row| {
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
        // The number first: the sorter would get every body.
        let query = "SELECT unix_ms, body FROM capture WHERE id = (SELECT id FROM capture \
                     WHERE unix_ms <= ? ORDER BY unix_ms DESC, id DESC LIMIT 1)";
        let until = i64::try_from(at).unwrap_or(i64::MAX);
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let found = self.opened.connection.query_row(query, [until], read);
        found.optional().map_err(|error| failed(self.path, error))
    }

    /// The chunks that may have rows of this time.
    pub(super) fn chunks(self, since: u64, until: u64) -> Result<Vec<ChunkHead>, RecordError> {
        let scan = scan::scan(&self.opened.connection);
        if !scan.is_whole(since, until) {
            let (path, readable) = (self.path.to_owned(), scan.readable());
            let problem = scan.problem.unwrap_or_default();
            return Err(RecordError::Damaged { path, problem, readable });
        }
        let touches =
            |chunk: &ChunkHead| chunk.since_unix_ms <= until && chunk.until_unix_ms >= since;
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
        chunk: &ChunkHead,
        from: u64,
        since: u64,
        until: u64,
    ) -> Result<Table, RecordError> {
        let names = self.names(chunk.layout)?;
        let rows = Some(usize::try_from(chunk.rows).unwrap_or(usize::MAX));
        let mut block = store::block(&self.opened.connection, chunk.seq, names.len(), rows)
            .map_err(|error| error.at(self.path))
            .map_err(|error| self.around(error, chunk))?;
        block.skip(usize::try_from(from.saturating_sub(chunk.seq)).unwrap_or(usize::MAX));
        block.keep(since, until);
        let column = |(name, values)| Column { name, values };
        Ok(Table {
            at_unix_ms: block.at_unix_ms,
            columns: names.iter().cloned().zip(block.columns).map(column).collect(),
        })
    }

    /// The names of a layout; those of the last one are kept, since chunks in a row have the same.
    fn names(self, layout: u64) -> Result<Rc<[String]>, RecordError> {
        let mut last = self.opened.last_layout.borrow_mut();
        if let Some((known, names)) = last.as_ref()
            && *known == layout
        {
            return Ok(Rc::clone(names));
        }
        let names = store::names(&self.opened.connection, layout);
        let names: Rc<[String]> = names.map_err(|error| error.at(self.path))?.into();
        *last = Some((layout, Rc::clone(&names)));
        Ok(names)
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
    fn around(self, error: RecordError, chunk: &ChunkHead) -> RecordError {
        let RecordError::Damaged { path, problem, .. } = error else { return error };
        let readable = format!(
            "readable before {} and after {} (milliseconds since 1970)",
            chunk.since_unix_ms, chunk.until_unix_ms
        );
        RecordError::Damaged { path, problem, readable }
    }
}

/// An incident of the list.
fn listed(row: &Row<'_>) -> rusqlite::Result<IncidentRow> {
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
}

/// The length of all texts of a row.
fn text_bytes(row: &Row<'_>) -> rusqlite::Result<usize> {
    let mut bytes = 0_usize;
    for column in 0..row.as_ref().column_count() {
        if let ValueRef::Text(text) = row.get_ref(column)? {
            bytes = bytes.saturating_add(text.len());
        }
    }
    Ok(bytes)
}

/// The variant whose word a column has; `None` where it has none, or one of a later version.
fn word<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<T>> {
    let word = row.get::<_, Option<String>>(column)?;
    Ok(word.and_then(|word| incident::from_word(&word)))
}
