//! Where memory runs out: the same is refused, and the same processes are ended, as without the
//! library.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{Compiled, calls, preload, run, same, text};
use mw_test::{Cgroup, HugePages, alone};
use std::process::{Command, Output};

/// Runs it without the library and with it, and wants the same said; returns the second.
fn same_with_and_without(name: &str, command: &dyn Fn() -> Command) -> Output {
    let plain = text(run(&mut command()));
    let mut with = command();
    let with = run(preload(&mut with).env("MEMWRIGHT_STATS", "1"));
    same(name, &plain, &text(with.clone()));
    assert!(plain.lines().count() > 5, "{plain}");
    with
}

#[test]
fn a_limit_of_data_refuses_the_same() {
    let program = Compiled::new("limits.c");
    same_with_and_without("data", &|| program.command(&["data"]));
}

#[test]
fn a_pool_that_is_too_small_refuses_and_ends_the_same() {
    let program = Compiled::new("limits.c");
    let _alone = alone();
    let Some(_pages) = HugePages::more(2 << 20, 8) else {
        mw_test::skip("no huge pages");
        return;
    };
    let with = same_with_and_without("hugetlb", &|| program.command(&["hugetlb"]));
    let said = String::from_utf8_lossy(&with.stdout);
    assert!(said.contains("touch: exited -1, by signal 7"), "SIGBUS: {said}");
    if std::thread::available_parallelism().unwrap().get() > 1 {
        assert!(calls(&with.stderr) > 0, "{with:?}");
    }
}

#[test]
fn in_a_memory_cgroup_the_same_processes_are_killed() {
    let program = Compiled::new("limits.c");
    let _alone = alone();
    let group = match Cgroup::with_memory(64 << 20) {
        Ok(group) => group,
        Err(error) => {
            mw_test::skip(format!("no memory cgroup: {error}"));
            return;
        }
    };
    let inside = || {
        let of_program = program.command(&["cgroup"]);
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]);
        command.arg(group.members()).arg(of_program.get_program());
        command.args(of_program.get_args());
        command
    };
    let with = same_with_and_without("cgroup", &inside);
    let said = String::from_utf8_lossy(&with.stdout);
    assert!(said.contains("lock: exited -1, by signal 9"), "SIGKILL: {said}");
    assert!(said.contains("within, again: exited 0"), "{said}");
}
