//! `memwright make-room` on this machine, with a few huge pages: what it reserves stands in the journal, and is
//! released. What it reclaims and compacts is tested in guests (lab/make-room).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test panics")]

use mw_test::assert_schema;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
const FREE: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
const LIMIT: Duration = Duration::from_secs(60);

fn number(path: &str) -> u64 {
    fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

fn pages() -> u64 {
    number(POOL)
}

/// Eight huge pages more than are free.
fn request() -> String {
    format!("{}M,huge=2M", (number(FREE) + 8) * 2)
}

fn memwright(state: &TempDir, command: &str, arguments: &[&str]) -> Command {
    let mut memwright = Command::new(assert_cmd::cargo::cargo_bin!("memwright"));
    memwright.arg(command).arg("--state-dir").arg(state.path()).args(arguments);
    memwright
}

fn make_room(state: &TempDir, arguments: &[&str]) -> Output {
    memwright(state, "make-room", arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A state directory, where the pool can be changed.
fn state() -> Option<([fs::File; 2], TempDir)> {
    if !mw_test::is_root() {
        return None;
    }
    if !fs::exists(POOL).unwrap() {
        mw_test::skip("no huge pages of 2 MiB");
        return None;
    }
    let alone = [mw_test::alone(), mw_test::huge_pages_alone()];
    mw_test::compact_memory();
    let dir = TempDir::new().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
    Some((alone, dir))
}

fn end(child: &mut Child, signal: Signal) -> Option<i32> {
    kill_process(Pid::from_child(child), signal).unwrap();
    mw_test::exit_within(child, LIMIT).unwrap().expect("it goes on").signal()
}

#[test]
fn the_pool_is_grown_and_undo_gives_back() {
    let Some((_alone, state)) = state() else { return };
    let before = pages();
    let output = make_room(&state, &[&request()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = stdout(&output);
    assert!(text.starts_with("ready: ") && text.contains(" on 2 MiB huge pages, in "), "{text}");
    assert!(text.contains("release with: memwright undo 1 --state-dir "), "{text}");
    let reserved = pages();
    assert!(reserved >= before && reserved <= before + 8, "{before} to {reserved}");
    let undone = memwright(&state, "undo", &[]).output().unwrap();
    assert!(undone.status.success(), "{undone:?}");
    assert_eq!(pages(), before);
}

#[test]
fn what_is_there_already_changes_nothing() {
    let Some((_alone, state)) = state() else { return };
    let before = pages();
    let request = request();
    assert!(make_room(&state, &[&request]).status.success());
    let again = make_room(&state, &[&request]);
    let text = stdout(&again);
    assert!(text.starts_with("ready: ") && !text.contains("give back"), "{text}");
    assert!(memwright(&state, "undo", &[]).output().unwrap().status.success());
    assert_eq!(pages(), before);
}

#[test]
fn a_dry_run_changes_nothing_and_its_json_has_the_steps() {
    let Some((_alone, state)) = state() else { return };
    let before = pages();
    let output = make_room(&state, &[&request(), "--dry-run", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_schema("make-room-v1", [&report]);
    assert_eq!(
        (&report["schema"], &report["dry_run"], &report["answer"]),
        (&1.into(), &true.into(), &"yes".into())
    );
    assert!(report["cost"].is_null());
    assert_eq!(pages(), before);
    assert!(!state.path().join("journal.jsonl").exists());
}

#[test]
fn the_pages_stay_until_the_command_ends_whose_exit_code_counts() {
    let Some((_alone, state)) = state() else { return };
    let before = pages();
    let script = format!("cat {POOL}; exit 7");
    let output = make_room(&state, &[&request(), "--", "sh", "-c", &script]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let during: u64 = stdout(&output).trim().parse().unwrap();
    assert!(during > before, "{during}");
    assert_eq!(pages(), before);
    let missing = make_room(&state, &[&request(), "--", "/nonexistent/command"]);
    assert_eq!(missing.status.code(), Some(127), "{missing:?}");
    assert_eq!(pages(), before);
}

/// Promise (Fixing): What `make-room` reserves is released by its end, by a signal, by a limit of its cost, and after
/// a kill -9 by `undo`.
#[test]
fn an_interrupted_hold_gives_back_and_a_killed_one_leaves_it_to_undo() {
    let Some((_alone, state)) = state() else { return };
    let before = pages();
    let request = request();
    for (signal, is_given_back) in
        [(Signal::INT, true), (Signal::TERM, true), (Signal::KILL, false)]
    {
        let mut hold = memwright(&state, "make-room", &[&request, "--hold", "10min"]);
        let mut hold = hold.stdout(Stdio::null()).spawn().unwrap();
        mw_test::wait_until("pages of the pool", LIMIT, || pages() >= before + 8);
        assert_eq!(end(&mut hold, signal), Some(signal.as_raw()));
        assert_eq!(pages() == before, is_given_back, "{signal:?}");
    }
    let undone = memwright(&state, "undo", &[]).output().unwrap();
    assert!(undone.status.success(), "{undone:?}");
    assert_eq!(pages(), before);
}

#[test]
fn two_holds_end_in_any_order() {
    let Some((_alone, state)) = state() else { return };
    let before = pages();
    let hold = |more: u64| {
        let target = pages() + 8;
        let mut hold = memwright(&state, "make-room", &[&request(), "--hold", "10min"]);
        let hold = hold.stdout(Stdio::null()).spawn().unwrap();
        mw_test::wait_until("pages of the pool", LIMIT, || pages() >= target);
        assert_eq!(pages(), before + more);
        hold
    };
    let (mut first, mut second) = (hold(8), hold(16));
    end(&mut first, Signal::TERM);
    assert_eq!(pages(), before + 8);
    end(&mut second, Signal::TERM);
    assert_eq!(pages(), before);
}

#[test]
fn a_hold_ends_by_itself() {
    let Some((_alone, state)) = state() else { return };
    let before = pages();
    let output = make_room(&state, &[&request(), "--hold", "200ms"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let output = make_room(&state, &["16M", "--hold", "200ms"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(pages(), before);
}

#[test]
fn what_cannot_be_reached_is_refused_before_anything_is_done() {
    let Some((_alone, state)) = state() else { return };
    let before = pages();
    let output = make_room(&state, &["100T,huge=2M"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = stdout(&output);
    assert!(text.starts_with("not possible: 100 TiB on 2 MiB huge pages; "), "{text}");
    let output = make_room(&state, &["16M,huge=2M,node=999"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("node 999 does not exist"), "{said}");
    assert_eq!(pages(), before);
}

/// Promise (Fixing): `make-room` moves memory to other nodes only with consent, from a node that was named, and
/// leaves what a policy keeps there.
#[test]
fn memory_is_moved_only_from_a_node_that_was_named() {
    let state = TempDir::new().unwrap();
    let output = make_room(&state, &["16M", "--allow-migrate", "--dry-run"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.lines().count() == 1 && said.contains("SIZE,node=N"), "{said}");
}

#[test]
fn a_limit_of_the_cost_ends_it_and_everything_is_given_back() {
    let Some((_alone, state)) = state() else { return };
    let before = pages();
    let output = make_room(&state, &[&request(), "--max-cost", "time=1ns"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text.starts_with("not reached: ") && text.contains("--max-cost time="), "{text}");
    assert_eq!(pages(), before);
}
