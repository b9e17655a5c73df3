//! Recordings of months in minutes: the writer as it is, and a clock that runs ahead.

#![allow(dead_code, reason = "tests and benchmark use a part each")]

use crate::series::Series;
use mw_model::{Host, Table};
use mw_record::{Recording, Retention, Writer};
use mw_watch::{Watch, WatchOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// 2023-11-14, on a whole minute.
pub(crate) const START_MS: u64 = 1_700_000_040_000;

pub(crate) const HOUR_S: u64 = 3_600;

/// Rows of this machine for some seconds, as the recorder recorded them.
pub(crate) fn recorded(seconds: u64) -> Table {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    let watch =
        Watch::start(WatchOptions { profile: false, ..WatchOptions::new(path.clone()) }).unwrap();
    std::thread::sleep(Duration::from_secs(seconds));
    drop(watch);
    Recording::open(&path).unwrap().table(0, u64::MAX).unwrap()
}

/// A recording under way.
pub(crate) struct Simulated {
    pub(crate) path: PathBuf,
    writer: Writer,
    series: Series,
    second: u64,
    _dir: TempDir,
}

impl Simulated {
    /// In memory, as it is not a disk's speed that is of interest.
    pub(crate) fn new(table: &Table, retention: Retention) -> Self {
        let dir = TempDir::new_in("/dev/shm").unwrap();
        let path = dir.path().join("recording.db");
        let host = Host { name: "simulated".to_owned(), ..Host::default() };
        let writer = Writer::start(&path, &host, retention).unwrap();
        let names: Vec<String> = table.columns.iter().map(|column| column.name.clone()).collect();
        writer.layout(&names);
        Self { path, writer, series: Series::after(table), second: 0, _dir: dir }
    }

    pub(crate) fn now_unix_ms(&self) -> u64 {
        START_MS + self.second * 1_000
    }

    pub(crate) fn writer(&self) -> &Writer {
        &self.writer
    }

    /// Records for so many simulated seconds, a row each `step`.
    pub(crate) fn run_at(&mut self, seconds: u64, step: usize) {
        for second in (0..seconds).step_by(step) {
            let unix_ms = START_MS + (self.second + second) * 1_000;
            for _ in 1..step {
                self.series.next();
            }
            let row = self.series.next();
            while !self.writer.offer(unix_ms, row) {
                assert_eq!(self.writer.trouble(), None);
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        self.second += seconds;
    }

    /// Records for so many simulated seconds.
    pub(crate) fn run(&mut self, seconds: u64) {
        self.run_at(seconds, 1);
    }

    /// Bytes of the recording, with its log.
    pub(crate) fn bytes(&self) -> u64 {
        size(&self.path) + size(&self.path.with_extension("db-wal"))
    }

    /// Ends it; what it has become.
    pub(crate) fn end(self) -> (Recording, TempDir) {
        drop(self.writer);
        (Recording::open(&self.path).unwrap(), self._dir)
    }
}

pub(crate) fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}
