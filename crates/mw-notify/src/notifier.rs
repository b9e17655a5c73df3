//! The threads that deliver, one for each table.

use crate::Notice;
use crate::attempts::{Attempt, Attempts, DeliveryFate};
use crate::deliver::deliver;
use crate::queue::{MAX_QUEUED, NextNotice, NoticeQueue};
use crate::receiver_config::ReceiverConfig;
use crate::schedule::Schedule;
use mw_model::{Incident, IncidentState, format_count};
use mw_sys::join_within;
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Lines that wait for the log.
const MAX_LINES: usize = 64;

/// Time that the end of a recorder waits for messages under way.
pub const FINISH_LIMIT: Duration = Duration::from_secs(2);

/// Wait for messages if nothing is held back.
const IDLE: Duration = Duration::from_secs(3600);

/// Incidents that last and were passed to a table, of which the end is passed on as well.
const MAX_OPEN: usize = 1024;

#[derive(Debug)]
pub struct Notifier {
    workers: Vec<ReceiverThread>,
    lines: Receiver<String>,
}

#[derive(Debug)]
struct ReceiverThread {
    table: Arc<ReceiverConfig>,
    queue: Arc<NoticeQueue>,
    /// Messages that are tried, or tried again.
    trying: Arc<AtomicUsize>,
    /// Keys of incidents that were passed on while they lasted.
    open: Mutex<BTreeSet<String>>,
    thread: JoinHandle<()>,
}

impl Notifier {
    /// # Errors
    /// The kernel gives no thread.
    pub fn start(tables: Vec<ReceiverConfig>) -> io::Result<Self> {
        let (log, lines) = sync_channel(MAX_LINES);
        let mut workers = Vec::new();
        for (place, table) in tables.into_iter().enumerate() {
            let (queue, trying) = (Arc::<NoticeQueue>::default(), Arc::<AtomicUsize>::default());
            let table = Arc::new(table);
            let delivery = Delivery {
                schedule: Schedule::new(&table),
                attempts: Attempts::default(),
                table: Arc::clone(&table),
                queue: Arc::clone(&queue),
                trying: Arc::clone(&trying),
                dropped: 0,
                log: log.clone(),
                began: Instant::now(),
            };
            let thread = std::thread::Builder::new().name(format!("mw-notify-{place}"));
            let thread = thread.spawn(move || delivery.run())?;
            workers.push(ReceiverThread { table, queue, trying, open: Mutex::default(), thread });
        }
        Ok(Self { workers, lines })
    }

    /// Queues a message for each table that may want it. Never waits.
    pub fn tell(&self, incident: &Incident) {
        let notice = Notice::new(incident);
        for worker in self.workers.iter().filter(|worker| worker.wants(&notice)) {
            worker.queue.push(notice.clone());
        }
    }

    /// Lines for the log.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        self.lines.try_iter()
    }

    /// Ends it: what is queued is tried once more, within [`FINISH_LIMIT`]. What there is to log of it.
    #[must_use]
    pub fn finish(self) -> Vec<String> {
        self.workers.iter().for_each(|worker| worker.queue.close());
        let until = Instant::now() + FINISH_LIMIT;
        let mut lines = Vec::new();
        for ReceiverThread { table, queue, thread, trying, .. } in self.workers {
            join_within(thread, until.saturating_duration_since(Instant::now()));
            let left = queue.len() + trying.load(Ordering::Relaxed);
            if left > 0 {
                let name = &table.name;
                lines.push(format!("notify {name}: not delivered before the end: {left}"));
            }
        }
        self.lines.try_iter().chain(lines).collect()
    }
}

impl ReceiverThread {
    /// True if a message is for this table, by its filter; that an incident is over, wherever its beginning was.
    fn wants(&self, notice: &Notice) -> bool {
        let takes = self.table.filter.takes(notice);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if notice.state != IncidentState::Open {
            return open.remove(&notice.key()) || takes;
        }
        if takes && open.len() < MAX_OPEN {
            open.insert(notice.key());
        }
        takes
    }
}

/// The work of one thread.
struct Delivery {
    table: Arc<ReceiverConfig>,
    queue: Arc<NoticeQueue>,
    schedule: Schedule,
    attempts: Attempts,
    trying: Arc<AtomicUsize>,
    /// Messages that had to go for others.
    dropped: u64,
    log: SyncSender<String>,
    began: Instant,
}

impl Delivery {
    fn run(mut self) {
        loop {
            let now = self.began.elapsed();
            let next = self.schedule.next().into_iter().chain(self.attempts.next()).min();
            match self.queue.pop(next.map_or(IDLE, |next| next.saturating_sub(now))) {
                NextNotice::Notice(notice) => {
                    let ready = self.schedule.offer(self.began.elapsed(), *notice);
                    ready.into_iter().for_each(|notice| self.add(notice));
                }
                NextNotice::Nothing => {}
                NextNotice::Closed => break,
            }
            for notice in self.schedule.due(self.began.elapsed()) {
                self.add(notice);
            }
            // One at a time: a more urgent one may have come meanwhile.
            if let Some(attempt) = self.attempts.take(self.began.elapsed(), false) {
                self.send(attempt);
            }
            self.report_losses();
        }
        while let Some(attempt) = self.attempts.take(self.began.elapsed(), true) {
            self.send(attempt);
        }
    }

    fn add(&mut self, notice: Notice) {
        self.dropped += self.attempts.add(self.began.elapsed(), notice);
        self.trying.store(self.attempts.len(), Ordering::Relaxed);
    }

    /// Tries to deliver a message; where that fails, it is tried again while the recorder runs.
    fn send(&mut self, attempt: Attempt) {
        let (incident, tries) = (attempt.notice.incident, attempt.tries);
        self.trying.store(self.attempts.len() + 1, Ordering::Relaxed);
        let delivered = deliver(&self.table, &attempt.notice);
        let is_last = self.queue.is_closed();
        match delivered {
            Ok(()) if tries > 1 => self.say(format!("delivered at try {tries}")),
            Ok(()) => {}
            Err(failed) => {
                let now = self.began.elapsed();
                let verdict = if is_last {
                    DeliveryFate::GivenUp
                } else {
                    self.attempts.failed(now, attempt, &failed)
                };
                match verdict {
                    DeliveryFate::GivenUp => {
                        self.say(format!("incident {incident} not delivered: {failed}"));
                    }
                    DeliveryFate::Again if tries == 1 => {
                        self.say(format!("incident {incident} not yet delivered: {failed}"));
                    }
                    DeliveryFate::Again => {}
                }
            }
        }
        self.trying.store(self.attempts.len(), Ordering::Relaxed);
    }

    fn report_losses(&mut self) {
        let dropped = self.queue.take_dropped() + std::mem::take(&mut self.dropped);
        if dropped > 0 {
            let dropped = format_count(dropped, "incident");
            self.say(format!("{dropped} dropped: {MAX_QUEUED} wait already"));
        }
        let refused = self.schedule.take_refused();
        if refused > 0 {
            let limit = self.table.max_per_hour;
            let refused = format_count(refused, "incident");
            self.say(format!(
                "{refused} not reported: more than {limit} in an hour of one probe or cgroup"
            ));
        }
    }

    fn say(&self, line: String) {
        // A log that nobody reads loses lines, not the recorder time.
        let _ = self.log.try_send(format!("notify {}: {line}", self.table.name));
    }
}
