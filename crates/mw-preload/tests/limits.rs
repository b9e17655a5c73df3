//! When memory runs out, the same calls fail and the same processes are killed as without the library.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{Compiled, assert_same, calls, preload, run, text};
use mw_test::{HugePages, TestCgroup, alone};
use std::process::{Command, Output};

/// Asserts that the output is the same without and with the library; returns the latter.
fn run_both(name: &str, command: &dyn Fn() -> Command) -> Output {
    let plain = text(run(&mut command()));
    let mut with = command();
    let with = run(preload(&mut with).env("MEMWRIGHT_STATS", "1"));
    assert_same(name, &plain, &text(with.clone()));
    assert!(plain.lines().count() > 5, "{plain}");
    with
}

/// Promise (Under unmodified programs): When memory runs out (RLIMIT_AS, RLIMIT_DATA, the huge page pool, a memory
/// cgroup) the same calls are refused and the same processes are killed.
#[test]
fn rlimit_data_fails_the_same_calls() {
    let program = Compiled::new("limits.c");
    run_both("data", &|| program.command(&["data"]));
}

/// While the library works, its stacks would count.
#[test]
fn under_rlimit_as_no_call_of_another_thread_fails() {
    let program = Compiled::new("limits.c");
    let with = run_both("threads", &|| program.command(&["threads"]));
    let said = String::from_utf8_lossy(&with.stdout);
    assert_eq!(said.matches(": 10 done, 0 of another thread failed").count(), 6, "{said}");
    let reason = String::from_utf8_lossy(&with.stderr);
    assert!(reason.contains("RLIMIT_AS or RLIMIT_DATA") || calls(&with.stderr) == 0, "{reason}");
}

#[test]
fn a_small_huge_page_pool_fails_the_same_calls() {
    let program = Compiled::new("limits.c");
    let _alone = alone();
    let Some(_pages) = HugePages::more(2 << 20, 8) else {
        mw_test::skip("no huge pages");
        return;
    };
    let with = run_both("hugetlb", &|| program.command(&["hugetlb"]));
    let output = String::from_utf8_lossy(&with.stdout);
    assert!(output.contains("touch: exited -1, by signal 7"), "SIGBUS: {output}");
    if std::thread::available_parallelism().unwrap().get() > 1 {
        assert!(calls(&with.stderr) > 0, "{with:?}");
    }
}

#[test]
fn in_a_memory_cgroup_the_same_processes_are_killed() {
    let program = Compiled::new("limits.c");
    let _alone = alone();
    let group = match TestCgroup::with_memory(64 << 20) {
        Ok(group) => group,
        Err(error) => {
            mw_test::skip(format!("no memory cgroup: {error}"));
            return;
        }
    };
    let inside = || {
        let limited = program.command(&["cgroup"]);
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]);
        command.arg(group.members()).arg(limited.get_program());
        command.args(limited.get_args());
        command
    };
    let with = run_both("cgroup", &inside);
    let output = String::from_utf8_lossy(&with.stdout);
    assert!(output.contains("lock: exited -1, by signal 9"), "SIGKILL: {output}");
    assert!(output.contains("within, again: exited 0"), "{output}");
}
