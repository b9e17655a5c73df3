//! What a recording keeps of days of real rows, and how much room it takes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "common/series.rs"]
mod series;
#[path = "common/simulated.rs"]
mod simulated;

use mw_model::Table;
use mw_record::{Recording, Retention};
use simulated::{HOUR_S, START_MS, Simulated, recorded};
use std::time::Duration;

/// Real seconds that the simulated ones are made of.
const REAL_SECONDS: u64 = 12;

/// The figure for rows as they were taken.
const MOST_BYTES_AN_HOUR: u64 = 1_000_000;

fn hours(hours: u64) -> Duration {
    Duration::from_secs(hours * HOUR_S)
}

/// A day is an hour and 20 minutes.
fn eighteenth() -> Retention {
    Retention {
        every_row_for: hours(24) / 18,
        ten_seconds_for: hours(7 * 24) / 18,
        max_age: hours(60 * 24) / 18,
        ..Retention::default()
    }
}

/// Gaps between rows of more than `seconds`, in hours before the end.
fn thinner_than(table: &Table, seconds: u64) -> f64 {
    let times = &table.at_unix_ms;
    let thin = times.windows(2).rposition(|pair| pair[1] - pair[0] > seconds * 1_000);
    thin.map_or(0.0, |at| (times[times.len() - 1] - times[at]) as f64 / 3_600_000.0)
}

#[test]
fn an_hour_of_real_rows_takes_a_megabyte_at_most() {
    let table = recorded(REAL_SECONDS);
    let bytes_after = |seconds| {
        let mut recording = Simulated::new(&table, Retention::default());
        recording.run(seconds);
        let (recording, _dir) = recording.end();
        simulated::size(recording.path())
    };
    // Rows that wait to be packed take more room, and are as many in both.
    let bytes = bytes_after(HOUR_S + HOUR_S / 2) - bytes_after(HOUR_S / 2);
    println!("{bytes} bytes an hour of {} columns", table.columns.len());
    assert!(bytes <= MOST_BYTES_AN_HOUR, "{bytes} bytes an hour");
}

/// Promise (The recorder): Old data is thinned; data beyond the age or size limit is deleted, oldest first; an hour
/// of real rows takes at most a megabyte.
#[test]
fn what_is_old_is_thinned_and_what_is_older_is_deleted() {
    let table = few_columns(&recorded(REAL_SECONDS / 2));
    let retention = eighteenth();
    let mut recording = Simulated::new(&table, retention.clone());
    let age_hours = |age: Duration| age.as_secs_f64() / HOUR_S as f64;
    recording.run(retention.ten_seconds_for.as_secs() + 8 * HOUR_S);
    let part = Recording::open(&recording.path).unwrap().table(0, u64::MAX).unwrap();
    assert_eq!(part.at_unix_ms[0] / 60_000, START_MS / 60_000, "nothing is old enough");
    // Chunks are thinned whole, and once an hour: two hours more of every row at most. One of rows a
    // minute apart is of five hours, and waits until it is full.
    let (every, tens) = (age_hours(retention.every_row_for), age_hours(retention.ten_seconds_for));
    let (seconds, minutes) = (thinner_than(&part, 1), thinner_than(&part, 10));
    assert!((every..every + 2.0).contains(&seconds), "{seconds} h of every row, {every} asked for");
    assert!((tens..tens + 8.0).contains(&minutes), "{minutes} h of 10 s, {tens} asked for");
    assert_eq!(thinner_than(&part, 60), 0.0, "there is a hole");
    check_counters(&part);
}

#[test]
fn beyond_its_age_the_oldest_rows_go() {
    let table = few_columns(&recorded(REAL_SECONDS / 2));
    let all = Retention { every_row_for: hours(100), ..Retention::default() };
    let kept_hours = kept(&table, Retention { max_age: hours(3), ..all.clone() }, 5).0;
    assert!((3.0..4.5).contains(&kept_hours), "{kept_hours} h of 3");
    assert!(kept(&table, all, 5).0 > 4.9);
}

#[test]
fn beyond_its_size_the_oldest_rows_go() {
    let retention =
        Retention { every_row_for: hours(100), max_bytes: 1_000_000, ..Retention::default() };
    let max_bytes = retention.max_bytes;
    let (kept_hours, bytes) = kept(&recorded(REAL_SECONDS), retention, mw_test::rounds(4, 8));
    println!("{bytes} bytes for {kept_hours:.1} h");
    // Pages are released two megabytes at a time, and between two looks an hour is added.
    assert!(bytes <= max_bytes + 3_500_000, "{bytes} bytes of {max_bytes}");
    // How many bytes an hour takes is a matter of what the machine does.
    assert!((0.2..7.0).contains(&kept_hours), "{kept_hours} h");
}

/// Number of hours that are left of some, and the file's size.
fn kept(table: &Table, retention: Retention, of_hours: u64) -> (f64, u64) {
    let mut recording = Simulated::new(table, retention);
    recording.run(of_hours * HOUR_S);
    let now_ms = recording.now_unix_ms();
    let (recording, _dir) = recording.end();
    assert_eq!(recording.damage(), None);
    let (first, last) = recording.range().unwrap().unwrap();
    assert_eq!(last, now_ms - 1_000);
    check_counters(&recording.table(0, u64::MAX).unwrap());
    ((last - first) as f64 / 3_600_000.0, simulated::size(recording.path()))
}

/// Every sixteenth column: what is kept how long does not depend on their number.
fn few_columns(table: &Table) -> Table {
    let mut few = table.clone();
    let mut at = 0;
    few.columns.retain(|_| {
        at += 1;
        at % 16 == 1
    });
    few
}

/// However thin, times go on, and what grows only grows.
fn check_counters(table: &Table) {
    assert!(table.at_unix_ms.is_sorted_by(|a, b| a < b));
    let counters = table.columns.iter().filter(|column| column.name.starts_with("vmstat.pg"));
    for column in counters {
        assert!(column.values.is_sorted(), "{}", column.name);
    }
}
