//! The lows of a series, and where it collapsed last.

use super::point::TrendPoint;

/// Bins of equal time, those that have no point left out.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bins {
    /// The lowest point of each.
    pub(super) low: Vec<TrendPoint>,
}

/// A fall by this share of the range of all lows within [`FALL_BINS`] is a collapse, such as a restart.
const COLLAPSE: f64 = 0.4;

/// Bins in which a collapse is looked for.
const COLLAPSE_BINS: usize = 96;

/// Maximum number of bins of a collapse.
const FALL_BINS: usize = 2;

/// The lowest point of each of so many bins.
pub(super) fn lows(points: &[TrendPoint], bins: usize) -> Bins {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Bins { low: Vec::new() };
    };
    let bin_s = (last.at_s - first.at_s) / bins.max(1) as f64;
    let bin = |point: &TrendPoint| ((point.at_s - first.at_s) / bin_s) as usize;
    let lowest =
        |bin: &[TrendPoint]| bin.iter().copied().min_by(|a, b| a.value.total_cmp(&b.value));
    let last_bin = bins.saturating_sub(1);
    let low = points
        .chunk_by(|a, b| bin(a).min(last_bin) == bin(b).min(last_bin))
        .filter_map(lowest)
        .collect();
    Bins { low }
}

/// The index of the first point after the last collapse, where there is one.
pub(super) fn last_collapse(points: &[TrendPoint]) -> Option<usize> {
    let low = lows(points, COLLAPSE_BINS.min(points.len())).low;
    let values = || low.iter().map(|point| point.value);
    let range = values().fold(f64::MIN, f64::max) - values().fold(f64::MAX, f64::min);
    let fell = |at: &usize| {
        let before = at.checked_sub(FALL_BINS).and_then(|before| low.get(before));
        let fall = before.zip(low.get(*at)).map(|(before, now)| before.value - now.value);
        fall.is_some_and(|fall| fall > range * COLLAPSE)
    };
    let at_s = low.get((0..low.len()).rev().find(fell)?)?.at_s;
    Some(points.partition_point(|point| point.at_s < at_s))
}
