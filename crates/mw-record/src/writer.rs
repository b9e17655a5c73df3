//! The writer: a thread behind a bounded queue.

mod shared;
mod worker;

use crate::codec::MAX_COLUMNS;
use crate::lock::WriterLock;
use crate::store::Store;
use crate::{RecordError, Retention};
use crossbeam_queue::ArrayQueue;
use mw_model::{HolderSize, Host, Incident, NO_VALUE, ProcessKill};
use shared::{MAX_LAYOUTS, QueuedRow, WriterCommand, WriterState, held};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use worker::WriterThread;

/// Rows that may wait for the writer: a minute of a disk that does not answer.
const QUEUE_ROWS: usize = 64;

/// Values that may wait for the writer, 4 MiB: of rows of very many columns fewer may wait.
const QUEUE_CELLS: usize = 512 << 10;

/// Rows that may wait for the writer however many columns they have.
const MIN_QUEUE_ROWS: usize = 8;

/// Captures, sizes and incidents that may wait for the writer.
const MAX_COMMANDS: usize = 16;

/// Time limit for writing an incident before the caller goes on: a disk may not respond.
const KEEP_LIMIT: Duration = Duration::from_secs(10);

/// From one look at whether the thread has ended to the next.
const LOOK: Duration = Duration::from_millis(2);

/// Writes a recording, in a thread of its own.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    notice: Option<String>,
    shared: Arc<WriterState>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Opens a recording, or makes it, and starts the thread that writes.
    ///
    /// A recording that is damaged is moved to `PATH.damaged`, one of a newer version to `PATH.newer`, and begun
    /// anew; [`Self::notice`] says so.
    ///
    /// # Errors
    /// Another process records into it, it is another kind of file, or the file system refuses it.
    pub fn start(path: &Path, host: &Host, retention: Retention) -> Result<Self, RecordError> {
        let lock = WriterLock::take(path)?;
        let (mut store, notice) = Store::open(path, host)?;
        store.interrupt_open_incidents()?;
        let shared = Arc::new(WriterState {
            free: ArrayQueue::new(QUEUE_ROWS),
            full: ArrayQueue::new(QUEUE_ROWS),
            layouts: Mutex::default(),
            commands: Mutex::default(),
            trouble: Mutex::default(),
            dropped: AtomicU64::new(0),
            last_incident: AtomicU64::new(store.last_incident()?),
            stop: AtomicBool::new(false),
            given_up: AtomicBool::new(false),
        });
        let worker = WriterThread::new(path, host, retention, shared.clone(), store, lock);
        let thread = thread::Builder::new()
            .name("mw-record".to_owned())
            .spawn(|| worker.run())
            .map_err(|source| RecordError::Io { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), notice, shared, thread: Some(thread) })
    }

    /// Repair of the file at the start, for people.
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// Says which columns the rows that follow have: before the first row, and when they change.
    /// Allocates the buffers of the rows; columns beyond 65,536 are not recorded.
    pub fn layout(&self, names: &[String]) {
        let names = names.get(..MAX_COLUMNS).unwrap_or(names);
        let layout = {
            let mut layouts = held(&self.shared.layouts);
            layouts.count += 1;
            if layouts.new.len() == MAX_LAYOUTS {
                layouts.new.remove(0);
            }
            let layout = layouts.count;
            layouts.new.push((layout, names.to_vec()));
            layout
        };
        while self.shared.free.pop().is_some() {}
        let rows = (QUEUE_CELLS / names.len().max(1)).clamp(MIN_QUEUE_ROWS, QUEUE_ROWS);
        for _ in 0..rows {
            let values = vec![NO_VALUE; names.len()].into_boxed_slice();
            let _ = self.shared.free.push(QueuedRow { layout, unix_ms: 0, values });
        }
    }

    /// Hands a row over, in the order of the columns, and wakes the writer. Allocates nothing and
    /// waits for nothing. False where the queue is full: the row is dropped, and counted.
    pub fn offer(&self, unix_ms: u64, row: &[u64]) -> bool {
        let taken = self.queue(unix_ms, row);
        self.wake();
        taken
    }

    /// As [`Writer::offer`], without waking the writer: the row is written with what is offered next.
    pub fn queue(&self, unix_ms: u64, row: &[u64]) -> bool {
        let taken = self.shared.free.pop().is_some_and(|mut buffer| {
            buffer.unix_ms = unix_ms;
            let values = row.iter().copied().chain(std::iter::repeat(NO_VALUE));
            buffer.values.iter_mut().zip(values).for_each(|(slot, value)| *slot = value);
            self.shared.full.push(buffer).is_ok()
        });
        if !taken {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    /// A number for a new incident, which no other one gets.
    pub fn number_incident(&self) -> u64 {
        self.shared.last_incident.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Keeps an incident and gives its number: its own, or a new one where that is 0. It replaces the
    /// incident that has this number. Waits for the writer, for 10 s at most: not for a thread that must be punctual.
    ///
    /// # Errors
    /// It could not be written, or not yet. It is tried again after the next rows that can be, unless eight later
    /// ones wait for that too; what still waits when the writer ends is lost.
    pub fn keep_incident(&self, incident: Incident) -> Result<u64, RecordError> {
        self.keep_incident_within(KEEP_LIMIT, incident)
    }

    fn keep_incident_within(
        &self,
        limit: Duration,
        incident: Incident,
    ) -> Result<u64, RecordError> {
        let stopped = || RecordError::Stopped { path: self.path.clone() };
        let id = if incident.id == 0 { self.number_incident() } else { incident.id };
        let (reply, answer) = mpsc::channel();
        let incident = Box::new(Incident { id, ..incident });
        if !self.command(WriterCommand::Incident(incident, Some(reply))) {
            return Err(stopped());
        }
        match answer.recv_timeout(limit) {
            Ok(kept) => kept?,
            Err(RecvTimeoutError::Disconnected) => return Err(stopped()),
            Err(RecvTimeoutError::Timeout) => {
                let why = format!("{}: no answer within {limit:?}", self.path.display());
                return Err(RecordError::Trouble { why });
            }
        }
        Ok(id)
    }

    /// Replaces the incident of this number, without waiting, as often as it changes while it is open:
    /// what is not written yet is replaced in the queue. One that finds a long queue is dropped, and
    /// counted.
    pub fn update_incident(&self, incident: Incident) {
        let mut incident = Box::new(incident);
        for command in held(&self.shared.commands).iter_mut() {
            if let WriterCommand::Incident(queued, _) = command
                && queued.id == incident.id
            {
                std::mem::swap(queued, &mut incident);
                return;
            }
        }
        if !self.command(WriterCommand::Incident(incident, None)) {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Keeps a capture, as `memwright capture` writes it, without waiting; one that finds a long
    /// queue is dropped, and counted.
    pub fn keep_capture(&self, unix_ms: u64, bytes: Vec<u8>) {
        if !self.command(WriterCommand::Capture(unix_ms, bytes)) {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Keeps the sizes of holders at a time, without waiting: of more than 256 the first. Sizes that find a
    /// long queue are dropped, and counted.
    pub fn keep_sizes(&self, unix_ms: u64, sizes: Vec<HolderSize>) {
        if !self.command(WriterCommand::Sizes(unix_ms, sizes)) {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Keeps kills, without waiting: of more than 256 the first. Kills that find a long queue are dropped, and counted.
    pub fn keep_kills(&self, kills: Vec<ProcessKill>) {
        if !self.command(WriterCommand::Kills(kills)) {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn command(&self, command: WriterCommand) -> bool {
        {
            let mut commands = held(&self.shared.commands);
            if commands.len() == MAX_COMMANDS {
                return false;
            }
            commands.push_back(command);
        }
        self.wake();
        true
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// Writes what is queued and ends, as dropping does, but waits no longer than this: a disk or a
    /// server may not respond. Whether it ended in time.
    pub fn finish(&self, at_most: Duration) -> bool {
        self.shared.stop.store(true, Ordering::Release);
        self.wake();
        let begun = Instant::now();
        let is_running = || self.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        while is_running() && begun.elapsed() < at_most {
            thread::sleep(LOOK);
        }
        self.shared.given_up.store(is_running(), Ordering::Relaxed);
        !is_running()
    }

    /// Rows, captures, sizes and updates of incidents that were dropped since the start.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Obstacle that keeps the writer from writing now; it goes on trying, and drops what does not fit into
    /// its queue.
    pub fn trouble(&self) -> Option<String> {
        held(&self.shared.trouble).clone()
    }
}

impl Drop for Writer {
    /// Writes what is queued; what cannot be written at the first attempt is lost.
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.wake();
        if let Some(thread) = self.thread.take()
            && !self.shared.given_up.load(Ordering::Relaxed)
        {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that does not respond, as another connection that holds the file.
    #[test]
    fn whoever_keeps_an_incident_does_not_wait_for_the_disk_for_ever() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("recording.db");
        let writer = Writer::start(&path, &Host::default(), Retention::default()).unwrap();
        let other = rusqlite::Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let limit = Duration::from_millis(20);
        let late = writer.keep_incident_within(limit, Incident::default());
        assert!(
            matches!(&late, Err(RecordError::Trouble { why }) if why.contains("no answer")),
            "{late:?}"
        );
        other.execute_batch("COMMIT").unwrap();
        let count = || other.query_row("SELECT count(*) FROM incident", [], |row| row.get(0));
        mw_test::wait_until("it is kept", Duration::from_secs(30), || count() == Ok(1_u64));
    }
}
