//! Concurrent operations.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{MIB, assert_resources, options, resources};
use mw_segment::{Cancel, PageSize, SegmentKind};
use mw_test::alone;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[test]
fn many_concurrent_operations_all_finish() {
    let _alone = alone();
    let before = resources();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                for round in 0..4 {
                    let kinds = [
                        SegmentKind::Anon,
                        SegmentKind::Memfd,
                        SegmentKind::Dism,
                        SegmentKind::Ism,
                    ];
                    let kind = kinds[(thread + round) % kinds.len()];
                    let segment = options(kind, PageSize::Base, 48 * MIB).create().unwrap();
                    assert_eq!(segment.bytes(), 48 * MIB);
                }
            });
        }
    });
    assert_resources(before, "together");
}

#[test]
fn a_small_operation_is_not_starved_by_a_large_one() {
    let _alone = alone();
    let idle = time_of_small();
    let (cancel, is_over) = (Cancel::new(), AtomicBool::new(false));
    let (progress, has_progress) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let progress = progress;
            while !is_over.load(Ordering::Relaxed) {
                let large = options(SegmentKind::Memfd, PageSize::Base, 512 * MIB).cancel(&cancel);
                drop(large.create_with(&mut |_| {
                    let _ = progress.send(());
                }));
            }
        });
        let _ = has_progress.recv_timeout(Duration::from_secs(10));
        let loaded = time_of_small();
        is_over.store(true, Ordering::Relaxed);
        cancel.cancel();
        // Half of the CPUs are left to it; the rest is a margin for other load.
        assert!(loaded < idle * 6 + Duration::from_millis(300), "{idle:?} alone, {loaded:?}");
    });
}

/// The shortest of three runs.
fn time_of_small() -> Duration {
    let time = || {
        let start = Instant::now();
        assert!(options(SegmentKind::Anon, PageSize::Base, 64 * MIB).create().is_ok());
        start.elapsed()
    };
    (0..3).map(|_| time()).min().unwrap_or_default()
}

#[test]
fn the_affinity_limits_the_worker_threads() {
    let _alone = alone();
    let allowed = std::thread::available_parallelism().unwrap().get();
    let segment = options(SegmentKind::Anon, PageSize::Base, 64 * MIB).create().unwrap();
    assert_eq!(segment.times().workers, allowed.min(16));
    std::thread::spawn(|| {
        let set = rustix::thread::sched_getaffinity(None).unwrap();
        let first = (0..1024).find(|cpu| set.is_set(*cpu)).unwrap();
        let _pinned = mw_sys::pin_thread_to_cpus(&[u32::try_from(first).unwrap()]).unwrap();
        let segment = options(SegmentKind::Anon, PageSize::Base, 64 * MIB).create().unwrap();
        assert_eq!(segment.times().workers, 1);
    })
    .join()
    .unwrap();
}

#[test]
fn signals_go_to_the_program_and_not_to_workers() {
    let _alone = alone();
    let blocked = mw_sys::SignalsBlocked::new().unwrap();
    drop(options(SegmentKind::Memfd, PageSize::Base, 64 * MIB).create().unwrap());
    drop(blocked);
    drop(options(SegmentKind::Memfd, PageSize::Base, 64 * MIB).create().unwrap());
}
