//! Sizes of holders, written and read back.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common::{EVER, START_MS, host, names, offer, start, wait_for};
use mw_model::{HolderSize, SizeHistory, SizeSeries, SizedHolder};
use mw_record::{RecordError, Recording, Retention, Writer};
use rusqlite::Connection;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

const MINUTE_MS: u64 = 60_000;

fn process(pid: u32) -> SizedHolder {
    SizedHolder::Process { pid, started_ticks: u64::from(pid) * 7, name: format!("program {pid}") }
}

/// A sample of three holders, of which two change with the sample.
fn sample(at: u64) -> Vec<HolderSize> {
    let shm = SizedHolder::Tmpfs { target: "/dev/shm".to_owned() };
    let process = process((at / 100) as u32);
    let size =
        |holder, bytes, limit_bytes| HolderSize { holder, bytes: bytes + at * 4096, limit_bytes };
    vec![
        size(SizedHolder::Machine, 1 << 30, Some(8 << 30)),
        size(process, 1 << 20, Some(5 << 20)),
        size(shm, 0, Some((at + 1) << 20)),
    ]
}

fn keep(writer: &Writer, samples: std::ops::Range<u64>) {
    for at in samples {
        // The queue is short: a recorder keeps one a minute.
        wait_for(|| {
            let before = writer.dropped();
            writer.keep_sizes(START_MS + at * MINUTE_MS, sample(at));
            writer.dropped() == before
        });
    }
}

fn sizes(path: &Path) -> SizeHistory {
    Recording::open(path).unwrap().sizes(EVER.0, EVER.1).unwrap()
}

fn find<'a>(history: &'a SizeHistory, holder: &SizedHolder) -> &'a SizeSeries {
    history.series.iter().find(|series| series.holder == *holder).unwrap()
}

#[test]
fn sizes_come_back_as_they_were_kept_and_packed() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    let writer = start(&path);
    keep(&writer, 0..150);
    drop(writer);
    let writer = start(&path);
    keep(&writer, 150..250);
    drop(writer);
    let history = sizes(&path);
    assert_eq!(history.at_unix_ms.len(), 250);
    let machine = find(&history, &SizedHolder::Machine);
    let expected = |at: u64| (START_MS + at * MINUTE_MS, (1 << 30) + at * 4096);
    assert_eq!(machine.sizes, (0..250).map(expected).collect::<Vec<_>>());
    assert_eq!(machine.limit_bytes, Some(8 << 30));
    let second = find(&history, &process(1));
    assert_eq!((second.sizes.len(), second.limit_bytes), (100, Some(5 << 20)));
    assert_eq!(second.sizes[0], (START_MS + 100 * MINUTE_MS, (1 << 20) + 100 * 4096));
    let shm = SizedHolder::Tmpfs { target: "/dev/shm".to_owned() };
    assert_eq!(find(&history, &shm).limit_bytes, Some(250 << 20));
    let rows = "SELECT count(*) FROM sizes";
    let rows: u64 = Connection::open(&path).unwrap().query_row(rows, [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 4 + 10, "four hours are packed");
    let part = Recording::open(&path).unwrap();
    let part = part.sizes(START_MS + 5 * MINUTE_MS, START_MS + 9 * MINUTE_MS).unwrap();
    assert_eq!(part.at_unix_ms.len(), 5);
}

#[test]
fn of_many_samples_one_in_several_is_given() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    let writer = start(&path);
    keep(&writer, 0..130);
    drop(writer);
    // As if there were 256 packed rows instead of two.
    let file = Connection::open(&path).unwrap();
    for _ in 0..7 {
        let again = "INSERT INTO sizes (since_unix_ms, until_unix_ms, samples, holders, body) \
                     SELECT since_unix_ms, until_unix_ms, samples, holders, body FROM sizes \
                     WHERE samples > 1";
        file.execute(again, []).unwrap();
    }
    drop(file);
    assert_eq!(sizes(&path).at_unix_ms.len(), (256 * 60 + 10) / 2);
}

/// Promise (Trends): Sizes take at most an eighth of the recording, and no longer than its other data is kept.
#[test]
fn sizes_are_kept_within_their_age_and_their_share_of_the_file() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    let hours = 3;
    let retention =
        Retention { max_age: Duration::from_secs(hours * 3600), ..Retention::default() };
    let writer = Writer::start(&path, &host(), retention).unwrap();
    keep(&writer, 0..600);
    // Retention is enforced after rows are packed.
    writer.layout(&names(1));
    offer(&writer, 0..300, 1);
    drop(writer);
    let left = sizes(&path).at_unix_ms.len() as u64;
    assert!((hours * 60 - 60..=hours * 60).contains(&left), "{left} samples");

    let path = dir.path().join("small.db");
    let retention = Retention { max_bytes: 40_000, ..Retention::default() };
    let writer = Writer::start(&path, &host(), retention).unwrap();
    keep(&writer, 0..1200);
    writer.layout(&names(1));
    offer(&writer, 0..300, 1);
    drop(writer);
    let bytes = "SELECT sum(length(holders) + length(body)) FROM sizes";
    let bytes: u64 =
        Connection::open(&path).unwrap().query_row(bytes, [], |row| row.get(0)).unwrap();
    assert!(bytes <= 5_000, "{bytes} bytes");
}

#[test]
fn two_months_of_many_holders_fit_into_their_share() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    let writer = start(&path);
    let mut random = 1_u64;
    for at in 0..120 {
        let sizes = (0..110_u32).map(|number| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let bytes = (1 << 28) + (random >> 40) * 4096;
            HolderSize { holder: process(number), bytes, limit_bytes: None }
        });
        let sizes: Vec<HolderSize> = sizes.collect();
        wait_for(|| {
            let before = writer.dropped();
            writer.keep_sizes(START_MS + at * MINUTE_MS, sizes.clone());
            writer.dropped() == before
        });
    }
    drop(writer);
    let bytes = "SELECT sum(length(holders) + length(body)) FROM sizes";
    let bytes: u64 =
        Connection::open(&path).unwrap().query_row(bytes, [], |row| row.get(0)).unwrap();
    let two_months = bytes / 2 * 24 * 60;
    // Values at random take all their bits; those of real programs take half of it.
    assert!(two_months < 45_000_000, "{two_months} bytes");
}

#[test]
fn holders_of_a_later_version_are_passed_over_and_damage_is_said() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    let writer = start(&path);
    keep(&writer, 0..2);
    drop(writer);
    let file = Connection::open(&path).unwrap();
    let later = zstd::bulk::compress(b"gpu.0\nmachine\nprocess.x", 1).unwrap();
    file.execute("UPDATE sizes SET holders = ? WHERE id = 1", [&later]).unwrap();
    let history = sizes(&path);
    assert_eq!((history.at_unix_ms.len(), history.series.len()), (2, 3));
    file.execute("UPDATE sizes SET body = x'00' WHERE id = 1", []).unwrap();
    let damaged = Recording::open(&path).unwrap().sizes(EVER.0, EVER.1);
    assert!(matches!(damaged, Err(RecordError::Damaged { .. })), "{damaged:?}");
    file.execute_batch("DROP TABLE sizes; CREATE VIEW sizes AS SELECT 1").unwrap();
    let view = Recording::open(&path);
    assert!(matches!(view, Err(RecordError::NotARecording { .. })), "{view:?}");
}
