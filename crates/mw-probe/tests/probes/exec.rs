//! Programs as probes.

use crate::{answers, fails, start, taken, wait};
use std::fs;
use std::time::Duration;

#[test]
fn the_exit_code_is_the_answer() {
    answers(&start("exec:true", 10_000));
    assert_eq!(fails(&start("exec:false", 10_000)), "exit code 1");
    let said = fails(&start("exec:sh -c 'echo; echo no route >&2; echo more >&2; exit 7'", 10_000));
    assert_eq!(said, "exit code 7: no route");
    let said = fails(&start("exec:sh -c 'kill -9 $$'", 10_000));
    assert!(said.starts_with("ended by signal: 9"), "{said}");
    let said = fails(&start("exec:/nowhere/ping", 10_000));
    assert_eq!(said, "starting the program: no such file or directory");
}

/// Promise (The recorder): An `exec:` probe leaves no process behind.
#[test]
fn a_program_that_never_ends_is_killed_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let script = format!("sleep 1000 & echo $! >> {}; sleep 1000", pids.display());
    let prober = start(&format!("exec:sh -c '{script}'"), 300);
    assert_eq!(fails(&prober), "timed out while waiting for the program to end");
    drop(prober);
    let pids = fs::read_to_string(&pids).unwrap();
    assert!(!pids.is_empty());
    for pid in pids.lines() {
        wait("the children's end", || (!runs(pid)).then_some(()));
    }
}

#[test]
fn what_a_program_leaves_running_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let script = format!("sleep 1000 & echo $! > {}", pid.display());
    let prober = start(&format!("exec:sh -c '{script}'"), 10_000);
    answers(&prober);
    drop(prober);
    let pid = fs::read_to_string(&pid).unwrap();
    wait("its end", || (!runs(pid.trim())).then_some(()));
}

/// Whether a process is there and no zombie.
fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

#[test]
fn endless_complaints_are_cut_short() {
    let prober = start("exec:sh -c 'yes >&2'", 10_000);
    assert_eq!(fails(&prober), "the program wrote more than 64 KiB to standard error");
    assert!(taken(&prober).worst_us < Duration::from_secs(10).as_micros() as u64);
}

#[test]
fn every_program_is_reaped() {
    let prober = start("exec:true", 10_000);
    for _ in 0..5 {
        answers(&prober);
    }
    drop(prober);
    let own = std::process::id().to_string();
    let zombies = fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        stat.contains("(true) Z") && stat.split(' ').nth(3) == Some(&own)
    });
    assert_eq!(zombies.count(), 0);
}
