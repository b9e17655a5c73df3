//! `memwright why`: the command runs unchanged, and the report names what it waited for.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test panics")]

use rustix::mount::MountFlags;
use std::path::Path;
use std::process::{Command, Output};

const TRACEFS: &str = "/sys/kernel/tracing";

fn why(arguments: &[&str]) -> Output {
    let memwright = assert_cmd::cargo::cargo_bin!("memwright");
    Command::new(memwright).arg("why").args(arguments).output().unwrap()
}

fn report(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Whether the scheduler can be traced: with a tracefs of this test's own where the machine has none.
fn can_trace() -> bool {
    if !mw_test::is_root() {
        return false;
    }
    if !Path::new(TRACEFS).join("events").exists() {
        mw_test::own_mounts();
        rustix::mount::mount("tracefs", TRACEFS, "tracefs", MountFlags::empty(), None).unwrap();
    }
    true
}

/// The report of a shell script.
fn of_script(script: &str) -> String {
    report(&why(&["--", "sh", "-c", script]))
}

/// How much of the time the first line is about, in percent.
fn share_of_first_line(report: &str) -> f64 {
    let line = report.lines().next().unwrap();
    let (before, _) = line.split_once('%').unwrap_or_else(|| panic!("{report}"));
    before.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn output_and_exit_code_are_the_commands() {
    let output = why(&["--", "sh", "-c", "echo out; exit 7"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(7), &b"out\n"[..]));
    assert_eq!(why(&["--", "sh", "-c", "kill -9 $$"]).status.code(), Some(128 + 9));
    assert_eq!(why(&["--", "/nonexistent/command"]).status.code(), Some(127));
    assert_eq!(why(&["--", "/etc/passwd"]).status.code(), Some(126));
    assert_eq!(why(&[]).status.code(), Some(2));
}

#[test]
fn a_sleep_slept() {
    if !can_trace() {
        return;
    }
    let report = report(&why(&["--", "sleep", "1"]));
    assert!(report.lines().next().unwrap().contains("slept by its own timer"), "{report}");
    assert!(share_of_first_line(&report) > 90.0, "{report}");
}

#[test]
fn a_wait_for_another_program_is_what_that_program_did() {
    if !can_trace() {
        return;
    }
    let report = of_script("sleep 0.7 | cat; true");
    let first = report.lines().next().unwrap();
    assert!(first.contains("sleep (") && first.contains("slept by its own timer"), "{report}");
    assert!(share_of_first_line(&report) > 85.0, "{report}");
    assert!(report.contains("chain of waits") && report.contains("a child process"), "{report}");
}

#[test]
fn a_program_that_computes_ran() {
    if !can_trace() {
        return;
    }
    let report = of_script("i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done");
    assert!(report.contains("running in user mode"), "{report}");
}

#[test]
fn a_stopped_program_is_not_explained_by_who_continues_it() {
    if !can_trace() {
        return;
    }
    // The one that continues it is no child of the shell, which its end would wake as well.
    let stops = "sh -c 'kill -STOP $$' & stopped=$!
        (sh -c \"sleep 0.7; kill -CONT $stopped\" &)
        wait $stopped";
    let report = of_script(stops);
    assert!(report.lines().next().unwrap().contains("was stopped by a signal"), "{report}");
}

#[test]
fn without_the_privilege_the_command_runs_and_the_report_says_what_is_missing() {
    if !mw_test::is_root() {
        return;
    }
    let memwright = assert_cmd::cargo::cargo_bin!("memwright");
    let unprivileged = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let output = Command::new("setpriv")
        .args(unprivileged)
        .arg(memwright)
        .args(["why", "--", "sh", "-c", "exit 3"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(report(&output).contains("was not traced"), "{}", report(&output));
}

#[test]
fn the_path_is_written_for_a_trace_viewer() {
    if !can_trace() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("path.json");
    why(&["-o", file.to_str().unwrap(), "--", "sleep", "0.2"]);
    let document: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let parts: Vec<_> = document["traceEvents"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["ph"] == "X")
        .collect();
    let end =
        |part: &serde_json::Value| part["ts"].as_f64().unwrap() + part["dur"].as_f64().unwrap();
    for pair in parts.windows(2) {
        assert!((end(pair[0]) - pair[1]["ts"].as_f64().unwrap()).abs() < 1e-3, "{pair:?}");
    }
    assert!(end(parts.last().unwrap()) >= 200_000.0, "the whole command");
}
