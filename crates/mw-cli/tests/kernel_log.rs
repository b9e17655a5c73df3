//! `explain --log`: where a log comes from, and how the command ends.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use assert_cmd::Command;
use std::fs;
use tempfile::TempDir;

const LOG: &str = include_str!("../../mw-kernel-log/tests/logs/container-limit-v2.log");
const SUMMARY: &str =
    "node (41000) was killed: its container reached its memory limit of 256 MiB\n";

fn explain(args: &[&str], input: &str) -> (i32, String) {
    let mut command = Command::cargo_bin("memwright").unwrap();
    let output = command.arg("explain").args(args).write_stdin(input).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

/// Promise (Kernel logs): A log is read from a file, from standard input and from a copied tree, with the same answer.
#[test]
fn a_log_of_any_source_has_the_same_answer() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("kernel.log");
    fs::write(&file, LOG).unwrap();
    let of_file = explain(&["--log", file.to_str().unwrap()], "");
    assert_eq!(of_file.0, 0);
    assert!(of_file.1.starts_with(SUMMARY), "{}", of_file.1);
    assert_eq!(explain(&["--log", "-"], LOG), of_file);
    let tree = directory.path().join("tree");
    fs::create_dir_all(tree.join("sos_commands/kernel")).unwrap();
    fs::create_dir_all(tree.join("proc")).unwrap();
    fs::write(tree.join("sos_commands/kernel/dmesg"), LOG).unwrap();
    assert_eq!(explain(&["--log", "--root", tree.to_str().unwrap()], ""), of_file);
}

#[test]
fn json_has_the_numbers() {
    let (code, json) = explain(&["--log", "-", "--json"], LOG);
    let answer: serde_json::Value = serde_json::from_str(&json).unwrap();
    let group = &answer["groups"][0];
    assert_eq!((code, &answer["schema"]), (0, &1.into()));
    assert_eq!(group["cgroup"]["limit_bytes"], 256 << 20);
    assert_eq!(group["victims"][0]["pid"], 41_000);
}

#[test]
fn what_cannot_be_read_is_an_error() {
    assert_eq!(explain(&["--log", "/no/such/kernel.log"], "").0, 3);
    assert_eq!(explain(&["--log", "a", "--root", "/"], "").0, 2);
    assert_eq!(explain(&["--log", "a", "--all-memory"], "").0, 2);
}
