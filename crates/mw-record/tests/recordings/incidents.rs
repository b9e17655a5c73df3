//! Incidents that are open, updated, interrupted, and those of older recordings.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common::{START_MS, host, names, offer, start, wait_for};
use mw_model::{
    Area, Cause, FailureKind, Finding, Incident, IncidentState, Severity, Table, Trigger,
};
use mw_record::{Recording, Retention, Writer};
use rustix::fs::{FlockOperation, flock};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

/// Starts of a writer while others read.
const STARTS: u32 = 30;

fn open_incident(lasted_ms: u64) -> Incident {
    let mut finding = Finding::new(Severity::Warning, Area::Disk, "the disk is slow");
    finding.rule = "slow-disk".to_owned();
    Incident {
        schema: mw_model::INCIDENT_SCHEMA,
        state: IncidentState::Open,
        started_unix_ms: START_MS,
        ended_unix_ms: START_MS + lasted_ms,
        verdict: format!("{lasted_ms} ms"),
        trigger: Trigger {
            name: "db".to_owned(),
            worst_ms: lasted_ms as f64,
            failure_kind: Some(FailureKind::Refused),
            ..Trigger::default()
        },
        causes: vec![Cause::new(finding, 60)],
        ..Incident::default()
    }
}

fn states(recording: &Recording) -> Vec<IncidentState> {
    recording.incidents().unwrap().iter().map(|row| row.state).collect()
}

/// What a killed writer leaves: the file and its log, without the lock.
fn left_behind(path: &Path, dir: &TempDir) -> PathBuf {
    let copy = dir.path().join("copy.db");
    fs::copy(path, &copy).unwrap();
    fs::copy(path.with_extension("db-wal"), copy.with_extension("db-wal")).unwrap();
    copy
}

/// Promise (The recorder): An incident is kept while it is open and replaced under its number; one whose recorder was
/// killed counts as interrupted, for readers at once.
#[test]
fn an_open_incident_is_replaced_under_its_number() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    let writer = start(&path);
    let id = writer.keep_incident(open_incident(500)).unwrap();
    let other = writer.number_incident();
    assert_eq!((id, other), (1, 2));
    let recording = Recording::open(&path).unwrap();
    let row = recording.incidents().unwrap().remove(0);
    assert_eq!((row.state, row.duration_ms(), row.worst_ms), (IncidentState::Open, 500, 500.0));
    assert_eq!((row.cause.as_deref(), row.subject), (Some("slow-disk"), Some(Area::Disk.into())));
    assert_eq!((row.confidence_percent, row.failure_kind), (Some(60), Some(FailureKind::Refused)));

    for lasted_ms in 501..1_500 {
        writer.update_incident(Incident { id, ..open_incident(lasted_ms) });
    }
    wait_for(|| recording.incidents().unwrap()[0].duration_ms() == 1_499);
    assert_eq!(writer.dropped(), 0, "an update replaces the one that waits");

    let closed = Incident { id, state: IncidentState::Closed, ..open_incident(2_000) };
    assert_eq!(writer.keep_incident(closed.clone()).unwrap(), id);
    assert_eq!(writer.keep_incident(Incident { id: other, ..open_incident(7) }).unwrap(), other);
    assert_eq!(states(&recording), [IncidentState::Closed, IncidentState::Open]);
    assert_eq!(recording.incident(id).unwrap(), Some(closed));
    assert_eq!(writer.keep_incident(open_incident(3)).unwrap(), 3);
}

#[test]
fn an_open_incident_without_its_recorder_was_interrupted() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    let writer = start(&path);
    writer.keep_incident(open_incident(500)).unwrap();
    writer.keep_incident(Incident::default()).unwrap();
    let killed = left_behind(&path, &dir);
    let expected = [IncidentState::Interrupted, IncidentState::Closed];
    let check = |path: &Path| {
        let recording = Recording::open(path).unwrap();
        assert_eq!(states(&recording), expected);
        let incident = recording.incident(1).unwrap().unwrap();
        let interrupted =
            Incident { id: 1, state: IncidentState::Interrupted, ..open_incident(500) };
        assert_eq!(incident, interrupted);
    };
    check(&killed);
    let reader = Recording::open(&path).unwrap();
    assert_eq!(states(&reader), [IncidentState::Open, IncidentState::Closed]);
    drop(writer);
    assert_eq!(states(&reader), expected, "the reader that was open before");
    check(&path);

    let next = start(&killed);
    check(&killed);
    assert_eq!(next.keep_incident(open_incident(1)).unwrap(), 3);
    let found = states(&Recording::open(&killed).unwrap());
    assert_eq!(found, [expected[0], expected[1], IncidentState::Open]);
}

#[test]
fn readers_keep_no_writer_from_starting() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    drop(start(&path));
    let lock = fs::File::open(path.with_extension("db-writer")).unwrap();
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !end.load(Ordering::Relaxed) {
                let _ = flock(&lock, FlockOperation::NonBlockingLockShared);
                let _ = flock(&lock, FlockOperation::Unlock);
            }
        });
        let begin = |_| Writer::start(&path, &host(), Retention::default()).map(drop);
        let started = (0..STARTS).try_for_each(begin);
        end.store(true, Ordering::Relaxed);
        started.unwrap();
    });
}

#[test]
fn an_open_incident_is_not_deleted_for_its_size() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    let retention = Retention { max_bytes: 20_000, ..Retention::default() };
    let writer = Writer::start(&path, &host(), retention).unwrap();
    writer.layout(&names(1));
    let mut table = Table::new(["vmstat.compact_stall"]);
    let mut scattered = 1_u64;
    for at in 0..4_000 {
        scattered = scattered.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        table.push(START_MS + at * 100, &[scattered]);
    }
    let closed = Incident { table: table.clone(), ..Incident::default() };
    writer.keep_incident(Incident { table, ..open_incident(1) }).unwrap();
    writer.keep_incident(closed).unwrap();
    offer(&writer, 0..300, 1);
    let recording = Recording::open(&path).unwrap();
    wait_for(|| states(&recording) == [IncidentState::Open]);
}

/// Bytes that this thread has read.
fn read_bytes() -> u64 {
    let io = fs::read_to_string("/proc/thread-self/io").unwrap();
    let line = io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
    line.parse().unwrap()
}

/// On a machine that reclaims, each page of a file may take a disk's time.
#[test]
fn a_list_and_one_incident_read_little_of_a_large_recording() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    let writer = start(&path);
    let mut random = mw_test::Random::new(1);
    for at in 0..100 {
        let mut values = || (0..100).map(|_| random.number()).collect();
        let column = |name| mw_model::Column { name: format!("c{name}"), values: values() };
        let columns = (0..100).map(column).collect();
        let table = Table { at_unix_ms: (0..100).collect(), columns };
        writer.keep_incident(Incident { table, ..open_incident(at) }).unwrap();
    }
    drop(writer);
    assert!(fs::metadata(&path).unwrap().len() > 8_000_000);
    let before = read_bytes();
    let recording = Recording::open(&path).unwrap();
    assert_eq!(recording.incidents().unwrap().len(), 100);
    let listed = read_bytes() - before;
    assert!(listed < 200_000, "{listed} bytes");
    let before = read_bytes();
    let recording = Recording::open(&path).unwrap();
    let last = recording.last_incident().unwrap().unwrap();
    assert_eq!(recording.incident(last).unwrap().unwrap().verdict, "99 ms");
    let read = read_bytes() - before;
    assert!(read < 300_000, "{read} bytes");
}
