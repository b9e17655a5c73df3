//! Everything that looks actively: probes, canary, profiler; shared by the threads of the recorder.

use crate::detector::{CanaryLook, ProbeLook};
use mw_collect::probe::canary::Canary;
use mw_collect::probe::service::Prober;
use mw_model::{CanaryTick, ProbeTick};
use mw_profile::Profiler;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Probes, canary and profiler, as far as they run.
pub(crate) struct Looks {
    pub(crate) probers: Vec<Prober>,
    pub(crate) canary: Option<Canary>,
    pub(crate) profiler: Option<Profiler>,
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

    /// Descriptors that are readable when a look has passed its limit.
    pub(crate) fn alarms(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.probers.iter().map(Prober::alarm).chain(self.canary.as_ref().map(Canary::alarm))
    }

    /// The alarms were heard.
    pub(crate) fn heard(&self) {
        self.probers.iter().for_each(Prober::heard);
        self.canary.iter().for_each(Canary::heard);
    }

    /// Records that the profiler has lost.
    pub(crate) fn lost_records(&self) -> u64 {
        self.profiler.as_ref().map_or(0, Profiler::lost_records)
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
