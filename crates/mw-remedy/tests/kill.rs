//! `kill -9` at every step of a change, of its roll-back, and of taking it back.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop where it stands")]

mod common;

use common::{
    COMPACT, DIRTY_BYTES, DIRTY_RATIO, KHUGEPAGED, MIN_FREE, THP, Tree, again, all_kinds,
};
use mw_remedy::{ChangeProgress, ChangeStep, UndoOutcome, UndoSelection, changes};
use rustix::process::{Pid, Signal, getpid, kill_process};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

const TREE: &str = "MW_REMEDY_KILL_TREE";
const JOB: &str = "MW_REMEDY_KILL_JOB";
const AT: &str = "MW_REMEDY_KILL_AT";

/// Runs in a process of its own, which it kills at the wanted step.
#[test]
fn child() {
    let (Some(tree), Ok(job), Ok(at)) =
        (std::env::var_os(TREE), std::env::var(JOB), std::env::var(AT))
    else {
        return;
    };
    let tree = Tree::at(Path::new(&tree));
    let mut left: u32 = at.parse().unwrap();
    let mut observer = |point: ChangeProgress| {
        as_the_kernel_does(&tree, point);
        if left == 0 {
            kill_process(Pid::from_raw(getpid().as_raw_nonzero().get()).unwrap(), Signal::KILL)
                .unwrap();
        }
        left -= 1;
    };
    let (kernel, mut journal) = (tree.kernel(), tree.lock());
    match job.as_str() {
        "undo" => {
            mw_remedy::undo(&kernel, &mut journal, &UndoSelection::All, false, &mut observer)
                .unwrap();
        }
        _ => {
            let plan = tree.plan(&all_kinds());
            if job == "fail" {
                make_unwritable(&tree);
            }
            let _ = mw_remedy::apply(&kernel, &mut journal, &plan, true, &mut observer);
        }
    }
}

/// Files lack the kernel's couplings; their effect is there before anybody can be killed.
fn as_the_kernel_does(tree: &Tree, point: ChangeProgress) {
    if point.moment != ChangeStep::Written {
        return;
    }
    if tree.get(THP) == "madvise\n" && tree.get(MIN_FREE) == "20000\n" {
        tree.set(MIN_FREE, "67584\n");
    }
    if tree.get(DIRTY_RATIO) == "10\n" {
        tree.set(DIRTY_BYTES, "0\n");
    }
}

/// Makes the last change of the plan fail: a link is read but not written.
fn make_unwritable(tree: &Tree) {
    let aside = tree.root().join("aside");
    if !aside.exists() {
        std::fs::rename(tree.file(KHUGEPAGED), &aside).unwrap();
        std::os::unix::fs::symlink(&aside, tree.file(KHUGEPAGED)).unwrap();
    }
}

/// Whether the job was killed at this step rather than done before it.
fn is_killed_at(tree: &Tree, job: &str, at: u32) -> bool {
    let variables =
        [(TREE, tree.base().display().to_string()), (JOB, job.to_owned()), (AT, at.to_string())];
    let status = again("child", &variables);
    assert!(status.success() || status.signal() == Some(Signal::KILL.as_raw()), "{status}");
    !status.success()
}

/// Kills `job` at every step, and after each the undo at every step; then a whole undo has to leave
/// the tree as it was.
fn check(job: &str) {
    let pristine = Tree::new();
    if job == "fail" {
        make_unwritable(&pristine);
    }
    let before = pristine.everything();
    let (mut kills, mut at) = (0, 0);
    loop {
        let tree = pristine.copy();
        let killed = is_killed_at(&tree, job, at);
        assert!(changes(&tree.kernel(), &tree.history()).damage.is_empty());
        let mut undo_at = 0;
        while {
            let again = tree.copy();
            let undo_killed = is_killed_at(&again, "undo", undo_at);
            assert!(again.undo_all().iter().all(UndoOutcome::is_gone));
            assert!(again.undo_all().is_empty());
            // An action leaves its trace, as it should.
            again.set(COMPACT, "0\n");
            assert_eq!(again.everything(), before, "{job} killed at {at}, undo at {undo_at}");
            undo_killed
        } {
            undo_at += 1;
            kills += 1;
        }
        if !killed {
            break;
        }
        at += 1;
        kills += 1;
    }
    println!("{job}: {at} steps, killed {kills} times");
    assert!(at > 20, "{job} has only {at} steps");
}

#[test]
fn a_kill_at_any_step_is_reverted_byte_for_byte() {
    check("fix");
}

#[test]
fn a_kill_at_any_step_of_a_rollback_is_reverted_byte_for_byte() {
    check("fail");
}
