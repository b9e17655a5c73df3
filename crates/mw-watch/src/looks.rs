//! Everything that looks actively: probes, canary, profiler; shared by the threads of the recorder.

use crate::bell::Bell;
use crate::detector::{CanaryLook, Limits, ProbeLook};
use mw_collect::probe::canary::Canary;
use mw_collect::probe::service::Prober;
use mw_model::{CanaryTick, ProbeTick};
use mw_profile::Profiler;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Probes, canary and profiler, as far as they run.
#[derive(Debug)]
pub(crate) struct Looks {
    pub(crate) probers: Vec<Prober>,
    pub(crate) canary: Option<Canary>,
    pub(crate) profiler: Option<Profiler>,
    pub(crate) limits: Limits,
    /// Wakes the trigger thread.
    pub(crate) bell: Bell,
}

impl Looks {
    /// Ticks of the probes before they have seen anything.
    pub(crate) fn probe_ticks(&self) -> Vec<ProbeTick> {
        let tick = |prober: &Prober| ProbeTick {
            name: prober.spec().name.clone(),
            ..ProbeTick::default()
        };
        self.probers.iter().map(tick).collect()
    }

    /// What probes and canary saw since they were last asked. Allocates nothing.
    pub(crate) fn take(&self, probes: &mut [ProbeTick], canary: &mut Option<CanaryTick>) {
        for (prober, tick) in self.probers.iter().zip(probes) {
            prober.take_into(tick);
        }
        *canary = self.canary.as_ref().map(Canary::take);
    }

    /// What the detector wants to know of the probes. Allocates nothing once `looks` has held them.
    pub(crate) fn probe_looks(&self, looks: &mut Vec<ProbeLook>) {
        looks.clear();
        looks.extend(self.probers.iter().map(|prober| ProbeLook {
            limit_ms: ms(prober.spec().limit),
            under_way_ms: prober.under_way().map(|way| ms(way.elapsed)),
            last: prober.last().map(|last| (last.sequence, ms(last.elapsed), last.failed)),
        }));
    }

    /// What the detector wants to know of the canary.
    pub(crate) fn canary_look(&self) -> Option<CanaryLook> {
        let canary = self.canary.as_ref()?;
        Some(CanaryLook {
            touching_ms: canary.touching_for().map_or(0.0, ms),
            late_ms: canary.late_for().map_or(0.0, ms),
        })
    }

    /// Wakes the trigger thread where the canary may pass a limit within `time`, or has passed one.
    /// Probes have alarms of their own; setting one a hundred times a second would cost a quarter
    /// of what the canary does.
    pub(crate) fn call_trigger(&self, time: Duration) {
        let passes_in_ms = self.canary_look().and_then(|look| self.limits.canary_passes_in(look));
        if passes_in_ms.is_some_and(|passes_in_ms| passes_in_ms < ms(time)) {
            self.bell.ring();
        }
    }

    /// Descriptors that are readable when it is time to look.
    pub(crate) fn alarms(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.probers.iter().map(Prober::alarm).chain([self.bell.as_fd()])
    }

    /// The alarms were heard.
    pub(crate) fn heard(&self) {
        self.probers.iter().for_each(Prober::heard);
        self.bell.hear();
    }

    /// Records that the profiler has lost.
    pub(crate) fn lost_records(&self) -> u64 {
        self.profiler.as_ref().map_or(0, Profiler::lost_records)
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
