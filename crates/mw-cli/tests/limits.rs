//! `check` under limits on the process that asks: cgroups, nested and in a namespace of their own,
//! and resource limits. What is said is held against what a program gets. Needs root.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_test::TestCgroup;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

const MIB: u64 = 1 << 20;

/// Way to run a command: in a group, and by other commands.
#[derive(Clone, Copy)]
struct Place<'a> {
    group: Option<&'a Path>,
    by: &'a [&'a str],
}

impl Place<'_> {
    fn run(&self, command: &[&str]) -> Output {
        let join = "[ -z \"$GROUP\" ] || echo $$ >\"$GROUP/cgroup.procs\" || exit 99; exec \"$@\"";
        let mut shell = Command::new("sh");
        shell.args(["-c", join, "sh"]).args(self.by).args(command);
        shell.env("GROUP", self.group.unwrap_or(Path::new("")));
        let output = shell.output().unwrap();
        assert_ne!(output.status.code(), Some(99), "{output:?}");
        output
    }

    fn check(&self, args: &[&str]) -> String {
        let mut command = vec![env!("CARGO_BIN_EXE_memwright"), "check"];
        command.extend_from_slice(args);
        String::from_utf8(self.run(&command).stdout).unwrap()
    }

    /// True if a program gets so much memory: it maps and touches it.
    fn gives(&self, bytes: u64) -> bool {
        let bytes = bytes.to_string();
        let program = std::env::current_exe().unwrap();
        let test = "takes_what_another_test_asks_for";
        let command = [
            "env",
            &format!("TAKE={bytes}"),
            program.to_str().unwrap(),
            "--exact",
            test,
            "--ignored",
        ];
        let status = self.run(&command).status;
        // A program that is killed, refused and ended by itself alike.
        status.success() || {
            assert!(status.code() == Some(101) || status.signal().is_some());
            false
        }
    }

    /// What is available is half of it had and one and a half times refused, as `check --for` says.
    fn is_right(&self, first_line: &str) {
        let verdict = self.check(&[]).lines().next().unwrap().to_owned();
        assert!(verdict.contains(first_line), "{verdict}");
        let report: serde_json::Value = serde_json::from_str(&self.check(&["--json"])).unwrap();
        let ready = report["ready_bytes"].as_u64().unwrap();
        assert!((150 * MIB..256 * MIB).contains(&ready), "{ready}");
        for (bytes, answer) in [(ready / 2, "yes"), (ready + ready / 2, "no")] {
            let said = self.check(&["--for", &bytes.to_string()]);
            assert!(said.starts_with(answer), "{bytes}: {said}");
            assert_eq!(self.gives(bytes), answer == "yes", "{bytes}: {said}");
        }
    }
}

/// The program of [`Place::gives`].
#[test]
#[ignore = "run by the other tests"]
fn takes_what_another_test_asks_for() {
    let bytes = std::env::var("TAKE").unwrap().parse().unwrap();
    let mut memory: Vec<u8> = Vec::new();
    memory.try_reserve_exact(bytes).unwrap();
    memory.resize(bytes, 1);
    assert_eq!(
        memory.iter().step_by(4096).map(|byte| usize::from(*byte)).sum::<usize>(),
        bytes.div_ceil(4096)
    );
}

/// Promise (Checking): Available memory is what the calling process can allocate within its cgroup, the cgroups above
/// it (also in a namespace), its resource limits, its cpuset and the commit limit.
#[test]
fn the_limit_of_a_cgroup_is_what_is_available() {
    let group = TestCgroup::with_memory(256 * MIB).unwrap();
    let place = Place { group: Some(group.path()), by: &[] };
    place.is_right(" of this cgroup's 256 MiB available");
}

#[test]
fn the_limit_of_a_group_above_counts_also_where_a_namespace_hides_it() {
    let group = TestCgroup::with_memory(256 * MIB).unwrap();
    let inner = group.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    let name = group.path().file_name().unwrap().to_str().unwrap().to_owned();
    let above = format!("{name}'s 256 MiB available");
    Place { group: Some(&inner), by: &[] }.is_right(&above);
    // The machine's own mount, seen from a namespace that begins at the inner group.
    Place { group: Some(&inner), by: &["unshare", "--cgroup"] }.is_right(&above);
    std::fs::remove_dir(&inner).unwrap();
}

#[test]
fn resource_limits_are_what_is_available() {
    let data = ["prlimit", "--data=268435456"];
    Place { group: None, by: &data }.is_right("data limit (RLIMIT_DATA) available");
    let space = ["prlimit", "--as=268435456"];
    Place { group: None, by: &space }.is_right("address space limit (RLIMIT_AS) available");
}

#[test]
fn capabilities_of_a_user_namespace_lift_no_limit_of_the_machine() {
    let by = ["prlimit", "--memlock=1048576", "unshare", "--user", "--map-root-user"];
    let inside = Place { group: None, by: &by };
    let said = inside.check(&["--for", "64M,lock"]);
    assert!(said.starts_with("no: 64 MiB locked: RLIMIT_MEMLOCK has 1 MiB"), "{said}");
    let outside = Place { group: None, by: &by[..2] };
    assert!(outside.check(&["--for", "64M,lock"]).starts_with("yes: "), "root is not limited");
}

/// Promise (Checking): A limit that cannot be read is reported as undetermined, and never treated as unlimited.
#[test]
fn a_limit_that_is_hidden_is_not_unlimited() {
    let group = TestCgroup::with_memory(256 * MIB).unwrap();
    // Everything below /sys is gone, as in a container without it.
    let hide = "mount -t tmpfs none /sys && exec \"$@\"";
    let by = ["unshare", "--mount", "sh", "-c", hide, "sh"];
    let said = Place { group: Some(group.path()), by: &by }.check(&[]);
    let first = said.lines().next().unwrap();
    assert!(
        first.contains("; a limit on this process could not be determined")
            || first.contains("; limits on this process could not be determined"),
        "{first}"
    );
    assert!(said.contains("unknown  "), "{said}");
    // The same with a request: what may be killed is not answered with yes.
    let hide = "mount -t tmpfs none /sys/fs/cgroup && exec \"$@\"";
    let by = ["unshare", "--mount", "sh", "-c", hide, "sh"];
    let place = Place { group: Some(group.path()), by: &by };
    let program = env!("CARGO_BIN_EXE_memwright");
    let output = place.run(&[program, "check", "--fail-on", "never", "--for", "300M"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with("unknown, "), "{said}");
    assert_eq!(output.status.code(), Some(3), "{said}");
}

#[test]
fn a_mount_that_is_covered_does_not_hide_the_limits_of_the_one_above() {
    let Ok(group) = TestCgroup::new("memory") else {
        return mw_test::skip("no memory cgroup of version 1");
    };
    std::fs::write(group.path().join("memory.limit_in_bytes"), (512 * MIB).to_string()).unwrap();
    let inner = group.path().join("in");
    let own = inner.join("own");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join("memory.limit_in_bytes"), (256 * MIB).to_string()).unwrap();
    let cover = format!("mount --bind {} /sys/fs/cgroup/memory && exec \"$@\"", inner.display());
    let by = ["unshare", "--mount", "sh", "-c", &cover, "sh"];
    let place = Place { group: Some(&own), by: &by };
    place.is_right(" of this cgroup's 256 MiB available");
    std::fs::remove_dir(&own).unwrap();
    std::fs::remove_dir(&inner).unwrap();
}

/// Fills the group of its process with negative directory entries.
#[test]
#[ignore = "run by the other tests"]
fn looks_for_what_is_not_there() {
    let folder = std::env::temp_dir();
    for number in 0..300_000 {
        let _ = std::fs::metadata(folder.join(format!("memwright-not-there-{number}")));
    }
}

#[test]
fn kernel_memory_that_a_group_gives_back_is_no_reason_to_refuse() {
    let group = TestCgroup::with_memory(128 * MIB).unwrap();
    let place = Place { group: Some(group.path()), by: &[] };
    let program = std::env::current_exe().unwrap();
    let filler = [program.to_str().unwrap(), "--exact", "looks_for_what_is_not_there", "--ignored"];
    assert!(place.run(&filler).status.success());
    let said = place.check(&["--for", "100M"]);
    assert!(!said.starts_with("no"), "{said}");
    assert!(place.gives(100 * MIB), "{said}");
}

#[test]
fn a_limit_lost_for_the_name_of_its_group_is_undetermined_for_that_reason() {
    let group = TestCgroup::with_memory(512 * MIB).unwrap();
    let own = group.path().join(OsStr::from_bytes(b"a\xff"));
    std::fs::create_dir(&own).unwrap();
    let said = Place { group: Some(&own), by: &[] }.check(&["--for", "100M"]);
    std::fs::remove_dir(&own).unwrap();
    assert!(said.starts_with("unknown, "), "{said}");
    assert!(said.contains("could not be determined: its name is not UTF-8"), "{said}");
}
