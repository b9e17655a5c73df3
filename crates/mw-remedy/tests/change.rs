//! Changes on a tree of files: made, kept, looked at, reverted.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop where it stands")]

mod common;

use common::{
    COMPACT, DIRTY_BACKGROUND_BYTES, DIRTY_BACKGROUND_RATIO, DIRTY_BYTES, DIRTY_RATIO, KHUGEPAGED,
    MIN_FREE, SWAPPINESS, THP, Tree, ZONE_RECLAIM, all_kinds, finding, once, wants,
};
use mw_model::{Severity, Step};
use mw_remedy::{
    ApplyError, ChangeError, ChangeProgress, ChangeState, ChangeStep, Kernel, Plan, PlanError,
    SYSCTL_FILE, TMPFILES_FILE, UndoError, UndoOutcome, UndoSelection, changes, nobody,
};
use std::fs;

fn restored(to: &str) -> UndoOutcome {
    UndoOutcome::Restored { to: to.to_owned() }
}

#[test]
fn a_change_is_made_and_reverted() {
    let tree = Tree::new();
    let before = tree.everything();
    let applied = tree.fix(&[wants("zone-reclaim", ZONE_RECLAIM, "0")], false).unwrap();
    assert_eq!(applied.changes[0].id, 1);
    assert_eq!(applied.changes[0].before.as_deref(), Some("7"));
    assert_eq!(tree.get(ZONE_RECLAIM), "0\n");
    assert_eq!(tree.undo_all(), [restored("7")]);
    assert_eq!(tree.everything(), before);
    assert_eq!(tree.undo_all(), []);
    assert_eq!(
        tree.undo(&UndoSelection::Ids(vec![1]), true)[0].outcome,
        UndoOutcome::AlreadyUndone
    );
}

#[test]
fn everything_is_persisted_and_reverted_byte_for_byte() {
    let tree = Tree::new();
    let before = tree.everything();
    tree.fix(&all_kinds(), true).unwrap();
    let sysctl = tree.get(SYSCTL_FILE);
    assert!(sysctl.starts_with("# Written by memwright"), "{sysctl}");
    assert!(
        sysctl.ends_with(
            "# memwright change 2 (zone-reclaim)\nvm.zone_reclaim_mode = 0\n\
             # memwright change 3 (dirty-limit-too-high)\nvm.dirty_ratio = 10\n"
        ),
        "{sysctl}"
    );
    let tmpfiles = tree.get(TMPFILES_FILE);
    assert!(
        tmpfiles.ends_with(&format!(
            "# memwright change 5 (khugepaged-churn)\nw {KHUGEPAGED} - - - - 0\n\
             # memwright change 1 (thp-compaction)\nw {THP} - - - - madvise\n"
        )),
        "{tmpfiles}"
    );
    assert_eq!(tree.get(COMPACT), "1\n");
    assert!(tree.undo_all().iter().all(UndoOutcome::is_gone));
    tree.set(COMPACT, "0\n");
    assert_eq!(tree.everything(), before);
}

#[test]
fn changes_may_be_reverted_in_any_order() {
    const KSM: &str = "/sys/kernel/mm/ksm/run";
    for order in [[1, 2, 3], [3, 1, 2], [2, 3, 1], [2, 1, 3]] {
        let tree = Tree::new();
        tree.set(KSM, "0\n");
        let before = tree.everything();
        let wanted = [(SWAPPINESS, "1"), (KHUGEPAGED, "0"), (KSM, "1")];
        tree.fix(&wanted.map(|(path, value)| wants("rule", path, value)), true).unwrap();
        for id in order {
            assert!(tree.undo(&UndoSelection::Ids(vec![id]), false)[0].outcome.is_gone());
        }
        assert_eq!(tree.everything(), before, "{order:?}");
    }
}

#[test]
fn what_a_person_added_to_our_file_stays() {
    let tree = Tree::new();
    tree.fix(&[wants("zone-reclaim", ZONE_RECLAIM, "0")], true).unwrap();
    let with = format!("{}kernel.panic = 5\n", tree.get(SYSCTL_FILE));
    tree.set(SYSCTL_FILE, &with);
    tree.undo_all();
    let left = tree.get(SYSCTL_FILE);
    assert!(left.ends_with("\nkernel.panic = 5\n") && !left.contains("zone_reclaim"), "{left}");
}

#[test]
fn our_file_comes_back_as_a_person_left_it() {
    let tree = Tree::new();
    tree.fix(&[wants("a", ZONE_RECLAIM, "0")], true).unwrap();
    tree.set(SYSCTL_FILE, &format!("{}kernel.panic = 5", tree.get(SYSCTL_FILE)));
    let before = tree.everything();
    tree.fix(&[wants("b", SWAPPINESS, "1")], true).unwrap();
    assert!(tree.undo(&UndoSelection::Ids(vec![2]), false)[0].outcome.is_gone());
    assert_eq!(tree.everything(), before);
}

#[test]
fn our_file_is_replaced_in_one_step() {
    let tree = Tree::new();
    tree.fix(&[wants("a", ZONE_RECLAIM, "0")], true).unwrap();
    let mut reader = fs::File::open(tree.file(SYSCTL_FILE)).unwrap();
    tree.fix(&[wants("b", SWAPPINESS, "1")], true).unwrap();
    let mut seen = String::new();
    std::io::Read::read_to_string(&mut reader, &mut seen).unwrap();
    assert!(!seen.contains("swappiness"), "a reader has one state or the other");
    assert_eq!(fs::read_dir(tree.file("/etc/sysctl.d")).unwrap().count(), 1);
}

#[test]
fn a_line_of_ours_that_somebody_changed_is_left_unless_forced() {
    let tree = Tree::new();
    let before = tree.everything();
    tree.fix(&[wants("zone-reclaim", ZONE_RECLAIM, "0")], true).unwrap();
    tree.set(SYSCTL_FILE, &tree.get(SYSCTL_FILE).replace("mode = 0", "mode = 1"));
    let outcome = tree.undo_all().remove(0);
    assert!(matches!(&outcome, UndoOutcome::Drifted { drift } if drift[0].path == SYSCTL_FILE));
    assert_eq!(tree.get(ZONE_RECLAIM), "0\n");
    assert_eq!(tree.undo(&UndoSelection::All, true)[0].outcome, restored("7"));
    assert_eq!(tree.everything(), before);
}

#[test]
fn a_file_of_somebody_else_is_never_written() {
    let tree = Tree::new();
    tree.set(SYSCTL_FILE, "vm.swappiness = 1\n");
    let before = tree.everything();
    let error = tree.fix(&[wants("zone-reclaim", ZONE_RECLAIM, "0")], true).unwrap_err();
    assert!(matches!(&error, ApplyError::RolledBack { rolled_back, .. } if *rolled_back == [1]));
    assert!(error.to_string().contains("was not written by memwright"), "{error}");
    assert_eq!(tree.everything(), before);
}

#[test]
fn files_that_set_the_same_are_named() {
    let tree = Tree::new();
    tree.set("/etc/sysctl.d/10-db.conf", "\nvm.zone_reclaim_mode = 3\n");
    tree.set("/usr/lib/sysctl.d/zzz.conf", "vm/zone_reclaim_mode = 0\n-vm.zone_reclaim_mode=4\n");
    tree.set("/etc/sysctl.conf", "#vm.zone_reclaim_mode = 1\nvm.zone_reclaim_mode = 5\n");
    tree.set("/etc/sysctl.d/hidden.conf", "");
    tree.set("/usr/lib/sysctl.d/hidden.conf", "vm.zone_reclaim_mode = 6\n");
    let plan = tree.plan(&[wants("zone-reclaim", ZONE_RECLAIM, "0")]);
    let seen: Vec<_> = plan.changes[0]
        .shadowed
        .iter()
        .map(|other| (other.file.as_str(), other.line, other.value.as_str(), other.wins))
        .collect();
    assert_eq!(
        seen,
        [
            ("/etc/sysctl.d/10-db.conf", 2, "3", false),
            ("/usr/lib/sysctl.d/zzz.conf", 2, "4", true),
            ("/etc/sysctl.conf", 2, "5", true),
        ]
    );
}

#[test]
fn a_partner_that_is_set_later_is_named() {
    let tree = Tree::new();
    tree.set("/etc/sysctl.conf", "vm.dirty_bytes = 4096000\n");
    let plan = tree.plan(&[wants("rule", DIRTY_RATIO, "10")]);
    assert_eq!(plan.changes[0].shadowed[0].path, DIRTY_BYTES);
    tree.set("/etc/tmpfiles.d/00-a.conf", &format!("w {THP} - - - - always\n"));
    tree.set("/etc/tmpfiles.d/10-b.conf", &format!("w {THP} - - - - always\n"));
    let plan = tree.plan(&[wants("rule", THP, "never")]);
    let wins: Vec<bool> = plan.changes[0].shadowed.iter().map(|other| other.wins).collect();
    assert_eq!(wins, [true, false]);
}

#[test]
fn a_setting_changed_since_is_left_unless_forced() {
    let tree = Tree::new();
    tree.fix(&[wants("zone-reclaim", ZONE_RECLAIM, "0")], false).unwrap();
    tree.set(ZONE_RECLAIM, "3\n");
    let status = changes(&tree.kernel(), &tree.history());
    assert!(matches!(&status.changes[0].state, ChangeState::Drifted { drift } if drift.now == "3"));
    let outcome = tree.undo_all().remove(0);
    let said = outcome.to_string();
    assert!(matches!(outcome, UndoOutcome::Drifted { .. }), "{said}");
    assert!(said.contains("now '3'") && said.contains("'0'") && said.contains("'7'"), "{said}");
    assert_eq!(tree.get(ZONE_RECLAIM), "3\n");
    let status = changes(&tree.kernel(), &tree.history());
    assert!(status.changes[0].left.is_some());
    assert_eq!(tree.undo(&UndoSelection::Ids(vec![1]), true)[0].outcome, restored("7"));
    assert_eq!(tree.get(ZONE_RECLAIM), "7\n");
}

#[test]
fn a_partner_comes_back_too() {
    let tree = Tree::new();
    let before = tree.everything();
    let plan = tree.plan(&[wants("rule", DIRTY_RATIO, "10")]);
    let kernel = tree.kernel();
    mw_remedy::apply(&kernel, &mut tree.lock(), &plan, false, &mut nobody).unwrap();
    tree.set(DIRTY_BYTES, "0\n");
    assert_eq!(tree.undo_all(), [restored("0")]);
    assert_eq!(tree.everything(), before);
}

/// Both dirty limits are set in bytes, which zeroes both ratios; the kernel takes no zero for bytes.
///
/// Promise (Fixing): Limits that the kernel keeps in two files each come back exactly, whichever of their changes is
/// reverted first.
#[test]
fn two_limits_of_two_files_each_come_back() {
    const FILES: [(&str, &str); 2] =
        [(DIRTY_BACKGROUND_BYTES, DIRTY_BACKGROUND_RATIO), (DIRTY_BYTES, DIRTY_RATIO)];
    for persist in [false, true] {
        for first in [1, 2] {
            let tree = Tree::new();
            for ((bytes, ratio), percent) in FILES.into_iter().zip(["7\n", "23\n"]) {
                tree.set(bytes, "0\n");
                tree.set(ratio, percent);
            }
            let before = tree.everything();
            let steps = vec![
                Step::write(DIRTY_BACKGROUND_BYTES, 31_457_280),
                Step::write(DIRTY_BYTES, 62_914_560),
            ];
            let plan = tree.plan(&[finding("dirty-limit-too-high", Severity::Warning, steps)]);
            let mut zero = |point: ChangeProgress| {
                let (_, ratio) = FILES[usize::try_from(point.change - 1).unwrap()];
                if point.moment == ChangeStep::Written {
                    tree.set(ratio, "0\n");
                }
            };
            let mut journal = tree.lock();
            mw_remedy::apply(&tree.kernel(), &mut journal, &plan, persist, &mut zero).unwrap();
            drop(journal);
            assert_eq!(
                (tree.get(DIRTY_BYTES).as_str(), tree.get(DIRTY_RATIO).as_str()),
                ("62914560\n", "0\n")
            );
            let undone = tree.undo(&UndoSelection::Ids(vec![first]), false);
            assert!(undone.iter().all(|undone| undone.outcome.is_gone()), "{undone:?}");
            assert!(tree.undo_all().iter().all(UndoOutcome::is_gone));
            assert_eq!(tree.everything(), before, "persisted {persist}, {first} first");
        }
    }
}

#[test]
fn a_partner_that_somebody_set_since_is_left() {
    let tree = Tree::new();
    tree.fix(&[wants("rule", DIRTY_RATIO, "10")], false).unwrap();
    tree.set(DIRTY_RATIO, "0\n");
    tree.set(DIRTY_BYTES, "555\n");
    assert!(matches!(tree.undo_all()[0], UndoOutcome::Drifted { .. }));
    assert_eq!(tree.get(DIRTY_BYTES), "555\n");
}

#[test]
fn the_effect_of_huge_pages_on_min_free_is_reverted_unless_changed() {
    for (somebody, expected) in [(None, "20000\n"), (Some("30000\n"), "30000\n")] {
        let tree = Tree::new();
        let plan = tree.plan(&[wants("rule", THP, "never")]);
        let mut as_the_kernel_does = |point: mw_remedy::ChangeProgress| {
            if point.moment == mw_remedy::ChangeStep::Written {
                tree.set(MIN_FREE, "67584\n");
            }
        };
        let kernel = tree.kernel();
        mw_remedy::apply(&kernel, &mut tree.lock(), &plan, false, &mut as_the_kernel_does).unwrap();
        if let Some(value) = somebody {
            tree.set(MIN_FREE, value);
        }
        assert_eq!(tree.undo_all(), [restored("always")]);
        assert_eq!(tree.get(MIN_FREE), expected);
    }
}

#[test]
fn a_newer_change_has_to_go_first() {
    let tree = Tree::new();
    let before = tree.everything();
    tree.fix(&[wants("rule", ZONE_RECLAIM, "1")], false).unwrap();
    tree.fix(&[wants("rule", ZONE_RECLAIM, "0")], false).unwrap();
    let status = changes(&tree.kernel(), &tree.history());
    assert_eq!(status.changes[0].state, ChangeState::Covered { by: vec![2] });
    assert_eq!(status.changes[1].state, ChangeState::InForce);
    let outcome = &tree.undo(&UndoSelection::Ids(vec![1]), true)[0].outcome;
    assert_eq!(*outcome, UndoOutcome::Blocked { by: vec![2] });
    assert_eq!(tree.undo_all(), [restored("1"), restored("7")]);
    assert_eq!(tree.everything(), before);
}

#[test]
fn a_change_that_does_not_exist_is_said_to() {
    let tree = Tree::new();
    let ask = |ids| {
        let which = UndoSelection::Ids(ids);
        mw_remedy::undo(&tree.kernel(), &mut tree.lock(), &which, false, &mut nobody).unwrap_err()
    };
    assert_eq!(ask(vec![3]).to_string(), "no change 3; the journal has no changes");
    tree.fix(&[wants("rule", ZONE_RECLAIM, "0")], false).unwrap();
    let error = ask(vec![1, 3]);
    assert!(matches!(error, UndoError::NoSuchChange { id: 3, newest: 1 }));
    assert_eq!(tree.get(ZONE_RECLAIM), "0\n", "nothing is reverted then");
}

#[test]
fn a_file_that_this_kernel_lacks_is_said_to_be() {
    let tree = Tree::new();
    let plan = tree.plan(&[wants("rule", "/proc/sys/vm/nonesuch", "1")]);
    assert_eq!(plan.absent, ["/proc/sys/vm/nonesuch"]);
    tree.fix(&[wants("rule", ZONE_RECLAIM, "0")], true).unwrap();
    fs::remove_file(tree.file(ZONE_RECLAIM)).unwrap();
    assert_eq!(changes(&tree.kernel(), &tree.history()).changes[0].state, ChangeState::Missing);
    assert_eq!(tree.undo_all(), [UndoOutcome::Missing]);
    assert!(tree.has(SYSCTL_FILE));
    assert_eq!(tree.undo(&UndoSelection::All, true)[0].outcome, UndoOutcome::NothingToRevert);
    assert!(!tree.has(SYSCTL_FILE));
}

#[test]
fn after_a_reboot_there_is_nothing_to_write() {
    let tree = Tree::new();
    tree.fix(&[wants("rule", ZONE_RECLAIM, "0")], false).unwrap();
    tree.set(ZONE_RECLAIM, "7\n");
    assert_eq!(
        changes(&tree.kernel(), &tree.history()).changes[0].state,
        ChangeState::AlreadyBefore
    );
    assert_eq!(tree.undo_all(), [UndoOutcome::AlreadyBefore]);
}

#[test]
fn after_a_reboot_there_is_nothing_to_write_below_a_newer_change_either() {
    let tree = Tree::new();
    tree.fix(&[wants("rule", ZONE_RECLAIM, "1")], false).unwrap();
    tree.fix(&[wants("rule", ZONE_RECLAIM, "0")], false).unwrap();
    tree.set(ZONE_RECLAIM, "7\n");
    assert_eq!(
        changes(&tree.kernel(), &tree.history()).changes[1].state,
        ChangeState::AlreadyBefore
    );
    assert_eq!(tree.undo_all(), [UndoOutcome::AlreadyBefore, UndoOutcome::AlreadyBefore]);
    assert_eq!(tree.get(ZONE_RECLAIM), "7\n");
}

#[test]
fn an_action_is_done_once() {
    let tree = Tree::new();
    let applied = tree.fix(&[once("rule", COMPACT, "1")], true).unwrap();
    assert_eq!((&applied.changes[0].before, &applied.changes[0].kept), (&None, &None));
    assert!(applied.changes[0].once && applied.changes[0].not_kept.is_some());
    assert_eq!(changes(&tree.kernel(), &tree.history()).changes[0].state, ChangeState::Done);
    assert_eq!(tree.undo_all(), [UndoOutcome::NothingToRevert]);
    assert_eq!(tree.get(COMPACT), "1\n");
}

#[test]
fn a_plan_lists_its_changes() {
    let tree = Tree::new();
    let step = |command: &str| Step::manual(command);
    let boot = Step::BootParameter { parameter: "hugepages=16".into() };
    let findings = [
        wants("zone-reclaim", ZONE_RECLAIM, "0"),
        wants("another", ZONE_RECLAIM, "0"),
        wants("calm", SWAPPINESS, "60"),
        finding(
            "hugepage-shortage",
            Severity::Note,
            vec![boot, step("umount /x"), step("umount /x")],
        ),
        wants("thp", THP, "madvise"),
        once("fragmented-node", COMPACT, "1"),
    ];
    let before = tree.everything();
    let plan = tree.plan(&findings);
    assert_eq!(
        plan.to_string(),
        format!(
            "{THP}: always -> madvise\n\
             vm.zone_reclaim_mode: 7 -> 0   ({ZONE_RECLAIM})\n\
             vm.compact_memory: write 1 once   ({COMPACT})\n\
             already: vm.swappiness is already 60\n\
             by hand: umount /x\n\
             only on the boot line: hugepages=16\n"
        )
    );
    assert_eq!(plan.changes[1].also, ["another"]);
    assert_eq!(tree.everything(), before);
    assert!(!tree.state().exists());
}

#[test]
fn the_worse_finding_takes_precedence() {
    let tree = Tree::new();
    let findings = [
        wants("milder", DIRTY_BYTES, "5000"),
        finding("worse", Severity::Critical, vec![Step::write(DIRTY_RATIO, "10")]),
        wants("other", DIRTY_RATIO, "20"),
        wants("same", DIRTY_RATIO, "10"),
    ];
    let plan = tree.plan(&findings);
    assert_eq!(plan.changes.len(), 1);
    assert_eq!((plan.changes[0].rule.as_str(), plan.changes[0].value.as_str()), ("worse", "10"));
    let dropped: Vec<&str> =
        plan.conflicts.iter().map(|conflict| conflict.dropped_rule.as_str()).collect();
    assert_eq!(dropped, ["milder", "other"]);
    assert!(plan.to_string().contains("milder needs vm.dirty_bytes = 5000, but worse needs"));
}

#[test]
fn a_value_that_would_be_two_lines_is_refused() {
    let tree = Tree::new();
    let findings = [wants("rule", ZONE_RECLAIM, "0\nkernel.x = 1")];
    let error = Plan::new(&tree.kernel(), &findings).unwrap_err();
    assert!(matches!(error, PlanError::BadValue { .. }));
    tree.set(ZONE_RECLAIM, "1\n2\n");
    let error = Plan::new(&tree.kernel(), &[wants("rule", ZONE_RECLAIM, "0")]).unwrap_err();
    assert!(error.to_string().contains("one line"), "{error}");
}

#[test]
fn a_failure_reverts_what_was_done() {
    let tree = Tree::new();
    let plan = tree.plan(&all_kinds());
    // It reads, but is not opened for writing: a link is not followed.
    fs::rename(tree.file(KHUGEPAGED), tree.root().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(tree.root().join("elsewhere"), tree.file(KHUGEPAGED)).unwrap();
    let before = tree.everything();
    let error = mw_remedy::apply(&tree.kernel(), &mut tree.lock(), &plan, true, &mut nobody);
    let error = error.unwrap_err();
    assert!(
        matches!(&error, ApplyError::RolledBack { rolled_back, .. } if *rolled_back == [3, 2, 1]),
        "{error}"
    );
    tree.set(COMPACT, "0\n");
    assert_eq!(tree.everything(), before);
    let states = changes(&tree.kernel(), &tree.history());
    assert!(
        states.changes.iter().all(|change| change.state == ChangeState::RolledBack),
        "{states:?}"
    );
    assert_eq!(tree.undo_all(), []);
}

#[test]
fn somebody_between_plan_and_apply_is_noticed() {
    let tree = Tree::new();
    let plan = tree.plan(&[wants("a", SWAPPINESS, "1"), wants("b", ZONE_RECLAIM, "0")]);
    tree.set(ZONE_RECLAIM, "3\n");
    let error = mw_remedy::apply(&tree.kernel(), &mut tree.lock(), &plan, false, &mut nobody);
    let error = error.unwrap_err();
    assert!(matches!(error.cause(), ChangeError::Moved { .. }), "{error}");
    assert_eq!((tree.get(SWAPPINESS), tree.get(ZONE_RECLAIM)), ("60\n".into(), "3\n".into()));
    tree.set(ZONE_RECLAIM, "0\n");
    let applied = mw_remedy::apply(&tree.kernel(), &mut tree.lock(), &plan, false, &mut nobody);
    assert_eq!(applied.unwrap().already, [ZONE_RECLAIM]);
}

#[test]
fn a_change_can_be_kept_once_it_has_helped() {
    let tree = Tree::new();
    let before = tree.everything();
    tree.fix(&[wants("a", ZONE_RECLAIM, "0"), wants("b", SWAPPINESS, "1")], false).unwrap();
    tree.set(SWAPPINESS, "33\n");
    let keep =
        || mw_remedy::keep(&tree.kernel(), &mut tree.lock(), &[1, 2, 3], &mut nobody).unwrap();
    let kept = keep();
    assert_eq!(kept.len(), 1, "what is not in force is not kept");
    assert!(tree.get(SYSCTL_FILE).contains("change 1 (a)\nvm.zone_reclaim_mode = 0\n"));
    assert_eq!(keep(), [], "once is enough");
    let status = changes(&tree.kernel(), &tree.history());
    assert_eq!(status.changes[0].kept_in.as_deref(), Some(SYSCTL_FILE));
    tree.undo(&UndoSelection::All, true);
    assert_eq!(tree.everything(), before);
}

#[test]
fn a_number_is_not_used_again_when_the_journal_is_lost() {
    let tree = Tree::new();
    tree.fix(&[wants("a", ZONE_RECLAIM, "0")], true).unwrap();
    fs::remove_file(tree.journal_file()).unwrap();
    let applied = tree.fix(&[wants("b", SWAPPINESS, "1")], true).unwrap();
    assert_eq!(applied.changes[0].id, 2);
}

#[test]
fn a_path_with_a_dot_is_kept_with_slashes() {
    let tree = Tree::new();
    let path = "/proc/sys/net/ipv4/conf/e3.200/forwarding";
    tree.set(path, "0\n");
    let before = tree.everything();
    tree.fix(&[wants("rule", path, "1")], true).unwrap();
    assert!(tree.get(SYSCTL_FILE).ends_with("net/ipv4/conf/e3.200/forwarding = 1\n"));
    tree.undo_all();
    assert_eq!(tree.everything(), before);
}

#[test]
fn what_cannot_be_kept_is_said_to_be_so() {
    let tree = Tree::new();
    let path = "/sys/fs/cgroup/db.service/memory.high";
    tree.set(path, "max\n");
    let applied = tree.fix(&[wants("cgroup-limit", path, "1000")], true).unwrap();
    assert!(applied.changes[0].not_kept.as_ref().unwrap().contains("unit"));
    assert_eq!(tree.undo_all(), [restored("max")]);
}

#[test]
fn a_part_of_a_pool_is_reverted_after_a_kill() {
    let tree = Tree::new();
    let path = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
    tree.set(path, "0\n");
    let plan = tree.plan(&[wants("rule", path, "100")]);
    let mut part = |point: mw_remedy::ChangeProgress| {
        assert_ne!(point.moment, mw_remedy::ChangeStep::Planned, "killed here");
    };
    let kernel = tree.kernel();
    let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        mw_remedy::apply(&kernel, &mut tree.lock(), &plan, false, &mut part)
    }));
    assert!(killed.is_err());
    tree.set(path, "37\n");
    assert_eq!(tree.undo_all(), [restored("0")]);
    assert_eq!(tree.get(path), "0\n");
}

#[test]
fn a_kernel_file_that_is_read_only_even_for_root_changes_nothing() {
    let state = common::scratch();
    let kernel = Kernel::live();
    let plan = Plan::new(&kernel, &[wants("rule", "/proc/sys/kernel/osrelease", "9")]).unwrap();
    let mut journal =
        mw_remedy::Journal::lock(state.path(), std::time::Duration::from_secs(5)).unwrap();
    let error = mw_remedy::apply(&kernel, &mut journal, &plan, false, &mut nobody).unwrap_err();
    assert!(matches!(error, ApplyError::NothingChanged { .. }), "{error}");
    assert!(error.is_privilege() && error.to_string().contains("permission denied"), "{error}");
    assert_eq!(changes(&kernel, journal.history()).changes[0].state, ChangeState::RolledBack);
}
