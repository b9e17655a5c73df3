//! `--prefault`: memory is populated in the background, and the program neither waits for it nor has it
//! where it has given it back.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{Compiled, preload, run, text};
use mw_test::{TestCgroup, alone};
use std::process::{Command, Output};

fn prefault(command: &mut Command) -> Output {
    let command = preload(command).env("MEMWRIGHT_PREFAULT", "1");
    run(command.env("MEMWRIGHT_STATS", "1"))
}

fn with_prefault(what: &str) -> Output {
    let program = Compiled::new("background.c");
    prefault(&mut program.command(&[what]))
}

/// The line of the statistics about the background.
fn report(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let found = text.lines().find(|line| line.contains("populated in the background"));
    found.unwrap_or_else(|| panic!("no report: {text}")).to_owned()
}

/// Promise (Under unmodified programs): Under `run --prefault` a call that maps large memory returns before it is
/// populated; the memory is populated later, from the end, without a thread left afterwards.
#[test]
fn mmap_returns_at_once_and_the_memory_is_resident_later() {
    let output = with_prefault("later");
    let report = report(&output);
    assert_eq!(
        text(output),
        "at once 0, then 128, sooner 1\nthreads 1\nshared 16, sysv 16, reserved 0\n"
    );
    assert!(
        report.contains("0.16 GiB populated in the background, of 0.16 GiB in 3 mappings"),
        "{report}"
    );
}

/// Promise (Under unmodified programs): With `--prefault=now` memory is populated when the call returns.
#[test]
fn with_now_the_memory_is_resident_at_once() {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        mw_test::skip("one CPU: nothing is done in parallel");
        return;
    }
    let program = Compiled::new("background.c");
    let mut command = program.command(&["now"]);
    let output = run(preload(&mut command).env("MEMWRIGHT_PREFAULT", "now"));
    assert_eq!(text(output), "at once 16\n");
}

/// Promise (Under unmodified programs): What a program unmaps, discards, moves or replaces, by a C library function
/// or by syscall(2), is not populated afterwards.
#[test]
fn memory_that_is_given_back_is_not_populated() {
    let expected: String = (0..8).map(|way| format!("way {way}: 0\n")).collect();
    assert_eq!(text(with_prefault("back")), expected + "threads 1\n");
}

/// Promise (Under unmodified programs): A forked child populates nothing of its parent's memory.
#[test]
fn a_child_has_no_thread_until_it_maps_memory_of_its_own() {
    assert_eq!(
        text(with_prefault("forks")),
        "child: alone 1, grown 0, own 16\nparent: 128\nthreads 1\n"
    );
}

#[test]
fn a_program_may_end_or_be_replaced_while_its_memory_is_populated() {
    for what in ["ends", "exec"] {
        for _ in 0..10 {
            with_prefault(what);
        }
    }
}

/// Promise (Under unmodified programs): Populating in the background leaves a tenth of a memory cgroup's limit, and
/// stops for good with the reason in `--stats`.
#[test]
fn a_tenth_of_a_memory_cgroup_is_left() {
    let program = Compiled::new("background.c");
    let _alone = alone();
    let limit_mib = 96;
    let group = match TestCgroup::with_memory(limit_mib << 20) {
        Ok(group) => group,
        Err(error) => {
            mw_test::skip(format!("no memory cgroup: {error}"));
            return;
        }
    };
    let limited = program.command(&["limited"]);
    let mut command = Command::new("sh");
    command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]);
    command.arg(group.members()).arg(limited.get_program()).args(limited.get_args());
    let output = prefault(&mut command);
    let report = report(&output);
    let resident: u64 = text(output).trim().parse().unwrap();
    assert!(resident > limit_mib / 2 && resident <= limit_mib * 9 / 10, "{resident} MiB");
    assert!(
        report.ends_with("stopped: less than a tenth of the memory cgroup's limit was left"),
        "{report}"
    );
    let failures = std::fs::read_to_string(group.path().join("memory.failcnt"));
    assert!(failures.is_err() || failures.unwrap().trim() == "0", "the limit was reached");
}

/// Promise (Under unmodified programs): `--stats` reports memory that `--prefault` cannot see: that of malloc.
#[test]
fn memory_of_malloc_is_reported_as_not_populated() {
    let program = Compiled::new("background.c");
    let mut command = Command::new("sh");
    command.args(["-c", "MEMWRIGHT_STATS=$$ exec \"$0\" malloc"]).arg(program.path());
    let output = run(preload(&mut command).env("MEMWRIGHT_PREFAULT", "1"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("was not populated in advance: malloc(3)"), "{text}");
}
