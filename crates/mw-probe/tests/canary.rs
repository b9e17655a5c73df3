//! The paired probe on the running machine.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use mw_probe::canary::{Canary, MAX_BYTES, MAX_INTERVAL, MIN_INTERVAL};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const BEAT: Duration = Duration::from_millis(10);
const BYTES: usize = 64 << 10;
/// What the pair may take of a bare thread that wakes up at the same beat.
const MAX_TIMES: f64 = 6.0;

/// These tests count the process's threads.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// This process's threads whose names begin so.
fn named(name: &str) -> Vec<PathBuf> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten().map(|task| task.path());
    let comm = |path: &PathBuf| fs::read_to_string(path.join("comm")).unwrap_or_default();
    tasks.filter(|path| comm(path).starts_with(name)).collect()
}

fn threads() -> Vec<PathBuf> {
    named("mw-canary")
}

#[test]
fn both_threads_beat_and_end() {
    let _alone = alone();
    let canary = Canary::start(BEAT, BYTES).unwrap();
    let mut ticks = Vec::new();
    for _ in 0..5 {
        std::thread::sleep(10 * BEAT);
        ticks.push(canary.take());
    }
    assert!(ticks.iter().any(|tick| tick.touch_us > 0), "{ticks:?}");
    assert!(ticks.iter().any(|tick| tick.late_us > 0 && tick.idle_us >= tick.late_us), "{ticks:?}");
    assert_eq!(threads().len(), 2);
    let begun = Instant::now();
    drop(canary);
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert!(threads().is_empty());
}

/// Times that a thread slept, and its CPU time in seconds.
fn used(thread: &Path) -> (u64, f64) {
    let status = fs::read_to_string(thread.join("status")).unwrap();
    let switches = status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"));
    let stat = fs::read_to_string(thread.join("schedstat")).unwrap();
    let nanoseconds: f64 = stat.split(' ').next().unwrap().parse().unwrap();
    (switches.unwrap().trim().parse().unwrap(), nanoseconds / 1e9)
}

/// The same of the canary's threads and of the bare one over one second.
fn use_of_both() -> [(u64, f64); 2] {
    let both = [threads(), named("bare")];
    let sum = || {
        both.each_ref().map(|threads| {
            let each = threads.iter().map(|thread| used(thread));
            each.fold((0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
        })
    };
    let before = sum();
    std::thread::sleep(Duration::from_secs(1));
    let [(pair, bare), (pair_before, bare_before)] = [sum(), before].map(|[a, b]| (a, b));
    let since = |now: (u64, f64), then: (u64, f64)| (now.0 - then.0, now.1 - then.1);
    [since(pair, pair_before), since(bare, bare_before)]
}

#[test]
fn the_beat_changes_and_a_turn_costs_little_more_than_waking_up() {
    let _alone = alone();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let bare = std::thread::Builder::new().name("bare".to_owned());
    let bare = bare.spawn(move || {
        while !stopped.load(Relaxed) {
            std::thread::sleep(BEAT);
        }
    });
    let canary = Canary::start(BEAT, 16 << 10).unwrap();
    std::thread::sleep(2 * BEAT);
    // Other work on the machine makes a second dear for one of them: the best of a few.
    let seconds: Vec<_> = (0..3).map(|_| use_of_both()).collect();
    println!("turns and processor time in a second, of the pair and of a bare thread: {seconds:?}");
    let turns = seconds.iter().map(|[pair, _]| pair.0).max().unwrap_or(0);
    assert!((40..=140).contains(&turns), "{turns}");
    let times = seconds.iter().map(|[pair, bare]| pair.1 / bare.1).fold(f64::MAX, f64::min);
    assert!(times < MAX_TIMES, "{times} times a bare thread's");
    stop.store(true, Relaxed);
    bare.unwrap().join().unwrap();

    canary.set_interval(Duration::from_millis(1));
    std::thread::sleep(2 * BEAT);
    let [(fast, _), _] = use_of_both();
    assert!(fast > 2 * turns, "{fast} of {turns}");
}

/// Promise (The recorder): The canary rests while nothing points to memory work, and beats at once at the first sign.
#[test]
fn a_shorter_beat_holds_at_once() {
    let _alone = alone();
    let canary = Canary::start(MAX_INTERVAL, BYTES).unwrap();
    let has_touched = || canary.take().touch_us > 0;
    mw_test::wait_until("a turn", Duration::from_secs(10), has_touched);
    let [(at_rest, _), _] = use_of_both();
    assert!((2..=8).contains(&at_rest), "{at_rest}");
    mw_test::wait_until("a turn", Duration::from_secs(10), has_touched);
    canary.set_interval(MIN_INTERVAL);
    // The turn that was planned is twice as far away.
    mw_test::wait_until("a turn of the new beat", MAX_INTERVAL / 2, has_touched);
    canary.set_interval(MAX_INTERVAL);
    std::thread::sleep(10 * BEAT);
    let [(at_rest, _), _] = use_of_both();
    assert!((2..=8).contains(&at_rest), "{at_rest}");
}

#[test]
fn odd_beats_and_sizes_are_refused() {
    for (interval, bytes) in [
        (MIN_INTERVAL / 2, 4096),
        (MAX_INTERVAL * 2, 4096),
        (Duration::MAX, 4096),
        (BEAT, 0),
        (BEAT, MAX_BYTES + 1),
    ] {
        assert!(Canary::start(interval, bytes).is_err());
    }
}
