//! Several operations at once, from any thread.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{MIB, assert_held, held, options};
use mw_segment::{Cancel, Kind, PageSize};
use mw_test::alone;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[test]
fn many_operations_at_once_all_get_done() {
    let _alone = alone();
    let before = held();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                for round in 0..4 {
                    let kinds = [Kind::Anon, Kind::Memfd, Kind::Dism, Kind::Ism];
                    let kind = kinds[(thread + round) % kinds.len()];
                    let segment = options(kind, PageSize::Base, 48 * MIB).create().unwrap();
                    assert_eq!(segment.bytes(), 48 * MIB);
                }
            });
        }
    });
    assert_held(before, "together");
}

#[test]
fn a_small_operation_is_not_starved_by_a_large_one() {
    let _alone = alone();
    let alone = time_of_small();
    let (cancel, over) = (Cancel::new(), AtomicBool::new(false));
    let (working, works) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let working = working;
            while !over.load(Ordering::Relaxed) {
                let large = options(Kind::Memfd, PageSize::Base, 512 * MIB).cancel(&cancel);
                drop(large.create_with(&mut |_| {
                    let _ = working.send(());
                }));
            }
        });
        let _ = works.recv_timeout(Duration::from_secs(10));
        let beside = time_of_small();
        over.store(true, Ordering::Relaxed);
        cancel.cancel();
        // Half of the processors are left to it; the rest is room for other builds.
        assert!(beside < alone * 6 + Duration::from_millis(300), "{alone:?} alone, {beside:?}");
    });
}

/// The best of three.
fn time_of_small() -> Duration {
    let time = || {
        let start = Instant::now();
        assert!(options(Kind::Anon, PageSize::Base, 64 * MIB).create().is_ok());
        start.elapsed()
    };
    (0..3).map(|_| time()).min().unwrap_or_default()
}

#[test]
fn helpers_are_as_many_as_the_affinity_allows() {
    let _alone = alone();
    let allowed = std::thread::available_parallelism().unwrap().get();
    let segment = options(Kind::Anon, PageSize::Base, 64 * MIB).create().unwrap();
    assert_eq!(segment.times().workers, allowed.min(16));
    std::thread::spawn(|| {
        let set = rustix::thread::sched_getaffinity(None).unwrap();
        let first = (0..1024).find(|cpu| set.is_set(*cpu)).unwrap();
        let _pinned = mw_sys::pin_thread_to_cpus(&[u32::try_from(first).unwrap()]).unwrap();
        let segment = options(Kind::Anon, PageSize::Base, 64 * MIB).create().unwrap();
        assert_eq!(segment.times().workers, 1);
    })
    .join()
    .unwrap();
}

#[test]
fn signals_go_to_the_program_and_not_to_helpers() {
    let _alone = alone();
    let blocked = mw_sys::SignalsBlocked::new().unwrap();
    drop(options(Kind::Memfd, PageSize::Base, 64 * MIB).create().unwrap());
    drop(blocked);
    drop(options(Kind::Memfd, PageSize::Base, 64 * MIB).create().unwrap());
}
