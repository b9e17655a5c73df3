//! The slope of Theil and Sen, with its interval.

use super::point::TrendPoint;

/// The quantile of the normal distribution for an interval that holds nine of ten.
const NINE_OF_TEN: f64 = 1.645;

/// By how much correlated residuals may widen the variance: beyond it, nothing is known of the slope.
const MAX_INFLATION: f64 = 9.0;

/// Median deviation to standard deviation, of normal residuals.
const MAD_TO_SIGMA: f64 = 1.4826;

/// A line through points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Slope {
    pub(super) per_s: f64,
    pub(super) least_per_s: f64,
    pub(super) most_per_s: f64,
    /// A point of the line.
    pub(super) through: TrendPoint,
    /// Standard deviation of the residuals, from their median.
    pub(super) sigma: f64,
    /// Kendall's: of all pairs, how many more rise than fall, from -1 to 1.
    pub(super) tau: f64,
}

impl Slope {
    /// The line through at most a few dozen points; `None` for fewer than three.
    pub(super) fn of(points: &[TrendPoint]) -> Option<Self> {
        let mut slopes = Vec::new();
        for (at, a) in points.iter().enumerate() {
            let later = points.iter().skip(at.saturating_add(1));
            slopes.extend(later.map(|b| (b.value - a.value) / (b.at_s - a.at_s)));
        }
        slopes.retain(|slope| slope.is_finite());
        if points.len() < 3 || slopes.is_empty() {
            return None;
        }
        slopes.sort_by(f64::total_cmp);
        let rising = slopes.iter().filter(|slope| **slope > 0.0).count() as f64;
        let falling = slopes.iter().filter(|slope| **slope < 0.0).count() as f64;
        let per_s = quantile(&mut slopes, 0.5)?;
        let at_s = median(points.iter().map(|point| point.at_s))?;
        let value = median(points.iter().map(|p| p.value - per_s * (p.at_s - at_s)))?;
        let through = TrendPoint { at_s, value };
        let residuals: Vec<f64> =
            points.iter().map(|p| p.value - value - per_s * (p.at_s - at_s)).collect();
        let sigma = MAD_TO_SIGMA * median(residuals.iter().map(|r| r.abs()))?;
        let pairs = slopes.len() as f64;
        let half = half_of_interval(points.len() as f64, inflation(&residuals)) / pairs / 2.0;
        Some(Self {
            per_s,
            least_per_s: quantile(&mut slopes, 0.5 - half)?,
            most_per_s: quantile(&mut slopes, 0.5 + half)?,
            through,
            sigma,
            tau: (rising - falling) / pairs,
        })
    }

    pub(super) fn at(&self, at_s: f64) -> f64 {
        self.through.value + self.per_s * (at_s - self.through.at_s)
    }
}

/// Number of the sorted slopes that Sen's interval holds, for `n` points.
fn half_of_interval(n: f64, inflation: f64) -> f64 {
    NINE_OF_TEN * (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0 * inflation).sqrt()
}

/// By how much the variance grows because residuals resemble those before them.
fn inflation(residuals: &[f64]) -> f64 {
    let pairs = residuals.iter().zip(residuals.iter().skip(1));
    let product: f64 = pairs.map(|(a, b)| a * b).sum();
    let square: f64 = residuals.iter().map(|r| r * r).sum();
    if square <= 0.0 {
        return 1.0;
    }
    let correlation = (product / square).clamp(0.0, 0.95);
    ((1.0 + correlation) / (1.0 - correlation)).min(MAX_INFLATION)
}

pub(super) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    quantile(&mut values.collect::<Vec<f64>>(), 0.5)
}

/// The value below which such a share of all lies; sorts them.
pub(super) fn quantile(values: &mut [f64], share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)? as f64;
    let at = last * share.clamp(0.0, 1.0);
    let (below, above) = (values.get(at.floor() as usize)?, values.get(at.ceil() as usize)?);
    Some(below + (above - below) * (at - at.floor()))
}
