//! Stalls under way, as the trigger thread reports them to the evidence thread.

use crate::detector::{Monitor, RequestTimes};
use mw_model::Trigger;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Events that wait for the evidence thread; with more, stalls that begin are not reported.
const MAX_EVENTS: usize = 1024;

/// A queue from one thread to another.
#[derive(Debug, Default)]
pub(crate) struct Stalls {
    state: Mutex<State>,
    changed: Condvar,
    /// Whether all monitors are within their limits: then there is nothing to be seen.
    good: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<StallEvent>,
    /// The slowest request so far of each probe that is stalled.
    slowest: Vec<(Monitor, RequestTimes)>,
    stopped: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum StallEvent {
    Begun(Begun),
    Over { monitor: Monitor, ended_unix_ms: u64, slowest: Option<RequestTimes> },
}

/// A stall that has begun.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Begun {
    pub(crate) trigger: Trigger,
    pub(crate) monitor: Monitor,
    pub(crate) started_unix_ms: u64,
    pub(crate) seen_unix_ms: u64,
}

/// Result of a wait for events.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Next {
    Event(StallEvent),
    /// The time is over.
    Nothing,
    /// The recorder stops.
    Stopped,
}

impl Stalls {
    pub(crate) fn send(&self, event: StallEvent) {
        let mut state = self.state();
        let is_begin = matches!(event, StallEvent::Begun(_));
        if let StallEvent::Over { monitor, .. } = &event {
            state.slowest.retain(|(known, _)| known != monitor);
        }
        if !is_begin || state.events.len() < MAX_EVENTS {
            state.events.push_back(event);
        }
        self.changed.notify_all();
    }

    /// The next event, waited for at most so long, or without end.
    pub(crate) fn next(&self, at_most: Option<Duration>) -> Next {
        let idle = |state: &mut State| state.events.is_empty() && !state.stopped;
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
        match state.events.pop_front() {
            Some(event) => Next::Event(event),
            None if state.stopped => Next::Stopped,
            None => Next::Nothing,
        }
    }

    /// Lets time pass, unless the recorder stops or the next event comes.
    pub(crate) fn rest(&self, time: Duration) {
        let idle = |state: &mut State| state.events.is_empty() && !state.stopped;
        drop(self.changed.wait_timeout_while(self.state(), time, idle));
    }

    pub(crate) fn set_slowest(&self, monitor: Monitor, times: RequestTimes) {
        let mut state = self.state();
        match state.slowest.iter_mut().find(|(known, _)| *known == monitor) {
            Some((_, known)) => *known = times,
            None => state.slowest.push((monitor, times)),
        }
    }

    /// The slowest request so far of a stall under way.
    pub(crate) fn slowest(&self, monitor: Monitor) -> Option<RequestTimes> {
        self.state().slowest.iter().find(|(known, _)| *known == monitor).map(|(_, times)| *times)
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_reported_before_the_end_is_not_lost() {
        let stalls = Stalls::default();
        let over = StallEvent::Over { monitor: Monitor::Canary, ended_unix_ms: 7, slowest: None };
        stalls.send(over.clone());
        stalls.stop();
        assert_eq!(stalls.next(None), Next::Event(over));
        assert_eq!(stalls.next(None), Next::Stopped);
    }
}
