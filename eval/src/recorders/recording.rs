//! What a recording says of the recorder that wrote it.

use anyhow::Context;
use mw_record::Recording;
use rusqlite::{Connection, OpenFlags};
use std::ops::RangeInclusive;
use std::path::Path;

/// Between two rows, in milliseconds.
const ROW_INTERVAL_MS: u64 = 1000;

/// Results of [`RecordedRows::late_ms`]: a name, and how many in a hundred are not above.
pub(super) const PERCENTILES: [(&str, f64); 4] =
    [("p50", 50.0), ("p99", 99.0), ("p99.9", 99.9), ("most", 100.0)];

/// Rows that were recorded during the measurement.
#[derive(Debug, PartialEq)]
pub(super) struct RecordedRows {
    pub(super) rows: u64,
    /// Rows that are not there.
    pub(super) missing: u64,
    /// Delay of the latest fast sample of each second, at [`PERCENTILES`], in milliseconds.
    pub(super) late_ms: [f64; 4],
    /// Bytes of an hour of rows, as packed; `None` where none were packed yet.
    pub(super) packed_bytes_an_hour: Option<f64>,
}

/// Reads the rows of that time; the process that wrote has ended.
pub(super) fn read(path: &Path, window_ms: &RangeInclusive<u64>) -> anyhow::Result<RecordedRows> {
    let ticks = Recording::open(path)?.ticks(*window_ms.start(), *window_ms.end())?;
    let mut late_us: Vec<u64> = ticks.iter().map(|tick| tick.recorder.late_us).collect();
    late_us.sort_unstable();
    let times: Vec<u64> = ticks.iter().map(|tick| tick.unix_ms).collect();
    let late_ms = PERCENTILES.map(|(_, percent)| percentile(&late_us, percent) as f64 / 1e3);
    anyhow::ensure!(!times.is_empty(), "{}: no row", path.display());
    Ok(RecordedRows {
        rows: times.len() as u64,
        missing: missing(&times),
        late_ms,
        packed_bytes_an_hour: packed(path).with_context(|| path.display().to_string())?,
    })
}

/// The value that this percentage of the sorted values does not exceed; 0 if there are none.
fn percentile(sorted: &[u64], percent: f64) -> u64 {
    let rank = (sorted.len() as f64 * percent / 100.0).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

/// Rows that lie between the others and are not there: time that was longer than from row to row.
fn missing(times_ms: &[u64]) -> u64 {
    let gaps = times_ms.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
    gaps.map(|gap_ms| ((gap_ms + ROW_INTERVAL_MS / 2) / ROW_INTERVAL_MS).saturating_sub(1)).sum()
}

/// Of the file's format (mw-record): rows are packed 300 at a time, and only packed ones stay.
fn packed(path: &Path) -> rusqlite::Result<Option<f64>> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let query = "SELECT sum(length(body)) * 3600000.0 / sum(span_ms) FROM chunk WHERE step_ms = 1";
    connection.query_row(query, [], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_seen() {
        let sorted: Vec<u64> = (1..=1000).collect();
        assert_eq!(PERCENTILES.map(|(_, p)| percentile(&sorted, p)), [500, 990, 999, 1000]);
        assert_eq!(PERCENTILES.map(|(_, p)| percentile(&[7], p)), [7; 4]);
        assert_eq!(percentile(&[], 50.0), 0);
    }

    #[test]
    fn a_row_that_comes_late_is_not_missing() {
        assert_eq!(missing(&[0, 1000, 2100, 3000]), 0);
        assert_eq!(missing(&[0, 1000, 4000, 5000]), 2);
        assert_eq!(missing(&[]), 0);
    }
}
