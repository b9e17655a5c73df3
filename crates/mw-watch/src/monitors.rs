//! The active monitors, shared by the threads of the recorder.

use crate::clock::{self, float_ms};
use crate::detector::{CanaryReading, MonitorLimits};
use crate::pace::Pace;
use crate::wakeup::WakeupFd;
use mw_model::{CanaryTick, ProbeTick};
use mw_probe::canary::Canary;
use mw_probe::{ProbeReading, Prober};
use mw_profile::Profiler;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Probes, canary and profiler, as far as they run.
#[derive(Debug)]
pub(crate) struct Monitors {
    pub(crate) probers: Vec<Prober>,
    pub(crate) canary: Option<Canary>,
    pub(crate) pace: Pace,
    pub(crate) profiler: Option<Profiler>,
    pub(crate) limits: MonitorLimits,
    pub(crate) wakeup: WakeupFd,
    /// Wakes the sampling thread.
    pub(crate) pace_rises: WakeupFd,
}

impl Monitors {
    /// Empty ticks, one for each probe.
    pub(crate) fn probe_ticks(&self) -> Vec<ProbeTick> {
        let tick = |prober: &Prober| ProbeTick {
            name: prober.spec().name.clone(),
            ..ProbeTick::default()
        };
        self.probers.iter().map(tick).collect()
    }

    /// Measurements of probes and canary since the last call. Allocates nothing.
    pub(crate) fn take(&self, probes: &mut [ProbeTick], canary: &mut Option<CanaryTick>) {
        for (prober, tick) in self.probers.iter().zip(probes) {
            prober.take_into(tick);
        }
        *canary = self.canary.as_ref().map(Canary::take);
    }

    /// For the detector. Allocates nothing once `readings` has held them.
    pub(crate) fn probe_readings(&self, readings: &mut Vec<ProbeReading>) {
        readings.clear();
        readings.extend(self.probers.iter().map(Prober::reading));
    }

    pub(crate) fn canary_reading(&self) -> Option<CanaryReading> {
        let canary = self.canary.as_ref()?;
        Some(CanaryReading {
            touching_ms: canary.touching_for().map_or(0.0, float_ms),
            late_ms: canary.late_for().map_or(0.0, float_ms),
        })
    }

    /// A sample has a sign that memory may become slow: nothing rests. Whether the pace rises.
    pub(crate) fn note_sign(&self) -> bool {
        let rises = self.pace.alert(clock::monotonic_ms() as u64);
        self.keep_pace();
        rises
    }

    /// As [`Self::note_sign`], for other threads than the sampling thread, which is woken.
    pub(crate) fn alert(&self) {
        if self.note_sign() {
            self.pace_rises.wake();
        }
    }

    /// True if there was no sign for a while.
    pub(crate) fn is_calm(&self) -> bool {
        self.pace.is_calm(clock::monotonic_ms() as u64)
    }

    /// A stall has begun, or all are over.
    pub(crate) fn set_stalled(&self, is_stalled: bool) {
        self.pace.set_stalled(is_stalled);
        self.keep_pace();
        self.pace_rises.wake();
    }

    /// Sets the intervals of the canary and the probes that the signs until now require.
    pub(crate) fn keep_pace(&self) {
        let now_ms = clock::monotonic_ms() as u64;
        if let Some(canary) = &self.canary {
            self.pace.set(canary, now_ms);
        }
        let is_alert = self.pace.is_alert(now_ms);
        for prober in &self.probers {
            prober.set_alert(is_alert);
        }
    }

    /// Wakes the trigger thread where the canary may exceed a limit within `time`, or has exceeded one.
    /// Probes have timers; setting one for the canary a hundred times a second would cost a quarter
    /// of what the canary does.
    pub(crate) fn wake_trigger(&self, time: Duration) {
        let passes_in_ms =
            self.canary_reading().and_then(|canary| self.limits.canary_passes_in(canary));
        if passes_in_ms.is_some_and(|passes_in_ms| passes_in_ms < float_ms(time)) {
            self.wakeup.wake();
        }
    }

    /// Descriptors that wake the trigger thread.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let probers = self.probers.iter().flat_map(|prober| [prober.overdue(), prober.alarm()]);
        probers.chain([self.wakeup.as_fd()])
    }

    pub(crate) fn clear(&self) {
        for prober in &self.probers {
            prober.clear_overdue();
            prober.clear_alarm();
        }
        self.wakeup.clear();
    }

    /// The threads that send requests and touch memory.
    pub(crate) fn clients(&self) -> impl Iterator<Item = u32> {
        let canary = self.canary.as_ref().and_then(Canary::thread);
        self.probers.iter().filter_map(Prober::thread).chain(canary)
    }

    /// Number of records that the profiler lost.
    pub(crate) fn lost_records(&self) -> u64 {
        self.profiler.as_ref().map_or(0, Profiler::lost_records)
    }
}
