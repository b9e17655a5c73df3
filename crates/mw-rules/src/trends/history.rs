//! What the trends of holders and of supplies have in common.

use crate::trend::{MIN_POINTS, TimeLeft, TrendPoint};
use mw_model::{Estimate, Missing, SizeHistory, SizeSeries, SizedHolder, format_count};

/// A forecast beyond it is none: 90 days.
pub(super) const MAX_HOURS_LEFT: f64 = 90.0 * 24.0;

/// A holder that more samples lack at the end has gone. Slab caches are in every tenth sample.
const MAX_MISSED: u64 = 3;
const MAX_MISSED_OF_SLABS: u64 = 24;

/// A holder explains the growth of a larger one if it grows by this share of it.
pub(super) const EXPLAINS: f64 = 0.7;

pub(super) const MS_PER_S: f64 = 1000.0;
pub(super) const S_PER_HOUR: f64 = 3600.0;

/// Sizes as points, times a factor: of -1, what falls grows.
pub(super) fn points(sizes: &[(u64, u64)], factor: f64) -> Vec<TrendPoint> {
    let at = |(unix_ms, bytes): &(u64, u64)| TrendPoint {
        at_s: *unix_ms as f64 / MS_PER_S,
        value: *bytes as f64 * factor,
    };
    sizes.iter().map(at).collect()
}

/// The first and the last sample.
pub(super) fn range(history: &SizeHistory, recording: &str) -> Result<(u64, u64), Missing> {
    let times = &history.at_unix_ms;
    let (Some(since), Some(until)) = (times.iter().min(), times.iter().max()) else {
        let why = "no sizes of processes and cgroups in this time; 'memwright watch' records them once a \
                   minute";
        return Err(Missing::absent(recording, why));
    };
    if times.len() < MIN_POINTS {
        let why = format!(
            "too few sizes for a trend in this time: {} (at least {MIN_POINTS}, one a minute)",
            format_count(times.len(), "sample")
        );
        return Err(Missing::absent(recording, why));
    }
    Ok((*since, *until))
}

/// True if a holder is in one of the last samples.
pub(super) fn is_current(history: &SizeHistory, series: &SizeSeries) -> bool {
    let missed = match series.holder {
        SizedHolder::SlabCache { .. } => MAX_MISSED_OF_SLABS,
        _ => MAX_MISSED,
    };
    let missed = usize::try_from(missed).unwrap_or(usize::MAX);
    let oldest = history.at_unix_ms.iter().rev().take(missed).min();
    series.sizes.last().zip(oldest).is_some_and(|((last, _), oldest)| last >= oldest)
}

pub(super) fn hours(left: TimeLeft) -> Estimate {
    Estimate {
        expected: left.expected_s / S_PER_HOUR,
        least: left.least_s / S_PER_HOUR,
        most: (left.most_s.is_finite() && left.most_s >= left.expected_s)
            .then_some(left.most_s / S_PER_HOUR),
    }
}
