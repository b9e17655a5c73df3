//! Programs that confine themselves, or are confined at their start (seccomp(2)): a system call of the
//! library that their filter does not allow would kill them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{Compiled, calls, library, preload, text};
use std::process::{Command, Output};

/// All settings that cause system calls.
const OPTIONS: [(&str, &str); 4] = [
    ("MEMWRIGHT_PREFAULT", "1"),
    ("MEMWRIGHT_STATS", "1"),
    ("MEMWRIGHT_DIRECT_IO", "65536"),
    ("MEMWRIGHT_DIRECT_IO_READS", "1"),
];

/// Asserts that a program behaves the same without and with the library, with default and with all
/// settings.
fn check(program: &Compiled, args: &[&str]) -> Output {
    let plain = program.command(args).output().unwrap();
    assert!(plain.status.success(), "{args:?}: {plain:?}");
    let mut command = program.command(args);
    let with = preload(&mut command).output().unwrap();
    assert_eq!((with.status, &with.stdout), (plain.status, &plain.stdout), "{args:?}: {with:?}");
    let mut command = program.command(args);
    let with = preload(&mut command).envs(OPTIONS).output().unwrap();
    assert_eq!((with.status, &with.stdout), (plain.status, &plain.stdout), "{args:?}: {with:?}");
    with
}

/// Promise (Under unmodified programs): In a program that installs seccomp (prctl or seccomp(2), strict or filter,
/// one thread or all), or starts under a filter that was not tested, the library makes no system call that the
/// program does not make.
#[test]
fn a_program_that_confines_itself_makes_no_additional_calls() {
    let program = Compiled::new("confined.c");
    let filter = "a seccomp filter may forbid it";
    for (method, reason) in [
        ("syscall", filter),
        ("all-threads", filter),
        ("prctl", filter),
        ("prctl-by-number", filter),
        ("strict", filter),
        ("no-new-privileges", "the program set PR_SET_NO_NEW_PRIVS"),
    ] {
        check(&program, &[method]);
        let mut command = Command::new("sh");
        command
            .args(["-c", "MEMWRIGHT_STATS=$$ exec \"$@\"", "sh"])
            .arg(program.path())
            .arg(method);
        let with = preload(&mut command).output().unwrap();
        assert_eq!(calls(&with.stderr), 0, "{method}: {with:?}");
        let report = String::from_utf8_lossy(&with.stderr).into_owned();
        assert!(report.contains(&format!("nothing was done: {reason}")), "{method}: {report}");
    }
}

#[test]
fn queries_for_seccomp_support_do_not_confine() {
    let program = Compiled::new("confined.c");
    let with = check(&program, &["query"]);
    if std::thread::available_parallelism().unwrap().get() > 1 {
        assert!(calls(&with.stderr) > 2, "{with:?}");
    }
}

#[test]
fn a_program_confined_at_the_start_makes_no_additional_calls() {
    let program = Compiled::new("confined.c");
    let with = check(&program, &["inherited"]);
    assert_eq!(calls(&with.stderr), 0);
    // Another number of filters was tried.
    let mut command = program.command(&["inherited"]);
    let other = preload(&mut command).env("MEMWRIGHT_SECCOMP", "7").output().unwrap();
    assert!(other.status.success(), "{other:?}");
}

#[test]
fn an_unprivileged_program_may_confine_itself() {
    let program = Compiled::new("confined.c");
    let mut command = Command::new("setpriv");
    command.args(["--no-new-privs", "--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    command.arg(program.path()).arg("syscall");
    Command::new("chmod").args(["a+rx"]).arg(program.path().parent().unwrap()).status().unwrap();
    let file = program.path().with_file_name("library.so");
    std::fs::copy(library(), &file).unwrap();
    let output = preload(&mut command).env("LD_PRELOAD", file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(text(output).ends_with("munmap\nend\n"));
}

/// A filter for all threads is installed while other threads are in the middle of a call.
#[test]
fn operations_of_other_threads_end_before_all_are_confined() {
    let program = Compiled::new("confined.c");
    for seed in 0..20 {
        check(&program, &["threads", &seed.to_string()]);
    }
}
