//! The threads that deliver, one for each table.

use crate::Notice;
use crate::deliver::deliver;
use crate::failed::Failed;
use crate::grouping::Grouping;
use crate::table::Table;
use mw_model::Incident;
use mw_sys::join_within;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Messages that wait for one table.
pub const MAX_QUEUED: usize = 64;

/// Lines that wait for the log.
const MAX_LINES: usize = 64;

/// How long a message is tried again, and the longest pause between two tries.
const RETRY_FOR: Duration = Duration::from_secs(15 * 60);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// How long the end of a recorder waits for messages under way.
pub const FINISH_LIMIT: Duration = Duration::from_secs(2);

/// Where nothing is held back.
const IDLE: Duration = Duration::from_secs(3600);

#[derive(Debug)]
pub struct Notifier {
    workers: Vec<Worker>,
    lines: Receiver<String>,
    stop: Arc<Stop>,
}

#[derive(Debug)]
struct Worker {
    table: Arc<Table>,
    queue: SyncSender<Notice>,
    dropped: Arc<AtomicU64>,
    waiting: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Stop {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    fn set(&self) {
        *self.is_set.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    fn is_set(&self) -> bool {
        *self.is_set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets time pass; `false` where it is to stop.
    fn rest(&self, time: Duration) -> bool {
        let state = self.is_set.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(state, time, |is_set| !*is_set);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Notifier {
    /// # Errors
    /// The kernel gives no thread.
    pub fn start(tables: Vec<Table>) -> io::Result<Self> {
        let (log, lines) = sync_channel(MAX_LINES);
        let stop: Arc<Stop> = Arc::default();
        let mut workers = Vec::new();
        for (place, table) in tables.into_iter().enumerate() {
            let (queue, messages) = sync_channel(MAX_QUEUED);
            let (dropped, waiting) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
            let table = Arc::new(table);
            let delivery = Delivery {
                grouping: Grouping::new(table.limits()),
                table: Arc::clone(&table),
                dropped: Arc::clone(&dropped),
                waiting: Arc::clone(&waiting),
                stop: Arc::clone(&stop),
                log: log.clone(),
                began: Instant::now(),
            };
            let thread = std::thread::Builder::new().name(format!("mw-notify-{place}"));
            let thread = thread.spawn(move || delivery.run(&messages))?;
            workers.push(Worker { table, queue, dropped, waiting, thread });
        }
        Ok(Self { workers, lines, stop })
    }

    /// Queues a message for each table that wants it. Never waits.
    pub fn tell(&self, incident: &Incident) {
        let notice = Notice::new(incident);
        for worker in self.workers.iter().filter(|worker| worker.table.filter.takes(&notice)) {
            worker.waiting.fetch_add(1, Ordering::Relaxed);
            if let Err(TrySendError::Full(_)) = worker.queue.try_send(notice.clone()) {
                worker.waiting.fetch_sub(1, Ordering::Relaxed);
                worker.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// What there is to log.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        self.lines.try_iter()
    }

    /// Ends it: what is queued is tried once more, within [`FINISH_LIMIT`]. What there is to log of it.
    #[must_use]
    pub fn finish(self) -> Vec<String> {
        self.stop.set();
        let until = Instant::now() + FINISH_LIMIT;
        let mut lines = Vec::new();
        for Worker { table, queue, thread, waiting, .. } in self.workers {
            drop(queue);
            join_within(thread, until.saturating_duration_since(Instant::now()));
            let left = waiting.load(Ordering::Relaxed);
            if left > 0 {
                let name = &table.name;
                lines.push(format!("notify {name}: not delivered before the end: {left}"));
            }
        }
        self.lines.try_iter().chain(lines).collect()
    }
}

/// The work of one thread.
struct Delivery {
    table: Arc<Table>,
    grouping: Grouping,
    dropped: Arc<AtomicU64>,
    /// Messages that were queued and not dealt with yet.
    waiting: Arc<AtomicU64>,
    stop: Arc<Stop>,
    log: SyncSender<String>,
    began: Instant,
}

impl Delivery {
    fn run(mut self, messages: &Receiver<Notice>) {
        loop {
            let now = self.began.elapsed();
            let wait = self.grouping.next().map_or(IDLE, |next| next.saturating_sub(now));
            let mut taken = 0;
            let ready = match messages.recv_timeout(wait) {
                Ok(notice) => {
                    taken = 1;
                    self.grouping.offer(self.began.elapsed(), notice).into_iter().collect()
                }
                Err(RecvTimeoutError::Timeout) => self.grouping.due(self.began.elapsed()),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            for notice in ready {
                self.send(&notice);
            }
            self.waiting.fetch_sub(taken, Ordering::Relaxed);
            self.report_losses();
        }
    }

    /// Delivers a message, with more than one try while the recorder runs.
    fn send(&self, notice: &Notice) {
        let began = Instant::now();
        let mut pause = FIRST_PAUSE;
        let mut tries = 0_u32;
        loop {
            tries += 1;
            let failed = match deliver(&self.table, notice) {
                Ok(()) if tries == 1 => return,
                Ok(()) => return self.say(format!("delivered at try {tries}")),
                Err(failed) => failed,
            };
            let Failed { text, again, after } = failed;
            let rest = after.unwrap_or(pause);
            let is_last = !again || began.elapsed() + rest > RETRY_FOR || self.stop.is_set();
            if is_last {
                return self.say(format!("incident {} not delivered: {text}", notice.incident));
            }
            if tries == 1 {
                self.say(format!("incident {} not yet delivered: {text}", notice.incident));
            }
            // The last try is made at once where the recorder stops.
            let _ = self.stop.rest(rest);
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    fn report_losses(&mut self) {
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            self.say(format!("{dropped} incidents dropped: {MAX_QUEUED} wait already"));
        }
        let refused = std::mem::take(&mut self.grouping.refused);
        if refused > 0 {
            let limit = self.table.max_per_hour;
            self.say(format!("{refused} incidents not reported: more than {limit} in an hour"));
        }
    }

    fn say(&self, line: String) {
        // A log that nobody reads loses lines, not the recorder time.
        let _ = self.log.try_send(format!("notify {}: {line}", self.table.name));
    }
}
