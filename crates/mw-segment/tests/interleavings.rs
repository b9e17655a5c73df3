//! The cursor and the ledger under shuttle: their sources, with shuttle's atomics in the place of
//! std's, over thousands of interleavings.

#![allow(dead_code, reason = "the modules are used in part")]

use shuttle::sync::Arc;
use shuttle::thread;

mod sync {
    pub(crate) use shuttle::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
}

#[path = "../src/cursor.rs"]
mod cursor;
#[path = "../src/ledger.rs"]
mod ledger;

use cursor::Cursor;
use ledger::Ledger;

const ROUNDS: usize = 3_000;

#[test]
fn every_chunk_is_taken_once() {
    let round = || {
        const CHUNKS: usize = 5;
        let cursor = Arc::new(Cursor::new(CHUNKS));
        let helpers: Vec<_> = (0..3)
            .map(|_| {
                let cursor = Arc::clone(&cursor);
                thread::spawn(move || std::iter::from_fn(|| cursor.take()).collect::<Vec<_>>())
            })
            .collect();
        let mut taken: Vec<usize> =
            helpers.into_iter().flat_map(|helper| helper.join().unwrap()).collect();
        taken.sort_unstable();
        assert_eq!(taken, (0..CHUNKS).collect::<Vec<_>>());
        assert!(cursor.is_exhausted());
    };
    shuttle::check_random(round, ROUNDS);
    shuttle::check_pct(round, ROUNDS, 3);
}

#[test]
fn operations_share_the_processors_and_leave_nothing() {
    let round = || {
        const CPUS: [u32; 4] = [0, 1, 2, 3];
        let ledger = Arc::new(Ledger::<4>::new());
        let operations: Vec<_> = (0..3)
            .map(|operation| {
                let ledger = Arc::clone(&ledger);
                thread::spawn(move || {
                    let cpus = &CPUS[..2 + operation % 3];
                    let entry = ledger.enter(7, cpus);
                    let share = entry.share();
                    assert!((1..=cpus.len()).contains(&share));
                })
            })
            .collect();
        operations.into_iter().for_each(|operation| operation.join().unwrap());
        // Nobody is entered: an operation that comes now has everything.
        assert_eq!(ledger.enter(7, &CPUS).share(), 4);
    };
    shuttle::check_random(round, ROUNDS);
    shuttle::check_pct(round, ROUNDS, 3);
}

#[test]
fn what_a_parent_entered_counts_for_nothing_after_a_fork() {
    shuttle::check_random(
        || {
            let ledger = Arc::new(Ledger::<2>::new());
            std::mem::forget(ledger.enter(1, &[0, 1]));
            let children: Vec<_> = [2, 2]
                .map(|pid| {
                    let ledger = Arc::clone(&ledger);
                    thread::spawn(move || assert!(ledger.enter(pid, &[0, 1]).share() >= 1))
                })
                .into_iter()
                .collect();
            children.into_iter().for_each(|child| child.join().unwrap());
            assert_eq!(ledger.enter(2, &[0, 1]).share(), 2);
        },
        ROUNDS,
    );
}

#[test]
fn shares_are_fair() {
    shuttle::check_random(
        || {
            let ledger = Ledger::<4>::new();
            let all = ledger.enter(1, &[0, 1, 2, 3]);
            assert_eq!(all.share(), 4);
            let half = ledger.enter(1, &[2, 3]);
            assert_eq!((all.share(), half.share()), (3, 1));
            let again = ledger.enter(1, &[0, 1, 2, 3]);
            assert_eq!((all.share(), again.share(), half.share()), (1, 1, 1));
            drop(half);
            assert_eq!((all.share(), again.share()), (2, 2));
        },
        1,
    );
}
