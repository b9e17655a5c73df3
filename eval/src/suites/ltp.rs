//! The Linux Test Project's programs for memory management, and for the system calls that the library
//! stands in for or that act on its memory, its threads or its descriptors. It is in no package
//! registry, so that it is run where somebody has installed it.

use super::outcome::{Outcomes, TestOutcome};
use super::runner::{Directories, Launcher, OpenedSuite, Runner};
use crate::workspace::read;
use anyhow::Context;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(super) const NAME: &str = "ltp";

/// The release that is run: another has other programs.
const RELEASE: &str = "20260529";

/// LTP's own variable for where it is installed, and its usual directories.
const ROOT_VARIABLE: &str = "LTPROOT";
const USUAL_ROOT: &str = "/opt/ltp";

/// Time limit of a program, in seconds.
const TIME_LIMIT: &str = "120";

/// Exit code of timeout(1) then.
const TIMED_OUT: i32 = 124;

/// "The test is not appropriate for this configuration."
const NOT_APPROPRIATE: i32 = 32;

/// System calls whose programs are run: a program is called like its call, with a number.
const CALLS: &[&str] = &[
    "brk",
    "cachestat",
    "clone",
    "close",
    "close_range",
    "copy_file_range",
    "creat",
    "dirtyc0w",
    "dirtyc0w_shmem",
    "dup",
    "execl",
    "execle",
    "execlp",
    "execv",
    "execve",
    "execveat",
    "execvp",
    "exit",
    "exit_group",
    "fallocate",
    "fcntl",
    "fdatasync",
    "fork",
    "fsync",
    "ftruncate",
    "futex",
    "futex_cmp_requeue",
    "futex_wait",
    "futex_waitv",
    "futex_wake",
    "get_mempolicy",
    "getrlimit",
    "getrusage",
    "io_cancel",
    "io_destroy",
    "io_getevents",
    "io_pgetevents",
    "io_setup",
    "io_submit",
    "io_uring",
    "kcmp",
    "lseek",
    "madvise",
    "mallinfo",
    "mallopt",
    "mbind",
    "membarrier",
    "memcmp",
    "memcpy",
    "memfd_create",
    "memset",
    "migrate_pages",
    "mincore",
    "mlock",
    "mlockall",
    "mmap",
    "move_pages",
    "mprotect",
    "mremap",
    "mseal",
    "msync",
    "munlock",
    "munlockall",
    "munmap",
    "open",
    "openat",
    "pidfd_getfd",
    "pidfd_open",
    "pidfd_send_signal",
    "pipe",
    "pkey",
    "posix_fadvise",
    "prctl",
    "pread",
    "preadv",
    "process_madvise",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
    "pwrite",
    "pwritev",
    "read",
    "readahead",
    "readv",
    "remap_file_pages",
    "sbrk",
    "seccomp",
    "sendfile",
    "set_mempolicy",
    "setrlimit",
    "shmat",
    "shmctl",
    "shmdt",
    "shmget",
    "sigaltstack",
    "splice",
    "sync_file_range",
    "syscall",
    "tee",
    "truncate",
    "unshare",
    "userfaultfd",
    "vfork",
    "vmsplice",
    "wait",
    "waitid",
    "waitpid",
    "write",
    "writev",
];

/// Beginnings of names of programs that are left out, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("oom", "uses up the machine's memory"),
    ("swapping", "uses up the machine's memory"),
    ("mtest01", "uses up 80% of the machine's memory"),
    ("min_free_kbytes", "uses up the machine's memory"),
    ("overcommit_memory", "changes vm.overcommit_memory"),
    ("max_map_count", "changes vm.max_map_count"),
    ("ksm", "changes ksmd's settings"),
    ("cpuset", "changes cpusets"),
    ("thp04", "changes the huge zero page"),
    ("kallsyms", "reads all of the kernel's memory"),
    ("madvise06", "limits a control group and swaps"),
    ("madvise07", "takes a page out of service"),
    ("madvise11", "takes pages out of service"),
    ("move_pages12", "takes pages out of service"),
    ("readahead02", "drops all caches"),
    ("shmget02", "uses up the System V segments"),
    ("shmget03", "uses up the System V segments"),
    ("shmctl05", "creates segments without an end"),
    ("fork13", "changes kernel.pid_max"),
    ("fork14", "maps all of the address space"),
    ("fcntl17", "provokes the kernel's deadlock detection"),
];

struct Program {
    name: String,
    command: String,
}

struct Installed {
    root: PathBuf,
    work: PathBuf,
    programs: Vec<Program>,
}

pub(super) fn root(named: Option<&Path>) -> PathBuf {
    let variable = || std::env::var_os(ROOT_VARIABLE).map(PathBuf::from);
    named.map(Path::to_owned).or_else(variable).unwrap_or_else(|| USUAL_ROOT.into())
}

pub(super) fn open(directories: &Directories) -> anyhow::Result<OpenedSuite> {
    let root = directories.ltp.clone();
    let Ok(version) = read(&root.join("Version")) else {
        let why = format!("no LTP at {} (name it with --ltp or {ROOT_VARIABLE})", root.display());
        return Ok(OpenedSuite::Missing(why));
    };
    let version = version.trim();
    anyhow::ensure!(
        version == RELEASE,
        "{} is release {version}: install {RELEASE}",
        root.display()
    );
    let mut programs = Vec::new();
    for (file, is_chosen) in [("mm", None), ("syscalls", Some(CALLS))] {
        programs.extend(parse(&read(&root.join("runtest").join(file))?, is_chosen));
    }
    let work = directories.work.path().join(NAME);
    std::fs::create_dir(&work)?;
    let runner = Box::new(Installed { root, work, programs });
    Ok(OpenedSuite::Ready { version: version.to_owned(), runner })
}

/// The programs of a file of LTP's: a name, then a command line for the shell.
fn parse(text: &str, calls: Option<&[&str]>) -> Vec<Program> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once(char::is_whitespace))
        .filter(|(name, _)| !LEFT_OUT.iter().any(|(left_out, _)| name.starts_with(left_out)))
        .filter(|(name, _)| calls.is_none_or(|calls| calls.contains(&call(name))))
        .map(|(name, command)| Program { name: name.into(), command: command.trim().into() })
        .collect()
}

/// The call that a program is named after.
fn call(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_')
}

impl Runner for Installed {
    fn run(
        &self,
        launcher: &Launcher,
        only: Option<&BTreeSet<String>>,
    ) -> anyhow::Result<Outcomes> {
        let chosen = |program: &&Program| only.is_none_or(|only| only.contains(&program.name));
        let programs = self.programs.iter().filter(chosen);
        programs.map(|program| Ok((program.name.clone(), self.one(launcher, program)?))).collect()
    }
}

impl Installed {
    fn one(&self, launcher: &Launcher, program: &Program) -> anyhow::Result<TestOutcome> {
        let dir = tempfile::tempdir_in(&self.work)?;
        let words = launcher.words(&["sh", "-c", &program.command]);
        let bin = self.root.join("testcases/bin");
        let path = std::env::var("PATH").unwrap_or_default();
        let status = Command::new("timeout")
            .args(["--kill-after=5", TIME_LIMIT])
            .args(&words)
            .current_dir(dir.path())
            .env("LTPROOT", &self.root)
            .env("TMPDIR", dir.path())
            .env("PATH", format!("{}:{path}", bin.display()))
            // What needs a file system of its own gets one kind, not all that there are.
            .env("LTP_SINGLE_FS_TYPE", "ext4")
            .env("LTP_RUNTIME_MUL", "0.1")
            .env("LTP_TIMEOUT_MUL", "4")
            .env("KCONFIG_SKIP_CHECK", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .context("timeout")?;
        Ok(match status.code() {
            Some(0) => TestOutcome::Passed,
            Some(NOT_APPROPRIATE) => TestOutcome::Skipped,
            Some(TIMED_OUT) => TestOutcome::Failed("timed out".to_owned()),
            _ => TestOutcome::Failed(status.to_string()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str, calls: Option<&[&str]>) -> Vec<String> {
        parse(text, calls).into_iter().map(|program| program.name).collect()
    }

    #[test]
    fn programs_are_read_from_ltps_lists() {
        let text = "#DESCRIPTION\n\nmmap21_01 mmap21 -m 10000\n# oom\noom01 oom01\n\
                    mmapstress07 TMPFILE=`mktemp`; mmapstress07 $TMPFILE\n";
        assert_eq!(names(text, None), ["mmap21_01", "mmapstress07"]);
        assert_eq!(parse(text, None)[0].command, "mmap21 -m 10000");
    }

    #[test]
    fn programs_are_chosen_by_their_call() {
        let text = "preadv203_64 preadv203_64\nmount01 mount01\nmlock201 mlock201\nmlockall01 x\n";
        assert_eq!(names(text, Some(&["preadv", "mlock"])), ["preadv203_64", "mlock201"]);
    }
}
