//! Whether lows grow all the time.

use super::point::TrendPoint;
use super::slope::{Slope, median};

/// Parts of the time in each of which the lows must grow.
const PARTS: usize = 5;

/// The fewest lows of the growth that is judged.
const MIN_LOWS: usize = 10;

/// The least of Kendall's tau: of pairs of lows, nine rise for each that falls.
const MIN_TAU: f64 = 0.8;

/// The rise must be so many standard deviations of the residuals.
const MIN_RISE_SIGMAS: f64 = 4.0;

/// The least and the most growth from one part to the next, compared to the mean.
const PART_SLOPES: std::ops::RangeInclusive<f64> = 0.35..=2.0;

/// The least growth to the last part, compared to the mean.
const MIN_LAST_SLOPE: f64 = 0.6;

/// The largest rise from one low to the next, as a share of the whole.
const MAX_STEP: f64 = 0.35;

/// A slope at the end below this share of the mean is growth that levels off; above the other, growth that is
/// younger than it looks. Where residuals are large the curve must be certain by so many standard errors.
const END_SLOPES: std::ops::RangeInclusive<f64> = 0.8..=1.6;
const CURVE_ERRORS: f64 = 2.0;

/// For the interval of a mean of four values (Student): for one that holds nine of ten it would be 2.35, but the
/// limit is reached by peaks, whose height is uncertain as well.
const STUDENT_OF_FOUR: f64 = 3.2;

/// The slope of lows that grow steadily, with an interval that their parts agree with.
pub(super) fn check(lows: &[TrendPoint], slope: Slope) -> Option<Slope> {
    let (first, last) = (lows.first()?, lows.last()?);
    let rise = slope.per_s * (last.at_s - first.at_s);
    let is_clear = lows.len() >= MIN_LOWS
        && rise > 0.0
        && slope.tau >= MIN_TAU
        && rise >= slope.sigma * MIN_RISE_SIGMAS;
    if !is_clear || largest_step(lows) > rise * MAX_STEP {
        return None;
    }
    let parts = part_slopes(lows)?;
    let mean = parts.iter().sum::<f64>() / parts.len() as f64;
    let is_even = parts.iter().all(|part| PART_SLOPES.contains(&(part / mean)));
    let is_lasting = parts.last().is_some_and(|last| last / mean >= MIN_LAST_SLOPE);
    if mean <= 0.0 || !is_even || !is_lasting || is_curved(lows) {
        return None;
    }
    Some(widened(slope, &parts, mean))
}

fn largest_step(lows: &[TrendPoint]) -> f64 {
    let steps = lows.iter().zip(lows.iter().skip(1)).map(|(a, b)| b.value - a.value);
    steps.fold(0.0, f64::max)
}

/// The slopes between the medians of parts of equal time.
fn part_slopes(lows: &[TrendPoint]) -> Option<Vec<f64>> {
    let first_s = lows.first()?.at_s;
    let part_s = (lows.last()?.at_s - first_s) / PARTS as f64;
    let last_part = PARTS.saturating_sub(1);
    let part = |point: &TrendPoint| (((point.at_s - first_s) / part_s) as usize).min(last_part);
    let middle = |points: &[TrendPoint]| {
        Some(TrendPoint {
            at_s: points.iter().map(|p| p.at_s).sum::<f64>() / points.len() as f64,
            value: median(points.iter().map(|p| p.value))?,
        })
    };
    let middles: Vec<TrendPoint> =
        lows.chunk_by(|a, b| part(a) == part(b)).filter_map(middle).collect();
    if middles.len() < PARTS {
        return None;
    }
    let pairs = middles.iter().zip(middles.iter().skip(1));
    Some(pairs.map(|(a, b)| (b.value - a.value) / (b.at_s - a.at_s)).collect())
}

fn widened(slope: Slope, parts: &[f64], mean: f64) -> Slope {
    let count = parts.len() as f64;
    let variance = parts.iter().map(|part| (part - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let half = STUDENT_OF_FOUR * (variance / count).sqrt();
    Slope {
        least_per_s: slope.least_per_s.min(slope.per_s - half),
        most_per_s: slope.most_per_s.max(slope.per_s + half),
        ..slope
    }
}

/// True if a parabola fits certainly better than a line, and ends with another slope.
fn is_curved(lows: &[TrendPoint]) -> bool {
    let Some(parabola) = Parabola::of(lows) else { return false };
    let is_certain = parabola.curve.abs() > parabola.curve_error * CURVE_ERRORS;
    is_certain && !END_SLOPES.contains(&(1.0 + 2.0 * parabola.curve / parabola.slope))
}

/// The parabola of least squares over times from -1 to 1: `slope * x + curve * (x² - mean of x²)`.
struct Parabola {
    slope: f64,
    curve: f64,
    curve_error: f64,
}

impl Parabola {
    fn of(points: &[TrendPoint]) -> Option<Self> {
        let (first_s, last_s) = (points.first()?.at_s, points.last()?.at_s);
        let n = points.len() as f64;
        let x = |p: &TrendPoint| (2.0 * p.at_s - first_s - last_s) / (last_s - first_s);
        let mean = |of: &dyn Fn(&TrendPoint) -> f64| points.iter().map(of).sum::<f64>() / n;
        let (x1, y1) = (mean(&x), mean(&|p| p.value));
        let slope_of = |u: &dyn Fn(&TrendPoint) -> f64, v: &dyn Fn(&TrendPoint) -> f64| {
            mean(&|p| u(p) * v(p)) / mean(&|p| u(p) * u(p))
        };
        let centred = |p: &TrendPoint| x(p) - x1;
        let value = |p: &TrendPoint| p.value - y1;
        // The square, made orthogonal to the line.
        let x2 = mean(&|p| x(p) * x(p));
        let lean = slope_of(&centred, &|p| x(p) * x(p) - x2);
        let square = |p: &TrendPoint| x(p) * x(p) - x2 - lean * centred(p);
        let slope = slope_of(&centred, &value);
        let curve = slope_of(&square, &value);
        let residual = |p: &TrendPoint| value(p) - slope * centred(p) - curve * square(p);
        let variance = mean(&|p| residual(p) * residual(p)) * n / (n - 3.0);
        let curve_error = (variance / (mean(&|p| square(p) * square(p)) * n)).sqrt();
        let is_finite = slope.is_finite() && curve.is_finite() && curve_error.is_finite();
        is_finite.then_some(Self { slope, curve, curve_error })
    }
}
