//! Discovered direct I/O on each filesystem behaves as docs/run.md states, and no more bytes are
//! reported as kept out of the page cache than were.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::disk::{Disk, quiet};
use common::{Compiled, library, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const TABLE: &str = include_str!("../../../docs/run.md");

/// The size of each file.
const MIB: f64 = 48.0;

/// Bytes that may stay in the cache if it is kept out: writes in flight, and those after the last examination.
const MAX_RESIDENT_MIB: f64 = 24.0;

/// Bytes of a write, and whether without RWF_DONTCACHE as on an old kernel.
const VARIANTS: [(&str, bool); 3] = [("8192", false), ("1048576", false), ("8192", true)];

/// The result of one program, in MiB.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    resident: f64,
    kept_out: f64,
    unverified: f64,
}

fn write(program: &Compiled, dir: &Path, method: &str, bytes: &str, old: bool) -> Outcome {
    let dir = tempfile::tempdir_in(dir).unwrap();
    let path = dir.path().to_str().unwrap();
    let mut command = program.command(&["stays", path, method, bytes]);
    command.env("LD_PRELOAD", library()).env("MEMWRIGHT_STATS", "1");
    command.env("MEMWRIGHT_DIRECT_IO", "65536");
    if old {
        command.env("OLD", "1");
    }
    let output = run(&mut command);
    let report = String::from_utf8(output.stderr).unwrap();
    let number_before = |text: &str| {
        let end = report.find(text)?;
        report[..end].split_whitespace().last()?.parse().ok()
    };
    let outcome = Outcome {
        resident: String::from_utf8(output.stdout).unwrap().trim().parse().unwrap(),
        kept_out: number_before(" MiB kept out").unwrap_or(0.0),
        unverified: number_before(" MiB more not verified")
            .or_else(|| number_before(" MiB asked to leave"))
            .unwrap_or(0.0),
    };
    let case = format!("{path} {method} {bytes} old {old}: {outcome:?}");
    assert!(outcome.kept_out + outcome.resident <= MIB + 0.1, "a false report: {case}");
    assert!(outcome.kept_out + outcome.unverified <= MIB + 0.1, "more than written: {case}");
    outcome
}

/// The row of the table that the measurement supports.
fn row(name: &str, program: &Compiled, dir: &Path) -> String {
    let measure = |method| VARIANTS.map(|(bytes, old)| write(program, dir, method, bytes, old));
    let (written, updated) = (measure("write"), measure("update"));
    let all = || written.iter().chain(&updated);
    // A large write is verified when it is on the disk, which may be after the end of the program.
    let by_write_behind = |all: &[Outcome; 3]| [all[0], all[2]];
    let are_verified = |all: &[Outcome; 3]| {
        by_write_behind(all).iter().all(|run| run.kept_out >= MIB - MAX_RESIDENT_MIB)
    };
    let kept_out = if all().all(|run| run.resident <= MAX_RESIDENT_MIB) {
        "yes"
    } else if all().all(|run| run.resident >= MIB - 1.0 && run.kept_out == 0.0) {
        "no"
    } else {
        panic!("{name}: kept out in part: {written:?} {updated:?}")
    };
    let verified = match (kept_out, are_verified(&written), are_verified(&updated)) {
        ("no", ..) => "-",
        (_, true, true) => "yes",
        _ => panic!("{name}: verified in part: {written:?} {updated:?}"),
    };
    format!("| {name} | {kept_out} | {verified} |")
}

fn check(name: &str, program: &Compiled, dir: &Path) {
    let row = row(name, program, dir);
    assert!(TABLE.lines().any(|line| line.starts_with(&row)), "docs/run.md lacks: {row}");
}

/// A filesystem that this machine must be able to create.
fn disk(kind: &str) -> Disk {
    Disk::new(kind, None).unwrap_or_else(|| panic!("{kind} cannot be created"))
}

/// Promise (Under unmodified programs): On ext4, xfs, btrfs, bind mounts and overlayfs `--direct-io` keeps data out
/// of the page cache, and only verified bytes are counted; elsewhere nothing is claimed.
#[test]
fn on_disks_data_is_kept_out_and_verified() {
    let program = Compiled::new("transfers.c");
    for kind in ["ext4", "xfs", "btrfs"] {
        check(kind, &program, &disk(kind).path());
    }
    let btrfs = disk("btrfs");
    let subvolume = btrfs.path().join("subvolume");
    quiet(Command::new("btrfs").args(["subvolume", "create"]).arg(&subvolume)).unwrap();
    check("btrfs subvolume", &program, &subvolume);
    let mut ext4 = disk("ext4");
    let from = ext4.path();
    let bound = ext4.mount_other(Command::new("mount").arg("--bind").arg(from)).unwrap();
    check("bind mount", &program, &bound);
}

#[test]
fn on_overlayfs_data_is_kept_out_and_verified() {
    let program = Compiled::new("transfers.c");
    for kind in ["ext4", "xfs", "btrfs"] {
        let mut disk = disk(kind);
        let overlay = disk.overlay(None).unwrap();
        check(&format!("overlayfs, upper directory on {kind}"), &program, &overlay);
    }
}

/// A program that opened a file as root and then changed its user cannot find out which pages are cached.
#[test]
fn on_overlayfs_data_is_kept_out_after_dropping_privileges() {
    let program = Compiled::new("transfers.c");
    let overlay = &mut disk("ext4");
    let overlay = overlay.overlay(None).unwrap();
    for old in [false, true] {
        let outcome = write(&program, &overlay, "dropped", "8192", old);
        assert!(outcome.resident <= MAX_RESIDENT_MIB, "it stays in the page cache: {outcome:?}");
        assert_eq!(outcome.kept_out, 0.0, "it cannot be verified: {outcome:?}");
        assert!(outcome.unverified >= MIB - MAX_RESIDENT_MIB, "{outcome:?}");
    }
}

#[test]
fn data_that_cannot_be_kept_out_is_not_reported_as_kept_out() {
    let program = Compiled::new("transfers.c");
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    check("tmpfs", &program, memory.path());
    let mut disk = disk("ext4");
    let overlay = disk.overlay(Some(memory.path())).unwrap();
    check("overlayfs, upper directory on tmpfs", &program, &overlay);
}

/// The server has the file in the page cache, whether or not the client's pages are dropped.
#[test]
fn on_fuse_nothing_is_done_or_reported() {
    let program = Compiled::new("transfers.c");
    let mut disk = disk("ext4");
    let fuse = fuse(&mut disk);
    for method in ["write", "update"] {
        for (bytes, old) in VARIANTS {
            let outcome = write(&program, &fuse, method, bytes, old);
            let reported = (outcome.kept_out, outcome.unverified);
            assert_eq!(reported, (0.0, 0.0), "{method} {bytes}: {outcome:?}");
        }
    }
    assert!(TABLE.contains("| FUSE (bindfs) | no | - |"));
}

fn fuse(disk: &mut Disk) -> PathBuf {
    let from = disk.path().join("from");
    fs::create_dir(&from).unwrap();
    disk.mount_other(Command::new("bindfs").arg(from)).unwrap()
}
