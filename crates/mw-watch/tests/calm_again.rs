//! After a stall nothing goes on that was begun for it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_watch::{Watch, WatchOptions, request_evidence};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_secs(3);

/// A thread of this process, once it has its name.
fn thread(name: &str) -> PathBuf {
    let is_it = |path: &PathBuf| {
        fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name)
    };
    let mut found = None;
    mw_test::wait_until(name, PATIENCE, || {
        let tasks = fs::read_dir("/proc/self/task").unwrap().flatten().map(|task| task.path());
        found = tasks.into_iter().find(is_it);
        found.is_some()
    });
    found.unwrap()
}

fn wake_ups(thread: &Path) -> u64 {
    let status = fs::read_to_string(thread.join("status")).unwrap();
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.unwrap().trim().parse().unwrap()
}

/// Evidence that somebody asks for is that of a stall which no slow answer announces.
///
/// Promise (The recorder): After a stall nothing goes on that was begun for it, also where no slow answer announced
/// it.
#[test]
fn the_trace_of_a_stall_that_nothing_announced_ends_with_it() {
    let dir = TempDir::new().unwrap();
    let recording = dir.path().join("recording.db");
    let watch = Watch::start(WatchOptions { canary: None, ..WatchOptions::new(recording.clone()) })
        .unwrap();
    let threads = ["mw-trace", "mw-states"].map(thread);
    let evidence = request_evidence(&recording, |_| {}).unwrap();
    assert!(evidence.id > 0);
    let are_at_rest = || {
        let before = threads.each_ref().map(|thread| wake_ups(thread));
        std::thread::sleep(LOOK);
        // In a trace, each wakes up ten times a second and more.
        threads
            .each_ref()
            .map(|thread| wake_ups(thread))
            .iter()
            .zip(before)
            .all(|(now, then)| now - then < 10)
    };
    mw_test::wait_until("rest", PATIENCE, are_at_rest);
    drop(watch);
}
