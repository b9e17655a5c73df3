//! Readers that were there before the writer, or come and go beside it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common::{EVER, START_MS, all, is_unbroken, names, offer, start};
use mw_record::{ExportFormat, RecordError, Recording, export};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;

const COLUMNS: usize = 60;

/// A recording that nobody writes: packed rows, and some that wait to be packed.
fn at_rest(dir: &TempDir, rows: u64) -> PathBuf {
    let path = dir.path().join("recording.db");
    record(&path, 0..rows);
    path
}

fn record(path: &Path, rows: std::ops::Range<u64>) {
    let writer = start(path);
    writer.layout(&names(COLUMNS));
    offer(&writer, rows, COLUMNS);
}

/// Promise (The recorder): A recording that was opened without a writer shows what a writer adds later, and reports
/// no false damage.
#[test]
fn one_that_was_opened_at_rest_sees_what_is_written_since() {
    let dir = TempDir::new().unwrap();
    let path = at_rest(&dir, 750);
    let recording = Recording::open(&path).unwrap();
    assert_eq!(all(&recording).rows(), 750);
    let writer = start(&path);
    writer.layout(&names(COLUMNS));
    let mut end = 750;
    // Packed, copied from the log into the file, and the log begun anew, more than once.
    for _ in 0..6 {
        offer(&writer, end..end + 400, COLUMNS);
        end += 400;
        crate::common::wait_for(|| {
            recording.range().unwrap().unwrap().1 == START_MS + (end - 1) * 1_000
        });
        assert_eq!(recording.damage(), None);
        let table = all(&recording);
        assert_eq!(table.rows() as u64, end);
        is_unbroken(&table);
    }
}

#[test]
fn a_writer_that_begins_in_the_middle_of_a_look_breaks_nothing() {
    let dir = TempDir::new().unwrap();
    let path = at_rest(&dir, 1_499);
    let recording = Recording::open(&path).unwrap();
    let (mut times, mut wrote) = (Vec::new(), false);
    let streamed: Result<(), RecordError> = recording.stream(EVER.0, EVER.1, |part| {
        times.extend(part.at_unix_ms);
        if times.len() > 1_250 && !wrote {
            // Of the 299 rows that wait, 50 or so are read; now they become one chunk.
            record(&path, 1_499..2_300);
            wrote = true;
        }
        Ok(())
    });
    streamed.unwrap();
    let expected: Vec<u64> = (0..times.len() as u64).map(|at| START_MS + at * 1_000).collect();
    assert!(times == expected, "rows are missing, or come twice");
    assert_eq!(times.len(), 2_300);
}

#[test]
fn readers_beside_writers_that_come_and_go_see_no_damage() {
    let dir = TempDir::new().unwrap();
    let path = at_rest(&dir, 310);
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let (path, done) = (&path, &done);
        for _ in 0..2 {
            threads.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    look(path);
                }
            });
        }
        for part in 1..12 {
            record(path, part * 310..(part + 1) * 310);
            std::thread::sleep(Duration::from_millis(part % 7));
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(all(&Recording::open(&path).unwrap()).rows(), 12 * 310);
}

fn look(path: &Path) {
    let recording = Recording::open(path).unwrap();
    assert_eq!(recording.damage(), None);
    for _ in 0..3 {
        let table = all(&recording);
        is_unbroken(&table);
        let exported =
            export(&recording, EVER.0, EVER.1, ExportFormat::Csv, std::io::sink()).unwrap();
        assert!(exported >= table.rows() as u64);
    }
}
