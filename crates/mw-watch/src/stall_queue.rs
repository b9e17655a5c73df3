//! Stalls under way, as the trigger thread reports them to the evidence thread.

use crate::stall::{Monitor, Stall};
use mw_probe::ProbeRequest;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Beginnings and ends that wait for the evidence thread; with more, stalls that begin are not reported.
const MAX_CHANGES: usize = 1024;

/// Where the evidence thread is so late, stalls that are over are left out, the shortest first: each takes time in which
/// others become old.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// A queue from one thread to another.
#[derive(Debug, Default)]
pub(crate) struct StallQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
    /// True if all monitors are within their limits: no task is worth a sample then.
    good: AtomicBool,
}

#[derive(Debug, Default)]
struct QueueState {
    /// Stalls that began or ended, and when they were reported.
    changes: VecDeque<(Instant, Stall)>,
    /// The slowest request so far of each probe that is stalled.
    slowest: Vec<(Monitor, ProbeRequest)>,
    stopped: bool,
}

/// Result of a wait for a stall that begins or ends.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NextChange {
    Stall(Box<Stall>),
    /// A stall that is over, and is not to be explained.
    LeftOut,
    /// The time is over.
    Nothing,
    /// The recorder stops.
    Stopped,
}

impl StallQueue {
    /// Reports a stall that began or ended.
    pub(crate) fn send(&self, stall: Stall) {
        let mut state = self.state();
        if stall.has_ended() {
            state.slowest.retain(|(monitor, _)| *monitor != stall.monitor);
        }
        if stall.has_ended() || state.changes.len() < MAX_CHANGES {
            state.changes.push_back((Instant::now(), stall));
        }
        self.changed.notify_all();
    }

    /// The next change, waited for at most so long, or without end.
    pub(crate) fn next(&self, at_most: Option<Duration>) -> NextChange {
        let idle = |state: &mut QueueState| state.changes.is_empty() && !state.stopped;
        let state = self.state();
        let mut state = match at_most {
            Some(time) => {
                self.changed
                    .wait_timeout_while(state, time, idle)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0
            }
            None => self.changed.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner),
        };
        if !state.stopped && state.leave_out(Instant::now()) {
            return NextChange::LeftOut;
        }
        // What was reported before the end is not lost: a stall that is over is not interrupted.
        match state.changes.pop_front() {
            Some((_, stall)) => NextChange::Stall(Box::new(stall)),
            None if state.stopped => NextChange::Stopped,
            None => NextChange::Nothing,
        }
    }

    /// Lets time pass, unless the recorder stops or the next change comes.
    pub(crate) fn rest(&self, time: Duration) {
        let idle = |state: &mut QueueState| state.changes.is_empty() && !state.stopped;
        drop(self.changed.wait_timeout_while(self.state(), time, idle));
    }

    /// Publishes the slowest request so far of a stall that lasts.
    pub(crate) fn set_slowest(&self, stall: &Stall) {
        let Some(request) = stall.slowest else { return };
        let mut state = self.state();
        match state.slowest.iter_mut().find(|(monitor, _)| *monitor == stall.monitor) {
            Some((_, known)) => *known = request,
            None => state.slowest.push((stall.monitor, request)),
        }
    }

    /// The slowest request so far of the stall of a monitor that lasts.
    pub(crate) fn slowest(&self, monitor: Monitor) -> Option<ProbeRequest> {
        self.state()
            .slowest
            .iter()
            .find(|(known, _)| *known == monitor)
            .map(|(_, request)| *request)
    }

    /// True if all monitors are within their limits.
    pub(crate) fn is_good(&self) -> bool {
        self.good.load(Ordering::Relaxed)
    }

    pub(crate) fn set_good(&self, is_good: bool) {
        self.good.store(is_good, Ordering::Relaxed);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.state().stopped
    }

    pub(crate) fn stop(&self) {
        self.state().stopped = true;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    /// Leaves out the shortest of the stalls that have begun and ended meanwhile, if there are several and the queue is late.
    fn leave_out(&mut self, now: Instant) -> bool {
        if self.changes.front().is_none_or(|(at, _)| now.duration_since(*at) < MAX_WAIT) {
            return false;
        }
        let changes = self.changes.iter().enumerate();
        let begun = changes.clone().filter(|(_, (_, stall))| {
            !stall.has_ended()
                && stall.monitor.needs_evidence()
                && stall.monitor != Monitor::Requested
        });
        let over = begun.filter_map(|(begin, (_, stall))| {
            let is_end = |(_, (_, other)): &(usize, &(Instant, Stall))| {
                other.has_ended()
                    && (other.monitor, other.seen_unix_ms) == (stall.monitor, stall.seen_unix_ms)
            };
            let (end, (_, ended)) = changes.clone().find(is_end)?;
            Some((ended.ended_unix_ms?.saturating_sub(stall.started_unix_ms), begin, end))
        });
        let over: Vec<(u64, usize, usize)> = over.collect();
        let Some((_, begin, end)) = over.iter().min().filter(|_| over.len() > 1) else {
            return false;
        };
        self.changes.remove(*begin.max(end));
        self.changes.remove(*begin.min(end));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise (The recorder): Where stalls follow one another faster than they are explained, short ones that are over are
    /// left out, and long ones, those that last and requests for evidence are not.
    #[test]
    fn a_late_queue_leaves_out_the_shortest_stalls_that_are_over() {
        let mut state = QueueState::default();
        let now = Instant::now();
        let long_ago = now.checked_sub(MAX_WAIT).unwrap();
        let mut report = |probe, started_unix_ms: u64, ended_unix_ms| {
            let stall =
                Stall::new(Monitor::Probe(probe), "db", 500.0, 600.0, started_unix_ms + 600);
            state.changes.push_back((long_ago, stall.clone()));
            state
                .changes
                .push_back((long_ago, Stall { ended_unix_ms: Some(ended_unix_ms), ..stall }));
        };
        report(0, 1000, 4000);
        report(1, 1000, 1700);
        report(0, 5000, 9000);
        let lasting = Stall::new(Monitor::Probe(1), "db", 500.0, 600.0, 9000);
        state.changes.push_back((long_ago, lasting));
        assert!(!state.leave_out(long_ago), "it is not late yet");
        assert!(state.leave_out(now) && state.leave_out(now));
        let left: Vec<(Monitor, bool)> =
            state.changes.iter().map(|(_, stall)| (stall.monitor, stall.has_ended())).collect();
        let (one, other) = (Monitor::Probe(0), Monitor::Probe(1));
        assert_eq!(left, [(one, false), (one, true), (other, false)]);
        assert!(!state.leave_out(now), "one of them is explained");
    }

    #[test]
    fn what_was_reported_before_the_end_is_not_lost() {
        let stalls = StallQueue::default();
        let stall = Stall::new(Monitor::Canary, "", 100.0, 120.0, 7);
        let ended = Stall { ended_unix_ms: Some(8), ..stall };
        stalls.send(ended.clone());
        stalls.stop();
        assert_eq!(stalls.next(None), NextChange::Stall(Box::new(ended)));
        assert_eq!(stalls.next(None), NextChange::Stopped);
    }
}
