//! Metrics over time, a column each, as recordings, incidents and exports have them.

use crate::Metric;
use serde::{Deserialize, Serialize};

/// The value of a column where it has none.
pub const NO_VALUE: u64 = u64::MAX;

/// Metrics over time. Columns have the names of a [`Metric`]; every column has a value in each row.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Table {
    /// Times of the rows, in milliseconds since 1970.
    pub at_unix_ms: Vec<u64>,
    pub columns: Vec<Column>,
}

/// One column of a [`Table`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Column {
    /// Its name, such as `vmstat.pgscan_direct`.
    pub name: String,
    /// A value a row; [`NO_VALUE`] where there is none.
    pub values: Vec<u64>,
}

impl Column {
    /// The metric that the column has.
    #[must_use]
    pub fn metric(&self) -> Metric {
        Metric::from_name(&self.name)
    }
}

impl Table {
    /// An empty table of these columns.
    pub fn new<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        let column = |name: S| Column { name: name.into(), values: Vec::new() };
        Self { at_unix_ms: Vec::new(), columns: names.into_iter().map(column).collect() }
    }

    /// Adds a row, in the order of the columns; what a row is short of is without a value.
    pub fn push(&mut self, at_unix_ms: u64, row: &[u64]) {
        self.at_unix_ms.push(at_unix_ms);
        for (at, column) in self.columns.iter_mut().enumerate() {
            column.values.push(row.get(at).copied().unwrap_or(NO_VALUE));
        }
    }

    pub fn rows(&self) -> usize {
        self.at_unix_ms.len()
    }

    /// One row, in the order of the columns, into `row`.
    pub fn row(&self, at: usize, row: &mut Vec<u64>) {
        row.clear();
        let value = |column: &Column| column.values.get(at).copied().unwrap_or(NO_VALUE);
        row.extend(self.columns.iter().map(value));
    }

    /// The values of a metric, `None` where there is none.
    pub fn values(&self, metric: &Metric) -> Option<impl Iterator<Item = Option<u64>> + use<'_>> {
        let name = metric.to_string();
        let column = self.columns.iter().find(|column| column.name == name)?;
        Some(column.values.iter().map(|value| Some(*value).filter(|v| *v != NO_VALUE)))
    }

    /// The rate of a counter before each row; the first row, and one before which the counter was
    /// reset, have none.
    pub fn rates_per_s(&self, metric: &Metric) -> Option<Vec<Option<f64>>> {
        let values: Vec<Option<u64>> = self.values(metric)?.collect();
        let rate = |at: usize| {
            let (before, after) = ((*values.get(at.checked_sub(1)?)?)?, (*values.get(at)?)?);
            let ms = self.at_unix_ms.get(at)?.checked_sub(*self.at_unix_ms.get(at - 1)?)?;
            let grown = after.checked_sub(before)?;
            (ms > 0).then(|| grown as f64 * 1000.0 / ms as f64)
        };
        Some((0..values.len()).map(rate).collect())
    }
}
