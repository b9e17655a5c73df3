//! The trigger thread: sleeps until a probe is overdue, the kernel's pressure trigger fires, or the sampling
//! thread wakes it because the canary is slow; then reads all monitors, and again when what is under
//! way would pass its limit. At half of a limit it enables the scheduler trace. When a limit has passed, it
//! switches the profile to its full rate at once and wakes the thread that gathers the evidence.

use crate::clock;
use crate::detector::{Detector, MonitorLimits, MonitorReadings, TurnTime};
use crate::monitors::Monitors;
use crate::pace::FAST_INTERVAL;
use crate::progress::Beat;
use crate::requests::EvidenceRequests;
use crate::stall::Stall;
use crate::stall_queue::StallQueue;
use crate::tracing::SharedTrace;
use mw_probe::pressure::PressureTrigger;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Between two turns while there is a stall, or something is traced.
const CLOSE_INTERVAL: Duration = Duration::from_millis(10);

/// Shortest rest of the thread during a stall, as a multiple of a turn's duration.
const COST_TO_REST: u32 = 20;

/// The trace goes on for so long when no request is overdue any more, so that it does not begin and end all the time.
const CALM_BEFORE_PAUSE_MS: f64 = 100.0;

/// Between two turns otherwise, unless there is something to wait for.
const CALM_INTERVAL: Duration = Duration::from_secs(2);

/// The shortest time between two turns: what stays just below its limit is read no more often.
const LEAST_INTERVAL: Duration = Duration::from_millis(2);

/// Data of the trigger thread.
pub(crate) struct TriggerThread<'a> {
    pub(crate) monitors: &'a Monitors,
    pub(crate) pressure: Option<&'a PressureTrigger>,
    pub(crate) stalls: &'a StallQueue,
    pub(crate) tracing: &'a SharedTrace,
    pub(crate) requests: &'a EvidenceRequests,
}

impl TriggerThread<'_> {
    /// Monitors until it is told to stop.
    pub(crate) fn run(&self, stop: &AtomicBool, beat: &Beat) {
        // Without the privilege it is as punctual as others are.
        let _ = mw_sys::set_sched_fifo();
        let monitors = self.monitors;
        let names = monitors.probers.iter().map(|prober| prober.spec().name.clone());
        let mut detector = Detector::new(monitors.limits, names);
        let mut wakeups = Wakeups::new(monitors, self.pressure);
        let mut probes = Vec::with_capacity(monitors.probers.len());
        let mut changes = Vec::with_capacity(monitors.probers.len());
        let (mut rest, mut is_traced, mut alarming_ms) = (Duration::ZERO, false, 0.0);
        while !stop.load(Ordering::Relaxed) {
            beat.step();
            let pressed = wakeups.wait(monitors, rest);
            let began = clock::monotonic();
            monitors.probe_readings(&mut probes);
            let time = TurnTime { monotonic_ms: clock::monotonic_ms(), unix_ms: mw_sys::unix_ms() };
            let readings = MonitorReadings {
                time,
                probes: &probes,
                canary: monitors.canary_reading(),
                pressure: pressed,
                requested: self.requests.take(),
            };
            let is_alarming = readings.are_alarming(&monitors.limits);
            if pressed || is_alarming {
                monitors.alert();
            }
            if is_alarming {
                self.tracing.alarm();
                (is_traced, alarming_ms) = (true, time.monotonic_ms);
            }
            detector.turn(&readings, &mut changes);
            self.stalls.set_good(detector.is_good());
            detector.probe_stalls().for_each(|stall| self.stalls.set_slowest(stall));
            // A stall that nothing announced, as one of memory pressure.
            is_traced |= changes.iter().any(|stall| !stall.has_ended());
            changes.drain(..).for_each(|stall| self.report(stall));
            let is_close = detector.is_stalled() || is_alarming;
            if is_traced && !is_close {
                self.tracing.calm();
                is_traced = false;
            } else if is_traced && time.monotonic_ms - alarming_ms >= CALM_BEFORE_PAUSE_MS {
                self.tracing.pause();
            }
            rest = if is_close {
                // Nothing else runs on this CPU meanwhile.
                CLOSE_INTERVAL.max((clock::monotonic() - began) * COST_TO_REST)
            } else {
                calm(&monitors.limits, &readings)
            };
        }
    }

    /// Wakes the evidence thread; before that, a stall that begins switches the profile to its full rate.
    fn report(&self, stall: Stall) {
        if !stall.has_ended() {
            if let Some(profiler) = &self.monitors.profiler {
                profiler.begin();
            }
            self.tracing.alarm();
            self.tracing.hold();
        }
        self.stalls.send(stall);
    }
}

/// Time in which nothing can exceed its limit without waking this thread: probes have timers, and the sampling
/// thread watches the canary, but too seldom for the shortest limits.
fn calm(limits: &MonitorLimits, readings: &MonitorReadings<'_>) -> Duration {
    let least = Duration::from_secs_f64(limits.least_ms().max(0.0) / 1000.0);
    let untold =
        if readings.canary.is_some() && least < FAST_INTERVAL { least } else { CALM_INTERVAL };
    let passes_in = readings.passes_in(limits) / 1000.0;
    let passes_in = Duration::try_from_secs_f64(passes_in).unwrap_or(CALM_INTERVAL);
    passes_in.min(untold).max(LEAST_INTERVAL)
}

/// The descriptors that wake the trigger thread.
struct Wakeups<'a> {
    fds: Vec<PollFd<'a>>,
    /// True if the last of them is the kernel's pressure trigger.
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
    use crate::detector::CanaryReading;
    use crate::pace::Pace;
    use crate::wakeup::WakeupFd;
    use mw_probe::{ProbeReading, ProbeRequest};
    use std::time::Instant;

    const LIMITS: MonitorLimits = MonitorLimits { canary_ms: 100.0, token_ms: None };
    const LONG: Duration = Duration::from_secs(10);

    /// Promise (The recorder): A limit that passes during a check is seen in the next turn, without waiting.
    #[test]
    fn a_wakeup_during_a_turn_starts_the_next() {
        let wakeup = || WakeupFd::new().unwrap();
        let pace = Pace::new(Duration::from_millis(10), LIMITS.canary_ms, false);
        let monitors = Monitors {
            probers: Vec::new(),
            canary: None,
            pace,
            profiler: None,
            limits: LIMITS,
            wakeup: wakeup(),
            pace_rises: wakeup(),
        };
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
    fn check(limits: MonitorLimits, canary: CanaryReading, probe_ms: Option<u64>, rests_ms: u64) {
        let under_way = probe_ms.map(|elapsed_ms| ProbeRequest {
            elapsed: Duration::from_millis(elapsed_ms),
            ..ProbeRequest::default()
        });
        let (limit, alarm_after) = (Duration::from_millis(500), Duration::from_millis(250));
        let probe = ProbeReading { limit, alarm_after, under_way, last: None };
        let readings = MonitorReadings {
            probes: &[probe],
            canary: Some(canary),
            ..MonitorReadings::default()
        };
        assert_eq!(calm(&limits, &readings), Duration::from_millis(rests_ms));
    }

    #[test]
    fn it_rests_until_the_next_limit_would_be_passed() {
        let touching = |touching_ms| CanaryReading { touching_ms, late_ms: 0.0 };
        check(LIMITS, touching(0.0), None, 2000);
        // Its timer is not set while an earlier expiry is not cleared yet.
        check(LIMITS, touching(0.0), Some(100), 150);
        check(LIMITS, touching(0.0), Some(300), 200);
        check(LIMITS, touching(0.0), Some(600), 2000);
        check(LIMITS, touching(40.0), Some(100), 10);
        check(LIMITS, touching(60.0), Some(100), 40);
        check(LIMITS, touching(0.5), None, 2000);
        check(LIMITS, CanaryReading { touching_ms: 300.0, late_ms: 201.0 }, None, 2);
        // A quarter of 200 ms is passed between two calls of the sampling thread.
        let heartbeat = MonitorLimits { token_ms: Some(200.0), ..LIMITS };
        check(heartbeat, touching(0.0), None, 50);
        check(heartbeat, CanaryReading { touching_ms: 0.0, late_ms: 20.0 }, None, 5);
        check(heartbeat, CanaryReading { touching_ms: 0.0, late_ms: 30.0 }, None, 20);
    }
}
