//! `doctor` on this machine: what it says is as it is, in text and in JSON.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_test::assert_schema;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_memwright");

/// Takes tracefs out of a mount namespace.
const WITHOUT_TRACEFS: &str = "umount -R /sys/kernel/tracing 2>/dev/null || true
        umount -R /sys/kernel/debug 2>/dev/null || true";

/// Output of `doctor` once `script` has run in a mount namespace of its own; as in `sh -c`.
fn doctor(script: &str, args: &[&str]) -> (i32, String) {
    let script = format!("set -e\n{script}\nexec $by \"$@\"");
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--propagation", "private", "sh", "-c", &script, "sh", PROGRAM]);
    let Output { status, stdout, stderr } = unshare.args(args).output().unwrap();
    assert!(stderr.is_empty(), "{script}: {}", String::from_utf8_lossy(&stderr));
    (status.code().unwrap(), String::from_utf8(stdout).unwrap())
}

/// The JSON form, which is what its schema says.
fn json(script: &str) -> (i32, Value) {
    let (code, out) = doctor(script, &["doctor", "--json"]);
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_schema("doctor-v1", [&value]);
    (code, value)
}

fn check<'a>(diagnosis: &'a Value, name: &str) -> &'a Value {
    let checks = diagnosis["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no {name}"))
}

fn state<'a>(diagnosis: &'a Value, name: &str) -> &'a str {
    check(diagnosis, name)["state"].as_str().unwrap()
}

/// The exit code is that of the worst state.
fn code_of(diagnosis: &Value) -> i32 {
    let has = |state: &str| {
        let checks = diagnosis["checks"].as_array().unwrap();
        checks.iter().any(|check| check["state"] == state)
    };
    if has("missing") {
        1
    } else if has("unknown") {
        3
    } else {
        0
    }
}

/// Promise (Installation): `doctor --json` conforms to its published schema, and the exit code is that of the worst
/// state.
#[test]
fn this_machine_is_as_it_is_told() {
    let (code, diagnosis) = json(":");
    assert_eq!(code, code_of(&diagnosis), "{diagnosis:#}");
    let delays = fs::read_to_string("/proc/sys/kernel/task_delayacct").unwrap();
    let expected = if delays.trim() == "0" { "missing" } else { "works" };
    assert_eq!(state(&diagnosis, "delay-accounting"), expected);
    let has_pressure = fs::read("/proc/pressure/memory").is_ok();
    assert_eq!(state(&diagnosis, "pressure") == "works", has_pressure);
    let has_events = fs::read("/sys/kernel/tracing/events/sched/sched_switch/id").is_ok();
    assert_eq!(state(&diagnosis, "tracefs") == "works", has_events || mw_test::is_root());

    let (_, text) = doctor(":", &["doctor"]);
    assert_eq!(text.lines().next(), diagnosis["summary"].as_str());
    for check in diagnosis["checks"].as_array().unwrap() {
        assert!(text.contains(check["name"].as_str().unwrap()), "{text}");
        assert_eq!(check["remedy"].is_null(), check["state"] == "works", "{check:#}");
    }
}

#[test]
fn the_command_that_it_gives_turns_it_on() {
    if !mw_test::is_root() {
        return;
    }
    let hidden_for_good = format!("{WITHOUT_TRACEFS}\nby='setpriv --bounding-set=-sys_admin'");
    let (code, diagnosis) = json(&hidden_for_good);
    assert_eq!((code, state(&diagnosis, "tracefs")), (1, "missing"), "{diagnosis:#}");
    let remedy = check(&diagnosis, "tracefs")["remedy"].as_str().unwrap();
    let (_, mended) = json(&format!("{hidden_for_good}\n{remedy}"));
    assert_eq!(state(&mended, "tracefs"), "works", "{mended:#}");
}

/// No other process sees the mount, and nothing of it is left.
///
/// Promise (The recorder): Where tracefs is not mounted, `watch` and `why` trace all the same, and no other process
/// sees a mount.
#[test]
fn tracefs_that_is_not_mounted_is_mounted_for_memwright_alone() {
    if !mw_test::is_root() {
        return;
    }
    let (_, text) = doctor(WITHOUT_TRACEFS, &["doctor", "--verbose"]);
    assert!(text.contains("* tracefs: not mounted; memwright mounts it for itself"), "{text}");
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c"])
        .arg(format!("{WITHOUT_TRACEFS}\n\"$1\" doctor > /dev/null; cat /proc/self/mountinfo"))
        .args(["sh", PROGRAM])
        .output()
        .unwrap();
    let mounts = String::from_utf8(output.stdout).unwrap();
    assert!(!mounts.is_empty() && !mounts.contains(" - tracefs "), "{mounts}");
}

#[test]
fn an_ordinary_user_is_told_to_ask_as_root() {
    if !mw_test::is_root() {
        return;
    }
    // The program's own directory may be root's alone.
    let as_nobody =
        "{ mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing; } && mount -t tmpfs none /mnt && cp \"$1\" /mnt/memwright && chmod 755 /mnt && shift
        set -- /mnt/memwright \"$@\"
        by='setpriv --reuid=65534 --regid=65534 --clear-groups'";
    let (code, diagnosis) = json(as_nobody);
    assert_eq!((code, state(&diagnosis, "privileges")), (1, "missing"), "{diagnosis:#}");
    assert_eq!(check(&diagnosis, "privileges")["remedy"], "sudo memwright doctor");
    assert_ne!(state(&diagnosis, "tracefs"), "missing", "only root may look: {diagnosis:#}");
}

#[test]
fn what_a_container_hides_is_told() {
    if !mw_test::is_root() {
        return;
    }
    let read_only = "mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys";
    let (code, diagnosis) = json(read_only);
    assert_eq!((code, state(&diagnosis, "settings")), (1, "missing"), "{diagnosis:#}");
    let (code, diagnosis) = json("by='unshare --pid --fork --mount-proc'");
    assert_eq!((code, state(&diagnosis, "whole-machine")), (1, "missing"), "{diagnosis:#}");
    let detail = check(&diagnosis, "whole-machine")["detail"].as_str().unwrap();
    assert!(detail.contains("processes outside the container are hidden"), "{detail}");
}

/// Promise (Installation): An invalid configuration, and a disk without room for the recording, are reported before
/// the recorder fails.
#[test]
fn a_configuration_that_is_wrong_is_told_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("memwright.toml");
    let diagnosis = |text: &str| {
        fs::write(&file, text).unwrap();
        let output =
            Command::new(PROGRAM).args(["doctor", "--json", "--config"]).arg(&file).output();
        serde_json::from_slice::<Value>(&output.unwrap().stdout).unwrap()
    };
    let wrong = diagnosis("[watch]\nlimitt = \"1s\"\n");
    assert_eq!(state(&wrong, "configuration"), "missing");
    let detail = check(&wrong, "configuration")["detail"].as_str().unwrap();
    assert!(detail.contains("line 2: unknown field `limitt`"), "{detail}");
    let probe = diagnosis("[[watch.probe]]\ntarget = \"gopher://x\"\n");
    assert_eq!(state(&probe, "configuration"), "missing", "a probe is looked at too");
    assert_eq!(state(&diagnosis("[watch]\nlimit = \"1s\"\n"), "configuration"), "works");
}

#[test]
fn a_disk_without_room_for_the_recording_is_told() {
    if !mw_test::is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("memwright.toml");
    fs::write(&config, "[watch]\nrecording = \"/mnt/recording.db\"\n").unwrap();
    let config = config.to_str().unwrap();
    let told = |size: &str| {
        let mount = format!("mount -t tmpfs -o size={size} none /mnt");
        let (_, out) = doctor(&mount, &["doctor", "--json", "--config", config]);
        let diagnosis: Value = serde_json::from_str(&out).unwrap();
        check(&diagnosis, "recording").clone()
    };
    assert_eq!(told("400M")["state"], "works");
    let full = told("64M");
    assert_eq!(full["state"], "missing");
    assert!(full["detail"].as_str().unwrap().contains("64 MiB free"), "{full:#}");
    assert!(!Path::new("/mnt/recording.db").exists());
}
