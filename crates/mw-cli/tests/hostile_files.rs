//! Recordings and captures that are made to take all memory, all time or all inodes of whoever reads them. Each command
//! ends within limits, with exit code 3 and a line that names the file, and leaves nothing behind.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_model::{HolderSize, Incident, SizedHolder};
use mw_record::{Retention, Writer};
use mw_test::sqlite_pages::{SqlitePages, SqliteValue};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const MAX_RESIDENT_KIB: u64 = 512 << 10;

/// Of a program that is built without optimization.
const MAX_CPU: Duration = Duration::from_secs(22);

fn memwright(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwright"));
    command.args(args).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Standard error of a command that must fail because of `file`.
fn refused(mut command: Command, file: &Path) -> String {
    let mut child = command.spawn().unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    let usage = mw_sys::wait_with_usage(child).unwrap();
    let took = usage.user + usage.system;
    println!("{command:?}: {} KiB, {took:?}: {said}", usage.max_resident_kib);
    assert!(usage.max_resident_kib < MAX_RESIDENT_KIB && took < MAX_CPU, "{usage:?}");
    assert_eq!(usage.status.code(), Some(3), "{command:?}: {said}");
    assert!(said.starts_with("memwright: ") && said.contains(file.to_str().unwrap()), "{said}");
    said
}

/// A recording, changed by hand.
fn recording(dir: &Path, change: impl FnOnce(&mut SqlitePages)) -> PathBuf {
    let path = dir.join("recording.db");
    let writer = Writer::start(&path, &mw_model::Host::default(), Retention::default()).unwrap();
    writer.keep_incident(Incident::default()).unwrap();
    let holder = SizedHolder::Machine;
    writer.keep_sizes(1, vec![HolderSize { holder, bytes: 1, limit_bytes: None }]);
    drop(writer);
    let mut pages = SqlitePages::parse(&fs::read(&path).unwrap());
    change(&mut pages);
    fs::write(&path, pages.to_bytes()).unwrap();
    path
}

/// A recording of an incident with so many waits, which is small in the file.
fn many_waits(dir: &Path, count: usize) -> PathBuf {
    let json = format!("{{\"schema\":1,\"waits\":[{}{{}}]}}", "{},".repeat(count - 1));
    let body = zstd::bulk::compress(json.as_bytes(), 3).unwrap();
    let text = |text: &str| SqliteValue::Text(text.to_owned());
    let mut row =
        vec![SqliteValue::Key, SqliteValue::Int(1), SqliteValue::Int(2), text("probe"), text("db")];
    row.extend([SqliteValue::Real(1.0), text("x"), text("x"), SqliteValue::Int(90)]);
    // A block of no rows and no columns.
    let rows = zstd::bulk::compress(&[0, 0], 3).unwrap();
    row.extend([SqliteValue::Blob(body), SqliteValue::Blob(rows)]);
    recording(dir, |pages| pages.set_rows("incident", &[row]))
}

#[test]
fn pages_with_many_parents_end_every_reader() {
    let (dir, out) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let csv = out.path().join("out.csv");
    let csv = csv.to_str().unwrap();
    for (table, commands) in [
        ("incident_list", &[&["incidents"][..], &["report", "worst"], &["report", "7"]][..]),
        ("sizes", &[&["trends"]]),
        ("chunk", &[&["check"], &["export", "--to", csv]]),
    ] {
        let path = recording(dir.path(), |pages| pages.multiply(table, 4));
        for command in commands {
            let args = [*command, &["--recording", path.to_str().unwrap()]].concat();
            let said = refused(memwright(&args), &path);
            assert!(said.contains("damaged"), "{said}");
        }
        fs::remove_file(&path).unwrap();
    }
    let path = recording(dir.path(), |pages| pages.multiply_definitions(4));
    for command in [&["incidents"][..], &["report", "last"], &["trends"], &["check"]] {
        let args = [command, &["--recording", path.to_str().unwrap()]].concat();
        refused(memwright(&args), &path);
    }
    assert!(is_empty(out.path()));
}

#[test]
fn an_incident_that_becomes_large_is_refused() {
    let dir = TempDir::new().unwrap();
    let path = many_waits(dir.path(), 9 << 20);
    assert!(fs::metadata(&path).unwrap().len() < 100_000);
    let args = ["report", "1", "--recording", path.to_str().unwrap()];
    assert!(refused(memwright(&args), &path).contains("of memory"));
}

#[test]
fn a_command_that_gets_no_memory_says_so() {
    let dir = TempDir::new().unwrap();
    let path = many_waits(dir.path(), 200_000);
    let args = ["report", "1", "--recording", path.to_str().unwrap()];
    assert!(memwright(&args).status().unwrap().success());
    // Less than the incident takes, and more than the program.
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -d 16384; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_memwright")]);
    limited.args(args).stdout(Stdio::null()).stderr(Stdio::piped());
    assert!(refused(limited, &path).contains("of memory"));
}

/// A capture of hundreds of thousands of directories.
fn many_folders() -> Vec<u8> {
    let mut archive = tar::Builder::new(zstd::Encoder::new(Vec::new(), 19).unwrap());
    for file in 0..200 {
        let mut header = tar::Header::new_gnu();
        header.set_size(0);
        header.set_mode(0o644);
        let name = format!("proc/{file}/{}x", "d/".repeat(2000));
        archive.append_data(&mut header, name, std::io::empty()).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

/// Nothing but what the test has put there.
fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).unwrap().next().is_none()
}

#[test]
fn a_capture_makes_no_folders() {
    let (dir, tmp) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let path = dir.path().join("capture.tar.zst");
    fs::write(&path, many_folders()).unwrap();
    assert!(fs::metadata(&path).unwrap().len() < 8000);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 1024; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_memwright")]);
    limited.args(["check", "--root", path.to_str().unwrap()]).env("TMPDIR", tmp.path());
    limited.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = limited.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("could not be checked") || said.contains("not"), "{output:?}");
    assert!(is_empty(tmp.path()));
}

#[test]
fn a_capture_that_is_being_read_ends_with_the_signal() {
    let tmp = TempDir::new().unwrap();
    let capture = many_folders();
    let (first, _) = capture.split_at(capture.len() / 2);
    for signal in [Signal::TERM, Signal::INT, Signal::KILL] {
        let mut command = memwright(&["check", "--root", "-"]);
        command.env("TMPDIR", tmp.path()).stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(first).unwrap();
        // It has read what there is, and waits for more.
        let pending = || rustix::io::ioctl_fionread(&input).unwrap();
        mw_test::wait_until("it reads", Duration::from_secs(60), || pending() == 0);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let ended = mw_test::exit_within(&mut child, Duration::from_secs(20)).unwrap();
        assert_eq!(ended.and_then(|status| status.signal()), Some(signal.as_raw()));
        assert!(is_empty(tmp.path()));
    }
}
