//! Stalls under way, as the trigger thread reports them to the evidence thread.

use crate::stall::{Monitor, Stall};
use mw_probe::ProbeRequest;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Beginnings and ends that wait for the evidence thread; with more, stalls that begin are not reported.
const MAX_CHANGES: usize = 1024;

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
    /// Stalls that began or ended.
    changes: VecDeque<Stall>,
    /// The slowest request so far of each probe that is stalled.
    slowest: Vec<(Monitor, ProbeRequest)>,
    stopped: bool,
}

/// Result of a wait for a stall that begins or ends.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NextChange {
    Stall(Box<Stall>),
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
            state.changes.push_back(stall);
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
        // What was reported before the end is not lost: a stall that is over is not interrupted.
        match state.changes.pop_front() {
            Some(stall) => NextChange::Stall(Box::new(stall)),
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

#[cfg(test)]
mod tests {
    use super::*;

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
