//! Where memory runs out: the same is refused, and the same processes are ended, as without the
//! library.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{Compiled, calls, preload, run, same, text};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Whoever changes the machine takes turns with the tests of other crates.
fn alone() -> OwnedFd {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let lock = rustix::fs::open("/proc/sys/vm", flags, Mode::empty()).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    lock
}

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

/// Huge pages that go back.
struct Pool {
    file: &'static Path,
    before: u64,
}

const HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";

impl Pool {
    fn of_16_mib() -> Option<Self> {
        let file = Path::new(HUGE_PAGES);
        let number = || fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
        let before = number()?;
        let pool = Self { file, before };
        fs::write(file, (before + 8).to_string()).ok()?;
        (number() == Some(before + 8)).then_some(pool)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let _ = fs::write(self.file, self.before.to_string());
    }
}

#[test]
fn a_pool_that_is_too_small_refuses_and_ends_the_same() {
    let program = Compiled::new("limits.c");
    let _alone = alone();
    let Some(_pool) = Pool::of_16_mib() else {
        eprintln!("skipped: no huge pages are to be had");
        return;
    };
    let with = same_with_and_without("hugetlb", &|| program.command(&["hugetlb"]));
    let said = String::from_utf8_lossy(&with.stdout);
    assert!(said.contains("touch: exited -1, by signal 7"), "SIGBUS: {said}");
    if std::thread::available_parallelism().unwrap().get() > 1 {
        assert!(calls(&with.stderr) > 0, "{with:?}");
    }
}

/// A memory cgroup of version 1, which goes with its last process.
struct Group(PathBuf);

impl Group {
    fn of_64_mib() -> Option<Self> {
        let name = format!("memwright-preload-{}", std::process::id());
        let group = Self(Path::new("/sys/fs/cgroup/memory").join(name));
        fs::create_dir(&group.0).ok()?;
        fs::write(group.0.join("memory.limit_in_bytes"), "64M").ok()?;
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

#[test]
fn in_a_memory_cgroup_the_same_processes_are_killed() {
    let program = Compiled::new("limits.c");
    let _alone = alone();
    let Some(group) = Group::of_64_mib() else {
        eprintln!("skipped: no memory cgroup of version 1 that can be changed");
        return;
    };
    let inside = || {
        let of_program = program.command(&["cgroup"]);
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]);
        command.arg(group.0.join("cgroup.procs")).arg(of_program.get_program());
        command.args(of_program.get_args());
        command
    };
    let with = same_with_and_without("cgroup", &inside);
    let said = String::from_utf8_lossy(&with.stdout);
    assert!(said.contains("lock: exited -1, by signal 9"), "SIGKILL: {said}");
    assert!(said.contains("within, again: exited 0"), "{said}");
}
