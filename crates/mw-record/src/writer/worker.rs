//! The writer's thread.

use super::shared::{MAX_LAYOUTS, QueuedRow, WriterCommand, WriterState, held};
use crate::incident::{self, PackedIncident};
use crate::lock::WriterLock;
use crate::store::{self, Store};
use crate::{RecordError, Retention, retention};
use mw_model::Host;
use mw_model::fair::place_to_free;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// Time that the writer waits after a failure.
const RETRY: Duration = Duration::from_secs(1);

/// Packed chunks between two rounds of thinning and deleting: an hour.
const CHUNKS_PER_ROUND: u32 = 12;

/// Incidents to write again after an error; beyond this limit the oldest of whoever has most are dropped.
const MAX_WAITING: usize = 8;

pub(super) struct WriterThread {
    path: PathBuf,
    host: Host,
    retention: Retention,
    shared: Arc<WriterState>,
    /// Open file for writing; nothing after a failure.
    open: Option<(Store, WriterLock)>,
    retry_at: Instant,
    layouts: Vec<KnownLayout>,
    /// Rows that were taken from the queue and are not written yet.
    pending: Vec<QueuedRow>,
    /// Incidents that could not be written yet.
    waiting: VecDeque<PackedIncident>,
    packed: u32,
}

/// A list of columns, and its number in the file that is open.
struct KnownLayout {
    layout: u64,
    names: Vec<String>,
    stored: Option<u64>,
}

impl WriterThread {
    pub(super) fn new(
        path: &Path,
        host: &Host,
        retention: Retention,
        shared: Arc<WriterState>,
        store: Store,
        lock: WriterLock,
    ) -> Self {
        Self {
            path: path.to_owned(),
            host: host.clone(),
            retention,
            pending: Vec::with_capacity(shared.full.capacity()),
            shared,
            open: Some((store, lock)),
            retry_at: Instant::now(),
            layouts: Vec::new(),
            waiting: VecDeque::new(),
            packed: 0,
        }
    }

    pub(super) fn run(mut self) {
        loop {
            let last = self.shared.stop.load(Ordering::Acquire);
            self.turn();
            if last {
                return;
            }
            // Whatever there is to do wakes it, but for going on after a failure.
            match self.open {
                Some(_) => thread::park(),
                None => thread::park_timeout(RETRY),
            }
        }
    }

    fn turn(&mut self) {
        self.learn_layouts();
        if self.open.is_none() && Instant::now() >= self.retry_at {
            let opened = self.reopen();
            self.note(opened);
        }
        let written = self.write_rows().and_then(|()| self.keep_waiting());
        self.note(written);
        self.obey();
    }

    /// Learns the columns of rows that follow; those of which no row is left are forgotten.
    fn learn_layouts(&mut self) {
        let new = std::mem::take(&mut held(&self.shared.layouts).new);
        if new.is_empty() {
            return;
        }
        let known = |(layout, names)| KnownLayout { layout, names, stored: None };
        self.layouts.extend(new.into_iter().map(known));
        let excess = self.layouts.len().saturating_sub(MAX_LAYOUTS);
        self.layouts.drain(..excess);
    }

    fn reopen(&mut self) -> Result<(), RecordError> {
        let lock = WriterLock::take(&self.path)?;
        let (store, notice) = Store::open(&self.path, &self.host)?;
        self.shared.last_incident.fetch_max(store.last_incident()?, Ordering::Relaxed);
        self.open = Some((store, lock));
        for known in &mut self.layouts {
            known.stored = None;
        }
        // Nobody asks for a notice after the start.
        drop(notice);
        Ok(())
    }

    /// Writes what is queued, in one transaction; then packs and thins what is due.
    fn write_rows(&mut self) -> Result<(), RecordError> {
        if self.open.is_none() {
            return Ok(());
        }
        while self.pending.len() < self.pending.capacity() {
            let Some(row) = self.shared.full.pop() else { break };
            self.pending.push(row);
        }
        if self.pending.is_empty() {
            return Ok(());
        }
        if self.pending.iter().any(|row| stored(&self.layouts, row).is_none()) {
            self.learn_layouts();
        }
        let Some((store, _)) = &mut self.open else { return Ok(()) };
        for known in self.layouts.iter_mut().filter(|known| known.stored.is_none()) {
            known.stored = Some(store.layout(&known.names)?);
        }
        let rows: Vec<store::LayoutRow<'_>> = self
            .pending
            .iter()
            .filter_map(|row| {
                let layout = stored(&self.layouts, row)?;
                Some(store::LayoutRow { unix_ms: row.unix_ms, layout, values: &row.values })
            })
            .collect();
        store.add(&rows)?;
        let unknown = self.pending.len() - rows.len();
        self.shared.dropped.fetch_add(unknown as u64, Ordering::Relaxed);
        for row in self.pending.drain(..) {
            // The buffers of earlier columns are of no use any more.
            if self.layouts.last().is_some_and(|known| known.layout == row.layout) {
                let _ = self.shared.free.push(row);
            }
        }
        held(&self.shared.trouble).take();
        self.tidy()
    }

    fn tidy(&mut self) -> Result<(), RecordError> {
        let Some((store, _)) = &mut self.open else { return Ok(()) };
        if !store.is_due() {
            return Ok(());
        }
        store.pack()?;
        if self.packed.is_multiple_of(CHUNKS_PER_ROUND) {
            retention::enforce(store, &self.retention)?;
        }
        self.packed = self.packed.wrapping_add(1);
        Ok(())
    }

    /// Keeps an incident, or notes it for another try.
    fn keep(&mut self, incident: PackedIncident) -> Result<(), RecordError> {
        let kept = match &mut self.open {
            Some((store, _)) => store.put_incident(&incident),
            None => Err(self.trouble()),
        };
        self.waiting.retain(|earlier| earlier.row.id != incident.row.id);
        if kept.is_err() {
            self.waiting.push_back(incident);
            self.make_room();
        }
        kept
    }

    fn make_room(&mut self) {
        while self.waiting.len() > MAX_WAITING {
            let sources: Vec<String> = self.waiting.iter().map(PackedIncident::source).collect();
            let place = place_to_free(sources.iter().map(|source| (source.as_str(), 1)));
            self.waiting.remove(place.unwrap_or(0));
        }
    }

    /// Retries the incidents that could not be written.
    fn keep_waiting(&mut self) -> Result<(), RecordError> {
        let Some((store, _)) = &mut self.open else { return Ok(()) };
        while let Some(incident) = self.waiting.front() {
            store.put_incident(incident)?;
            self.waiting.pop_front();
        }
        Ok(())
    }

    fn obey(&mut self) {
        loop {
            let Some(command) = held(&self.shared.commands).pop_front() else { return };
            match command {
                WriterCommand::Incident(incident, reply) => {
                    let packed = incident::pack(*incident)
                        .map_err(|source| RecordError::Io { path: self.path.clone(), source });
                    let kept = packed.and_then(|incident| self.keep(incident));
                    match reply {
                        // Whoever asked may have gone.
                        Some(reply) => drop(reply.send(kept)),
                        None => self.note(kept),
                    }
                }
                WriterCommand::Capture(unix_ms, bytes) => {
                    self.store(|store| store.add_capture(unix_ms, &bytes));
                }
                WriterCommand::Sizes(unix_ms, sizes) => {
                    self.store(|store| store.add_sizes(unix_ms, &sizes));
                }
                WriterCommand::Kills(kills) => self.store(|store| store.add_kills(&kills)),
            }
        }
    }

    /// Writes what nobody waits for; where nothing is open it is dropped, and counted.
    fn store(&mut self, write: impl FnOnce(&mut Store) -> Result<(), RecordError>) {
        let Some((store, _)) = &mut self.open else {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let kept = write(store);
        self.note(kept);
    }

    fn trouble(&self) -> RecordError {
        let why = held(&self.shared.trouble).clone().unwrap_or_default();
        RecordError::Trouble { why }
    }

    /// After a failure the file is closed, and opened again a little later.
    fn note(&mut self, done: Result<(), RecordError>) {
        let Err(error) = done else { return };
        *held(&self.shared.trouble) = Some(error.to_string());
        self.open = None;
        self.retry_at = Instant::now() + RETRY;
    }
}

/// The number that the columns of a row have in the file.
fn stored(layouts: &[KnownLayout], row: &QueuedRow) -> Option<u64> {
    layouts.iter().find(|known| known.layout == row.layout)?.stored
}
