//! Stacks of the time before a stall: the hour under way and the one before.
//!
//! A stall begins before it is noticed. What was sampled in the last seconds is therefore kept
//! apart, and dropped when a stall is noticed.

use crate::table::{StackPeriod, StackTable};
use std::time::{Duration, Instant};

const HOUR: Duration = Duration::from_secs(3600);
/// Age, or up to twice of it, of samples that do not count when a stall is noticed.
const YOUNG: Duration = Duration::from_secs(5);

/// A rolling table of stacks.
#[derive(Debug)]
pub(crate) struct RollingStacks {
    before: Period,
    now: Period,
    /// The last seconds, the older first.
    young: [Period; 2],
    /// Since when is counted; `None` during a stall, which is not all well.
    counting: Option<Instant>,
}

#[derive(Debug, Default)]
struct Period {
    table: StackTable,
    span: Duration,
    lost: u64,
}

impl Period {
    fn merge(&mut self, other: &Self) {
        self.table.merge(&other.table);
        self.span += other.span;
        self.lost += other.lost;
    }
}

impl RollingStacks {
    /// An empty one that counts from `now` on.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            before: Period::default(),
            now: Period::default(),
            young: <[Period; 2]>::default(),
            counting: Some(now),
        }
    }

    /// Counts a stack, unless it is paused.
    pub(crate) fn add(&mut self, name: u32, addresses: impl Iterator<Item = u64>) {
        if self.counting.is_some() {
            self.young[1].table.add(0, name, addresses);
        }
    }

    /// Counts records that were lost.
    pub(crate) fn lost(&mut self, records: u64) {
        self.young[1].lost += records;
    }

    /// A stall was noticed: the last seconds may belong to it, unless they are all there is.
    /// Does not count until [`Self::resume`].
    pub(crate) fn pause(&mut self, now: Instant) {
        self.advance(now);
        self.counting = None;
        if !self.now.span.is_zero() || !self.before.span.is_zero() {
            self.young = <[Period; 2]>::default();
        }
    }

    pub(crate) fn resume(&mut self, now: Instant) {
        self.counting = Some(now);
    }

    /// Lets time pass: what is old enough joins the hour, and after an hour a new one begins.
    pub(crate) fn advance(&mut self, now: Instant) {
        let Some(since) = self.counting else { return };
        self.counting = Some(now);
        self.young[1].span += now.saturating_duration_since(since);
        if self.young[1].span >= YOUNG {
            self.young.swap(0, 1);
            let settled = std::mem::take(&mut self.young[1]);
            self.now.merge(&settled);
        }
        if self.now.span >= HOUR {
            self.before = std::mem::take(&mut self.now);
        }
    }

    /// All of it together; `None` where nothing was sampled yet.
    pub(crate) fn sum(
        &mut self,
        now: Instant,
        hz: u32,
        cpus: u32,
    ) -> Option<(StackTable, StackPeriod)> {
        self.advance(now);
        let mut sum = Period::default();
        for period in [&self.before, &self.now, &self.young[0], &self.young[1]] {
            sum.merge(period);
        }
        let span_ms = u64::try_from(sum.span.as_millis()).unwrap_or(u64::MAX);
        (span_ms > 0).then_some((
            sum.table,
            StackPeriod { hz, cpus, span_ms, first_us: None, lost: sum.lost },
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Names;
    use crate::symbols::Symbols;

    fn check(baseline: &mut RollingStacks, now: Instant, samples: u64, span_ms: u64) {
        let (table, span) = baseline.sum(now, 7, 1).unwrap();
        let profile = table.profile(&Symbols::default(), &Names::default(), span);
        assert_eq!((profile.samples(), profile.span_ms), (samples, span_ms));
    }

    fn sample(baseline: &mut RollingStacks) {
        baseline.add(2, [1].into_iter());
    }

    #[test]
    fn it_holds_two_hours() {
        let start = Instant::now();
        let mut baseline = RollingStacks::new(start);
        assert!(baseline.sum(start, 7, 1).is_none());
        let minute = HOUR / 60;
        for minutes in 1..=4 * 60 {
            sample(&mut baseline);
            baseline.advance(start + minute * minutes);
        }
        let (_, span) = baseline.sum(start + minute * 240, 7, 1).unwrap();
        let hour_ms = 3_600_000;
        assert!((hour_ms..=2 * hour_ms + 60_000).contains(&span.span_ms), "{}", span.span_ms);
        check(&mut baseline, start + minute * 240, span.span_ms / 60_000, span.span_ms);
    }

    #[test]
    fn a_stall_and_what_led_to_it_is_not_counted() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut baseline = RollingStacks::new(start);
        for second in 0..20 {
            sample(&mut baseline);
            baseline.advance(at(second + 1));
        }
        check(&mut baseline, at(20), 20, 20_000);
        baseline.pause(at(23));
        sample(&mut baseline);
        check(&mut baseline, at(25), 15, 15_000);
        baseline.resume(at(30));
        sample(&mut baseline);
        check(&mut baseline, at(32), 16, 17_000);
    }

    #[test]
    fn the_last_seconds_count_where_there_is_nothing_else() {
        let start = Instant::now();
        let mut baseline = RollingStacks::new(start);
        sample(&mut baseline);
        baseline.pause(start + Duration::from_secs(3));
        check(&mut baseline, start + Duration::from_secs(60), 1, 3000);
    }
}
