//! The last minutes of every number that has a curve.

use crate::measure::{Curve, MEASURES};
use mw_model::Sample;

/// Length of the curves, in milliseconds.
pub const TRAIL_MS: u64 = 120_000;

/// The numbers of the last minutes.
#[derive(Debug, Clone, Default)]
pub struct Trail {
    ends_unix_ms: u64,
    points: Vec<TrailPoint>,
}

#[derive(Debug, Clone)]
struct TrailPoint {
    unix_ms: u64,
    values: [Option<f64>; MEASURES.len()],
}

impl Trail {
    /// The trail of samples, oldest first; the last one is where it ends.
    pub fn from_samples<'a>(samples: impl IntoIterator<Item = (u64, &'a Sample)>) -> Self {
        let mut before: Option<&Sample> = None;
        let mut trail = Self::default();
        for (unix_ms, sample) in samples {
            trail.ends_unix_ms = unix_ms;
            if let Some(before) = before {
                let values = MEASURES.each_ref().map(|measure| measure.between(before, sample));
                trail.points.push(TrailPoint { unix_ms, values });
            }
            before = Some(sample);
        }
        trail
    }

    /// The number where the trail ends.
    pub fn last(&self, series: Curve) -> Option<f64> {
        *self.points.last()?.values.get(series as usize)?
    }

    /// The highest number of the trail.
    pub fn peak(&self, series: Curve) -> Option<f64> {
        let values = self.points.iter().filter_map(|point| *point.values.get(series as usize)?);
        values.max_by(f64::total_cmp)
    }

    /// The trail in `count` cells, oldest first: the highest number of each, nothing where there
    /// was none.
    pub fn cells(&self, series: Curve, count: usize) -> Vec<Option<f64>> {
        let mut cells: Vec<Option<f64>> = vec![None; count];
        for point in &self.points {
            let age_ms = self.ends_unix_ms.saturating_sub(point.unix_ms);
            let back = (age_ms as usize).saturating_mul(count) / TRAIL_MS as usize;
            let Some(cell) = count.checked_sub(back + 1).and_then(|at| cells.get_mut(at)) else {
                continue;
            };
            let Some(Some(value)) = point.values.get(series as usize) else { continue };
            *cell = Some(cell.map_or(*value, |highest| highest.max(*value)));
        }
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::Reading;
    use mw_proc::vmstat::{Counter, Vmstat};

    #[test]
    fn a_cell_has_the_highest_number_of_its_time() {
        let sample = |second: u64, stalls: u64| {
            let mut vmstat = Vmstat::default();
            vmstat.set(Counter::Allocstall, Some(stalls));
            let at_ms = second as f64 * 1000.0;
            (second * 1000, Sample { at_ms, vmstat: Reading::Value(vmstat), ..Sample::default() })
        };
        let samples: Vec<(u64, Sample)> =
            [(100, 0), (101, 5), (130, 5), (160, 5), (161, 8), (162, 8)]
                .map(|(second, stalls)| sample(second, stalls))
                .into();
        let trail = Trail::from_samples(samples.iter().map(|(at, sample)| (*at, sample)));
        let cells = trail.cells(Curve::Allocstall, 4);
        assert_eq!(cells, [None, Some(5.0), Some(0.0), Some(3.0)]);
        assert_eq!(trail.last(Curve::Allocstall), Some(0.0));
        assert_eq!(trail.peak(Curve::Allocstall), Some(5.0));
        assert_eq!(trail.cells(Curve::Allocstall, 0), []);
        assert_eq!(Trail::default().cells(Curve::Cpu, 2), [None, None]);
    }
}
