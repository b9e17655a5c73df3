//! The file as its writer has it.

mod create;
mod kills;
mod sizes;

use crate::RecordError;
use crate::chunk::{CHUNKS, ChunkHead, Merge};
use crate::codec::{self, RowBlock};
use crate::format::{AS_TAKEN, LOOSE, damaged, failed, log, size};
use crate::incident::{self, IncidentSize, PackedIncident};
use crate::thin::thin;
use mw_model::{Aggregation, Host, IncidentState, Metric};
use rusqlite::{Connection, Transaction, params};
pub(crate) use sizes::{SizeBlock, read as read_sizes};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Rows that are packed together.
const ROWS_PER_CHUNK: usize = 300;

/// Values that are packed together at most, 2 MiB: rows of very many columns are packed earlier.
const MAX_CELLS_PER_CHUNK: usize = 256 << 10;

/// The most recorded time that one row stands for: what lies between two rows beyond it was not
/// recorded.
const MAX_ROW_SPAN_MS: u64 = 10_000;

/// Time that a row stands for where the clock does not say.
const USUAL_ROW_SPAN_MS: u64 = 1_000;

/// The longest list of names, a line each.
const MAX_NAMES_BYTES: usize = 8 << 20;

/// From this size of the log on nothing is written: a reader holds it back.
const MAX_LOG_BYTES: u64 = 64 << 20;

/// Free pages that are left for what comes next.
const SPARE_PAGES: u64 = 256;

/// Pages that are released at once.
const PAGES_AT_ONCE: u64 = 2_048;

/// A recording that is open for writing.
#[derive(Debug)]
pub(crate) struct Store {
    connection: Connection,
    path: PathBuf,
    /// The file behind the path, which somebody may remove.
    inode: Option<u64>,
    next_seq: u64,
    /// The first row that waits to be packed, and how many do.
    loose: Option<(u64, usize)>,
    last_unix_ms: Option<u64>,
    columns: usize,
}

/// One row of one layout, on its way to the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LayoutRow<'a> {
    pub(crate) unix_ms: u64,
    pub(crate) layout: u64,
    pub(crate) values: &'a [u64],
}

impl Store {
    /// Opens a recording for writing; makes it where there is none, and sets a damaged one aside.
    /// The second value says so.
    pub(crate) fn open(path: &Path, host: &Host) -> Result<(Self, Option<String>), RecordError> {
        let (connection, notice) = create::open(path, host)?;
        let mut store = Self {
            connection,
            path: path.to_owned(),
            inode: inode(path),
            next_seq: 1,
            loose: None,
            last_unix_ms: None,
            columns: 1,
        };
        store.resume().map_err(|error| failed(path, error))?;
        Ok((store, notice))
    }

    /// Finds out where the writer before this one ended.
    fn resume(&mut self) -> rusqlite::Result<()> {
        let last = "SELECT coalesce(max(seq + rows), 0), max(seq) FROM chunk";
        let (end, seq): (u64, Option<u64>) =
            self.connection.query_row(last, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        self.next_seq = end.max(seq.unwrap_or(0).saturating_add(1)).max(1);
        if let Some(seq) = seq {
            let until = "SELECT until_unix_ms FROM chunk WHERE seq = ?";
            self.last_unix_ms = Some(self.connection.query_row(until, [seq], |row| row.get(0))?);
        }
        let loose = "SELECT min(seq), count(*) FROM chunk WHERE step_ms = ?";
        let loose: (Option<u64>, usize) =
            self.connection.query_row(loose, [LOOSE], |row| Ok((row.get(0)?, row.get(1)?)))?;
        self.loose = loose.0.map(|first| (first, loose.1));
        Ok(())
    }

    /// The number of a list of columns, which are those of the rows that follow.
    pub(crate) fn layout(&mut self, names: &[String]) -> Result<u64, RecordError> {
        self.columns = names.len().max(1);
        let lines: Vec<String> = names.iter().map(|name| name.replace('\n', " ")).collect();
        let packed =
            codec::compress(lines.join("\n").as_bytes()).map_err(|error| self.io(error))?;
        self.write(|transaction| {
            let known = "SELECT id FROM layout WHERE names = ?";
            match transaction.query_row(known, [&packed], |row| row.get(0)) {
                Err(rusqlite::Error::QueryReturnedNoRows) => {}
                known => return known,
            }
            transaction.execute("INSERT INTO layout (names) VALUES (?)", [&packed])?;
            Ok(transaction.last_insert_rowid().unsigned_abs())
        })
    }

    /// Number of rows that are packed together.
    pub(crate) fn rows_per_chunk(&self) -> usize {
        (MAX_CELLS_PER_CHUNK / self.columns).clamp(1, ROWS_PER_CHUNK)
    }

    /// Adds rows in one transaction.
    pub(crate) fn add(&mut self, rows: &[LayoutRow<'_>]) -> Result<(), RecordError> {
        let mut seq = self.next_seq;
        let mut last = self.last_unix_ms;
        let mut chunks = Vec::with_capacity(rows.len());
        for row in rows {
            let block = RowBlock {
                at_unix_ms: vec![row.unix_ms],
                columns: row.values.iter().map(|value| vec![*value]).collect(),
            };
            let body = codec::pack(&block).map_err(|error| self.io(error))?;
            let span_ms = span_ms(last, row.unix_ms);
            let head =
                ChunkHead { seq, span_ms, step_ms: LOOSE, layout: row.layout, ..head(&block) };
            chunks.push((head, body));
            last = Some(row.unix_ms);
            seq += 1;
        }
        self.write(|transaction| {
            chunks.iter().try_for_each(|(head, body)| insert(transaction, head, body))
        })?;
        let (first, count) = self.loose.unwrap_or((self.next_seq, 0));
        self.loose = Some((first, count + rows.len())).filter(|(_, count)| *count > 0);
        (self.next_seq, self.last_unix_ms) = (seq, last);
        Ok(())
    }

    /// True if so many rows wait to be packed that it is time.
    pub(crate) fn is_due(&self) -> bool {
        self.loose.is_some_and(|(_, count)| count >= self.rows_per_chunk())
    }

    /// Packs the rows that wait, those of each layout by themselves.
    pub(crate) fn pack(&mut self) -> Result<(), RecordError> {
        let Some((first, _)) = self.loose else { return Ok(()) };
        let heads = self.heads(&format!("{CHUNKS} WHERE seq >= {first} ORDER BY seq"))?;
        let runs = heads.chunk_by(|a, b| a.layout == b.layout);
        let rows = self.rows_per_chunk();
        for run in runs.flat_map(|run| run.chunks(rows)) {
            let Some(layout) = run.first().map(|head| head.layout) else { continue };
            let seqs = run.iter().map(|head| head.seq).collect();
            let span_ms = run.iter().fold(0, |sum: u64, head| sum.saturating_add(head.span_ms));
            self.merge(&Merge { seqs, layout, step_ms: AS_TAKEN, span_ms })?;
        }
        self.loose = None;
        Ok(())
    }

    /// Makes one chunk of several, at a wider step.
    pub(crate) fn merge(&mut self, merge: &Merge) -> Result<(), RecordError> {
        let names = self.names(merge.layout)?;
        let aggregations: Vec<Aggregation> =
            names.iter().map(|name| Metric::from_name(name).aggregation()).collect();
        let thinned = |block: RowBlock| match merge.step_ms {
            AS_TAKEN => block,
            step_ms => thin(&block, &aggregations, step_ms),
        };
        let mut all = RowBlock::with_columns(names.len());
        for seq in &merge.seqs {
            // A chunk that cannot be read must not keep the others from being packed.
            if let Ok(block) = self.block(*seq, names.len()) {
                all.append(thinned(block));
            }
        }
        let all = thinned(all);
        let Some(seq) = merge.seqs.first().copied().filter(|_| all.rows() > 0) else {
            return self.delete_chunks(&merge.seqs);
        };
        let body = codec::pack(&all).map_err(|error| self.io(error))?;
        let (step_ms, span_ms) = (merge.step_ms, merge.span_ms);
        let head = ChunkHead { seq, span_ms, step_ms, layout: merge.layout, ..head(&all) };
        self.write(|transaction| {
            delete(transaction, &merge.seqs)?;
            insert(transaction, &head, &body)
        })
    }

    /// The names of a layout's columns.
    fn names(&self, layout: u64) -> Result<Vec<String>, RecordError> {
        names(&self.connection, layout).map_err(|error| error.at(&self.path))
    }

    fn block(&self, seq: u64, columns: usize) -> Result<RowBlock, RecordError> {
        block(&self.connection, seq, columns, None).map_err(|error| error.at(&self.path))
    }

    /// The heads of all chunks, in the order in which they were taken.
    pub(crate) fn chunks(&self) -> Result<Vec<ChunkHead>, RecordError> {
        self.heads(&format!("{CHUNKS} ORDER BY seq"))
    }

    fn heads(&self, query: &str) -> Result<Vec<ChunkHead>, RecordError> {
        let heads = || {
            let mut statement = self.connection.prepare_cached(query)?;
            statement.query_map([], ChunkHead::read)?.collect::<rusqlite::Result<_>>()
        };
        heads().map_err(|error| failed(&self.path, error))
    }

    /// Deletes chunks.
    pub(crate) fn delete_chunks(&mut self, seqs: &[u64]) -> Result<(), RecordError> {
        if seqs.is_empty() {
            return Ok(());
        }
        self.write(|transaction| delete(transaction, seqs))
    }

    /// The highest number that an incident had, 0 where there was none.
    pub(crate) fn last_incident(&self) -> Result<u64, RecordError> {
        let last = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'incident'";
        let last = self.connection.query_row(last, [], |row| row.get(0));
        last.map_err(|error| failed(&self.path, error))
    }

    /// Marks incidents whose recorder ended during the stall.
    pub(crate) fn interrupt_open_incidents(&mut self) -> Result<(), RecordError> {
        let interrupt = "UPDATE incident SET state = ? WHERE state = ?";
        let states = [IncidentState::Interrupted, IncidentState::Open].map(incident::word);
        self.write(|transaction| transaction.execute(interrupt, states))?;
        Ok(())
    }

    /// Writes an incident in the place of the one that has its number, if there is one.
    pub(crate) fn put_incident(&mut self, incident: &PackedIncident) -> Result<(), RecordError> {
        let PackedIncident { row, body, rows } = incident;
        self.write(|transaction| {
            transaction.execute(
                "INSERT OR REPLACE INTO incident (id, started_unix_ms, ended_unix_ms, \
                 trigger_kind, trigger_name, worst_ms, verdict, cause, confidence_percent, body, \
                 rows, state, subject, failure_kind) \
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                params![
                    signed(row.id),
                    signed(row.started_unix_ms),
                    signed(row.ended_unix_ms),
                    incident::word(row.trigger_kind),
                    row.trigger_name,
                    row.worst_ms,
                    row.verdict,
                    row.cause,
                    row.confidence_percent,
                    body,
                    rows,
                    incident::word(row.state),
                    row.subject.as_ref().map(ToString::to_string),
                    row.failure_kind.map(incident::word),
                ],
            )
        })?;
        Ok(())
    }

    /// Adds a capture.
    pub(crate) fn add_capture(&mut self, unix_ms: u64, body: &[u8]) -> Result<(), RecordError> {
        let insert = "INSERT INTO capture (unix_ms, body) VALUES (?, ?)";
        self.write(|transaction| transaction.execute(insert, params![signed(unix_ms), body]))?;
        Ok(())
    }

    /// Keeps the newest captures, one a day of older ones, and no more than so many bytes.
    pub(crate) fn keep_captures(&mut self, newest: u64, max_bytes: u64) -> Result<(), RecordError> {
        let thin = "DELETE FROM capture WHERE id <= (SELECT max(id) FROM capture) - ?1 AND id NOT IN \
                    (SELECT max(id) FROM capture GROUP BY unix_ms / 86400000)";
        self.write(|transaction| {
            transaction.execute(thin, [newest])?;
            transaction.execute(&oldest_beyond("capture", "length(body)"), [max_bytes])
        })?;
        Ok(())
    }

    /// Sources and sizes of the incidents, the oldest first, without those that are open.
    pub(crate) fn incident_sizes(&self) -> Result<Vec<IncidentSize>, RecordError> {
        let query = "SELECT id, length(body) + length(rows), trigger_kind, trigger_name, subject \
                     FROM incident WHERE state <> ? ORDER BY id";
        let size = |row: &rusqlite::Row<'_>| {
            let (kind, name): (String, String) = (row.get(2)?, row.get(3)?);
            let subject: Option<String> = row.get(4)?;
            let source = incident::source(&kind, &name, subject.as_deref());
            Ok(IncidentSize { id: row.get(0)?, bytes: row.get(1)?, source })
        };
        let sizes = || {
            let open = incident::word(IncidentState::Open);
            let mut statement = self.connection.prepare_cached(query)?;
            statement.query_map([open], size)?.collect::<rusqlite::Result<_>>()
        };
        sizes().map_err(|error| failed(&self.path, error))
    }

    pub(crate) fn delete_incidents(&mut self, ids: &[u64]) -> Result<(), RecordError> {
        if ids.is_empty() {
            return Ok(());
        }
        self.write(|transaction| {
            let mut statement = transaction.prepare_cached("DELETE FROM incident WHERE id = ?")?;
            ids.iter().try_for_each(|id| statement.execute([signed(*id)]).map(|_| ()))
        })
    }

    /// Deletes layouts that no chunk has; the newest may be of rows that are still to come.
    pub(crate) fn drop_unused_layouts(&mut self) -> Result<(), RecordError> {
        let unused = "DELETE FROM layout WHERE id NOT IN (SELECT layout FROM chunk) \
                      AND id < (SELECT max(id) FROM layout)";
        self.write(|transaction| transaction.execute(unused, []))?;
        Ok(())
    }

    /// Bytes of the file that hold something.
    pub(crate) fn used_bytes(&self) -> Result<u64, RecordError> {
        let pages = self.number("page_count")?.saturating_sub(self.number("freelist_count")?);
        Ok(pages * self.number("page_size")?)
    }

    /// Gives free pages back to the file system.
    pub(crate) fn give_back_pages(&mut self) -> Result<(), RecordError> {
        let free = self.number("freelist_count")?;
        if free < 2 * SPARE_PAGES {
            return Ok(());
        }
        let pages = (free - SPARE_PAGES).min(PAGES_AT_ONCE);
        let vacuum = self.connection.execute_batch(&format!("PRAGMA incremental_vacuum({pages})"));
        vacuum.map_err(|error| failed(&self.path, error))
    }

    fn number(&self, pragma: &str) -> Result<u64, RecordError> {
        let value = self.connection.pragma_query_value(None, pragma, |row| row.get(0));
        value.map_err(|error| failed(&self.path, error))
    }

    /// One transaction.
    fn write<T>(
        &mut self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, RecordError> {
        self.check_files()?;
        let done = self.connection.transaction().and_then(|transaction| {
            let value = change(&transaction)?;
            transaction.commit()?;
            Ok(value)
        });
        done.map_err(|error| failed(&self.path, error))
    }

    fn check_files(&self) -> Result<(), RecordError> {
        if inode(&self.path) != self.inode {
            return Err(RecordError::NotFound { path: self.path.clone() });
        }
        let log = log(&self.path);
        if size(&log) <= MAX_LOG_BYTES {
            return Ok(());
        }
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        match size(&log) {
            bytes if bytes > MAX_LOG_BYTES => {
                Err(RecordError::HeldBack { path: self.path.clone(), bytes })
            }
            _ => Ok(()),
        }
    }

    fn io(&self, source: io::Error) -> RecordError {
        RecordError::Io { path: self.path.clone(), source }
    }
}

/// The reason why a part of the file cannot be read.
#[derive(Debug)]
pub(crate) enum ReadFailure {
    Store(rusqlite::Error),
    Content(String),
}

impl From<rusqlite::Error> for ReadFailure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error)
    }
}

impl ReadFailure {
    pub(crate) fn at(self, path: &Path) -> RecordError {
        match self {
            Self::Store(error) => failed(path, error),
            Self::Content(problem) => damaged(path.to_owned(), problem),
        }
    }
}

/// The names of a layout's columns.
pub(crate) fn names(connection: &Connection, layout: u64) -> Result<Vec<String>, ReadFailure> {
    let query = "SELECT names FROM layout WHERE id = ?";
    let packed: Vec<u8> = connection.query_row(query, [layout], |row| row.get(0))?;
    let wrong = |problem: &str| ReadFailure::Content(format!("layout {layout}: {problem}"));
    let names = codec::decompress(&packed, MAX_NAMES_BYTES).map_err(wrong)?;
    let names = String::from_utf8(names).map_err(|_| wrong("its names are not text"))?;
    let lines = names.split('\n').filter(|_| !names.is_empty());
    let names: Vec<String> = lines.map(str::to_owned).collect();
    if names.len() > codec::MAX_COLUMNS {
        return Err(wrong("too many columns"));
    }
    Ok(names)
}

/// The rows of a chunk; so many, where its head was read.
pub(crate) fn block(
    connection: &Connection,
    seq: u64,
    columns: usize,
    rows: Option<usize>,
) -> Result<RowBlock, ReadFailure> {
    let mut statement = connection.prepare_cached("SELECT body FROM chunk WHERE seq = ?")?;
    let body: Vec<u8> = statement.query_row([seq], |row| row.get(0))?;
    codec::unpack_rows(&body, columns, rows)
        .map_err(|problem| ReadFailure::Content(format!("chunk {seq}: {problem}")))
}

/// The head of a chunk of these rows; what they do not say is 0.
fn head(block: &RowBlock) -> ChunkHead {
    ChunkHead {
        since_unix_ms: block.at_unix_ms.iter().copied().min().unwrap_or(0),
        until_unix_ms: block.at_unix_ms.iter().copied().max().unwrap_or(0),
        rows: block.rows() as u64,
        ..ChunkHead::default()
    }
}

fn insert(transaction: &Transaction<'_>, head: &ChunkHead, body: &[u8]) -> rusqlite::Result<()> {
    let insert = "INSERT INTO chunk VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
    let mut statement = transaction.prepare_cached(insert)?;
    statement.execute(params![
        signed(head.seq),
        signed(head.since_unix_ms),
        signed(head.until_unix_ms),
        signed(head.rows),
        signed(head.span_ms),
        signed(head.step_ms),
        signed(head.layout),
        body
    ])?;
    Ok(())
}

fn delete(transaction: &Transaction<'_>, seqs: &[u64]) -> rusqlite::Result<()> {
    let mut statement = transaction.prepare_cached("DELETE FROM chunk WHERE seq = ?")?;
    seqs.iter().try_for_each(|seq| statement.execute([seq]).map(|_| ()))
}

/// Deletes the oldest of a table that do not fit into a number of bytes.
fn oldest_beyond(table: &str, bytes: &str) -> String {
    format!(
        "DELETE FROM {table} WHERE id IN (SELECT id FROM (SELECT id, \
         sum({bytes}) OVER (ORDER BY id DESC) AS so_far FROM {table}) WHERE so_far > ?)"
    )
}

/// Recorded time that a row stands for.
fn span_ms(last_unix_ms: Option<u64>, unix_ms: u64) -> u64 {
    let since = last_unix_ms.and_then(|last| unix_ms.checked_sub(last));
    since.unwrap_or(USUAL_ROW_SPAN_MS).min(MAX_ROW_SPAN_MS)
}

fn inode(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().map(|metadata| metadata.ino())
}

/// SQLite's numbers are signed.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
