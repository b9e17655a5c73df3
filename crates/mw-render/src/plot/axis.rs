//! Scales, round ticks and numbers as text.

/// Less than this from end to end is nothing.
const SMALLEST: f64 = 1e-9;
/// From here on numbers have an exponent.
const LONG: f64 = 1e6;

/// Values from `low` to `high` laid over pixels from `start` to `end`.
#[derive(Debug, Clone, Copy)]
pub(super) struct AxisScale {
    low: f64,
    high: f64,
    start: f64,
    end: f64,
    step: f64,
}

impl AxisScale {
    /// From tick to tick, around `low` and `high`.
    pub(super) fn rounded((low, high): (f64, f64), pixels: (f64, f64), ticks: f64) -> Self {
        let high = if high - low < SMALLEST { low + 1.0 } else { high };
        let step = step((high - low) / ticks);
        let (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
        Self { low, high, start: pixels.0, end: pixels.1, step }
    }

    /// From `low` to `high`, wherever ticks fall.
    pub(super) fn exact((low, high): (f64, f64), pixels: (f64, f64), ticks: f64) -> Self {
        let high = if high - low < SMALLEST { low + 1.0 } else { high };
        Self { low, high, start: pixels.0, end: pixels.1, step: step((high - low) / ticks) }
    }

    /// The pixel of a value, within the scale.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = (value - self.low) / (self.high - self.low);
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        self.start + share * (self.end - self.start)
    }

    /// The pixel and the text of each tick.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let first = (self.low / self.step).ceil();
        // Rounding may put the last one a hair beyond the end.
        let count = ((self.high / self.step) - first + 1e-6).floor().clamp(0.0, 100.0) as u32;
        let values = (0..=count).map(|number| (first + f64::from(number)) * self.step);
        values.map(|value| (self.at(value), self.text(value))).collect()
    }

    fn text(&self, value: f64) -> String {
        if self.high.abs().max(self.low.abs()) >= LONG && value != 0.0 {
            return format!("{value:.1e}");
        }
        let decimals = (-self.step.log10().floor()).clamp(0.0, 9.0) as usize;
        // A negative zero would show its sign.
        format!("{:.decimals$}", value + 0.0)
    }
}

/// The next round number from `rough` on: 1, 2 or 5 times a power of ten.
fn step(rough: f64) -> f64 {
    let power = 10_f64.powf(rough.max(SMALLEST).log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough);
    factor.unwrap_or(10.0) * power
}

/// A number with about three digits that count.
pub(super) fn figure(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if !(0.001..LONG).contains(&size) => format!("{value:.2e}"),
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// Moves positions, which ascend, apart by `gap` and keeps them between `least` and `most`, as far
/// as there is room.
pub(super) fn apart(positions: &mut [f64], gap: f64, (least, most): (f64, f64)) {
    let mut floor = least;
    for position in positions.iter_mut() {
        *position = position.max(floor);
        floor = *position + gap;
    }
    let mut roof = most;
    for position in positions.iter_mut().rev() {
        *position = position.min(roof);
        roof = *position - gap;
    }
}

/// The first free level of each range, so that ranges of a level do not overlap.
pub(super) fn levels(ranges: &[(f64, f64)]) -> Vec<usize> {
    let mut taken: Vec<Vec<(f64, f64)>> = Vec::new();
    let place = |range: &(f64, f64)| {
        let free = |others: &Vec<(f64, f64)>| {
            others.iter().all(|other| range.1 < other.0 || other.1 < range.0)
        };
        let level = taken.iter().position(free).unwrap_or(taken.len());
        match taken.get_mut(level) {
            Some(others) => others.push(*range),
            None => taken.push(vec![*range]),
        }
        level
    };
    ranges.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::{AxisScale, apart, figure, levels};

    fn texts(low: f64, high: f64) -> Vec<String> {
        let scale = AxisScale::rounded((low, high), (0.0, 100.0), 5.0);
        scale.ticks().into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(texts(0.0, 480.0), ["0", "100", "200", "300", "400", "500"]);
        assert_eq!(texts(0.0, 0.07), ["0.00", "0.02", "0.04", "0.06", "0.08"]);
        assert_eq!(texts(-3.0, 4.0), ["-4", "-2", "0", "2", "4"]);
        assert_eq!(texts(0.0, 0.0), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(texts(0.0, 2e9), ["0", "5.0e8", "1.0e9", "1.5e9", "2.0e9"]);
    }

    #[test]
    fn a_scale_keeps_to_its_pixels() {
        let scale = AxisScale::exact((1e18, 1e18), (10.0, 20.0), 5.0);
        assert!(scale.ticks().len() <= 101);
        assert_eq!((scale.at(f64::NAN), scale.at(f64::MIN)), (10.0, 10.0));
    }

    #[test]
    fn figures_have_three_digits() {
        let figures = [0.0, 0.0123, 0.5, 9.999, 36.44, 99.96, 480.2, 3.2e7, 1e-8];
        let expected = ["0", "0.0123", "0.50", "10.0", "36.4", "100", "480", "3.20e7", "1.00e-8"];
        assert_eq!(figures.map(figure), expected);
    }

    #[test]
    fn what_is_close_is_moved_apart() {
        let mut positions = [0.0, 1.0, 95.0, 99.0];
        apart(&mut positions, 10.0, (5.0, 100.0));
        assert_eq!(positions, [5.0, 15.0, 90.0, 100.0]);
        assert_eq!(levels(&[(0.0, 5.0), (4.0, 8.0), (6.0, 9.0)]), [0, 1, 0]);
    }
}
