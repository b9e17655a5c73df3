//! How fast the canary beats. What it would find has signs that are sampled ten times a second anyway: while there are
//! none it rests, from the first on it keeps its beat, and in a stall a faster one.

use mw_model::{CanaryTick, Sample, derived};
use mw_probe::canary::{Canary, MAX_INTERVAL};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The beat in a stall.
const STALL_BEAT: Duration = Duration::from_millis(1);

/// How long the beat is kept after a sign.
const ALERT_MS: u64 = 10_000;

/// A canary with a shorter limit never rests: it is to see what is over before the next sample.
const LEAST_LIMIT_MS: f64 = 100.0;

/// Of its limit, so much of a touch or of lateness is a sign.
const SIGN_OF_LIMIT: f64 = 0.25;

/// What tasks waited for memory between two samples, at least, is a sign: a hundredth of a CPU's time.
const SIGN_OF_PRESSURE_US: u64 = 1000;

/// The beat, of which several threads decide.
#[derive(Debug)]
pub(crate) struct Pace {
    beat: Duration,
    limit_ms: f64,
    may_rest: bool,
    alert_until_ms: AtomicU64,
    is_stalled: AtomicBool,
}

/// What the last sample had of memory work for which tasks wait.
#[derive(Debug, Default)]
pub(crate) struct Signs {
    entered: Option<u64>,
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
            alert_until_ms: AtomicU64::new(0),
            is_stalled: AtomicBool::new(false),
        }
    }

    /// Whether what the canary measured is a sign.
    pub(crate) fn is_sign(&self, tick: CanaryTick) -> bool {
        tick.touch_us.max(tick.late_us) as f64 / 1000.0 >= self.limit_ms * SIGN_OF_LIMIT
    }

    /// There was a sign.
    pub(crate) fn alert(&self, now_ms: u64) {
        self.alert_until_ms.store(now_ms.saturating_add(ALERT_MS), Relaxed);
    }

    /// A stall has begun, or all are over.
    pub(crate) fn set_stalled(&self, is_stalled: bool) {
        self.is_stalled.store(is_stalled, Relaxed);
    }

    pub(crate) fn set(&self, canary: &Canary, now_ms: u64) {
        canary.set_interval(self.now(now_ms));
    }

    fn now(&self, now_ms: u64) -> Duration {
        if self.is_stalled.load(Relaxed) {
            STALL_BEAT
        } else if self.may_rest && now_ms >= self.alert_until_ms.load(Relaxed) {
            MAX_INTERVAL
        } else {
            self.beat
        }
    }
}

impl Signs {
    /// Whether tasks have reclaimed or compacted memory themselves, or waited for it, since the last sample.
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

#[cfg(test)]
mod tests {
    use super::*;

    const BEAT: Duration = Duration::from_millis(10);

    #[test]
    fn the_canary_rests_until_a_sign_and_is_faster_in_a_stall() {
        let pace = Pace::new(BEAT, 100.0, false);
        assert_eq!(pace.now(0), MAX_INTERVAL);
        pace.alert(1000);
        assert_eq!((pace.now(1000), pace.now(10_999)), (BEAT, BEAT));
        assert_eq!(pace.now(11_000), MAX_INTERVAL);
        pace.set_stalled(true);
        assert_eq!(pace.now(11_000), STALL_BEAT);
        pace.set_stalled(false);
        assert_eq!(pace.now(11_000), MAX_INTERVAL);
    }

    #[test]
    fn a_short_limit_and_heartbeats_need_every_beat() {
        for (limit_ms, heartbeats) in [(99.0, false), (100.0, true)] {
            assert_eq!(Pace::new(BEAT, limit_ms, heartbeats).now(1 << 40), BEAT, "{limit_ms}");
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
