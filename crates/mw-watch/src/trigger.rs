//! The trigger thread: sleeps until a probe is overdue, the kernel's pressure trigger fires, or the sampling
//! thread wakes it because the canary is slow; then reads all monitors, and again when what is under
//! way would pass its limit. When a limit has passed, it switches the profile to its full rate at
//! once and wakes the thread that gathers the evidence.

use crate::clock;
use crate::detector::{Detector, Exceeded, Limits, Readings, Turn};
use crate::monitors::Monitors;
use crate::sampling::FAST_INTERVAL;
use mw_model::Trigger;
use mw_probe::pressure::PressureTrigger;
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
    state: Mutex<StallStatus>,
    changed: Condvar,
    /// Whether all monitors are within their limits: then there is nothing to be seen.
    good: AtomicBool,
}

#[derive(Debug, Default)]
struct StallStatus {
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
        let idle = |state: &mut StallStatus| !state.stopped && state.begun.is_none();
        drop(self.changed.wait_timeout_while(state, time, idle));
    }

    /// Whether all monitors are within their limits.
    pub(crate) fn is_good(&self) -> bool {
        self.good.load(Ordering::Relaxed)
    }

    pub(crate) fn stop(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).stopped = true;
        self.changed.notify_all();
    }

    fn change(&self, change: impl FnOnce(&mut StallStatus)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }
}

/// Monitors until it is told to stop.
pub(crate) fn run(
    monitors: &Monitors,
    pressure: Option<&PressureTrigger>,
    stalls: &Stalls,
    stop: &AtomicBool,
) {
    // Without the privilege it is as punctual as others are.
    let _ = mw_sys::set_sched_fifo();
    let mut detector = Detector::new(monitors.limits, monitors.probers.len());
    let mut wakeups = Wakeups::new(monitors, pressure);
    let mut probes = Vec::with_capacity(monitors.probers.len());
    let mut rest = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let pressed = wakeups.wait(monitors, rest);
        monitors.probe_readings(&mut probes);
        let seen =
            Readings { probes: &probes, canary: monitors.canary_reading(), pressure: pressed };
        let turn = detector.turn(clock::monotonic_ms(), seen);
        rest = if detector.is_stalled() { CLOSE_INTERVAL } else { calm(&monitors.limits, &seen) };
        stalls.good.store(detector.is_good(), Ordering::Relaxed);
        match turn {
            Turn::Same => {}
            Turn::Begun(passed) => begin(monitors, &passed, stalls),
            Turn::Over { good_for_ms } => {
                let ended_unix_ms = clock::unix_ms().saturating_sub(good_for_ms as u64);
                stalls.change(|state| state.ended_unix_ms = Some(ended_unix_ms));
            }
        }
    }
}

/// How long nothing can exceed its limit without waking this thread: probes have timers, and the sampling
/// thread watches the canary, but too seldom for the shortest limits.
fn calm(limits: &Limits, seen: &Readings<'_>) -> Duration {
    let least = Duration::from_secs_f64(limits.least_ms().max(0.0) / 1000.0);
    let untold = if seen.canary.is_some() && least < FAST_INTERVAL { least } else { CALM_INTERVAL };
    let passes_in = seen.passes_in(limits) / 1000.0;
    let passes_in = Duration::try_from_secs_f64(passes_in).unwrap_or(CALM_INTERVAL);
    passes_in.min(untold).max(LEAST_INTERVAL)
}

/// A stall begins: the profile goes to its full rate before anybody else is woken.
fn begin(monitors: &Monitors, passed: &Exceeded, stalls: &Stalls) {
    if let Some(profiler) = &monitors.profiler {
        profiler.begin();
    }
    let seen_unix_ms = clock::unix_ms();
    let name = monitors.probers.get(passed.probe).map_or("", |prober| prober.spec().name.as_str());
    let begun = Begun {
        trigger: passed.trigger(name),
        probe: passed.probe,
        started_unix_ms: seen_unix_ms.saturating_sub(passed.took_ms as u64),
        seen_unix_ms,
    };
    stalls.change(|state| (state.begun, state.ended_unix_ms) = (Some(begun), None));
}

/// The descriptors that wake the trigger thread.
struct Wakeups<'a> {
    fds: Vec<PollFd<'a>>,
    /// Whether the last of them is the kernel's pressure trigger.
    pressure: bool,
}

impl<'a> Wakeups<'a> {
    fn new(monitors: &'a Monitors, pressure: Option<&'a PressureTrigger>) -> Self {
        let mut fds: Vec<PollFd<'a>> =
            monitors.descriptors().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        fds.extend(pressure.map(|pressure| PollFd::new(pressure, PollFlags::PRI)));
        Self { fds, pressure: pressure.is_some() }
    }

    /// Waits for the next turn, at most so long; whether the kernel's pressure trigger has spoken.
    /// Descriptors are cleared before the monitors are read: one that fires meanwhile is the next turn's.
    fn wait(&mut self, monitors: &Monitors, at_most: Duration) -> bool {
        let timeout = Timespec::try_from(at_most).ok();
        if poll(&mut self.fds, timeout.as_ref()).unwrap_or(0) == 0 {
            return false;
        }
        monitors.clear();
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
    use crate::detector::{CanaryReading, ProbeReading};
    use crate::wakeup::Wakeup;
    use std::time::Instant;

    const LIMITS: Limits = Limits { canary_ms: 100.0, token_ms: None };
    const LONG: Duration = Duration::from_secs(10);

    #[test]
    fn a_wakeup_during_a_turn_starts_the_next() {
        let (probers, wakeup) = (Vec::new(), Wakeup::new().unwrap());
        let monitors = Monitors { probers, canary: None, profiler: None, limits: LIMITS, wakeup };
        let mut wakeups = Wakeups::new(&monitors, None);
        let mut wait = |at_most| {
            let begun = Instant::now();
            assert!(!wakeups.wait(&monitors, at_most));
            begun.elapsed()
        };
        monitors.wakeup.wake();
        assert!(wait(LONG) < LONG);
        monitors.wakeup.wake();
        assert!(wait(LONG) < LONG, "it was cleared before it was read");
        let short = Duration::from_millis(20);
        assert!(wait(short) >= short, "it woke twice");
    }

    #[track_caller]
    fn check(limits: Limits, canary: CanaryReading, probe_ms: Option<f64>, rests_ms: u64) {
        let probe = ProbeReading { limit_ms: 500.0, under_way_ms: probe_ms, last: None };
        let seen = Readings { probes: &[probe], canary: Some(canary), pressure: false };
        assert_eq!(calm(&limits, &seen), Duration::from_millis(rests_ms));
    }

    #[test]
    fn it_rests_until_the_next_limit_would_be_passed() {
        let touching = |touching_ms| CanaryReading { touching_ms, late_ms: 0.0 };
        check(LIMITS, touching(0.0), None, 1000);
        // Its timer is not set while an earlier expiry is not cleared yet.
        check(LIMITS, touching(0.0), Some(100.0), 400);
        check(LIMITS, touching(0.0), Some(600.0), 1000);
        check(LIMITS, touching(40.0), Some(100.0), 60);
        check(LIMITS, touching(0.5), None, 1000);
        check(LIMITS, CanaryReading { touching_ms: 300.0, late_ms: 201.0 }, None, 2);
        // A quarter of 200 ms is passed between two calls of the sampling thread.
        let heartbeat = Limits { token_ms: Some(200.0), ..LIMITS };
        check(heartbeat, touching(0.0), None, 50);
        check(heartbeat, CanaryReading { touching_ms: 0.0, late_ms: 20.0 }, None, 30);
    }
}
