//! The cursor and the CPU shares under shuttle: their sources with shuttle's atomics instead of std's, in
//! thousands of interleavings.

#![allow(dead_code, reason = "the modules are used in part")]

use shuttle::sync::Arc;
use shuttle::thread;

mod sync {
    pub(crate) use shuttle::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
}

#[path = "../src/cpu_shares.rs"]
mod cpu_shares;
#[path = "../src/cursor.rs"]
mod cursor;

use cpu_shares::CpuShares;
use cursor::Cursor;

const ROUNDS: usize = 3_000;

#[test]
fn every_chunk_is_taken_once() {
    let round = || {
        const CHUNKS: usize = 5;
        let cursor = Arc::new(Cursor::new(CHUNKS));
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let cursor = Arc::clone(&cursor);
                thread::spawn(move || std::iter::from_fn(|| cursor.take()).collect::<Vec<_>>())
            })
            .collect();
        let mut taken: Vec<usize> =
            workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
        taken.sort_unstable();
        assert_eq!(taken, (0..CHUNKS).collect::<Vec<_>>());
        assert!(cursor.is_exhausted());
    };
    shuttle::check_random(round, ROUNDS);
    shuttle::check_pct(round, ROUNDS, 3);
}

/// Promise (Segments): Concurrent operations share the CPUs and none is starved.
#[test]
fn operations_share_the_cpus_and_leave_nothing_behind() {
    let round = || {
        const CPUS: [u32; 4] = [0, 1, 2, 3];
        let cpu_shares = Arc::new(CpuShares::<4>::new());
        let operations: Vec<_> = (0..3)
            .map(|operation| {
                let cpu_shares = Arc::clone(&cpu_shares);
                thread::spawn(move || {
                    let cpus = &CPUS[..2 + operation % 3];
                    let registration = cpu_shares.register(7, cpus);
                    let share = registration.share();
                    assert!((1..=cpus.len()).contains(&share));
                })
            })
            .collect();
        operations.into_iter().for_each(|operation| operation.join().unwrap());
        // Nothing is registered: the next operation gets all CPUs.
        assert_eq!(cpu_shares.register(7, &CPUS).share(), 4);
    };
    shuttle::check_random(round, ROUNDS);
    shuttle::check_pct(round, ROUNDS, 3);
}

#[test]
fn registrations_of_the_parent_do_not_count_after_a_fork() {
    shuttle::check_random(
        || {
            let cpu_shares = Arc::new(CpuShares::<2>::new());
            std::mem::forget(cpu_shares.register(1, &[0, 1]));
            let children: Vec<_> = [2, 2]
                .map(|pid| {
                    let cpu_shares = Arc::clone(&cpu_shares);
                    thread::spawn(move || assert!(cpu_shares.register(pid, &[0, 1]).share() >= 1))
                })
                .into_iter()
                .collect();
            children.into_iter().for_each(|child| child.join().unwrap());
            assert_eq!(cpu_shares.register(2, &[0, 1]).share(), 2);
        },
        ROUNDS,
    );
}

#[test]
fn shares_are_fair() {
    shuttle::check_random(
        || {
            let cpu_shares = CpuShares::<4>::new();
            let all = cpu_shares.register(1, &[0, 1, 2, 3]);
            assert_eq!(all.share(), 4);
            let half = cpu_shares.register(1, &[2, 3]);
            assert_eq!((all.share(), half.share()), (3, 1));
            let again = cpu_shares.register(1, &[0, 1, 2, 3]);
            assert_eq!((all.share(), again.share(), half.share()), (1, 1, 1));
            drop(half);
            assert_eq!((all.share(), again.share()), (2, 2));
        },
        1,
    );
}
