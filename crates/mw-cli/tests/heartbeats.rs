//! `memwright heartbeats`: lines of cluster software, beside what a recording has of their time.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

#[path = "common/recording.rs"]
mod common;

use common::START_MS;
use mw_model::{Cause, Finding, Host, INCIDENT_SCHEMA, Incident, Severity, Subject};
use mw_record::{Retention, Writer};
use mw_test::ChildGuard;
use rustix::process::Signal;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Beside builds and other tests everything takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A recording of twenty seconds from 2023-11-14T22:14:00Z on, of a quiet machine, and what is added to it.
struct Recorded {
    dir: TempDir,
    path: PathBuf,
}

impl Recorded {
    fn new(rule: Option<&str>) -> Self {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("recording.db");
        common::record(&path);
        let recorded = Self { dir, path };
        if let Some(rule) = rule {
            recorded.keep(stall(rule));
        }
        recorded
    }

    fn keep(&self, incident: Incident) {
        let writer = Writer::start(&self.path, &Host::default(), Retention::default()).unwrap();
        writer.keep_incident(incident).unwrap();
        assert!(writer.finish(PATIENCE));
    }

    fn run(&self, log: &str, args: &[&str]) -> Output {
        let file = self.dir.path().join("cluster.log");
        std::fs::write(&file, log).unwrap();
        memwright(&self.path).arg("--log").arg(file).args(args).output().unwrap()
    }

    /// Of the time of the recording.
    fn says(&self, log: &str) -> String {
        let ended =
            self.run(log, &["--since", "2023-11-14T22:00:00Z", "--until", "2023-11-14T23:00:00Z"]);
        let said = String::from_utf8(ended.stdout).unwrap();
        assert!(
            matches!(ended.status.code(), Some(0 | 1)),
            "{}",
            String::from_utf8_lossy(&ended.stderr)
        );
        said
    }
}

fn memwright(recording: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwright"));
    command.args(["heartbeats", "--recording"]).arg(recording).env("TZ", "UTC");
    command
}

/// From the fifth second of the recording to the tenth.
fn stall(rule: &str) -> Incident {
    let mut finding =
        Finding::new(Severity::Critical, Subject::Other("memory".to_owned()), "found");
    rule.clone_into(&mut finding.rule);
    Incident {
        schema: INCIDENT_SCHEMA,
        started_unix_ms: START_MS + 5000,
        seen_unix_ms: START_MS + 6000,
        ended_unix_ms: START_MS + 10_000,
        verdict: format!("tasks waited 4.4 s for memory: {rule}"),
        causes: vec![Cause {
            is_outside_memory: false,
            finding,
            confidence_percent: 93,
            score_percent: None,
            explains_percent: None,
        }],
        ..Incident::default()
    }
}

const COROSYNC: &str = "2023-11-14T22:14:11.5Z node2 corosync[38932]: [MAIN ] Corosync main process was not scheduled (@1700000051500) for 4417.4 ms (threshold is 800.0 ms). Consider token timeout increase.\n";

/// Promise (Fixing): `heartbeats` names the cause of the stall before a line of cluster software, and does not blame
/// memory for lines without one.
#[test]
fn a_line_after_a_stall_names_its_cause() {
    let said = Recorded::new(Some("page-cache-flood")).says(COROSYNC);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "1 report of a late heartbeat: 1 after a memory stall", "{said}");
    assert!(lines[1].starts_with("  2023-11-14 22:14:11  corosync: "), "{said}");
    assert!(
        lines[2].starts_with(
            "    incident 2 (2023-11-14 22:14:05 to 2023-11-14 22:14:10): tasks waited"
        ),
        "{said}"
    );
}

/// The same line, for another reason: stopped, a network that lost it, a server without a stall.
#[test]
fn memory_is_not_blamed_for_other_stalls_and_for_none() {
    let other = Recorded::new(Some("stopped-process")).says(COROSYNC);
    assert!(other.starts_with("1 report of a late heartbeat: 1 after another stall\n"), "{other}");
    assert!(other.contains("incident 2"), "{other}");
    let quiet = Recorded::new(None).says(COROSYNC);
    assert!(quiet.starts_with("1 report of a late heartbeat: 1 without a stall\n"), "{quiet}");
    assert!(
        quiet.contains("no stall recorded; from 15 s before, tasks waited for memory "),
        "{quiet}"
    );
    // Long after the stall.
    let late =
        Recorded::new(Some("page-cache-flood")).says(&COROSYNC.replace("22:14:11", "22:15:40"));
    assert!(
        late.contains("1 at times without a recording") && late.contains("nothing recorded"),
        "{late}"
    );
}

/// Written 80 s after the stall, and 40 s after it.
///
/// Promise (Fixing): A line that says for how long something was late is attributed to what was recorded of that
/// time, and `report` opens with it.
#[test]
fn a_line_that_says_how_late_it_is_is_put_down_to_what_was_then() {
    let recorded = Recorded::new(Some("page-cache-flood"));
    let line = |seconds: &str| {
        format!("Tue Nov 14 22:15:30 2023: A thread timer expired {seconds} seconds ago\n")
    };
    let said = recorded.says(&line("84.5"));
    assert!(said.starts_with("1 report of a late heartbeat: 1 after a memory stall"), "{said}");
    // What was late began only after the stall.
    let said = recorded.says(&line("60.5"));
    assert!(!said.contains("incident 2"), "{said}");
}

/// Promise (Fixing): `report` opens with what cluster software reported during the incident, from a log or from this
/// machine's journal, and of an incident of another machine not from this one's.
#[test]
fn a_report_opens_with_what_cluster_software_said() {
    let recorded = Recorded::new(Some("page-cache-flood"));
    let log = recorded.dir.path().join("cluster.log");
    let later = COROSYNC.replace("22:14:11", "22:14:40");
    // A minute after the stall, and of it.
    let long = "2023-11-14T22:15:10Z node2 pacemaker-controld[27]: error: Result of monitor operation for db on node2: Timed Out after 1m2s\n";
    std::fs::write(&log, format!("{COROSYNC}{COROSYNC}{later}{long}")).unwrap();
    let report = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_memwright"));
        command.args(["report", "last", "--recording"]).arg(&recorded.path).args(args);
        let ended = command.env("TZ", "UTC").output().unwrap();
        (String::from_utf8(ended.stdout).unwrap(), ended.status.code())
    };
    let log = log.to_str().unwrap();
    let (text, _) = report(&["--log", log]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].ends_with("page-cache-flood"), "{text}");
    let said = "  corosync was late with a heartbeat, 6.5 s after the stall began, 2 times: ";
    assert!(lines.iter().take(6).any(|line| line.starts_with(said)), "{text}");
    let said = "  Pacemaker was late with a heartbeat, 1 min 5 s after the stall began: ";
    assert!(lines.iter().take(7).any(|line| line.starts_with(said)), "{text}");
    let (json, _) = report(&["--log", log, "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["heartbeats"].as_array().unwrap().len(), 2, "{json}");
    assert_eq!(json["heartbeats"][0]["times"], 2);
    let (html, _) = report(&["--log", log, "-o", "-"]);
    assert!(html.contains("<p>corosync was late with a heartbeat, 6.5 s after"));
    // The incident is of another machine: this one's journal says nothing of it.
    assert!(!report(&[]).0.contains("heartbeat"));
    assert_eq!(report(&["--log", "/nowhere"]).1, Some(3));
}

/// Each of a row of lines has its stall: one report is not an hour.
#[test]
fn a_report_lasts_for_a_minute() {
    let line = |second: u64| {
        format!(
            "2023-11-14T22:{}:{:02}Z WARNING: Loop time exceeded, rescheduling immediately.\n",
            second / 60,
            second % 60
        )
    };
    // The stall lies between the sixth and the tenth second after 22:14:00; the first line is long before it.
    let log: String = (0..20).map(|place| line(12 * 60 + place * 8)).collect();
    let said = Recorded::new(Some("page-cache-flood")).says(&log);
    let first =
        "3 reports of a late heartbeat: 1 after a memory stall, 2 at times without a recording\n";
    assert!(said.starts_with(first), "{said}");
}

#[test]
fn lines_that_follow_each_other_are_one_report() {
    let mut log = String::new();
    for second in 11..19 {
        let _ = writeln!(
            log,
            "{{\"level\":\"warn\",\"ts\":\"2023-11-14T22:14:{second}.387Z\",\"msg\":\"leader failed to send out heartbeat on time; took too long, leader is overloaded likely from slow disk\"}}"
        );
    }
    log += "2023-11-14 22:14:18,000 WARNING: Token has not been received in 2250 ms\n";
    let said = Recorded::new(Some("page-cache-flood")).says(&log);
    assert!(said.contains("etcd (8 times): "), "{said}");
    assert!(said.contains("the line is about another machine"), "{said}");
    assert!(said.starts_with("2 reports"), "{said}");
}

#[test]
fn json_has_the_incident_and_the_shares() {
    let recorded = Recorded::new(Some("page-cache-flood"));
    let ended = recorded.run(COROSYNC, &["--since", "2023-11-14T22:00:00Z", "--json"]);
    let json: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let line = &json["lines"][0];
    assert_eq!(
        (&line["incident"], &line["cause"]),
        (&2.into(), &"page-cache-flood".into()),
        "{json}"
    );
    assert_eq!((&line["software"], &line["says"]), (&"corosync".into(), &"late".into()), "{json}");
    assert!(line["waited"]["memory_percent"].is_number(), "{json}");
}

/// Promise (Fixing): `heartbeats` reads any log within limits.
#[test]
fn whatever_is_in_a_log_is_read_within_limits() {
    let recorded = Recorded::new(None);
    let mut log = b"\xff\xfe\0binary\n".to_vec();
    log.extend(std::iter::repeat_n(b'x', 40 << 20));
    log.extend(
        b"\n2023-11-14T22:14:11Z a\x1b[2J WARNING: Loop time exceeded, rescheduling immediately.\n",
    );
    let file = recorded.dir.path().join("odd.log");
    std::fs::write(&file, &log).unwrap();
    let ended = memwright(&recorded.path)
        .args(["--since", "2023-11-14T22:00:00Z", "--log"])
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8(ended.stdout).unwrap();
    assert!(said.starts_with("1 report") && !said.contains('\x1b'), "{said}");
    let usage = |args: &[&str], code: i32, part: &str| {
        let ended = memwright(&recorded.path).args(args).output().unwrap();
        let error = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(code), "{args:?}: {error}");
        assert!(error.contains(part), "{args:?}: {error}");
    };
    usage(&["--log", "/nowhere"], 3, "/nowhere: No such file");
    usage(&["--log", "/"], 3, "/: ");
    usage(&["--pattern", "x"], 2, "use NAME=LINE");
    let pattern = recorded.run(
        "2023-11-14T22:14:11Z lease 7 has expired\n",
        &["--since", "2023-11-14T22:00:00Z", "--pattern", "lvmlockd=lease*expired"],
    );
    assert!(String::from_utf8(pattern.stdout).unwrap().contains("lvmlockd: "));
}

#[test]
fn a_machine_without_a_recorder_lists_the_lines() {
    let dir = TempDir::new().unwrap();
    let log = dir.path().join("cluster.log");
    std::fs::write(&log, COROSYNC).unwrap();
    let none = dir.path().join("none.db");
    let ended = memwright(&none)
        .args(["--since", "2023-11-14T22:00:00Z", "--log"])
        .arg(&log)
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(String::from_utf8(ended.stdout).unwrap().contains("1 at times without a recording"));
    assert!(String::from_utf8(ended.stderr).unwrap().contains("without a recording: "));
}

/// A real Sentinel that is stopped: its own line is found, and memory is not to blame.
#[test]
fn a_stopped_sentinel_is_found_by_its_own_line() {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = std::env::split_paths(&path)
        .map(|dir| dir.join("redis-server"))
        .find(|path| path.is_file());
    let Some(program) = program else {
        return mw_test::skip("no Redis; apt-get install redis-server");
    };
    let dir = TempDir::new().unwrap();
    let (config, log) = (dir.path().join("sentinel.conf"), dir.path().join("sentinel.log"));
    std::fs::write(&config, "port 0\nunixsocket sentinel.sock\n").unwrap();
    let mut command = Command::new(program);
    command.arg(&config).arg("--sentinel").current_dir(dir.path());
    let child =
        command.stdout(std::fs::File::create(&log).unwrap()).stderr(Stdio::null()).spawn().unwrap();
    let sentinel = ChildGuard(child);
    let has = |part: &str| std::fs::read_to_string(&log).is_ok_and(|text| text.contains(part));
    mw_test::wait_until("Sentinel", PATIENCE, || has("Sentinel ID is"));
    sentinel.signal(Signal::STOP);
    std::thread::sleep(Duration::from_secs(4));
    sentinel.signal(Signal::CONT);
    mw_test::wait_until("its line", PATIENCE, || has("+tilt #tilt mode entered"));
    let none = dir.path().join("none.db");
    let ended = Command::new(env!("CARGO_BIN_EXE_memwright"))
        .args(["heartbeats", "--recording"])
        .arg(&none)
        .arg("--log")
        .arg(&log)
        .output()
        .unwrap();
    let said = String::from_utf8(ended.stdout).unwrap();
    assert!(said.contains("Redis Sentinel: ") && !said.contains("memory caused"), "{said}");
}

/// A journald of its own, in a mount namespace of its own.
const JOURNAL: &str = r#"
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/journal /run/log/journal
mount -t tmpfs tmpfs /var/log
"$JOURNALD" >/dev/null 2>&1 &
journald=$!
for _ in $(seq 100); do [ -S /run/systemd/journal/stdout ] && break; sleep 0.1; done
echo 'Corosync main process was not scheduled for 4521.3 ms (threshold is 800.0 ms).' | systemd-cat -t corosync
echo '{"msg":"leader failed to send out heartbeat on time; took too long"}' | systemd-cat -t etcd
echo 'nothing of interest' | systemd-cat -t other
for _ in $(seq 100); do journalctl -q -t other | grep -q interest && break; sleep 0.1; done
"$MEMWRIGHT" heartbeats --recording /nowhere
"$MEMWRIGHT" report last --recording "$RECORDING"
kill $journald
wait $journald
"#;

#[test]
fn the_journal_is_searched() {
    const JOURNALD: &str = "/usr/lib/systemd/systemd-journald";
    if !mw_test::is_root() {
        return mw_test::skip("only root may mount");
    }
    if !Path::new(JOURNALD).exists() {
        return mw_test::skip("no journald; apt-get install systemd");
    }
    let recorded = Recorded::new(None);
    let now = mw_sys::unix_ms();
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    recorded.keep(Incident {
        host: Host { name, ..Host::default() },
        started_unix_ms: now,
        // Whenever the lines are written.
        ended_unix_ms: now + 60_000,
        ..stall("page-cache-flood")
    });
    // In a PID namespace whose end is that of journald.
    let ended = Command::new("timeout")
        .args(["60", "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", JOURNAL])
        .env("JOURNALD", JOURNALD)
        .env("MEMWRIGHT", env!("CARGO_BIN_EXE_memwright"))
        .env("RECORDING", &recorded.path)
        .output()
        .unwrap();
    let said = String::from_utf8(ended.stdout).unwrap();
    assert!(
        said.starts_with("2 reports of a late heartbeat: 2 at times without a recording\n"),
        "{said}"
    );
    assert!(said.contains("  corosync: Corosync main") && said.contains("  etcd: {"), "{said}");
    let (_, report) = said.split_once("page-cache-flood\n").unwrap();
    assert!(report.contains("  corosync was late with a heartbeat, "), "{said}");
    assert!(report.contains("  etcd was late with a heartbeat, "), "{said}");
}
