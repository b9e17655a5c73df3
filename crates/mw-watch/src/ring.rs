//! The last two minutes and more, in memory that was there from the start.

use mw_model::Table;
use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Rows that are kept: 120 seconds of ten, and more of fewer.
pub const RING_ROWS: usize = 1200;

/// Rows of numbers, the oldest of which each new one replaces.
#[derive(Debug)]
pub(crate) struct RowRing {
    names: Vec<String>,
    rows: Mutex<RingRows>,
}

#[derive(Debug)]
struct RingRows {
    at_unix_ms: Vec<u64>,
    values: Vec<u64>,
    /// Rows that were ever added: the number of the next one.
    pushed: usize,
}

impl RowRing {
    /// An empty ring of these columns; its memory is touched, so that it is there when it is needed.
    pub(crate) fn new(names: &[String]) -> Self {
        let rows = RingRows {
            at_unix_ms: vec![1; RING_ROWS],
            values: vec![1; RING_ROWS * names.len()],
            pushed: 0,
        };
        Self { names: names.to_vec(), rows: Mutex::new(rows) }
    }

    /// Adds a row, in the order of the columns. Allocates nothing.
    pub(crate) fn push(&self, unix_ms: u64, row: &[u64]) {
        let mut rows = self.rows();
        let (at, width) = (rows.pushed % RING_ROWS, self.names.len());
        if let Some(slot) = rows.at_unix_ms.get_mut(at) {
            *slot = unix_ms;
        }
        if let Some(slots) = rows.values.get_mut(at * width..(at + 1) * width) {
            for (slot, value) in slots.iter_mut().zip(row) {
                *slot = *value;
            }
        }
        rows.pushed += 1;
    }

    /// The rows from one time to another, both included, in the order in which they were taken.
    pub(crate) fn table(&self, since_unix_ms: u64, until_unix_ms: u64) -> Table {
        let mut table = Table::new(self.names.iter().map(String::as_str));
        let mut values = Vec::with_capacity(self.names.len());
        let pushed = self.rows().pushed;
        for number in pushed.saturating_sub(RING_ROWS)..pushed {
            // Each row by itself, so that whoever adds one waits for the copy of one at most.
            if let Some(unix_ms) = self.copy(number, since_unix_ms..=until_unix_ms, &mut values) {
                table.push(unix_ms, &values);
            }
        }
        table
    }

    /// Copies a row, if it is of one of these times and was not replaced yet; when it was taken.
    fn copy(&self, number: usize, times: RangeInclusive<u64>, into: &mut Vec<u64>) -> Option<u64> {
        let rows = self.rows();
        let (at, width) = (number % RING_ROWS, self.names.len());
        let unix_ms = rows.at_unix_ms.get(at).copied().filter(|time| times.contains(time))?;
        if rows.pushed > number + RING_ROWS {
            return None;
        }
        into.clear();
        into.extend_from_slice(rows.values.get(at * width..(at + 1) * width)?);
        Some(unix_ms)
    }

    fn rows(&self) -> MutexGuard<'_, RingRows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_rows_make_room() {
        let ring = RowRing::new(&["a".to_owned(), "b".to_owned()]);
        assert_eq!(ring.table(0, u64::MAX).rows(), 0);
        for row in 0..RING_ROWS as u64 + 5 {
            ring.push(row, &[row * 2, row * 3]);
        }
        let all = ring.table(0, u64::MAX);
        assert_eq!((all.rows(), all.at_unix_ms[0]), (RING_ROWS, 5));
        let few = ring.table(100, 102);
        assert_eq!(few.at_unix_ms, [100, 101, 102]);
        assert_eq!(
            few.values(&mw_model::Metric::from_name("b")).unwrap().collect::<Vec<_>>(),
            [Some(300), Some(303), Some(306)]
        );
    }
}
