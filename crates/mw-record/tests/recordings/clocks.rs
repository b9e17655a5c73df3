//! Thinning and export of a recording with a hole in time, after which the clock was set back.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common::{EVER, START_MS, host, start, wait_for};
use mw_model::Table;
use mw_record::{ExportFormat, Recording, Retention, Writer, export};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

const DAY_MS: u64 = 24 * 3_600_000;

/// Rows of each part: recorded, after 30 days without, and after the clock was set back by 40.
const ROWS: u64 = 1_200;
const BEFORE_MS: u64 = START_MS;
const LATER_MS: u64 = START_MS + 30 * DAY_MS;
const BACK_MS: u64 = LATER_MS - 40 * DAY_MS;

/// The row, of all, in which a probe took longest.
const WORST_ROW: u64 = 703;
const WORST_US: u64 = 987_654;

fn unix_ms(row: u64) -> u64 {
    let part = [BEFORE_MS, LATER_MS, BACK_MS][usize::try_from(row / ROWS).unwrap().min(2)];
    part + row * 1_000
}

/// A counter, an amount, and what happened since the row before.
fn names() -> Vec<String> {
    ["vmstat.pgfault", "meminfo.MemFree", "probe.db.answers", "probe.db.worst_us"]
        .map(str::to_owned)
        .to_vec()
}

fn values(row: u64) -> [u64; 4] {
    [row * 10, 1 << 30 | row, 1, if row == WORST_ROW { WORST_US } else { 5 }]
}

fn record(path: &Path, rows: std::ops::Range<u64>, retention: Retention) {
    let writer = Writer::start(path, &host(), retention).unwrap();
    writer.layout(&names());
    for row in rows {
        wait_for(|| writer.offer(unix_ms(row), &values(row)));
    }
}

fn recorded(dir: &TempDir) -> PathBuf {
    let path = dir.path().join("recording.db");
    record(&path, 0..3 * ROWS, Retention::default());
    path
}

/// Packing 300 rows more thins what is older than two minutes.
fn thinned(dir: &TempDir) -> PathBuf {
    let path = recorded(dir);
    let short = Retention { every_row_for: Duration::from_secs(120), ..Retention::default() };
    record(&path, 3 * ROWS..3 * ROWS + 300, short);
    path
}

/// The number of the row that each row of a table is, or is the last of.
fn rows(table: &Table) -> Vec<u64> {
    table.columns[0].values.iter().map(|value| value / 10).collect()
}

fn read(path: &Path, since: u64, until: u64) -> Table {
    Recording::open(path).unwrap().table(since, until).unwrap()
}

/// Promise (The recorder): Across a gap and a clock that was set back, thinning invents and loses nothing, and an
/// export contains what was recorded.
#[test]
fn thinning_invents_nothing_in_a_hole_and_loses_nothing_at_its_edges() {
    let dir = TempDir::new().unwrap();
    let path = thinned(&dir);
    let table = read(&path, EVER.0, EVER.1);
    let rows = rows(&table);
    assert!(rows.len() < 1_500, "{} of {} rows are left", rows.len(), 3 * ROWS + 300);
    assert!(rows.is_sorted_by(|a, b| a < b), "they are in the order in which they were taken");
    for (place, row) in rows.iter().enumerate() {
        assert_eq!(table.at_unix_ms[place], unix_ms(*row), "a row has its own time");
        assert_eq!(table.columns[1].values[place], values(*row)[1]);
    }
    for edge in [ROWS - 1, 2 * ROWS - 1] {
        assert!(
            rows.contains(&edge),
            "the last row before a jump, {edge}, is the last of its step"
        );
    }
    let gaps = rows.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(gaps.max() <= Some(10), "a row in ten seconds, across the jumps too");
    assert!(rows[0] < 10, "recorded time is young, whatever the clock says");
}

#[test]
fn thinning_keeps_sums_and_the_worst_across_jumps() {
    let dir = TempDir::new().unwrap();
    let table = read(&thinned(&dir), EVER.0, EVER.1);
    assert_eq!(table.columns[2].values.iter().sum::<u64>(), 3 * ROWS + 300, "answers");
    assert_eq!(table.columns[3].values.iter().max(), Some(&WORST_US));
    let worst = table.columns[3].values.iter().position(|us| *us == WORST_US).unwrap();
    assert!(rows(&table)[worst] - WORST_ROW < 10);
}

#[test]
fn an_export_has_the_rows_of_a_time_and_none_of_a_hole() {
    let dirs = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    for path in [recorded(&dirs[0]), thinned(&dirs[1])] {
        let exported = |since, until| {
            let mut out = Vec::new();
            let recording = Recording::open(&path).unwrap();
            export(&recording, since, until, ExportFormat::Csv, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            let counter = |line: &str| line.split(',').nth(1).unwrap().parse::<u64>().unwrap();
            text.lines().skip(1).map(|line| counter(line) / 10).collect::<Vec<_>>()
        };
        let all = rows(&read(&path, EVER.0, EVER.1));
        assert_eq!(exported(EVER.0, EVER.1), all);
        assert_eq!(exported(unix_ms(ROWS - 1) + 1, unix_ms(ROWS) - 1), Vec::<u64>::new());
        let part = |part: std::ops::Range<u64>| {
            all.iter().copied().filter(|row| part.contains(row)).collect::<Vec<_>>()
        };
        assert_eq!(exported(unix_ms(0), unix_ms(ROWS - 1)), part(0..ROWS));
        assert_eq!(exported(EVER.0, BEFORE_MS - 1), part(2 * ROWS..u64::MAX));
    }
}

#[test]
fn a_time_that_came_twice_is_there_twice_in_order() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    let writer = start(&path);
    writer.layout(&names());
    // Summer time set by hand: the clock goes back by an hour in the middle.
    let back = |row: u64| if row < 600 { 3_600_000 } else { 3_000_000 };
    for row in 0..1_200 {
        wait_for(|| writer.offer(START_MS + back(row) + row * 1_000, &values(row)));
    }
    drop(writer);
    let (since, until) = (START_MS + 3_700_000, START_MS + 3_710_000);
    let twice = rows(&read(&path, since, until));
    let expected: Vec<u64> = (100..=110).chain(700..=710).collect();
    assert_eq!(twice, expected);
    let mut out = Vec::new();
    let recording = Recording::open(&path).unwrap();
    assert_eq!(export(&recording, since, until, ExportFormat::Json, &mut out).unwrap(), 22);
}
