//! What making room costs: counters before and after each step, and the stall of others.
//!
//! PSI counts the time in which at least one task stalls for memory, and the kernel's own work on request
//! counts as well. So it is read once more after a short rest behind each step: what stalls then is others.
//! Their stall during the step is estimated by that rate, and is at least what exceeds the step's duration.
//! Only what exceeds the rate before the first step counts: others may stall for a reason of their own.

use mw_model::{RoomCost, RoomStop, Sample};
use mw_proc::pressure::Pressure;
use mw_proc::vmstat::Counter;
use mw_sys::is_termination_requested;
use std::time::{Duration, Instant};

const PRESSURE: &str = "/proc/pressure/memory";
/// Rest after each step.
const REST: Duration = Duration::from_millis(10);
/// While others stall for more than this share of the time beyond the usual one, it pauses until they stall for less
/// than the other.
const PAUSE_FROM: f64 = 0.2;
const PAUSE_UNTIL: f64 = 0.05;
const PAUSE_ROUND: Duration = Duration::from_millis(100);
/// The longest pause: a reason of their own may have come meanwhile.
const PAUSE_MOST: Duration = Duration::from_secs(2);

/// Cost limits of making room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostLimits {
    /// Stall of others.
    pub stall: Duration,
    /// Page cache that is dropped, in bytes.
    pub drop_bytes: u64,
    pub time: Duration,
}

impl Default for CostLimits {
    fn default() -> Self {
        Self { stall: Duration::from_secs(1), drop_bytes: u64::MAX, time: Duration::from_secs(60) }
    }
}

pub(crate) struct Meter {
    limits: CostLimits,
    page_bytes: u64,
    /// The share of the time in which tasks stalled before the first step.
    usual: f64,
    began: Instant,
    cost: RoomCost,
    /// Counters before the step.
    before: ReclaimCounts,
}

#[derive(Clone, Copy, Default)]
struct ReclaimCounts {
    stolen: u64,
    swapped: u64,
    migrated: u64,
    refaulted: u64,
}

impl Meter {
    pub(crate) fn start(limits: CostLimits, page_bytes: u64, usual: f64) -> Self {
        let cost = RoomCost { stall_ms: stalled_us().map(|_| 0.0), ..RoomCost::default() };
        Self {
            limits,
            page_bytes,
            usual,
            began: Instant::now(),
            cost,
            before: ReclaimCounts::default(),
        }
    }

    /// Before a step.
    pub(crate) fn begin(&mut self, sample: &Sample) -> StepStart {
        self.before = ReclaimCounts::of(sample);
        StepStart { at: Instant::now(), stalled_us: stalled_us() }
    }

    /// After a step; pauses while others stall. How long the step has taken.
    pub(crate) fn end(&mut self, begun: &StepStart, dropped_bytes: u64) -> Duration {
        let took = begun.at.elapsed();
        self.cost.dropped_bytes += dropped_bytes;
        let (Some(before), Some(after)) = (begun.stalled_us, stalled_us()) else { return took };
        let (rest, rate) = self.rest(REST);
        let beyond = Duration::from_micros(after.saturating_sub(before)).saturating_sub(took);
        let beyond = beyond.saturating_sub(took.mul_f64(self.usual));
        let others = beyond.max(took.mul_f64(rate)) + rest.mul_f64(rate);
        if let Some(stall_ms) = &mut self.cost.stall_ms {
            *stall_ms += others.as_secs_f64() * 1000.0;
        }
        if rate > PAUSE_FROM {
            self.pause();
        }
        took
    }

    /// Counts what the step has cost, by the sample after it.
    pub(crate) fn count(&mut self, sample: &Sample) {
        let after = ReclaimCounts::of(sample);
        let bytes = |after: u64, before: u64| after.saturating_sub(before) * self.page_bytes;
        self.cost.dropped_bytes += bytes(after.stolen, self.before.stolen);
        self.cost.swapped_bytes += bytes(after.swapped, self.before.swapped);
        self.cost.migrated_bytes += bytes(after.migrated, self.before.migrated);
        self.cost.refaulted_bytes += bytes(after.refaulted, self.before.refaulted);
    }

    fn pause(&mut self) {
        let began = Instant::now();
        while began.elapsed() < PAUSE_MOST && !is_termination_requested() {
            if self.rest(PAUSE_ROUND).1 < PAUSE_UNTIL {
                break;
            }
        }
        self.cost.paused_ms += began.elapsed().as_secs_f64() * 1000.0;
    }

    /// Waits, and returns for how long, and in which share of the time tasks stalled beyond the usual one.
    fn rest(&self, time: Duration) -> (Duration, f64) {
        let clock = StallClock::start();
        std::thread::sleep(time);
        (clock.began.elapsed(), (clock.rate() - self.usual).max(0.0))
    }

    /// The limit that has been reached.
    pub(crate) fn exceeded(&self) -> Option<RoomStop> {
        let limit_ms = self.limits.stall.as_secs_f64() * 1000.0;
        if let Some(stalled_ms) = self.cost.stall_ms.filter(|stalled| *stalled > limit_ms) {
            return Some(RoomStop::StallLimit { stalled_ms, limit_ms });
        }
        let limit_s = self.limits.time.as_secs_f64();
        let is_over = self.began.elapsed() > self.limits.time;
        is_over.then_some(RoomStop::TimeLimit { limit_s })
    }

    /// Page cache that may still be dropped.
    pub(crate) fn may_drop_bytes(&self) -> u64 {
        self.limits.drop_bytes.saturating_sub(self.cost.dropped_bytes)
    }

    pub(crate) fn cost(&self) -> RoomCost {
        RoomCost { took_ms: self.began.elapsed().as_secs_f64() * 1000.0, ..self.cost.clone() }
    }
}

/// The beginning of a step.
pub(crate) struct StepStart {
    at: Instant,
    stalled_us: Option<u64>,
}

impl ReclaimCounts {
    fn of(sample: &Sample) -> Self {
        let get = |counter| sample.vmstat.value().and_then(|vmstat| vmstat.get(counter));
        let by_reclaimer = || {
            let some = |counter| get(counter).unwrap_or(0);
            some(Counter::PgstealDirect) + some(Counter::PgstealKswapd)
        };
        Self {
            // 5.8 and later.
            stolen: get(Counter::PgstealFile).unwrap_or_else(by_reclaimer),
            swapped: get(Counter::Pswpout).unwrap_or(0),
            migrated: get(Counter::PgmigrateSuccess).unwrap_or(0),
            refaulted: get(Counter::WorkingsetRefaultFile).unwrap_or(0),
        }
    }
}

/// Measures in which share of the time tasks stall for memory.
pub(crate) struct StallClock {
    began: Instant,
    before_us: u64,
}

impl StallClock {
    pub(crate) fn start() -> Self {
        Self { before_us: stalled_us().unwrap_or(0), began: Instant::now() }
    }

    /// The share since it was started, from 0 to 1; 0 without PSI.
    pub(crate) fn rate(&self) -> f64 {
        let stalled_us = stalled_us().unwrap_or(0).saturating_sub(self.before_us);
        (stalled_us as f64 / 1e6 / self.began.elapsed().as_secs_f64().max(1e-6)).min(1.0)
    }
}

/// Time in which tasks stalled for memory, since boot.
fn stalled_us() -> Option<u64> {
    let text = mw_sys::kernel_file::read(PRESSURE).ok()?;
    Some(Pressure::parse(&text).ok()?.some.total_us)
}
