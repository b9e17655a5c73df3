//! Programs that confine themselves, or are confined when they start (seccomp(2)): a system call of ours
//! that their filter does not allow would end them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{Compiled, calls, library, preload, text};
use std::process::{Command, Output};

/// Everything that could be done and said.
const OPTIONS: [(&str, &str); 4] = [
    ("MEMWRIGHT_PREFAULT", "1"),
    ("MEMWRIGHT_STATS", "1"),
    ("MEMWRIGHT_DIRECT_IO", "65536"),
    ("MEMWRIGHT_DIRECT_IO_READS", "1"),
];

/// What a program does, plain and with the library in every way.
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

#[test]
fn a_program_that_confines_itself_makes_no_call_of_ours() {
    let program = Compiled::new("confined.c");
    let filter = "a seccomp filter may forbid it";
    for (how, why) in [
        ("syscall", filter),
        ("all-threads", filter),
        ("prctl", filter),
        ("prctl-by-number", filter),
        ("strict", filter),
        ("no-new-privileges", "the program set PR_SET_NO_NEW_PRIVS"),
    ] {
        check(&program, &[how]);
        let mut command = Command::new("sh");
        command.args(["-c", "MEMWRIGHT_STATS=$$ exec \"$@\"", "sh"]).arg(program.path()).arg(how);
        let with = preload(&mut command).output().unwrap();
        assert_eq!(calls(&with.stderr), 0, "{how}: {with:?}");
        let said = String::from_utf8_lossy(&with.stderr).into_owned();
        assert!(said.contains(&format!("nothing was done: {why}")), "{how}: {said}");
    }
}

#[test]
fn asking_what_the_kernel_can_confines_nobody() {
    let program = Compiled::new("confined.c");
    let with = check(&program, &["asked"]);
    if std::thread::available_parallelism().unwrap().get() > 1 {
        assert!(calls(&with.stderr) > 2, "{with:?}");
    }
}

#[test]
fn a_program_that_is_confined_when_it_starts_makes_no_call_of_ours() {
    let program = Compiled::new("confined.c");
    let with = check(&program, &["inherited"]);
    assert_eq!(calls(&with.stderr), 0);
    // The filter that was tried was another.
    let mut command = program.command(&["inherited"]);
    let other = preload(&mut command).env("MEMWRIGHT_SECCOMP", "7").output().unwrap();
    assert!(other.status.success(), "{other:?}");
}

#[test]
fn nobody_without_new_privileges_may_confine_itself_too() {
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

/// A filter for all threads meets those that are in the middle of a call.
#[test]
fn threads_that_work_are_waited_for_before_all_are_confined() {
    let program = Compiled::new("confined.c");
    for seed in 0..20 {
        check(&program, &["working", &seed.to_string()]);
    }
}
