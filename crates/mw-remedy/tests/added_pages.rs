//! Pages that several programs add to a pool of huge pages: each takes its own away, whatever the order.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop where it stands")]

mod common;

use common::{Dice, Tree, wants};
use mw_remedy::{ChangeState, UndoOutcome, UndoSelection, changes};

const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

fn tree(pages: u64) -> Tree {
    let tree = Tree::new();
    tree.set(POOL, &format!("{pages}\n"));
    tree
}

fn pages(tree: &Tree) -> u64 {
    tree.get(POOL).trim().parse().unwrap()
}

/// Adds pages; the number of the change.
fn add(tree: &Tree, more: u64) -> u64 {
    let target = (pages(tree) + more).to_string();
    tree.fix(&[wants("make-room", POOL, &target)], false).unwrap().changes[0].id
}

fn undo(tree: &Tree, id: u64) -> UndoOutcome {
    tree.undo(&UndoSelection::Ids(vec![id]), false).remove(0).outcome
}

fn restored(to: u64) -> UndoOutcome {
    UndoOutcome::Restored { to: to.to_string() }
}

#[test]
fn the_first_may_end_first() {
    let tree = tree(3);
    let (first, second) = (add(&tree, 8), add(&tree, 16));
    let state = |id: u64| {
        let all = changes(&tree.kernel(), &tree.history()).changes;
        all.into_iter().find(|change| change.id == id).unwrap().state
    };
    assert_eq!((state(first), state(second)), (ChangeState::InForce, ChangeState::InForce));
    assert_eq!(undo(&tree, first), restored(19));
    assert_eq!(state(second), ChangeState::InForce);
    assert_eq!(undo(&tree, second), restored(3));
}

/// Promise (Fixing): Programs that add pages to one pool take their own away when they end, whatever the order, and
/// what another program set stays.
#[test]
fn whatever_the_order_the_pool_ends_as_it_was() {
    for seed in 0..200 {
        let mut dice = Dice(seed);
        let base = dice.roll(5) as u64;
        let tree = tree(base);
        let mut held: Vec<(u64, u64)> = Vec::new();
        for _ in 0..12 {
            if held.is_empty() || dice.roll(2) == 0 {
                let more = 1 + dice.roll(9) as u64;
                held.push((add(&tree, more), more));
            } else {
                let (id, _) = held.swap_remove(dice.roll(held.len()));
                assert!(undo(&tree, id).is_gone(), "seed {seed}");
            }
            let sum: u64 = held.iter().map(|(_, more)| more).sum();
            assert_eq!(pages(&tree), base + sum, "seed {seed}");
        }
        assert!(tree.undo_all().iter().all(UndoOutcome::is_gone), "seed {seed}");
        assert_eq!(pages(&tree), base, "seed {seed}");
    }
}

#[test]
fn one_that_was_killed_takes_away_what_it_had() {
    let tree = tree(0);
    let plan = tree.plan(&[wants("make-room", POOL, "100")]);
    let kernel = tree.kernel();
    let mut killed_here = |point: mw_remedy::ChangeProgress| {
        assert_ne!(point.moment, mw_remedy::ChangeStep::Planned, "killed here");
    };
    let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        mw_remedy::apply(&kernel, &mut tree.lock(), &plan, false, &mut killed_here)
    }));
    assert!(killed.is_err());
    tree.set(POOL, "37\n");
    let second = add(&tree, 8);
    assert_eq!(undo(&tree, 1), restored(8));
    assert_eq!(undo(&tree, second), restored(0));
}

#[test]
fn what_another_program_set_stays() {
    let tree = tree(0);
    let (first, second) = (add(&tree, 8), add(&tree, 8));
    tree.set(POOL, "20\n");
    for id in [first, second] {
        assert!(matches!(undo(&tree, id), UndoOutcome::Drifted { .. }));
    }
    assert_eq!(pages(&tree), 20);
}

#[test]
fn after_a_reboot_nothing_is_left_to_take_away() {
    for order in [[0, 1], [1, 0]] {
        let tree = tree(2);
        let ids = [add(&tree, 8), add(&tree, 8)];
        tree.set(POOL, "2\n");
        for place in order {
            assert_eq!(undo(&tree, ids[place]), UndoOutcome::AlreadyBefore);
        }
        assert_eq!(pages(&tree), 2);
    }
}

#[test]
fn a_newer_change_that_lowers_the_pool_is_reverted_first() {
    let tree = tree(0);
    let first = add(&tree, 8);
    tree.fix(&[wants("hugepage-hoard", POOL, "4")], false).unwrap();
    assert_eq!(undo(&tree, first), UndoOutcome::Blocked { by: vec![2] });
    assert_eq!(tree.undo_all(), [restored(8), restored(0)]);
}
