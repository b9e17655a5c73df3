//! Reading a recording, without writing anything.

mod kills;
mod limits;
mod open;
mod rest;
mod scan;
mod sizes;
mod union;
mod view;

use crate::RecordError;
use mw_model::{
    Host, Incident, IncidentRow, Layout, ProcessKill, SizeHistory, SizedHolder, Table, Tick,
};
use open::OpenRecording;
use std::cell::OnceCell;
use std::path::{Path, PathBuf};
pub(crate) use union::append;
pub use view::MAX_TABLE_VALUES;
use view::RecordingView;

/// The most ticks that [`Recording::ticks`] gives at once.
pub const MAX_TICKS: u64 = 10_000;

/// A recording that is open for reading: beside its writer, after it was killed, as a copy, on
/// read-only media. Every call sees the file as it is at that moment.
///
/// A file that nobody writes is read as it lies there, and the directory is left as it is. When a
/// writer begins, what was read meanwhile may be half old and half new: it is read again, beside the
/// writer.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    first: OpenRecording,
    /// Beside a writer that has begun since.
    beside: OnceCell<OpenRecording>,
}

impl Recording {
    /// Opens a recording.
    ///
    /// # Errors
    /// There is no such file, it is not a recording, a newer memwright wrote it, or so much of it
    /// is lost that nothing can be read. Of a recording that is damaged in part the rest can be
    /// read: see [`Self::damage`].
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        Ok(Self { path: path.to_owned(), first: open::open(path)?, beside: OnceCell::new() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The machine that it is from.
    pub fn host(&self) -> &Host {
        &self.first.host
    }

    /// Version of memwright that wrote last.
    pub fn memwright(&self) -> &str {
        &self.first.memwright
    }

    /// Time at which it was begun, in milliseconds since 1970: tells it from another one of the same machine.
    pub fn created_unix_ms(&self) -> u64 {
        self.first.created_unix_ms
    }

    /// Lost parts of the file, and the parts that can be read still; for people.
    pub fn damage(&self) -> Option<String> {
        self.look(|view| Ok(view.damage())).unwrap_or_else(|error| Some(error.to_string()))
    }

    /// Error of the file as a whole; for people. Its rows are not read, as they are for [`Self::damage`].
    pub fn problem(&self) -> Option<String> {
        self.first
            .problem
            .as_ref()
            .map(|problem| format!("{}: damaged: {problem}", self.path.display()))
    }

    /// The earliest and the latest time in it; `None` where it has no rows yet.
    ///
    /// # Errors
    /// Nothing of the rows can be read.
    pub fn range(&self) -> Result<Option<(u64, u64)>, RecordError> {
        self.look(RecordingView::range)
    }

    /// Names of all columns that there are between two times, both included, in the order in which
    /// they were first recorded.
    ///
    /// # Errors
    /// Part of what was requested is damaged.
    pub fn columns(
        &self,
        since_unix_ms: u64,
        until_unix_ms: u64,
    ) -> Result<Vec<String>, RecordError> {
        self.look(|view| view.columns(since_unix_ms, until_unix_ms))
    }

    /// Goes through the rows between two times, both included, in the order in which they were
    /// taken, a bounded number at a time; all are from one state of the file.
    ///
    /// # Errors
    /// Part of what was requested is damaged, or `each` failed.
    pub fn stream<E: From<RecordError>>(
        &self,
        since_unix_ms: u64,
        until_unix_ms: u64,
        mut each: impl FnMut(Table) -> Result<(), E>,
    ) -> Result<(), E> {
        self.walk(since_unix_ms, until_unix_ms, |_| Ok(()), |(), table| each(table))
    }

    /// As [`Self::stream`]; `begin` learns the names of all columns, and what it makes of them is at
    /// hand for every table, and released.
    pub(crate) fn walk<S, E: From<RecordError>>(
        &self,
        since_unix_ms: u64,
        until_unix_ms: u64,
        begin: impl FnOnce(Vec<String>) -> Result<S, E>,
        mut each: impl FnMut(&mut S, Table) -> Result<(), E>,
    ) -> Result<S, E> {
        let _hold = self.view()?.hold()?;
        let mut state = begin(self.columns(since_unix_ms, until_unix_ms)?)?;
        let mut next_row = 0;
        'state: loop {
            let view = self.view()?;
            let _hold = view.hold()?;
            let chunks = view.chunks(since_unix_ms, until_unix_ms);
            if !self.is_current(view)? {
                continue;
            }
            let mut chunks = chunks?;
            chunks.retain(|chunk| chunk.end() > next_row);
            for chunk in &chunks {
                let rows = view.rows(chunk, next_row, since_unix_ms, until_unix_ms);
                if !self.is_current(view)? {
                    continue 'state;
                }
                next_row = chunk.end();
                each(&mut state, rows?)?;
            }
            return Ok(state);
        }
    }

    /// The rows between two times, both included, in the order in which they were taken.
    ///
    /// # Errors
    /// They are more than [`MAX_TABLE_VALUES`], or part of them is damaged.
    pub fn table(&self, since_unix_ms: u64, until_unix_ms: u64) -> Result<Table, RecordError> {
        self.look(|view| view.table(since_unix_ms, until_unix_ms))
    }

    /// The ticks between two times, both included, in the order in which they were taken.
    ///
    /// # Errors
    /// They are more than [`MAX_TICKS`], or part of them is damaged.
    pub fn ticks(&self, since_unix_ms: u64, until_unix_ms: u64) -> Result<Vec<Tick>, RecordError> {
        self.look(|view| {
            let rows = view.count(since_unix_ms, until_unix_ms)?;
            view.limit(rows, MAX_TICKS, since_unix_ms, until_unix_ms)
        })?;
        let mut ticks = Vec::new();
        let mut row = Vec::new();
        self.stream(since_unix_ms, until_unix_ms, |part| {
            let names: Vec<&str> = part.columns.iter().map(|column| column.name.as_str()).collect();
            let layout = Layout::from_names(&names);
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
        self.look(RecordingView::incidents)
    }

    /// The number of the last incident; the others are not read.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn last_incident(&self) -> Result<Option<u64>, RecordError> {
        self.look(RecordingView::last_incident)
    }

    /// An incident; `None` where there is none of this number.
    ///
    /// # Errors
    /// It is damaged, or of a newer version.
    pub fn incident(&self, id: u64) -> Result<Option<Incident>, RecordError> {
        self.look(|view| view.incident(id))
    }

    /// Kills from a time on, the earliest first. None of a recording that was written before kills were recorded.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn kills(&self, since_unix_ms: u64) -> Result<Vec<ProcessKill>, RecordError> {
        self.look(|view| view.kills(since_unix_ms))
    }

    /// The latest capture that was taken at this time or before, with its time.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn capture_before(&self, unix_ms: u64) -> Result<Option<(u64, Vec<u8>)>, RecordError> {
        self.look(|view| view.capture_before(unix_ms))
    }

    /// The sizes of holders between two times, both included: at most as many samples as a week has, of more
    /// one in several. None of a recording that was written before sizes were recorded.
    ///
    /// # Errors
    /// They cannot be read, or are more than any that memwright writes.
    pub fn sizes(
        &self,
        since_unix_ms: u64,
        until_unix_ms: u64,
    ) -> Result<SizeHistory, RecordError> {
        self.sizes_of(since_unix_ms, until_unix_ms, |_| true)
    }

    /// The same of some holders.
    ///
    /// # Errors
    /// They cannot be read, or are more than any that memwright writes.
    pub fn sizes_of(
        &self,
        since_unix_ms: u64,
        until_unix_ms: u64,
        is_wanted: impl Fn(&SizedHolder) -> bool,
    ) -> Result<SizeHistory, RecordError> {
        self.look(|view| view.sizes(since_unix_ms, until_unix_ms, &is_wanted))
    }

    /// The time of the last sizes of holders; `None` where there are none.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn last_sizes(&self) -> Result<Option<u64>, RecordError> {
        self.look(RecordingView::last_sizes)
    }

    /// Looks, and looks again where a writer has begun meanwhile.
    fn look<'a, T>(
        &'a self,
        look: impl Fn(RecordingView<'a>) -> Result<T, RecordError>,
    ) -> Result<T, RecordError> {
        let view = self.view()?;
        let found = look(view);
        if self.is_current(view)? { found } else { look(self.view()?) }
    }

    /// The file as it can be read now.
    fn view(&self) -> Result<RecordingView<'_>, RecordError> {
        let opened = match self.beside.get() {
            Some(beside) => beside,
            None if self.first.is_as_it_was(&self.path) => &self.first,
            None => {
                let opened = open::beside_a_writer(&self.path)?;
                self.beside.get_or_init(|| opened)
            }
        };
        opened.work.begin();
        Ok(RecordingView { opened, path: &self.path })
    }

    /// True if what a view has shown is of one state of the file.
    fn is_current(&self, view: RecordingView<'_>) -> Result<bool, RecordError> {
        Ok(std::ptr::eq(self.view()?.opened, view.opened))
    }
}
