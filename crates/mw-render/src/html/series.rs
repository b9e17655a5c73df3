//! Columns of a table as lines of a chart: in order of time, of bounded length, in units for people.

use mw_model::{Column, Incident, NO_VALUE};
use std::collections::HashMap;

/// Largest distance of a row from a stall; a clock that says more is wrong.
const FURTHEST_MS: u64 = 24 * 3600 * 1000;
/// Points that one line may have.
pub(super) const MOST_POINTS: usize = 2000;

/// Conversion of a column's numbers to those of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SeriesConversion {
    /// As they are; of several rows that become one point, the highest.
    Highest,
    /// As they are; of several rows the lowest: free memory.
    Lowest,
    /// As they are; zero means not measured, as for a probe that sent no request.
    Measured,
    /// Increase of a counter in a second.
    Rate,
}

/// The rows of a table that are drawn, several of them to a point where there are many.
#[derive(Debug)]
pub(super) struct SampledRows<'a> {
    columns: HashMap<&'a str, &'a Column>,
    at_unix_ms: &'a [u64],
    kept: Vec<usize>,
    per_point: usize,
    /// Rows that are not drawn: the clock was behind an earlier row, or a day off.
    pub(super) odd: usize,
}

impl<'a> SampledRows<'a> {
    /// The rows of an incident's table, for at most `most_points` points.
    pub(super) fn new(incident: &'a Incident, most_points: usize) -> Self {
        let table = &incident.table;
        let ended = incident.ended_unix_ms.max(incident.started_unix_ms);
        let near = incident.started_unix_ms.saturating_sub(FURTHEST_MS)
            ..=ended.saturating_add(FURTHEST_MS);
        let (mut kept, mut latest) = (Vec::new(), None);
        for (row, at) in table.at_unix_ms.iter().enumerate() {
            if near.contains(at) && latest.is_none_or(|latest| at > latest) {
                kept.push(row);
                latest = Some(at);
            }
        }
        let (per_point, odd) = (kept.len().div_ceil(most_points).max(1), table.rows() - kept.len());
        let named = table.columns.iter().map(|column| (column.name.as_str(), column));
        Self { columns: named.collect(), at_unix_ms: &table.at_unix_ms, kept, per_point, odd }
    }

    /// Beginning of each point, in seconds since `zero_unix_ms`.
    pub(super) fn seconds_since(&self, zero_unix_ms: u64) -> Vec<f64> {
        let at = |row: &usize| self.at_unix_ms.get(*row).copied().unwrap_or_default();
        let first = self.kept.chunks(self.per_point).filter_map(|rows| rows.first());
        first.map(|row| (at(row) as f64 - zero_unix_ms as f64) / 1000.0).collect()
    }

    /// A column's points; nothing where the table has no such column or never a value in it.
    pub(super) fn line(
        &self,
        column: &str,
        how: SeriesConversion,
        factor: f64,
    ) -> Option<Vec<Option<f64>>> {
        let column = self.columns.get(column)?;
        let value = |row: usize| column.values.get(row).copied().filter(|value| *value != NO_VALUE);
        if !self.kept.iter().any(|row| value(*row).is_some()) {
            return None;
        }
        let values = match how {
            SeriesConversion::Rate => self.rates(value),
            SeriesConversion::Measured => self.each(|row| value(row).filter(|value| *value > 0)),
            SeriesConversion::Highest | SeriesConversion::Lowest => self.each(value),
        };
        let fold = if how == SeriesConversion::Lowest { f64::min } else { f64::max };
        let point = |values: &[Option<f64>]| values.iter().flatten().copied().reduce(fold);
        let points = values.chunks(self.per_point).map(point);
        Some(points.map(|point| point.map(|value| rounded(value * factor))).collect())
    }

    /// A column's values as they were recorded, each with its time; of a column that is not there, none.
    pub(super) fn recorded<'s>(
        &'s self,
        column: &str,
    ) -> impl Iterator<Item = (u64, Option<u64>)> + use<'a, 's> {
        let column = self.columns.get(column).copied();
        self.kept.iter().filter_map(move |row| {
            let value = column.and_then(|column| column.values.get(*row)).copied();
            Some((*self.at_unix_ms.get(*row)?, value.filter(|value| *value != NO_VALUE)))
        })
    }

    fn each(&self, value: impl Fn(usize) -> Option<u64>) -> Vec<Option<f64>> {
        self.kept.iter().map(|row| value(*row).map(|value| value as f64)).collect()
    }

    /// Growth a second since the last row that has a value: some columns have one every tenth row.
    fn rates(&self, value: impl Fn(usize) -> Option<u64>) -> Vec<Option<f64>> {
        let mut before: Option<(u64, u64)> = None;
        let rate = |row: &usize| {
            let now = (*self.at_unix_ms.get(*row)?, value(*row)?);
            let (then_ms, then) = before.replace(now)?;
            let (ms, grown) = (now.0.checked_sub(then_ms)?, now.1.checked_sub(then)?);
            (ms > 0).then(|| grown as f64 * 1000.0 / ms as f64)
        };
        self.kept.iter().map(rate).collect()
    }
}

/// Five digits are enough for a chart, and keep the file small.
fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::Table;

    fn recorded(at_unix_ms: &[u64], values: &[u64]) -> Incident {
        let mut table = Table::new(["x"]);
        for (at, value) in at_unix_ms.iter().zip(values) {
            table.push(*at, &[*value]);
        }
        Incident { table, ..Incident::default() }
    }

    #[test]
    fn rates_reach_over_rows_without_a_value() {
        let recorded = recorded(&[0, 100, 200, 1000, 1500], &[5, NO_VALUE, NO_VALUE, 25, 24]);
        let rows = SampledRows::new(&recorded, MOST_POINTS);
        let rates = rows.line("x", SeriesConversion::Rate, 1.0).unwrap();
        assert_eq!(rates, [None, None, None, Some(20.0), None], "the counter was reset at the end");
    }

    #[test]
    fn many_rows_become_few_points_that_keep_the_worst() {
        let at: Vec<u64> = (0..30_000).map(|row| row * 100).collect();
        let mut values = vec![3; at.len()];
        values[12_345] = 9000;
        let recorded = recorded(&at, &values);
        let rows = SampledRows::new(&recorded, MOST_POINTS);
        let line = rows.line("x", SeriesConversion::Highest, 0.001).unwrap();
        assert!(line.len() <= MOST_POINTS, "{}", line.len());
        assert_eq!(line.len(), rows.seconds_since(0).len());
        assert_eq!(line.iter().flatten().copied().reduce(f64::max), Some(9.0));
        assert_eq!(line.iter().flatten().copied().reduce(f64::min), Some(0.003));
    }

    #[test]
    fn a_clock_that_went_back_does_not_turn_time_around() {
        let recorded = recorded(&[1000, 2000, 500, 1500, 2500, u64::MAX], &[1, 2, 3, 4, 5, 6]);
        let rows = SampledRows::new(&recorded, MOST_POINTS);
        assert_eq!(rows.seconds_since(1000), [0.0, 1.0, 1.5]);
        assert_eq!(rows.odd, 3);
    }

    #[test]
    fn a_column_without_a_value_is_no_line() {
        let recorded = recorded(&[1, 2], &[NO_VALUE, NO_VALUE]);
        let rows = SampledRows::new(&recorded, MOST_POINTS);
        assert_eq!(rows.line("x", SeriesConversion::Highest, 1.0), None);
        assert_eq!(rows.line("y", SeriesConversion::Highest, 1.0), None);
    }
}
