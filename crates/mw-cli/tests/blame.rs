//! `memwright blame`: of a real stall while a recorder runs, and of recordings with and without shares.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use mw_critical_path::{
    CpuHolder, HolderTime, PathPart, PathSummary, PathTask, RunMode, TimeKind, UserPlace, Wait,
};
use mw_model::{
    Area, BlameParty, BlameShare, Cause, Finding, GroupUse, Host, INCIDENT_SCHEMA, Incident,
    Service, Severity, Subject, Trigger,
};
use mw_record::{Retention, Writer};
use mw_test::{ChildGuard, LoggedChild};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// Beside builds and other tests everything takes longer.
const PATIENCE: Duration = Duration::from_secs(60);
/// 2023-11-14T22:14:00Z.
const START_MS: u64 = 1_700_000_040_000;
const MS: u64 = 1_000_000;
const DB: &str = "/system.slice/db.service";
const BACKUP: &str = "/system.slice/backup.service";

fn memwright(args: &[&str], recording: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwright"));
    command.args(args).arg("--recording").arg(recording).output().unwrap()
}

#[track_caller]
fn text(args: &[&str], recording: &Path) -> String {
    let output = memwright(args, recording);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn json(args: &[&str], recording: &Path) -> Value {
    serde_json::from_str(&text(args, recording)).unwrap()
}

/// Two threads that wake each other 100,000 times a second, until dropped.
struct Switchers(Arc<AtomicBool>);

impl Switchers {
    fn start() -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let (one, other) = UnixStream::pair().unwrap();
        for mut end in [one, other] {
            let ended = Arc::clone(&ended);
            std::thread::spawn(move || {
                // The other end is closed when its thread has ended.
                let _ = end.write_all(b"a");
                let mut byte = [0];
                while !ended.load(Ordering::Relaxed) && end.read_exact(&mut byte).is_ok() {
                    let _ = end.write_all(&byte);
                }
            });
        }
        Self(ended)
    }
}

impl Drop for Switchers {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Beside threads whose switches fill the trace within two seconds.
///
/// Promise (Blame): Of a real stall the shares add up to its duration, and its report has them.
#[test]
fn a_real_stall_is_divided() {
    let _busy = Switchers::start();
    let dir = TempDir::new().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    // apt-get install redis-server
    let mut server = Command::new("redis-server");
    let server = server.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
    let server =
        ChildGuard(server.arg("--dir").arg(dir.path()).stdout(Stdio::null()).spawn().unwrap());
    let is_up = || TcpStream::connect(("127.0.0.1", port)).is_ok();
    mw_test::wait_until("redis-server", PATIENCE, is_up);
    let recording = dir.path().join("recording.db");
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwright"));
    let probe = format!("cache=redis://127.0.0.1:{port}");
    command.args(["watch", "--probe", &probe, "--limit", "400ms", "--recording"]);
    let watch = LoggedChild::spawn(command.arg(&recording));
    watch.line("recording to ", PATIENCE);
    std::thread::sleep(Duration::from_secs(3));
    server.signal(Signal::STOP);
    watch.line("stall: cache exceeded its limit", PATIENCE);
    std::thread::sleep(Duration::from_secs(2));
    server.signal(Signal::CONT);
    watch.line(", open: cache stalled for", PATIENCE);
    let said = watch.line(": cache stalled for", PATIENCE);
    let id = said.trim_start_matches("incident ").split(':').next().unwrap();

    let incident = json(&["incidents", id, "--json"], &recording);
    let at = |key: &str| incident[key].as_u64().unwrap();
    let lasted_ms = at("ended_unix_ms") - at("started_unix_ms");
    let shares = incident["blame"].as_array().unwrap();
    let lost_ms: u64 = shares.iter().map(|share| share["lost_ms"].as_u64().unwrap()).sum();
    assert_eq!(lost_ms, lasted_ms, "{shares:?}");
    assert!(shares.iter().all(|share| share["culprit"]["kind"] == "unknown"), "{shares:?}");
    assert!(text(&["report", id], &recording).contains("\nblame\n"));
    let list = json(&["blame", "--json"], &recording);
    let rows = list["rows"].as_array().unwrap();
    let is_of_stop = |row: &&Value| row["cause"] == "stopped-process";
    assert!(rows.iter().any(|row| is_of_stop(&row)), "{list}");
    assert!(list["summary"].as_str().unwrap().contains(" in the last day"), "{list}");
}

fn cause(rule: &str, subject: impl Into<Subject>) -> Cause {
    let finding = Finding::new(Severity::Critical, subject, "it was short");
    Cause::new(Finding { rule: rule.to_owned(), ..finding }, 90)
}

fn part(kind: TimeKind, ms: u64) -> PathPart {
    let task =
        PathTask { tid: 812, process: 812, cgroup: Some(DB.to_owned()), ..PathTask::default() };
    PathPart {
        kind,
        total_ns: ms * MS,
        task,
        user: UserPlace::default(),
        inferred: false,
        holder: None,
        holders: Vec::new(),
        work: None,
        stack: Vec::new(),
        waker_stack: Vec::new(),
    }
}

/// A stall of two seconds of a service that was probed, so many hours after the first.
fn stall(hours: u64, cause: Cause, parts: Vec<PathPart>, groups: Vec<GroupUse>) -> Incident {
    let started_unix_ms = START_MS + hours * 3_600_000;
    Incident {
        schema: INCIDENT_SCHEMA,
        started_unix_ms,
        seen_unix_ms: started_unix_ms + 500,
        ended_unix_ms: started_unix_ms + 2000,
        trigger: Trigger { name: "db".to_owned(), ..Trigger::default() },
        service: Some(Service { cgroup: Some(DB.to_owned()), ..Service::default() }),
        causes: vec![cause],
        path: Some(PathSummary { total_ns: 2000 * MS, parts, ..PathSummary::default() }),
        groups,
        ..Incident::default()
    }
}

/// A recording of an earlier version, whose incidents have no shares, but for the last one.
fn record(path: &Path) {
    let limit = || {
        let group = GroupUse { path: DB.to_owned(), max_events: Some(900), ..GroupUse::default() };
        vec![GroupUse { of_service: true, over_ms: 2000, ..group }]
    };
    let reclaim = || vec![part(TimeKind::Waiting(Wait::CgroupReclaim), 1500)];
    let own = |hours| {
        stall(
            hours,
            cause("cgroup-limit", Subject::Cgroup(Some(DB.to_owned()))),
            reclaim(),
            limit(),
        )
    };
    let backup = PathTask { tid: 9, cgroup: Some(BACKUP.to_owned()), ..PathTask::default() };
    let mut contended = part(TimeKind::Runnable(CpuHolder::Task(9)), 1200);
    contended.holders = vec![HolderTime { task: backup, total_ns: 1200 * MS }];
    let parts = vec![contended, part(TimeKind::Running(RunMode::User), 800)];
    let by_neighbour = stall(30, cause("cpu-contention", Area::Cpus), parts, Vec::new());
    let kept = BlameShare {
        victim: BlameParty::of_cgroup(DB),
        culprit: BlameParty::of_cgroup("/kubepods/burstable/pod12ab/c"),
        cause: Some("page-cache-flood".to_owned()),
        lost_ms: 2000,
    };
    let stored = Incident { blame: vec![kept], ..own(31) };
    let host = Host { name: "db1".to_owned(), ..Host::default() };
    let writer = Writer::start(path, &host, Retention::default()).unwrap();
    for incident in [own(0), by_neighbour, stored] {
        writer.keep_incident(incident).unwrap();
    }
}

/// Promise (Blame): Shares of an older recording are computed when it is read, the stored ones are as they were, and
/// --since leaves out what ended before.
#[test]
fn a_recording_without_shares_has_them_computed() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("recording.db");
    record(&path);
    let all = text(&["blame", "--since", "2023-11-14T22:00:00Z"], &path);
    let lines: Vec<&str> = all.lines().collect();
    assert!(lines[0].starts_with("db.service lost 6.0 s in 3 stalls since 2023-11-1"), "{all}");
    assert!(lines[0].ends_with("; 2.0 s by pod 12ab (page-cache-flood)"), "{all}");
    for row in [
        "db.service  pod 12ab        page-cache-flood  2.0 s       1",
        "db.service  itself          cgroup-limit      1.5 s       1",
        "db.service  backup.service  cpu-contention    1.2 s       1",
        "db.service  unknown         unknown           1.3 s       2",
    ] {
        assert!(lines.contains(&row), "{row}\n{all}");
    }
    let day = json(&["blame", "--json"], &path);
    assert_eq!((&day["schema"], &day["victims"][0]["stalls"]), (&1.into(), &2.into()), "{day}");
    let summary = day["summary"].as_str().unwrap();
    assert!(
        summary.starts_with("db.service lost 4.0 s in 2 stalls in the last day of the recording")
    );
    let row = day["rows"].as_array().unwrap().iter().find(|row| row["cause"] == "cpu-contention");
    let row = row.unwrap();
    assert_eq!(
        (&row["culprit"]["name"], &row["last_incident"]),
        (&"backup.service".into(), &2.into())
    );
    let none = text(&["blame", "--since", "2023-11-20"], &path);
    assert!(none.starts_with("no stall since 2023-11-20"), "{none}");
    let missing = memwright(&["blame"], &dir.path().join("none.db"));
    assert_eq!(
        missing.status.code(),
        memwright(&["incidents"], &dir.path().join("none.db")).status.code()
    );
    assert!(!missing.status.success());
}
