//! A point of a series.

/// A value at a time, in seconds from any start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrendPoint {
    pub at_s: f64,
    pub value: f64,
}
