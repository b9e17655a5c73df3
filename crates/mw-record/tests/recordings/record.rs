//! Recordings, written and read back.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common::{EVER, START_MS, all, host, is_unbroken, names, offer, row, start, wait_for};
use mw_model::{Incident, NO_VALUE, Table, Trigger, TriggerKind};
use mw_record::{RecordError, Recording, Retention, Writer};
use tempfile::TempDir;

#[test]
fn rows_come_back_as_they_were_taken_and_packed() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("state/recording.db");
    let writer = start(&path);
    writer.layout(&names(7));
    offer(&writer, 0..1000, 7);
    drop(writer);
    let recording = Recording::open(&path).unwrap();
    let table = all(&recording);
    assert_eq!((table.rows(), table.columns.len()), (1000, 7));
    is_unbroken(&table);
    assert_eq!(recording.range().unwrap(), Some((START_MS, START_MS + 999_000)));
    assert_eq!(recording.host(), &host());
    assert_eq!(recording.damage(), None);
    let part = recording.table(START_MS + 5_500, START_MS + 8_000).unwrap();
    assert_eq!(part.at_unix_ms, [6_000, 7_000, 8_000].map(|ms| START_MS + ms));
}

#[test]
fn a_reader_sees_what_was_written_a_moment_ago() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    let writer = start(&path);
    writer.layout(&names(3));
    let recording = Recording::open(&path).unwrap();
    assert_eq!(recording.range().unwrap(), None);
    assert_eq!(all(&recording), Table::default());
    for rows in 1..5 {
        offer(&writer, rows - 1..rows, 3);
        wait_for(|| all(&recording).rows() as u64 == rows);
    }
    offer(&writer, 4..700, 3);
    wait_for(|| all(&recording).rows() == 700);
    is_unbroken(&all(&recording));
}

#[test]
fn columns_that_change_stand_side_by_side() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    let writer = start(&path);
    let named = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        writer.layout(&names);
    };
    named(&["a", "b"]);
    assert!(writer.offer(1_000, &[1, 2]));
    named(&["b", "c"]);
    assert!(writer.offer(2_000, &[3, 4]));
    assert!(writer.offer(3_000, &[5]));
    named(&["a", "b"]);
    assert!(writer.offer(4_000, &[6, 7, 8]));
    drop(writer);
    let table = all(&Recording::open(&path).unwrap());
    let column = |at: usize| (table.columns[at].name.as_str(), table.columns[at].values.clone());
    assert_eq!(column(0), ("a", vec![1, NO_VALUE, NO_VALUE, 6]));
    assert_eq!(column(1), ("b", vec![2, 3, 5, 7]));
    assert_eq!(column(2), ("c", vec![NO_VALUE, 4, NO_VALUE, NO_VALUE]));
}

#[test]
fn a_writer_goes_on_where_the_last_one_ended() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    for part in 0..4_u64 {
        let writer = start(&path);
        assert_eq!(writer.notice(), None);
        writer.layout(&names(2));
        offer(&writer, part * 170..(part + 1) * 170, 2);
    }
    let table = all(&Recording::open(&path).unwrap());
    assert_eq!(table.rows(), 680);
    is_unbroken(&table);
}

#[test]
fn a_clock_that_jumps_loses_nothing_and_leaves_the_order() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    let writer = start(&path);
    writer.layout(&names(1));
    const YEAR_MS: u64 = 365 * 24 * 3_600_000;
    let times: Vec<u64> = (0..900)
        .map(|at: u64| match at / 300 {
            1 => START_MS + YEAR_MS + at * 1000,
            2 => START_MS - YEAR_MS + at * 1000,
            _ => START_MS + at * 1000,
        })
        .collect();
    for (at, unix_ms) in times.iter().enumerate() {
        wait_for(|| writer.offer(*unix_ms, &row(at as u64, 1)));
    }
    drop(writer);
    let recording = Recording::open(&path).unwrap();
    let table = all(&recording);
    assert_eq!(table.at_unix_ms, times);
    assert!(table.columns[0].values.is_sorted());
    let back = recording.table(0, START_MS - 1).unwrap();
    assert_eq!(back.at_unix_ms, &times[600..]);
}

#[test]
fn incidents_and_captures_come_back() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    let writer = start(&path);
    let mut table = Table::new(["probe.db.worst_us", "vmstat.compact_stall"]);
    (0..1200).for_each(|at| table.push(START_MS + at * 100, &[at % 7, at * at]));
    let trigger = Trigger {
        kind: TriggerKind::Heartbeat,
        name: "heartbeat".to_owned(),
        worst_ms: 812.5,
        ..Trigger::default()
    };
    let incident = Incident {
        schema: mw_model::INCIDENT_SCHEMA,
        started_unix_ms: START_MS,
        ended_unix_ms: START_MS + 8_000,
        verdict: "compaction kept db waiting".to_owned(),
        host: host(),
        trigger,
        table,
        ..Incident::default()
    };
    assert_eq!(writer.keep_incident(incident.clone()).unwrap(), 1);
    assert_eq!(writer.keep_incident(incident.clone()).unwrap(), 2);
    writer.keep_capture(START_MS, b"first".to_vec());
    writer.keep_capture(START_MS + 10, b"second".to_vec());
    drop(writer);
    let recording = Recording::open(&path).unwrap();
    let listed = recording.incidents().unwrap();
    assert_eq!(listed.len(), 2);
    assert_eq!((listed[1].id, listed[1].trigger_kind), (2, TriggerKind::Heartbeat));
    assert_eq!(
        (listed[1].worst_ms, listed[1].verdict.as_str()),
        (812.5, "compaction kept db waiting")
    );
    assert_eq!(recording.incident(2).unwrap(), Some(Incident { id: 2, ..incident }));
    assert_eq!(recording.incident(3).unwrap(), None);
    let capture = |at| recording.capture_before(at).unwrap();
    assert_eq!(capture(START_MS - 1), None);
    assert_eq!(capture(START_MS + 9), Some((START_MS, b"first".to_vec())));
    assert_eq!(capture(EVER.1), Some((START_MS + 10, b"second".to_vec())));
}

#[test]
fn ticks_come_back() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    let writer = start(&path);
    writer.layout(&["meminfo.MemFree".to_owned(), "probe.db.worst_us".to_owned()]);
    assert!(writer.offer(START_MS, &[4096, 70]));
    drop(writer);
    let ticks = Recording::open(&path).unwrap().ticks(0, START_MS).unwrap();
    assert_eq!(ticks.len(), 1);
    assert_eq!(ticks[0].sample.meminfo.value().unwrap().mem_free_bytes, Some(4096));
    assert_eq!((ticks[0].unix_ms, ticks[0].probes[0].worst_us), (START_MS, 70));
}

#[test]
fn a_second_writer_is_told_who_the_first_is() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    let writer = start(&path);
    let refused = Writer::start(&path, &host(), Retention::default()).unwrap_err();
    let own = std::process::id().to_string();
    assert!(matches!(&refused, RecordError::Busy { pid, .. } if *pid == own), "{refused}");
    drop(writer);
    drop(start(&path));
}

#[test]
fn a_full_queue_drops_rows_and_counts_them() {
    let dir = TempDir::new().unwrap();
    let writer = start(&dir.path().join("recording.db"));
    assert!(!writer.offer(START_MS, &[1]), "there are no columns yet");
    writer.layout(&names(1));
    let taken = (0..10_000).filter(|at| writer.offer(START_MS + at, &[1])).count() as u64;
    assert!(taken >= 64, "{taken}");
    assert_eq!(writer.dropped(), 10_001 - taken);
}

#[test]
fn ten_thousand_columns() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    let writer = start(&path);
    writer.layout(&names(10_000));
    offer(&writer, 0..60, 10_000);
    drop(writer);
    let table = all(&Recording::open(&path).unwrap());
    assert_eq!((table.rows(), table.columns.len()), (60, 10_000));
    is_unbroken(&table);
}
