//! `check` where other mounts hide the kernel's files: it could not be checked, which is never
//! healthy. Each mask is really mounted, in a mount namespace of its own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use serde_json::Value;
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_memwright");
const NOT_CHECKED: &str = "could not be checked: ";

/// Output of `check` once `script` has run in a mount namespace of its own; as in `sh -c`.
fn check(script: &str, args: &[&str]) -> (i32, String) {
    mw_test::compact_memory();
    let script = format!("set -e\n{script}\nexec $by \"$@\"");
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--propagation", "private", "sh", "-c", &script, "sh", PROGRAM]);
    let Output { status, stdout, stderr } =
        unshare.arg("check").args(args).env("NO_COLOR", "1").output().unwrap();
    let out = String::from_utf8(stdout).unwrap();
    assert!(stderr.is_empty(), "{script}: {}", String::from_utf8_lossy(&stderr));
    (status.code().unwrap(), out)
}

fn json(script: &str) -> (i32, Value) {
    let (code, out) = check(script, &["--json"]);
    (code, serde_json::from_str(&out).unwrap())
}

/// It could not be checked, for this reason, in every format.
fn is_unknown(script: &str, why: &str) {
    let is_so = |(code, out): (i32, String), start: &str| {
        let first = out.lines().next().unwrap();
        assert!(first.starts_with(&format!("{start}{NOT_CHECKED}")), "{script}: {out}");
        assert!(first.contains(why), "{script}: {out}");
        assert_eq!(code, 3, "{script}: {out}");
    };
    is_so(check(script, &[]), "");
    is_so(check(script, &["--format", "nagios"]), "MEMWRIGHT UNKNOWN - ");
    let (code, report) = json(script);
    let verdict = report["verdict"].as_str().unwrap();
    assert!(verdict.starts_with(NOT_CHECKED) && verdict.contains(why), "{script}: {verdict}");
    assert_eq!(code, 3, "{script}: {verdict}");
    assert_ne!(report["unchecked"].as_array().unwrap().len(), 0);
    assert!(!report.to_string().contains("is built without"), "{script}: {report:#}");
}

/// It was checked, whatever was found.
fn is_known(script: &str) {
    let (code, report) = json(script);
    assert_eq!(report["unchecked"], Value::Array(Vec::new()), "{script}: {report:#}");
    assert!(!report["verdict"].as_str().unwrap().contains(NOT_CHECKED), "{script}: {report:#}");
    assert_ne!(code, 3, "{script}: {report:#}");
}

/// Promise (Checking): If mounts hide /proc, /sys or a part of them, the verdict is that the machine could not be
/// checked (exit code 3, UNKNOWN), with what hides them and how to unmask them.
#[test]
fn a_file_bound_over_counters_hides_them() {
    for name in ["meminfo", "vmstat", "zoneinfo", "buddyinfo"] {
        let file = format!("/proc/{name}");
        let why = format!("another file is mounted over {file} and hides it");
        is_unknown(&format!("mount --bind /dev/null {file}"), &why);
    }
    // A copy can be read, and says nothing of this machine.
    let copy =
        "mount -t tmpfs none /mnt; cp /proc/meminfo /mnt/; mount --bind /mnt/meminfo /proc/meminfo";
    is_unknown(copy, "another file is mounted over /proc/meminfo");
    // An empty file is one as well.
    let empty = "mount -t tmpfs none /mnt; : > /mnt/empty; mount --bind /mnt/empty /proc/vmstat";
    is_unknown(empty, "another file is mounted over /proc/vmstat");
}

#[test]
fn a_tmpfs_over_settings_hides_them() {
    is_unknown("mount -t tmpfs none /proc/sys", "a tmpfs is mounted over /proc/sys");
}

#[test]
fn a_tmpfs_over_proc_hides_everything() {
    is_unknown("mount -t tmpfs none /proc", "a tmpfs is mounted over /proc and");
    let all =
        "for f in meminfo vmstat zoneinfo buddyinfo; do mount --bind /dev/null /proc/$f; done";
    is_unknown(all, "/proc/zoneinfo");
}

#[test]
fn a_hidden_sys_is_not_a_kernel_built_without() {
    is_unknown("mount -t tmpfs none /sys", "-v /sys:/sys:ro");
    let nodes = "/sys/devices/system/node";
    let why = format!("a tmpfs is mounted over {nodes}");
    is_unknown(&format!("mount -t tmpfs none {nodes}"), &why);
}

#[test]
fn what_is_not_mounted_is_named() {
    is_unknown("umount -l /proc", "/proc is not mounted: mount -t proc proc /proc");
    is_unknown("umount -l /sys", "/sys is not mounted: mount -t sysfs sysfs /sys");
    let without = "by='bwrap --ro-bind / / --tmpfs /sys --proc /proc'";
    is_unknown(without, "a tmpfs is mounted over /sys");
}

#[test]
fn a_proc_of_processes_alone_hides_the_rest() {
    is_unknown("mount -t proc -o subset=pid proc /proc", "without systemd's ProcSubset=pid");
}

#[test]
fn a_request_is_not_granted_blindly() {
    let sys = "mount -t tmpfs none /sys";
    let (code, out) = check(sys, &["--for", "1M"]);
    assert!(out.starts_with(NOT_CHECKED) && code == 3, "{code}: {out}");
    let (code, out) = check(sys, &["--for", "1M", "--format", "nagios"]);
    assert!(out.starts_with("MEMWRIGHT UNKNOWN") && code == 3, "{code}: {out}");
    // One that is refused is refused all the same.
    let (code, out) = check(sys, &["--for", "1000T"]);
    assert!(out.starts_with("no: ") && code == 1, "{code}: {out}");
}

#[test]
fn nothing_to_mend_is_not_said_blindly() {
    let script = "mount -t tmpfs none /proc; exec \"$0\" fix --dry-run";
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--propagation", "private", "sh", "-ec", script, PROGRAM]);
    let Output { status, stdout, stderr } = unshare.output().unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(3), "{stderr}");
    assert!(stderr.contains(NOT_CHECKED) && stdout.is_empty(), "{stderr}");
}

/// Promise (Checking): An unprivileged user, read-only settings, or a sandbox with its own /proc do not make the
/// verdict unknown.
#[test]
fn what_hides_nothing_is_checked() {
    for script in [
        "",
        "by='setpriv --reuid=65534 --regid=65534 --clear-groups'",
        "mount --bind -o ro /proc/sys /proc/sys",
        "mount --bind -o ro /sys /sys",
        "mount -t proc -o hidepid=2 proc /proc",
        "mount -t proc -o hidepid=2 proc /proc; \
         by='setpriv --reuid=65534 --regid=65534 --clear-groups'",
        "by='bwrap --ro-bind / / --proc /proc --dev /dev'",
        "by='bwrap --unshare-all --ro-bind / / --proc /proc --dev /dev'",
        "mount -t tmpfs none /sys/firmware; mount --bind /dev/null /proc/interrupts",
        "mount -t tmpfs none /sys/kernel/debug",
        // As systemd-nspawn has it.
        "mount -t tmpfs none /mnt; mkdir /mnt/devices /mnt/kernel; \
         mount --rbind /sys/devices /mnt/devices; mount --rbind /sys/kernel /mnt/kernel; \
         mount --rbind /mnt /sys",
    ] {
        is_known(script);
    }
}
