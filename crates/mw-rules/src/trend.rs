//! Whether a series grows steadily, how fast, and when it reaches a limit.
//!
//! Sizes of memory are rarely a line: garbage collectors and log rotation make saws, caches fill, deployments
//! make steps, batches come and go. Growth is reported only where all of the following hold:
//!
//! - **The lows grow.** The series is divided into at most [`MAX_BINS`] bins of equal time, and the low of each
//!   counts: what a collector or a rotation releases does not.
//! - **They grow all the time** (`steady.rs`): in each fifth, in the last one as well, and in no single step.
//!   A cache that levels off, a step and a walk at random do not.
//! - **The noise is small** compared to the growth.
//! - **It exceeds what was there before.** Growth that is younger than the series must have exceeded all that
//!   the series has been before, as a batch that comes every night does not.
//!
//! The slope is the median of the slopes between all pairs of lows (Theil and Sen), which a quarter of wrong
//! values does not change. Its interval is the wider of Sen's, with the variance that correlated residuals
//! have, and of the spread of the fifths' own slopes.
//!
//! A value that falls towards a limit is given with its sign changed, and so is the limit.

mod lows;
mod point;
mod slope;
mod steady;

use lows::{Bins, last_collapse, lows};
pub use point::TrendPoint;
use slope::Slope;

/// The fewest points that are judged: of one a minute, 36 minutes.
pub const MIN_POINTS: usize = 36;

/// The fewest points of growth that is younger than its series: of one a minute, three hours, which most
/// batches do not take.
const MIN_RECENT_POINTS: usize = 180;

/// The most points that are judged; of more, lows of several are.
pub const MAX_POINTS: usize = 20_000;

/// The most bins: 496 pairs of lows.
const MAX_BINS: usize = 32;

/// The fewest points of a bin, on average.
const POINTS_PER_BIN: usize = 3;

/// Parts of the series, counted from its end, that are tried one after the other.
const RECENT_PARTS: [f64; 8] = [1.0, 0.75, 0.5, 0.35, 0.25, 0.18, 0.125, 0.0625];

/// Recent growth is compared to that of a time before it, so many times as long.
const BEFORE_TIMES: f64 = 4.0;

/// The least recent slope, compared to the one before: below it, growth is levelling off.
const MIN_SLOPE_OF_BEFORE: f64 = 0.9;

/// By what part of its rise recent growth must exceed what was there before.
const EXCEEDS_BEFORE: f64 = 0.1;

/// Shorter growth is preferred where its interval is narrower by this factor.
const NARROWER: f64 = 0.25;

/// The share of points below the level from which the limit is reached: noise reaches it earlier than the
/// trend does.
const LEVEL_QUANTILE: f64 = 0.9;

/// A forecast reaches at most so many times as far as the growth that it rests on.
const MAX_REACH: f64 = 40.0;

/// Steady growth of a series until its end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// Its beginning, as far as the series shows.
    pub since_s: f64,
    /// End of the series.
    pub until_s: f64,
    /// Value of the series at its end, peaks included.
    pub level: f64,
    /// Value of the line through its lows at its end.
    pub low: f64,
    /// By how much the trend has risen.
    pub rise: f64,
    pub per_s: f64,
    pub least_per_s: f64,
    pub most_per_s: f64,
}

/// Time until a limit is reached, from the end of the series on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeLeft {
    pub expected_s: f64,
    pub least_s: f64,
    pub most_s: f64,
}

impl Growth {
    /// The width of the interval, compared to the slope.
    fn spread(&self) -> f64 {
        (self.most_per_s - self.least_per_s) / self.per_s
    }

    /// Time at which a limit is reached; `None` where that is too far away to say.
    #[must_use]
    pub fn reaches(&self, limit: f64) -> Option<TimeLeft> {
        self.reaches_from(self.level, limit)
    }

    /// Time at which the lows reach a limit, so that nothing remains below it; `None` where that is too far away to say.
    #[must_use]
    pub fn lows_reach(&self, limit: f64) -> Option<TimeLeft> {
        self.reaches_from(self.low, limit)
    }

    fn reaches_from(&self, level: f64, limit: f64) -> Option<TimeLeft> {
        let room = (limit - level).max(0.0);
        let after = |per_s: f64| room / per_s;
        let left = TimeLeft {
            expected_s: after(self.per_s),
            least_s: after(self.most_per_s),
            most_s: after(self.least_per_s),
        };
        let reach_s = (self.until_s - self.since_s) * MAX_REACH;
        (left.expected_s.is_finite() && left.expected_s <= reach_s).then_some(left)
    }
}

/// The steady growth that a series ends with; `None` where there is none. Points are in the order of their
/// times; others are left out.
#[must_use]
pub fn growth(points: &[TrendPoint]) -> Option<Growth> {
    let points = usable(points);
    let (first, last) = (points.first()?, points.last()?);
    let span_s = last.at_s - first.at_s;
    let part = |share: f64| {
        let since_s = last.at_s - span_s * share;
        points.partition_point(|point| point.at_s < since_s)
    };
    let parts = RECENT_PARTS.iter().map(|share| part(*share));
    let starts = parts.chain(last_collapse(&points));
    // The longest: unless it began before the growth did, it is the most certain.
    starts.filter_map(|start| growth_from(&points, start)).reduce(|longer, shorter| {
        let is_better = shorter.spread() < longer.spread() * NARROWER;
        if is_better { shorter } else { longer }
    })
}

/// Points that are numbers and in order, at most [`MAX_POINTS`].
fn usable(points: &[TrendPoint]) -> Vec<TrendPoint> {
    let mut last_s = f64::NEG_INFINITY;
    let in_order = points.iter().copied().filter(|point| {
        let is_later = point.at_s > last_s && point.at_s.is_finite() && point.value.is_finite();
        if is_later {
            last_s = point.at_s;
        }
        is_later
    });
    let points: Vec<TrendPoint> = in_order.collect();
    match points.len() {
        0..=MAX_POINTS => points,
        _ => lows(&points, MAX_POINTS).low,
    }
}

/// The growth from a point on.
fn growth_from(points: &[TrendPoint], start: usize) -> Option<Growth> {
    let (before, recent) = points.split_at_checked(start)?;
    let fewest = if before.is_empty() { MIN_POINTS } else { MIN_RECENT_POINTS };
    if recent.len() < fewest {
        return None;
    }
    let bins = lows(recent, (recent.len() / POINTS_PER_BIN).min(MAX_BINS));
    let slope = Slope::of(&bins.low)?;
    let slope = steady::check(&bins.low, slope)?;
    let growth = of_line(recent, &bins, slope)?;
    if is_slower_than_before(&growth, before) {
        return None;
    }
    let most_before = before.iter().map(|point| point.value).fold(f64::NEG_INFINITY, f64::max);
    (growth.level >= most_before + growth.rise * EXCEEDS_BEFORE).then_some(growth)
}

/// True if growth was faster before: the recent part of what levels off is nearly a line too.
fn is_slower_than_before(growth: &Growth, before: &[TrendPoint]) -> bool {
    let since_s = growth.since_s - (growth.until_s - growth.since_s) * BEFORE_TIMES;
    let start = before.partition_point(|point| point.at_s < since_s);
    let before = before.get(start..).unwrap_or_default();
    let bins = lows(before, (before.len() / POINTS_PER_BIN).min(MAX_BINS));
    Slope::of(&bins.low).is_some_and(|before| growth.per_s < before.per_s * MIN_SLOPE_OF_BEFORE)
}

/// The growth along a line that fits the lows.
fn of_line(recent: &[TrendPoint], bins: &Bins, slope: Slope) -> Option<Growth> {
    let (first, last) = (recent.first()?, recent.last()?);
    let rise = slope.per_s * (last.at_s - first.at_s);
    let half = recent.get(recent.len() / 2..)?;
    let mut above: Vec<f64> = half.iter().map(|p| p.value - slope.at(p.at_s)).collect();
    let peak = slope::quantile(&mut above, LEVEL_QUANTILE)?;
    // The line through the last lows: one through all of them lags where growth was not quite even.
    let late = bins.low.get(bins.low.len() / 2..)?;
    let mut off: Vec<f64> = late.iter().map(|p| p.value - slope.at(p.at_s)).collect();
    let off = slope::quantile(&mut off, 0.5)?;
    Some(Growth {
        since_s: first.at_s,
        until_s: last.at_s,
        level: slope.at(last.at_s) + peak.max(off),
        low: slope.at(last.at_s) + off,
        rise,
        per_s: slope.per_s,
        least_per_s: slope.least_per_s,
        most_per_s: slope.most_per_s,
    })
}
