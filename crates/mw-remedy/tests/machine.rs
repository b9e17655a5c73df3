//! The real machine: as root only, one test at a time, and every setting put back at the end.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop where it stands")]

mod common;

use common::{
    DIRTY_BACKGROUND_BYTES, DIRTY_BACKGROUND_RATIO, DIRTY_BYTES, DIRTY_RATIO, MIN_FREE, SWAPPINESS,
    THP, ZONE_RECLAIM, again, is_root, wants,
};
use mw_remedy::{
    ApplyError, ChangeError, Journal, Kernel, KernelError, Plan, UndoOutcome, UndoSelection, nobody,
};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::process::{Pid, Signal, getpid, kill_process};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// Settings of the machine that are put back whatever becomes of the test, under the lock that all
/// tests of this project share that touch the machine.
struct Machine {
    former: Vec<(&'static str, String)>,
    _lock: OwnedFd,
}

impl Machine {
    fn borrow(test: &str, paths: &[&'static str]) -> Option<Self> {
        if !is_root(test) {
            return None;
        }
        if let Some(path) =
            paths.iter().find(|path| fs::File::options().write(true).open(path).is_err())
        {
            mw_test::skip(format!("a setting cannot be written: {path}, {test}"));
            return None;
        }
        // A directory that is there anyway: the lock leaves nothing behind.
        let lock =
            rustix::fs::open("/proc/sys/vm", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let lock = lock.unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        let former = paths.iter().map(|&path| (path, fs::read_to_string(path).unwrap())).collect();
        Some(Self { former, _lock: lock })
    }

    fn now(&self) -> Vec<(&'static str, String)> {
        self.former.iter().map(|&(path, _)| (path, fs::read_to_string(path).unwrap())).collect()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for (path, content) in &self.former {
            if fs::read_to_string(path).ok().as_ref() != Some(content) {
                // Of two partners the kernel does not take the zero; the other one brings it.
                let _ = fs::write(path, mw_remedy::setting_of(content.as_bytes()));
            }
        }
    }
}

fn lock(state: &Path) -> Journal {
    Journal::lock(state, Duration::from_secs(5)).unwrap()
}

/// Sets `prepared`, fixes `path` to `value`, takes it back, and looks at all of `paths`.
fn check(test: &str, paths: &[&'static str], prepared: &[(&str, &str)], path: &str, value: &str) {
    let Some(machine) = Machine::borrow(test, paths) else { return };
    let (kernel, state) = (Kernel::live(), common::scratch());
    for (path, value) in prepared {
        fs::write(path, value).unwrap();
    }
    let before = machine.now();
    let plan = Plan::new(&kernel, &[wants("test", path, value)]).unwrap();
    let applied =
        mw_remedy::apply(&kernel, &mut lock(state.path()), &plan, false, &mut nobody).unwrap();
    assert_eq!(applied.changes.len(), 1);
    let now = fs::read_to_string(path).unwrap();
    assert_eq!(mw_remedy::setting_of(now.as_bytes()), value);
    let undone =
        mw_remedy::undo(&kernel, &mut lock(state.path()), &UndoSelection::All, false, &mut nobody)
            .unwrap();
    assert!(matches!(undone[0].outcome, UndoOutcome::Restored { .. }), "{undone:?}");
    assert_eq!(machine.now(), before);
}

#[test]
fn zone_reclaim_is_mended_and_comes_back() {
    let prepared = [(ZONE_RECLAIM, "7")];
    check("zone_reclaim", &[ZONE_RECLAIM], &prepared, ZONE_RECLAIM, "0");
}

#[test]
fn the_zeroed_partner_comes_back() {
    let pair = [DIRTY_RATIO, DIRTY_BYTES];
    check("ratio over bytes", &pair, &[(DIRTY_BYTES, "500000000")], DIRTY_RATIO, "15");
    check("bytes over ratio", &pair, &[(DIRTY_RATIO, "17")], DIRTY_BYTES, "400000000");
    let pair = [DIRTY_BACKGROUND_RATIO, DIRTY_BACKGROUND_BYTES];
    check("background bytes", &pair, &[(pair[0], "7")], pair[1], "200000000");
    let pair = ["/proc/sys/vm/overcommit_ratio", "/proc/sys/vm/overcommit_kbytes"];
    check("overcommit", &pair, &[(pair[1], "123456")], pair[0], "60");
}

#[test]
fn huge_pages_and_the_minimum_that_they_move_come_back() {
    let paths = [THP, MIN_FREE];
    for (from, to) in [("madvise", "never"), ("never", "always"), ("always", "madvise")] {
        check("thp", &paths, &[(THP, from), (MIN_FREE, "20000")], THP, to);
    }
}

#[test]
fn a_value_that_the_kernel_refuses_changes_nothing() {
    let Some(machine) = Machine::borrow("refused", &[SWAPPINESS, ZONE_RECLAIM]) else { return };
    let (kernel, state) = (Kernel::live(), common::scratch());
    fs::write(ZONE_RECLAIM, "7").unwrap();
    let before = machine.now();
    let findings = [wants("a", ZONE_RECLAIM, "0"), wants("b", SWAPPINESS, "9999")];
    let plan = Plan::new(&kernel, &findings).unwrap();
    let error = mw_remedy::apply(&kernel, &mut lock(state.path()), &plan, false, &mut nobody);
    let error = error.unwrap_err();
    assert!(matches!(error, ApplyError::RolledBack { .. }), "{error}");
    assert!(matches!(error.cause(), ChangeError::Kernel(KernelError::Refused { .. })), "{error}");
    assert!(!error.is_privilege());
    assert_eq!(machine.now(), before);
}

#[test]
fn a_partly_accepted_value_is_reverted() {
    // The kernel rounds it down to whole pages.
    let Some(path) = read_ahead() else {
        mw_test::skip("no block device");
        return;
    };
    let Some(machine) = Machine::borrow("taken in part", &[path]) else { return };
    let (kernel, state) = (Kernel::live(), common::scratch());
    let before = machine.now();
    let plan = Plan::new(&kernel, &[wants("a", path, "13")]).unwrap();
    let error = mw_remedy::apply(&kernel, &mut lock(state.path()), &plan, false, &mut nobody);
    let error = error.unwrap_err();
    assert!(matches!(error, ApplyError::RolledBack { .. }), "{error}");
    assert!(error.to_string().contains("now reads '12'"), "{error}");
    assert_eq!(machine.now(), before);
}

fn read_ahead() -> Option<&'static str> {
    let devices = fs::read_dir("/sys/block").ok()?.flatten();
    let path = devices.map(|device| device.path().join("queue/read_ahead_kb"));
    let path = path.into_iter().find(|path| path.exists())?;
    Some(path.display().to_string().leak())
}

const STATE: &str = "MW_REMEDY_MACHINE_STATE";
const AT: &str = "MW_REMEDY_MACHINE_AT";

/// Fixes or reverts in a process of its own, which it kills at the wanted step.
#[test]
fn child() {
    let (Some(state), Ok(at)) = (std::env::var_os(STATE), std::env::var(AT)) else { return };
    let (kernel, mut journal) = (Kernel::live(), lock(Path::new(&state)));
    let mut left: u32 = at.parse().unwrap();
    let mut observer = |_| {
        if left == 0 {
            kill_process(Pid::from_raw(getpid().as_raw_nonzero().get()).unwrap(), Signal::KILL)
                .unwrap();
        }
        left -= 1;
    };
    let findings = [wants("a", DIRTY_RATIO, "15"), wants("b", THP, "never")];
    let plan = Plan::new(&kernel, &findings).unwrap();
    mw_remedy::apply(&kernel, &mut journal, &plan, false, &mut observer).unwrap();
    mw_remedy::undo(&kernel, &mut journal, &UndoSelection::All, false, &mut observer).unwrap();
}

#[test]
fn a_kill_at_any_step_is_reverted_on_the_machine() {
    let paths = [THP, MIN_FREE, DIRTY_RATIO, DIRTY_BYTES];
    let Some(machine) = Machine::borrow("kill", &paths) else { return };
    fs::write(THP, "madvise").unwrap();
    fs::write(MIN_FREE, "20000").unwrap();
    fs::write(DIRTY_BYTES, "500000000").unwrap();
    let before = machine.now();
    let mut at = 0;
    loop {
        let state = common::scratch();
        let variables = [(STATE, state.path().display().to_string()), (AT, at.to_string())];
        let status = again("child", &variables);
        let mut journal = lock(state.path());
        let undone =
            mw_remedy::undo(&Kernel::live(), &mut journal, &UndoSelection::All, false, &mut nobody);
        assert!(undone.unwrap().iter().all(|undone| undone.outcome.is_gone()));
        assert_eq!(machine.now(), before, "killed at {at}");
        if status.success() {
            break;
        }
        at += 1;
    }
    assert!(at > 10, "only {at} steps");
}
