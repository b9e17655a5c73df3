//! The intervals of the canary, of samples and of probes. While there is no sign of memory work the canary rests and
//! samples are seldom; from the first sign on both keep their full pace, and in a stall the canary a faster one. Signs are in
//! the samples, in what the canary measures, in slow answers and in the kernel's pressure trigger. Probes ask more often
//! from each of these signs on, and while tasks wait for a CPU or under a CPU quota.

use crate::clock;
use mw_model::{CanaryTick, Sample, derived};
use mw_probe::canary::{Canary, MAX_INTERVAL};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Between two samples, from the first sign on.
pub(crate) const FAST_INTERVAL: Duration = Duration::from_millis(100);

/// Between two samples otherwise.
const CALM_INTERVAL: Duration = Duration::from_millis(250);

/// The same where nothing is probed: a stall then begins with the kernel's pressure trigger, or with an OOM kill.
const UNPROBED_INTERVAL: Duration = Duration::from_secs(1);

/// The canary at rest beats at whole multiples of its interval. Samples follow that moment by so much, so that a touch
/// which does not end is seen before the shortest limit.
const AFTER_BEAT: Duration = Duration::from_millis(50);

/// The beat in a stall.
const STALL_BEAT: Duration = Duration::from_millis(1);

/// Time for which the beat is kept after a sign.
const ALERT_MS: u64 = 10_000;

/// A canary with a shorter limit never rests: it is to see what is over before the next sample.
const LEAST_LIMIT_MS: f64 = 100.0;

/// Of its limit, so much of a touch or of lateness is a sign.
const SIGN_OF_LIMIT: f64 = 0.25;

/// Smallest wait for memory between two samples that is a sign: at ten a second a hundredth of the time.
const SIGN_OF_PRESSURE_US: u64 = 1000;

/// Of the time between two samples, the part in which tasks waited for a CPU that has probes ask more often.
const CPU_WAIT_PERCENT: u64 = 40;

/// The pace, of which several threads decide.
#[derive(Debug)]
pub(crate) struct Pace {
    beat: Duration,
    limit_ms: f64,
    may_rest: bool,
    calm_interval: Duration,
    alert_until_ms: AtomicU64,
    /// The same of probes alone.
    cpu_wait_until_ms: AtomicU64,
    is_stalled: AtomicBool,
}

/// Memory work in the last sample for which tasks wait.
#[derive(Debug, Default)]
pub(crate) struct Signs {
    entered: Option<u64>,
    waited_us: Option<u64>,
}

/// Waits for a CPU in the last sample.
#[derive(Debug, Default)]
pub(crate) struct CpuWaits {
    at_ms: u64,
    waited_us: Option<u64>,
}

impl Pace {
    /// Of a canary that beats so while it does not rest. It never does where heartbeats are watched, whose lateness it
    /// measures.
    pub(crate) fn new(beat: Duration, limit_ms: f64, heartbeats: bool) -> Self {
        Self {
            beat,
            limit_ms,
            may_rest: !heartbeats && limit_ms >= LEAST_LIMIT_MS,
            calm_interval: CALM_INTERVAL,
            alert_until_ms: AtomicU64::new(0),
            cpu_wait_until_ms: AtomicU64::new(0),
            is_stalled: AtomicBool::new(false),
        }
    }

    /// The same where neither a canary nor a service is probed.
    pub(crate) fn unprobed() -> Self {
        let calm_interval = UNPROBED_INTERVAL;
        Self { calm_interval, ..Self::new(Duration::ZERO, LEAST_LIMIT_MS, false) }
    }

    /// True if what the canary measured is a sign.
    pub(crate) fn is_sign(&self, tick: CanaryTick) -> bool {
        tick.touch_us.max(tick.late_us) as f64 / 1000.0 >= self.limit_ms * SIGN_OF_LIMIT
    }

    /// There was a sign; whether the pace rises.
    pub(crate) fn alert(&self, now_ms: u64) -> bool {
        let was_calm = self.is_calm(now_ms);
        self.alert_until_ms.store(now_ms.saturating_add(ALERT_MS), Relaxed);
        was_calm
    }

    /// Tasks waited for a CPU.
    pub(crate) fn note_cpu_wait(&self, now_ms: u64) {
        self.cpu_wait_until_ms.store(now_ms.saturating_add(ALERT_MS), Relaxed);
    }

    /// True if probes are to ask more often.
    pub(crate) fn is_alert(&self, now_ms: u64) -> bool {
        let until_ms = [&self.alert_until_ms, &self.cpu_wait_until_ms];
        until_ms.iter().any(|until_ms| now_ms < until_ms.load(Relaxed))
    }

    /// A stall has begun, or all are over.
    pub(crate) fn set_stalled(&self, is_stalled: bool) {
        self.is_stalled.store(is_stalled, Relaxed);
    }

    pub(crate) fn set(&self, canary: &Canary, now_ms: u64) {
        canary.set_interval(self.beat(now_ms));
    }

    /// Time at which the next sample is due.
    pub(crate) fn next_sample(&self, now: Duration) -> Duration {
        if self.is_calm(clock::millis(now)) {
            clock::next_multiple(now.saturating_sub(AFTER_BEAT), self.calm_interval) + AFTER_BEAT
        } else {
            clock::next_multiple(now, FAST_INTERVAL)
        }
    }

    pub(crate) fn is_calm(&self, now_ms: u64) -> bool {
        self.may_rest
            && !self.is_stalled.load(Relaxed)
            && now_ms >= self.alert_until_ms.load(Relaxed)
    }

    fn beat(&self, now_ms: u64) -> Duration {
        if self.is_stalled.load(Relaxed) {
            STALL_BEAT
        } else if self.is_calm(now_ms) {
            MAX_INTERVAL
        } else {
            self.beat
        }
    }
}

impl Signs {
    /// True if tasks have reclaimed or compacted memory themselves, or waited for it, since the last sample.
    pub(crate) fn are_new(&mut self, sample: &Sample) -> bool {
        self.grow(derived::direct_entries(sample), derived::memory_waited_us(sample))
    }

    fn grow(&mut self, entered: Option<u64>, waited_us: Option<u64>) -> bool {
        let grown = |before: Option<u64>, now: Option<u64>| {
            now.zip(before).map_or(0, |(now, before)| now.saturating_sub(before))
        };
        let is_new = grown(self.entered, entered) > 0
            || grown(self.waited_us, waited_us) >= SIGN_OF_PRESSURE_US;
        (self.entered, self.waited_us) = (entered, waited_us);
        is_new
    }
}

impl CpuWaits {
    /// True if tasks waited for a CPU for a large part of the time since the last sample. A task that a CPU quota
    /// throttles counts as waiting (kernel/sched/psi.c, `test_state()`: it stays on its run queue).
    pub(crate) fn are_long(&mut self, sample: &Sample, now_ms: u64) -> bool {
        let waited_us = sample.pressure.cpu.value().map(|pressure| pressure.some.total_us);
        self.grow(waited_us, now_ms)
    }

    fn grow(&mut self, waited_us: Option<u64>, now_ms: u64) -> bool {
        let since_ms = now_ms.saturating_sub(self.at_ms);
        let grown_us = waited_us.zip(self.waited_us).map(|(now, was)| now.saturating_sub(was));
        (self.at_ms, self.waited_us) = (now_ms, waited_us);
        // Both in hundredths of a microsecond.
        let least = since_ms.saturating_mul(1000 * CPU_WAIT_PERCENT);
        since_ms > 0 && grown_us.is_some_and(|grown_us| grown_us.saturating_mul(100) >= least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEAT: Duration = Duration::from_millis(10);

    #[test]
    fn the_canary_rests_until_a_sign_and_is_faster_in_a_stall() {
        let pace = Pace::new(BEAT, 100.0, false);
        assert_eq!(pace.beat(0), MAX_INTERVAL);
        assert!(pace.alert(1000));
        assert_eq!((pace.beat(1000), pace.beat(10_999)), (BEAT, BEAT));
        assert_eq!(pace.beat(11_000), MAX_INTERVAL);
        pace.set_stalled(true);
        assert_eq!(pace.beat(11_000), STALL_BEAT);
        pace.set_stalled(false);
        assert_eq!(pace.beat(11_000), MAX_INTERVAL);
    }

    #[test]
    fn probes_ask_more_often_from_each_sign_on() {
        let pace = Pace::new(BEAT, 100.0, false);
        assert!(!pace.is_alert(0) && !Pace::new(BEAT, 99.0, true).is_alert(0));
        pace.alert(1000);
        assert!(pace.is_alert(10_999) && !pace.is_alert(11_000));
        pace.note_cpu_wait(20_000);
        assert!(pace.is_alert(29_999) && !pace.is_alert(30_000));
        assert!(pace.is_calm(29_999), "samples keep their interval");
    }

    #[test]
    fn two_fifths_of_the_time_without_a_cpu_are_a_sign() {
        let mut waits = CpuWaits::default();
        assert!(!waits.grow(Some(1 << 40), 1000), "the first has no other before it");
        assert!(!waits.grow(Some((1 << 40) + 99_999), 1250));
        assert!(waits.grow(Some((1 << 40) + 199_999), 1500));
        assert!(!waits.grow(None, 1750) && !waits.grow(Some(1 << 41), 2000), "none was there");
        assert!(!waits.grow(Some(1 << 42), 2000), "no time has passed");
    }

    #[test]
    fn samples_are_seldom_until_a_sign_and_follow_the_beats_of_the_canary_at_rest() {
        let pace = Pace::new(BEAT, 100.0, false);
        let next = |now_ms| pace.next_sample(Duration::from_millis(now_ms)).as_millis();
        assert_eq!([1000, 1049, 1050, 1299, 1300].map(next), [1050, 1050, 1300, 1300, 1550]);
        assert!(pace.alert(1301) && !pace.alert(1302));
        assert_eq!([1302, 1399, 1400].map(next), [1400, 1400, 1500]);
        assert_eq!(next(11_302), 11_550);
    }

    #[test]
    fn where_nothing_is_probed_samples_are_once_a_second_until_a_sign() {
        let pace = Pace::unprobed();
        let next = |now_ms| pace.next_sample(Duration::from_millis(now_ms)).as_millis();
        assert_eq!([1049, 1050, 1300].map(next), [1050, 2050, 2050]);
        assert!(pace.alert(1301));
        assert_eq!(next(1302), 1400);
    }

    #[test]
    fn a_short_limit_and_heartbeats_need_every_beat() {
        for (limit_ms, heartbeats) in [(99.0, false), (100.0, true)] {
            assert_eq!(Pace::new(BEAT, limit_ms, heartbeats).beat(1 << 40), BEAT, "{limit_ms}");
        }
    }

    #[test]
    fn a_slow_touch_and_a_late_turn_are_signs() {
        let pace = Pace::new(BEAT, 100.0, false);
        let tick = |touch_us, late_us| CanaryTick { touch_us, idle_us: late_us, late_us };
        assert!(!pace.is_sign(tick(24_999, 24_999)));
        assert!(pace.is_sign(tick(25_000, 0)) && pace.is_sign(tick(0, 25_000)));
    }

    #[test]
    fn reclaim_by_tasks_and_their_waits_are_signs() {
        let mut signs = Signs::default();
        let mut is_new = |entered: u64, waited_us: u64| signs.grow(Some(entered), Some(waited_us));
        assert!(!is_new(7, 1 << 40), "the first has no other before it");
        assert!(!is_new(7, (1 << 40) + 999));
        assert!(is_new(8, (1 << 40) + 999));
        assert!(is_new(8, (1 << 40) + 2000));
        assert!(!is_new(0, 0), "counters that began anew");
        assert!(!signs.grow(None, None) && !signs.grow(Some(9), Some(1 << 41)), "none was there");
    }
}
