//! A quantity that is known up to a range.

/// A likely value with the range that it lies in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ValueRange {
    pub(super) low: f64,
    pub(super) likely: f64,
    pub(super) high: f64,
}

impl ValueRange {
    pub(super) const ZERO: Self = Self::exact(0.0);

    pub(super) const fn exact(value: f64) -> Self {
        Self { low: value, likely: value, high: value }
    }

    pub(super) const fn new(low: f64, likely: f64, high: f64) -> Self {
        Self { low, likely, high }
    }

    /// The sum of two that are independent: their deviations add up as the roots of squares do.
    pub(super) fn plus(self, other: Self) -> Self {
        let likely = self.likely + other.likely;
        let below = (self.likely - self.low).hypot(other.likely - other.low);
        let above = (self.high - self.likely).hypot(other.high - other.likely);
        // Not below the sum of the least.
        Self { low: (likely - below).max(self.low + other.low), likely, high: likely + above }
    }

    /// The product of two that are independent and at least 0; deviations count as ratios.
    pub(super) fn times(self, other: Self) -> Self {
        let likely = self.likely * other.likely;
        if self.low <= 0.0 || other.low <= 0.0 {
            return Self { low: self.low * other.low, likely, high: self.high * other.high };
        }
        let ratio = |a: f64, b: f64| a.ln().hypot(b.ln()).exp();
        let below = ratio(self.likely / self.low, other.likely / other.low);
        let above = ratio(self.high / self.likely, other.high / other.likely);
        Self { low: likely / below, likely, high: likely * above }
    }

    pub(super) fn scaled(self, factor: f64) -> Self {
        Self { low: self.low * factor, likely: self.likely * factor, high: self.high * factor }
    }

    /// The ratio of its ends; infinite from 0.
    pub(super) fn width(self) -> f64 {
        if self.low > 0.0 { self.high / self.low } else { f64::INFINITY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn independent_deviations_add_up_as_roots_of_squares() {
        let a = ValueRange::new(6.0, 10.0, 13.0);
        let sum = a.plus(ValueRange::new(7.0, 10.0, 14.0));
        assert_eq!(sum, ValueRange::new(15.0, 20.0, 25.0));
        assert_eq!(a.plus(ValueRange::ZERO), a);
        let product = ValueRange::new(5.0, 10.0, 20.0).times(ValueRange::new(1.0, 2.0, 4.0));
        // Twice a factor of 2 on each side.
        let side = 2.0_f64.powf(2.0_f64.sqrt());
        assert!((product.width() - side * side).abs() < 1e-9, "{product:?}");
        let scaled = a.times(ValueRange::exact(2.0));
        assert!((scaled.low - 12.0).abs() < 1e-9 && (scaled.high - 26.0).abs() < 1e-9);
        assert_eq!(
            ValueRange::new(0.0, 0.0, 5.0).times(ValueRange::exact(2.0)),
            ValueRange::new(0.0, 0.0, 10.0)
        );
    }
}
