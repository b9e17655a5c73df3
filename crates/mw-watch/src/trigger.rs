//! The trigger thread: sleeps until an alarm of a probe, the canary or the kernel rings, then looks
//! closely. When a limit has passed, it switches the profile to its full rate at once and wakes the
//! thread that gathers the evidence.

use crate::clock;
use crate::detector::{Detector, Limits, Passed, Seen, Turn};
use crate::looks::Looks;
use mw_collect::probe::pressure::PressureTrigger;
use mw_model::Trigger;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Between two turns while there is a stall, or might be.
const CLOSE_INTERVAL: Duration = Duration::from_millis(10);

/// Between two turns otherwise, unless an alarm rings.
const CALM_INTERVAL: Duration = Duration::from_millis(250);

/// So long after an alarm has rung looks are close.
const CLOSE_FOR: Duration = Duration::from_millis(100);

/// The stall under way, for the thread that gathers the evidence.
#[derive(Debug, Default)]
pub(crate) struct Stalls {
    state: Mutex<State>,
    changed: Condvar,
    /// Whether all looks are good at the moment: then there is nothing to be seen.
    good: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    begun: Option<Begun>,
    ended_unix_ms: Option<u64>,
    stopped: bool,
}

/// A stall that has begun.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Begun {
    pub(crate) trigger: Trigger,
    /// The probe's place, for a probe.
    pub(crate) probe: usize,
    pub(crate) started_unix_ms: u64,
    pub(crate) seen_unix_ms: u64,
}

impl Stalls {
    /// Waits for a stall; `None` when the recorder stops.
    pub(crate) fn wait(&self) -> Option<Begun> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if state.stopped {
                return None;
            }
            if let Some(begun) = state.begun.take() {
                return Some(begun);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for the end of the stall, `at_most` so long; when it ended, where it has.
    pub(crate) fn ended(&self, at_most: Duration) -> Option<u64> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut state, _) = self
            .changed
            .wait_timeout_while(state, at_most, |s| s.ended_unix_ms.is_none() && !s.stopped)
            .unwrap_or_else(PoisonError::into_inner);
        if state.stopped {
            return Some(clock::unix_ms());
        }
        state.ended_unix_ms.take()
    }

    /// Lets time pass, unless the recorder stops or the next stall begins.
    pub(crate) fn rest(&self, time: Duration) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |state: &mut State| !state.stopped && state.begun.is_none();
        drop(self.changed.wait_timeout_while(state, time, idle));
    }

    /// Whether all looks are good at the moment.
    pub(crate) fn is_good(&self) -> bool {
        self.good.load(Ordering::Relaxed)
    }

    pub(crate) fn stop(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).stopped = true;
        self.changed.notify_all();
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }
}

/// Looks until it is told to stop.
pub(crate) fn run(
    limits: Limits,
    looks: &Looks,
    pressure: Option<&PressureTrigger>,
    stalls: &Stalls,
    stop: &AtomicBool,
) {
    // Without the privilege it is as punctual as others are.
    let _ = mw_sys::run_before_ordinary_threads();
    let mut detector = Detector::new(limits, looks.probers.len());
    let mut alarms = Alarms::of(looks, pressure);
    let mut probes = Vec::with_capacity(looks.probers.len());
    while !stop.load(Ordering::Relaxed) {
        let pressed = alarms.wait(detector.is_stalled());
        looks.probe_looks(&mut probes);
        let seen = Seen { probes: &probes, canary: looks.canary_look(), pressure: pressed };
        let turn = detector.turn(clock::monotonic_ms(), seen);
        stalls.good.store(detector.is_good(), Ordering::Relaxed);
        match turn {
            Turn::Same => {}
            Turn::Begun(passed) => begin(looks, &passed, stalls),
            Turn::Over { good_for_ms } => {
                let ended_unix_ms = clock::unix_ms().saturating_sub(good_for_ms as u64);
                stalls.change(|state| state.ended_unix_ms = Some(ended_unix_ms));
            }
        }
        looks.heard();
    }
}

/// A stall begins: the profile goes to its full rate before anybody else is woken.
fn begin(looks: &Looks, passed: &Passed, stalls: &Stalls) {
    if let Some(profiler) = &looks.profiler {
        profiler.begin();
    }
    let seen_unix_ms = clock::unix_ms();
    let name = looks.probers.get(passed.probe).map_or("", |prober| prober.spec().name.as_str());
    let begun = Begun {
        trigger: passed.trigger(name),
        probe: passed.probe,
        started_unix_ms: seen_unix_ms.saturating_sub(passed.took_ms as u64),
        seen_unix_ms,
    };
    stalls.change(|state| (state.begun, state.ended_unix_ms) = (Some(begun), None));
}

/// The descriptors that wake the trigger thread.
struct Alarms<'a> {
    fds: Vec<PollFd<'a>>,
    /// Whether the last of them is the kernel's pressure trigger.
    pressure: bool,
    /// Looks are close until then: an alarm may ring a moment before a look passes its limit.
    close_until: Duration,
}

impl<'a> Alarms<'a> {
    fn of(looks: &'a Looks, pressure: Option<&'a PressureTrigger>) -> Self {
        let mut fds: Vec<PollFd<'a>> =
            looks.alarms().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        fds.extend(pressure.map(|pressure| PollFd::new(pressure, PollFlags::PRI)));
        Self { fds, pressure: pressure.is_some(), close_until: Duration::ZERO }
    }

    /// Waits for the next turn; whether the kernel's pressure trigger has spoken.
    fn wait(&mut self, stalled: bool) -> bool {
        let close = stalled || clock::monotonic() < self.close_until;
        let interval = if close { CLOSE_INTERVAL } else { CALM_INTERVAL };
        let timeout = Timespec::try_from(interval).ok();
        if poll(&mut self.fds, timeout.as_ref()).unwrap_or(0) == 0 {
            return false;
        }
        self.close_until = clock::monotonic() + CLOSE_FOR;
        let said = self.fds.last().filter(|_| self.pressure).map(PollFd::revents);
        let said = said.unwrap_or(PollFlags::empty());
        if said.contains(PollFlags::ERR) {
            // The kernel has taken the trigger away; it would wake this thread without end.
            self.fds.pop();
            self.pressure = false;
            return false;
        }
        said.contains(PollFlags::PRI)
    }
}
