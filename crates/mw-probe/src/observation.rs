//! Measurements of a prober, for readers that must not wait for it.

use crate::clock::{NANOS_PER_MICRO, nanos};
use crate::connection::ConnectionCell;
use crate::delivery::DeliveryCell;
use crate::timer::OverdueTimer;
use mw_model::{Connection, FailureKind, ProbeTick, SegmentDelivery};
use mw_sys::{monotonic_ns, unix_ms};
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Number of times that a reader tries to catch the last answer between two writes.
const TRIES: usize = 8;

/// The longest that a request is outstanding before [`Observation::alarm`] expires.
const MAX_ALARM: Duration = Duration::from_millis(100);

/// A request of a probe: one that waits for its answer, or one that ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProbeRequest {
    /// Counts the requests that ended, from 1; 0 while it waits for its answer.
    pub sequence: u64,
    /// Duration, so far where it waits.
    pub elapsed: Duration,
    /// Beginning, in nanoseconds (`CLOCK_MONOTONIC`).
    pub began_ns: u64,
    /// Beginning, in milliseconds since 1970.
    pub began_unix_ms: u64,
    /// True if it failed: refused, timed out or answered wrongly.
    pub failed: bool,
    /// The process of its command, where the target is one.
    pub command: Option<u32>,
    /// Delivery of its segments so far, where it waited for a TCP socket.
    pub delivery: Option<SegmentDelivery>,
}

impl ProbeRequest {
    /// End, or the time at which it was read while it waits, in nanoseconds (`CLOCK_MONOTONIC`).
    #[must_use]
    pub fn ended_ns(&self) -> u64 {
        self.began_ns.saturating_add(nanos(self.elapsed))
    }
}

/// State of a probe at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProbeReading {
    pub limit: Duration,
    /// Time that a request may be outstanding before the alarm.
    pub alarm_after: Duration,
    pub under_way: Option<ProbeRequest>,
    /// The last request that ended.
    pub last: Option<ProbeRequest>,
}

/// Failure of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeFailure {
    pub kind: FailureKind,
    /// One line without passwords, in the service's own words where it said something.
    pub text: String,
}

/// The last outages, each of which a good answer ended, the latest last.
#[derive(Debug, Default)]
struct LastOutages {
    list: VecDeque<OutageFailures>,
    is_over: bool,
}

/// The failures of an outage that differ, and how often each was: some requests may only be reset where others are told why.
#[derive(Debug)]
struct OutageFailures {
    /// Beginnings of the first and the last request that failed.
    began_unix_ms: u64,
    last_unix_ms: u64,
    list: Vec<(ProbeFailure, u32)>,
}

impl LastOutages {
    /// An incident is written some seconds after its end, when the service may have failed again.
    const MOST: usize = 8;

    /// Adds the outcome of a request that began then; a good answer ends the outage.
    fn add(&mut self, began_unix_ms: u64, failure: Option<ProbeFailure>) {
        let Some(failure) = failure else {
            self.is_over = true;
            return;
        };
        if std::mem::take(&mut self.is_over) || self.list.is_empty() {
            if self.list.len() == Self::MOST {
                self.list.pop_front();
            }
            let list = Vec::new();
            self.list.push_back(OutageFailures {
                began_unix_ms,
                last_unix_ms: began_unix_ms,
                list,
            });
        }
        if let Some(outage) = self.list.back_mut() {
            outage.last_unix_ms = began_unix_ms;
            outage.add(failure);
        }
    }

    /// The latest outage of this time.
    fn latest(&self, time: &RangeInclusive<u64>) -> Option<&OutageFailures> {
        let outages = self.list.iter().rev();
        outages
            .take_while(|outage| outage.last_unix_ms >= *time.start())
            .find(|outage| outage.began_unix_ms <= *time.end())
    }
}

impl OutageFailures {
    const MOST: usize = 8;

    fn add(&mut self, failure: ProbeFailure) {
        if let Some((_, times)) = self.list.iter_mut().find(|(known, _)| *known == failure) {
            *times = times.saturating_add(1);
            return;
        }
        self.list.truncate(Self::MOST - 1);
        self.list.push((failure, 1));
    }

    /// The most frequent one; of several the one that was first seen last.
    fn main(&self) -> Option<&ProbeFailure> {
        self.list.iter().max_by_key(|(_, times)| *times).map(|(failure, _)| failure)
    }
}

/// Shared by the thread that probes and those that read its results.
#[derive(Debug)]
pub(crate) struct Observation {
    /// The thread that probes; 0 until it runs.
    thread: AtomicU32,
    /// Beginning of the probe under way, in nanoseconds (`CLOCK_MONOTONIC`); 0 when there is none.
    began: AtomicU64,
    began_unix_ms: AtomicU64,
    answers: AtomicU64,
    failures: AtomicU64,
    worst_us: AtomicU64,
    last: LastRequest,
    outages: Mutex<LastOutages>,
    limit: Duration,
    pub(crate) overdue: OverdueTimer,
    /// Expires well before the limit, so that tracing begins while the request waits.
    pub(crate) alarm: OverdueTimer,
    pub(crate) connection: ConnectionCell,
}

/// The last request that ended. `version` is odd while it is written, and twice its sequence otherwise.
#[derive(Debug, Default)]
struct LastRequest {
    version: AtomicU64,
    elapsed_ns: AtomicU64,
    began_ns: AtomicU64,
    began_unix_ms: AtomicU64,
    failed: AtomicBool,
    /// 0 where the target is no command.
    command: AtomicU32,
    delivery: DeliveryCell,
}

impl Observation {
    /// `overdue` expires when a probe takes longer than `limit`, or fails.
    pub(crate) fn new(limit: Duration) -> std::io::Result<Self> {
        Ok(Self {
            thread: AtomicU32::new(0),
            began: AtomicU64::new(0),
            began_unix_ms: AtomicU64::new(0),
            answers: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            worst_us: AtomicU64::new(0),
            last: LastRequest::default(),
            outages: Mutex::new(LastOutages::default()),
            limit,
            overdue: OverdueTimer::new()?,
            alarm: OverdueTimer::new()?,
            connection: ConnectionCell::default(),
        })
    }

    /// The calling thread is the one that probes.
    pub(crate) fn set_thread(&self) {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        self.thread.store(thread.unsigned_abs(), SeqCst);
    }

    pub(crate) fn thread(&self) -> Option<u32> {
        Some(self.thread.load(SeqCst)).filter(|thread| *thread > 0)
    }

    pub(crate) fn begin(&self) {
        self.connection.delivery.begin_request();
        self.began_unix_ms.store(unix_ms(), SeqCst);
        self.began.store(monotonic_ns().max(1), SeqCst);
        self.overdue.expire_in(self.limit);
        self.alarm.expire_in(self.alarm_after());
    }

    /// Time that a request may be outstanding before the alarm.
    pub(crate) fn alarm_after(&self) -> Duration {
        (self.limit / 2).min(MAX_ALARM)
    }

    /// It ended, and how it failed if it did.
    pub(crate) fn end(&self, failure: Option<ProbeFailure>) {
        let failed = failure.is_some();
        let request = ProbeRequest { failed, ..self.under_way().unwrap_or_default() };
        let mut outages = self.outages.lock().unwrap_or_else(PoisonError::into_inner);
        outages.add(request.began_unix_ms, failure);
        drop(outages);
        // In this order, and taken in the other, no failure is counted without its answer.
        self.answers.fetch_add(1, SeqCst);
        self.failures.fetch_add(failed.into(), SeqCst);
        self.worst_us.fetch_max(nanos(request.elapsed) / NANOS_PER_MICRO, SeqCst);
        self.last.write(&request);
        self.began.store(0, SeqCst);
        if request.elapsed < self.alarm_after() {
            self.alarm.cancel();
        }
        if failed {
            self.overdue.expire_in(Duration::ZERO);
        } else if request.elapsed < self.limit {
            self.overdue.cancel();
        }
    }

    pub(crate) fn under_way(&self) -> Option<ProbeRequest> {
        let began = self.began.load(SeqCst);
        let began_unix_ms = self.began_unix_ms.load(SeqCst);
        // The next one may have begun between the two.
        if began == 0 || self.began.load(SeqCst) != began {
            return None;
        }
        let elapsed = Duration::from_nanos(monotonic_ns().saturating_sub(began));
        Some(ProbeRequest {
            elapsed,
            began_ns: began,
            began_unix_ms,
            command: self.connection.command(),
            delivery: self.connection.delivery.read().map(|delivery| self.with_peer(delivery)),
            ..ProbeRequest::default()
        })
    }

    pub(crate) fn last(&self) -> Option<ProbeRequest> {
        let last = (0..TRIES).find_map(|_| self.last.read()).filter(|last| last.sequence > 0)?;
        let delivery = last.delivery.map(|delivery| self.with_peer(delivery));
        Some(ProbeRequest { delivery, ..last })
    }

    /// Delivery with the other end of the last connection.
    fn with_peer(&self, delivery: SegmentDelivery) -> SegmentDelivery {
        let peer = match self.connection.read(None) {
            Some(Connection::Tcp { peer, .. }) => Some(peer),
            _ => None,
        };
        SegmentDelivery { peer, ..delivery }
    }

    /// The most frequent failure of the last outage of this time.
    pub(crate) fn main_failure(&self, unix_ms: &RangeInclusive<u64>) -> Option<ProbeFailure> {
        let outages = self.outages.lock().unwrap_or_else(PoisonError::into_inner);
        outages.latest(unix_ms)?.main().cloned()
    }

    pub(crate) fn reading(&self) -> ProbeReading {
        ProbeReading {
            limit: self.limit,
            alarm_after: self.alarm_after(),
            under_way: self.under_way(),
            last: self.last(),
        }
    }

    /// Measurements since the last call.
    pub(crate) fn take_into(&self, tick: &mut ProbeTick) {
        let under_way = self.under_way().map_or(0, |probe| nanos(probe.elapsed) / NANOS_PER_MICRO);
        tick.failures = self.failures.swap(0, SeqCst);
        tick.answers = self.answers.swap(0, SeqCst);
        tick.worst_us = self.worst_us.swap(0, SeqCst).max(under_way);
    }
}

impl LastRequest {
    fn write(&self, request: &ProbeRequest) {
        self.version.fetch_add(1, SeqCst);
        self.elapsed_ns.store(nanos(request.elapsed), SeqCst);
        self.began_ns.store(request.began_ns, SeqCst);
        self.began_unix_ms.store(request.began_unix_ms, SeqCst);
        self.failed.store(request.failed, SeqCst);
        self.command.store(request.command.unwrap_or(0), SeqCst);
        self.delivery.store(request.delivery);
        self.version.fetch_add(1, SeqCst);
    }

    fn read(&self) -> Option<ProbeRequest> {
        let version = self.version.load(SeqCst);
        let last = ProbeRequest {
            sequence: version / 2,
            elapsed: Duration::from_nanos(self.elapsed_ns.load(SeqCst)),
            began_ns: self.began_ns.load(SeqCst),
            began_unix_ms: self.began_unix_ms.load(SeqCst),
            failed: self.failed.load(SeqCst),
            command: Some(self.command.load(SeqCst)).filter(|pid| *pid > 0),
            delivery: self.delivery.read(),
        };
        (version.is_multiple_of(2) && self.version.load(SeqCst) == version).then_some(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_seen_whole_while_others_are_written() {
        const ANSWERS: u64 = 100_000;
        let last = LastRequest::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..=ANSWERS {
                    last.write(&ProbeRequest {
                        elapsed: Duration::from_nanos(number),
                        began_ns: number,
                        began_unix_ms: number,
                        failed: number % 3 == 0,
                        ..ProbeRequest::default()
                    });
                }
            });
            let mut seen = 0;
            while seen < ANSWERS {
                let Some(answer) = last.read() else { continue };
                assert!(answer.sequence >= seen, "{answer:?} after {seen}");
                seen = answer.sequence;
                assert_eq!((answer.began_unix_ms, answer.elapsed.as_nanos()), (seen, seen.into()));
                assert_eq!(answer.failed, seen > 0 && seen % 3 == 0);
            }
        });
    }

    /// Promise (The recorder): Of the failures of an outage the most frequent is told.
    #[test]
    fn the_most_frequent_failure_of_an_outage_is_told() {
        let mut outages = LastOutages::default();
        let failure = |text: &str| ProbeFailure { kind: FailureKind::Other, text: text.to_owned() };
        for text in ["cannot fork", "reset", "cannot fork", "reset", "cannot fork", "reset", "late"]
        {
            outages.add(1000, Some(failure(text)));
        }
        let main = |outages: &LastOutages, from, to| outages.latest(&(from..=to))?.main().cloned();
        assert_eq!(main(&outages, 0, 2000), Some(failure("reset")), "of two the latter");
        assert_eq!(main(&outages, 0, 999), None);
        assert_eq!(main(&outages, 1001, 2000), None, "it was over");
        outages.add(2000, None);
        assert_eq!(main(&outages, 500, 9000), Some(failure("reset")), "until the next outage");
        for number in 0..100 {
            outages.add(3000 + number, Some(failure(&number.to_string())));
        }
        assert_eq!(main(&outages, 500, 9000), Some(failure("99")));
        assert_eq!(main(&outages, 500, 2500), Some(failure("reset")), "the former outage");
        assert_eq!(outages.list[1].list.len(), OutageFailures::MOST);
        for began in 0..100 {
            outages.add(4000 + began, None);
            outages.add(4000 + began, Some(failure("late")));
        }
        assert_eq!(outages.list.len(), LastOutages::MOST);
    }

    #[test]
    fn what_is_under_way_counts_until_it_has_ended() {
        let state = Observation::new(Duration::from_secs(1000)).unwrap();
        let mut tick = ProbeTick::default();
        assert!(state.under_way().is_none() && state.last().is_none());
        state.begin();
        std::thread::sleep(Duration::from_millis(5));
        assert!(state.under_way().unwrap().elapsed >= Duration::from_millis(5));
        state.take_into(&mut tick);
        assert!(tick.answers == 0 && tick.worst_us >= 5_000, "{tick:?}");
        let failure = ProbeFailure { kind: FailureKind::Refused, text: "refused".to_owned() };
        state.end(Some(failure.clone()));
        assert!(state.under_way().is_none());
        let last = state.last().unwrap();
        assert!(last.failed && last.sequence == 1 && last.elapsed >= Duration::from_millis(5));
        state.take_into(&mut tick);
        assert!((tick.answers, tick.failures) == (1, 1) && tick.worst_us >= 5_000, "{tick:?}");
        state.take_into(&mut tick);
        assert_eq!(tick, ProbeTick::default());
        assert_eq!(state.main_failure(&(0..=unix_ms())), Some(failure));
    }
}
