//! How measured values are written.

use crate::judge::MeasurementSeries;
use crate::judge::transcript::RunPhase;

/// A measurement over the phases, and its multiple of the first value: `create 2 s, during 14 (x7),
/// fixed 2 (x1)`.
pub(super) fn effect(series: &MeasurementSeries) -> String {
    let value = |phase| series.values.get(&phase).copied();
    let before = value(RunPhase::Before);
    let mut parts = Vec::new();
    for phase in [RunPhase::During, RunPhase::Fixed, RunPhase::Reverted] {
        let Some(now) = value(phase) else { continue };
        let times = before.filter(|before| *before > 0.0).map(|before| now / before);
        let times = times.map_or_else(String::new, |times| format!(" (x{})", short(times)));
        parts.push(format!("{} {}{times}", phase.name(), short(now)));
    }
    let first = before.map(|before| format!(" {}", short(before))).unwrap_or_default();
    format!("{}{first} {}, {}", series.name, series.unit, parts.join(", "))
}

/// The value in one phase, or a dash.
pub(super) fn cell(series: &MeasurementSeries, phase: RunPhase) -> String {
    series.values.get(&phase).map_or_else(|| "–".to_owned(), |value| short(*value))
}

pub fn short(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 100.0 || v.fract() == 0.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}
