//! What the tests of recordings share.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test uses a part; one that cannot go on fails"
)]

use mw_model::{HolderSize, Host, Incident, SizedHolder, Table};
use mw_record::{Recording, Retention, Writer};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// 2023-11-14, on a whole minute.
pub(crate) const START_MS: u64 = 1_700_000_040_000;

/// All times that there are.
pub(crate) const EVER: (u64, u64) = (0, u64::MAX);

pub(crate) fn host() -> Host {
    let memwright = "0.1.0".to_owned();
    Host { name: "db1".to_owned(), memwright, cpus: 2, page_bytes: 4096, ..Host::default() }
}

pub(crate) fn start(path: &Path) -> Writer {
    Writer::start(path, &host(), Retention::default()).unwrap()
}

pub(crate) fn names(columns: usize) -> Vec<String> {
    (0..columns).map(|at| format!("vmstat.counter_{at}")).collect()
}

/// A row whose every value tells which row it is of.
pub(crate) fn row(at: u64, columns: usize) -> Vec<u64> {
    (0..columns as u64).map(|column| at * 1000 + column).collect()
}

/// Offers rows, a second apart, waiting for the writer where its queue is full.
pub(crate) fn offer(writer: &Writer, rows: std::ops::Range<u64>, columns: usize) {
    for at in rows {
        let row = row(at, columns);
        wait_for(|| writer.offer(START_MS + at * 1000, &row));
    }
}

pub(crate) fn wait_for(condition: impl FnMut() -> bool) {
    mw_test::wait_until("what the test waits for", Duration::from_secs(60), condition);
}

pub(crate) fn all(recording: &Recording) -> Table {
    recording.table(EVER.0, EVER.1).unwrap()
}

/// That rows are those that [`offer`] offered, without a hole, from the first on.
pub(crate) fn is_unbroken(table: &Table) {
    for (at, unix_ms) in table.at_unix_ms.iter().enumerate() {
        assert_eq!(*unix_ms, START_MS + at as u64 * 1000);
    }
    for (number, column) in table.columns.iter().enumerate() {
        for (at, value) in column.values.iter().enumerate() {
            assert_eq!(*value, at as u64 * 1000 + number as u64, "{} row {at}", column.name);
        }
    }
}

/// A recording of memwright's, with something of each kind.
pub(crate) fn of_each_kind(dir: &Path) -> PathBuf {
    let path = dir.join("recording.db");
    let writer = start(&path);
    writer.layout(&names(3));
    offer(&writer, 0..301, 3);
    writer.keep_incident(Incident { schema: 1, ..Incident::default() }).unwrap();
    let holder = SizedHolder::Machine;
    writer.keep_sizes(START_MS, vec![HolderSize { holder, bytes: 1, limit_bytes: None }]);
    drop(writer);
    path
}

/// All that commands read of a recording; the errors.
pub(crate) fn read_all(path: &Path) -> Vec<String> {
    let recording = match Recording::open(path) {
        Ok(recording) => recording,
        Err(error) => return vec![error.to_string()],
    };
    let mut errors: Vec<String> = recording.damage().into_iter().collect();
    let mut note = |error: Option<mw_record::RecordError>| {
        errors.extend(error.map(|error| error.to_string()));
    };
    note(recording.range().err());
    note(recording.incidents().err());
    note(recording.last_incident().err());
    note(recording.incident(1).err());
    note(recording.capture_before(u64::MAX).err());
    note(recording.last_sizes().err());
    note(recording.sizes(EVER.0, EVER.1).err());
    note(recording.columns(EVER.0, EVER.1).err());
    note(recording.ticks(EVER.0, EVER.1).err());
    note(recording.table(EVER.0, EVER.1).err());
    errors
}
