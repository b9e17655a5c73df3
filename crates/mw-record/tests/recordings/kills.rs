//! Kills of processes in a recording.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use mw_model::{Host, KillParty, ProcessKill, ServiceProcess};
use mw_record::{Recording, Retention, Writer};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);

fn kill(unix_ms: u64, pid: u32, cgroup: &str) -> ProcessKill {
    let process = ServiceProcess { pid, name: "db\u{1b}\"".to_owned() };
    let victim = KillParty { process, cgroup: Some(cgroup.to_owned()), ..KillParty::default() };
    ProcessKill { unix_ms, victim, ..ProcessKill::default() }
}

fn write(path: &Path, kills: Vec<ProcessKill>) {
    let writer = Writer::start(path, &Host::default(), Retention::default()).unwrap();
    writer.keep_kills(kills);
    assert!(writer.finish(PATIENCE));
}

#[test]
fn kills_are_kept_and_read_from_a_time_on() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    let kills = vec![kill(1_000, 1, "/a"), kill(2_000, 2, "/b")];
    write(&path, kills.clone());
    write(&path, vec![kill(3_000, 3, "/c")]);
    let recording = Recording::open(&path).unwrap();
    assert_eq!(recording.kills(0).unwrap().len(), 3);
    assert_eq!(recording.kills(2_000).unwrap()[0], kills[1]);
    assert_eq!(recording.kills(u64::MAX).unwrap(), []);
}

/// Recordings of 0.2 have no such table.
#[test]
fn an_older_recording_has_none_until_it_is_written() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    write(&path, Vec::new());
    rusqlite::Connection::open(&path).unwrap().execute_batch("DROP TABLE kill").unwrap();
    assert_eq!(Recording::open(&path).unwrap().kills(0).unwrap(), []);
    write(&path, vec![kill(1_000, 1, "/a")]);
    assert_eq!(Recording::open(&path).unwrap().kills(0).unwrap().len(), 1);
    let other = "DROP TABLE kill; CREATE VIEW kill AS SELECT 1 AS id, 1 AS unix_ms, '' AS body";
    rusqlite::Connection::open(&path).unwrap().execute_batch(other).unwrap();
    let refused = Recording::open(&path).unwrap_err().to_string();
    assert!(
        refused.contains("table 'kill' has another definition")
            || refused.contains("no table 'kill'"),
        "{refused}"
    );
}

#[test]
fn a_body_that_is_no_kill_is_damage() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    write(&path, Vec::new());
    let insert = "INSERT INTO kill (unix_ms, source, body) VALUES (1, '', '{\"unix_ms\":[]}')";
    rusqlite::Connection::open(&path).unwrap().execute_batch(insert).unwrap();
    let error = Recording::open(&path).unwrap().kills(0).unwrap_err().to_string();
    assert!(error.contains("kill 1: "), "{error}");
}
