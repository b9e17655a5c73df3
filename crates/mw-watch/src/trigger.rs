//! The trigger thread: sleeps until an alarm of a probe or of the kernel rings, or the sampling
//! thread calls because the canary is slow, then looks, and again at the moment when what is under
//! way would pass its limit. When a limit has passed, it switches the profile to its full rate at
//! once and wakes the thread that gathers the evidence.

use crate::clock;
use crate::detector::{Detector, Limits, Passed, Seen, Turn};
use crate::looks::Looks;
use crate::sampling::FAST_INTERVAL;
use mw_collect::probe::pressure::PressureTrigger;
use mw_model::Trigger;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Between two turns while there is a stall.
const CLOSE_INTERVAL: Duration = Duration::from_millis(10);

/// Between two turns otherwise, unless there is something to wait for.
const CALM_INTERVAL: Duration = Duration::from_secs(1);

/// The shortest time between two turns: what stays just below its limit is looked at no more often.
const LEAST_INTERVAL: Duration = Duration::from_millis(2);

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
    looks: &Looks,
    pressure: Option<&PressureTrigger>,
    stalls: &Stalls,
    stop: &AtomicBool,
) {
    // Without the privilege it is as punctual as others are.
    let _ = mw_sys::set_sched_fifo();
    let mut detector = Detector::new(looks.limits, looks.probers.len());
    let mut alarms = Alarms::of(looks, pressure);
    let mut probes = Vec::with_capacity(looks.probers.len());
    let mut rest = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let pressed = alarms.wait(looks, rest);
        looks.probe_looks(&mut probes);
        let seen = Seen { probes: &probes, canary: looks.canary_look(), pressure: pressed };
        let turn = detector.turn(clock::monotonic_ms(), seen);
        rest = if detector.is_stalled() { CLOSE_INTERVAL } else { calm(&looks.limits, &seen) };
        stalls.good.store(detector.is_good(), Ordering::Relaxed);
        match turn {
            Turn::Same => {}
            Turn::Begun(passed) => begin(looks, &passed, stalls),
            Turn::Over { good_for_ms } => {
                let ended_unix_ms = clock::unix_ms().saturating_sub(good_for_ms as u64);
                stalls.change(|state| state.ended_unix_ms = Some(ended_unix_ms));
            }
        }
    }
}

/// How long nothing passes its limit of which this thread would not be told: probes have alarms, and
/// the sampling thread looks at the canary, too seldom for the shortest limits alone.
fn calm(limits: &Limits, seen: &Seen<'_>) -> Duration {
    let least = Duration::from_secs_f64(limits.least_ms().max(0.0) / 1000.0);
    let untold = if seen.canary.is_some() && least < FAST_INTERVAL { least } else { CALM_INTERVAL };
    let passes_in = seen.passes_in(limits) / 1000.0;
    let passes_in = Duration::try_from_secs_f64(passes_in).unwrap_or(CALM_INTERVAL);
    passes_in.min(untold).max(LEAST_INTERVAL)
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
}

impl<'a> Alarms<'a> {
    fn of(looks: &'a Looks, pressure: Option<&'a PressureTrigger>) -> Self {
        let mut fds: Vec<PollFd<'a>> =
            looks.alarms().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        fds.extend(pressure.map(|pressure| PollFd::new(pressure, PollFlags::PRI)));
        Self { fds, pressure: pressure.is_some() }
    }

    /// Waits for the next turn, at most so long; whether the kernel's pressure trigger has spoken.
    /// What rang is heard before the turn looks: an alarm that rings meanwhile is the next turn's.
    fn wait(&mut self, looks: &Looks, at_most: Duration) -> bool {
        let timeout = Timespec::try_from(at_most).ok();
        if poll(&mut self.fds, timeout.as_ref()).unwrap_or(0) == 0 {
            return false;
        }
        looks.heard();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bell::Bell;
    use crate::detector::{CanaryLook, ProbeLook};
    use std::time::Instant;

    const LIMITS: Limits = Limits { canary_ms: 100.0, token_ms: None };
    const LONG: Duration = Duration::from_secs(10);

    /// The thread looks at what rang, and something rings while it looks.
    #[test]
    fn an_alarm_that_rings_during_a_turn_is_heard_in_the_next() {
        let (probers, bell) = (Vec::new(), Bell::new().unwrap());
        let looks = Looks { probers, canary: None, profiler: None, limits: LIMITS, bell };
        let mut alarms = Alarms::of(&looks, None);
        let mut wait = |at_most| {
            let begun = Instant::now();
            assert!(!alarms.wait(&looks, at_most));
            begun.elapsed()
        };
        looks.bell.ring();
        assert!(wait(LONG) < LONG);
        looks.bell.ring();
        assert!(wait(LONG) < LONG, "it was heard before it was looked at");
        let short = Duration::from_millis(20);
        assert!(wait(short) >= short, "it was heard twice");
    }

    #[track_caller]
    fn check(limits: Limits, canary: CanaryLook, probe_ms: Option<f64>, rests_ms: u64) {
        let probe = ProbeLook { limit_ms: 500.0, under_way_ms: probe_ms, last: None };
        let seen = Seen { probes: &[probe], canary: Some(canary), pressure: false };
        assert_eq!(calm(&limits, &seen), Duration::from_millis(rests_ms));
    }

    #[test]
    fn it_rests_until_the_next_limit_would_be_passed() {
        let touching = |touching_ms| CanaryLook { touching_ms, late_ms: 0.0 };
        check(LIMITS, touching(0.0), None, 1000);
        // Its alarm may have been set while an earlier ring was not heard yet, and was not then.
        check(LIMITS, touching(0.0), Some(100.0), 400);
        check(LIMITS, touching(0.0), Some(600.0), 1000);
        check(LIMITS, touching(40.0), Some(100.0), 60);
        check(LIMITS, touching(0.5), None, 1000);
        check(LIMITS, CanaryLook { touching_ms: 300.0, late_ms: 201.0 }, None, 2);
        // A quarter of 200 ms is passed between two calls of the sampling thread.
        let heartbeat = Limits { token_ms: Some(200.0), ..LIMITS };
        check(heartbeat, touching(0.0), None, 50);
        check(heartbeat, CanaryLook { touching_ms: 0.0, late_ms: 20.0 }, None, 30);
    }
}
