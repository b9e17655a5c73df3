//! The recorder does not grow with the incidents that it records.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use mw_test::ChildGuard;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Incidents, unless the environment says how many.
const INCIDENTS: usize = 6;
const VARIABLE: &str = "MEMWRIGHT_TEST_INCIDENTS";

/// Memory that a recorder may have between two incidents beside its program's own pages: what it has after
/// the first, with room for tables that fill over hours.
const MOST_KIB: u64 = 14 << 10;

/// Resident memory that is no file's, at its lowest within some seconds: an incident that is being put
/// together has more.
fn anonymous_kib(pid: u32) -> u64 {
    let look = |_| {
        std::thread::sleep(Duration::from_millis(100));
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim_end_matches("kB").trim().parse::<u64>().unwrap()
    };
    (0..40).map(look).min().unwrap()
}

/// Promise (Checking): The recorder's memory does not grow with the number of incidents.
#[test]
fn many_incidents_leave_nothing_in_memory() {
    let wanted = std::env::var(VARIABLE).ok().and_then(|count| count.parse().ok());
    let dir = TempDir::new().unwrap();
    let mark = dir.path().join("mark");
    // Every second time it is slow.
    let script = format!("if rm {0}; then sleep 1; else touch {0}; fi", mark.display());
    let probe = format!("s=exec:sh -c '{script}'");
    let args = ["watch", "--no-canary", "--limit", "500ms", "--interval", "2s", "--probe", &probe];
    let mut child = ChildGuard(
        Command::new(env!("CARGO_BIN_EXE_memwright"))
            .args(args)
            .arg("--recording")
            .arg(dir.path().join("recording.db"))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let lines = BufReader::new(child.0.stderr.take().unwrap()).lines().map_while(Result::ok);
    let incidents = lines.filter(|line| line.starts_with("incident "));
    let seen = incidents.take(wanted.unwrap_or(INCIDENTS)).count();
    assert_eq!(seen, wanted.unwrap_or(INCIDENTS));
    let anonymous = anonymous_kib(child.0.id());
    println!("{anonymous} KiB after {seen} incidents");
    assert!(anonymous < MOST_KIB, "{anonymous} KiB after {seen} incidents");
}
