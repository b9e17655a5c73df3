//! What a prober measures, for readers that must not wait for it.

use crate::clock::{NANOS_PER_MICRO, nanos};
use crate::connection::ConnectionCell;
use crate::timer::OverdueTimer;
use mw_model::{FailureKind, ProbeTick};
use mw_sys::{monotonic_ns, unix_ms};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Number of times that a reader tries to catch the last answer between two writes.
const TRIES: usize = 8;

/// The longest that a request is outstanding before [`Observation::alarm`] expires.
const MAX_ALARM: Duration = Duration::from_millis(100);

/// The probe that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnderWay {
    /// Duration.
    pub elapsed: Duration,
    /// Beginning, in nanoseconds (`CLOCK_MONOTONIC`).
    pub began_ns: u64,
    /// Beginning, in milliseconds since 1970.
    pub began_unix_ms: u64,
}

/// The last probe that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastAnswer {
    /// Counts the probes that ended, from 1.
    pub sequence: u64,
    pub elapsed: Duration,
    /// Beginning, in nanoseconds (`CLOCK_MONOTONIC`).
    pub began_ns: u64,
    /// Beginning, in milliseconds since 1970.
    pub began_unix_ms: u64,
    /// True if it failed: refused, timed out or answered wrongly.
    pub failed: bool,
}

/// Failure of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeFailure {
    pub kind: FailureKind,
    /// One line without passwords, in the service's own words where it said something.
    pub text: String,
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
    last: Last,
    last_failure: Mutex<Option<ProbeFailure>>,
    limit: Duration,
    pub(crate) overdue: OverdueTimer,
    /// Expires well before the limit, so that tracing begins while the request waits.
    pub(crate) alarm: OverdueTimer,
    pub(crate) connection: ConnectionCell,
}

/// The last answer. `version` is odd while it is written, and twice the sequence otherwise.
#[derive(Debug, Default)]
struct Last {
    version: AtomicU64,
    elapsed_ns: AtomicU64,
    began_ns: AtomicU64,
    began_unix_ms: AtomicU64,
    failed: AtomicBool,
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
            last: Last::default(),
            last_failure: Mutex::new(None),
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
        let began = self.began.load(SeqCst);
        let elapsed = monotonic_ns().saturating_sub(began);
        let failed = failure.is_some();
        if failed {
            *self.last_failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
        }
        // In this order, and taken in the other, no failure is counted without its answer.
        self.answers.fetch_add(1, SeqCst);
        self.failures.fetch_add(failed.into(), SeqCst);
        self.worst_us.fetch_max(elapsed / NANOS_PER_MICRO, SeqCst);
        self.last.write(elapsed, began, self.began_unix_ms.load(SeqCst), failed);
        self.began.store(0, SeqCst);
        if elapsed < nanos(self.alarm_after()) {
            self.alarm.cancel();
        }
        if failed {
            self.overdue.expire_in(Duration::ZERO);
        } else if elapsed < nanos(self.limit) {
            self.overdue.cancel();
        }
    }

    pub(crate) fn under_way(&self) -> Option<UnderWay> {
        let began = self.began.load(SeqCst);
        let began_unix_ms = self.began_unix_ms.load(SeqCst);
        // The next one may have begun between the two.
        if began == 0 || self.began.load(SeqCst) != began {
            return None;
        }
        let elapsed = Duration::from_nanos(monotonic_ns().saturating_sub(began));
        Some(UnderWay { elapsed, began_ns: began, began_unix_ms })
    }

    pub(crate) fn last(&self) -> Option<LastAnswer> {
        (0..TRIES).find_map(|_| self.last.read()).filter(|last| last.sequence > 0)
    }

    pub(crate) fn last_failure(&self) -> Option<ProbeFailure> {
        self.last_failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Measurements since the last call.
    pub(crate) fn take_into(&self, tick: &mut ProbeTick) {
        let under_way = self.under_way().map_or(0, |probe| nanos(probe.elapsed) / NANOS_PER_MICRO);
        tick.failures = self.failures.swap(0, SeqCst);
        tick.answers = self.answers.swap(0, SeqCst);
        tick.worst_us = self.worst_us.swap(0, SeqCst).max(under_way);
    }
}

impl Last {
    fn write(&self, elapsed_ns: u64, began_ns: u64, began_unix_ms: u64, failed: bool) {
        self.version.fetch_add(1, SeqCst);
        self.elapsed_ns.store(elapsed_ns, SeqCst);
        self.began_ns.store(began_ns, SeqCst);
        self.began_unix_ms.store(began_unix_ms, SeqCst);
        self.failed.store(failed, SeqCst);
        self.version.fetch_add(1, SeqCst);
    }

    fn read(&self) -> Option<LastAnswer> {
        let version = self.version.load(SeqCst);
        let last = LastAnswer {
            sequence: version / 2,
            elapsed: Duration::from_nanos(self.elapsed_ns.load(SeqCst)),
            began_ns: self.began_ns.load(SeqCst),
            began_unix_ms: self.began_unix_ms.load(SeqCst),
            failed: self.failed.load(SeqCst),
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
        let last = Last::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..=ANSWERS {
                    last.write(number, number, number, number % 3 == 0);
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
        assert_eq!(state.last_failure(), Some(failure));
    }
}
