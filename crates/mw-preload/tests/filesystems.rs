//! Discovered direct I/O on each filesystem that can be made here does what docs/direct-io.md says, and
//! no more is said to be kept out of the page cache than was.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::disk::{Disk, quiet};
use common::{Compiled, library, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const TABLE: &str = include_str!("../../../docs/direct-io.md");

/// What is written each time.
const MIB: f64 = 48.0;

/// What may stay of it where it is kept out: what is on its way, and was not looked at.
const LITTLE_MIB: f64 = 24.0;

/// What one program did to 48 MiB.
#[derive(Debug, Clone, Copy)]
struct Did {
    resident: f64,
    kept_out: f64,
    unverified: f64,
}

fn write(program: &Compiled, place: &Path, how: &str, bytes: &str, old: bool) -> Did {
    let dir = tempfile::tempdir_in(place).unwrap();
    let mut command = program.command(&["stays", dir.path().to_str().unwrap(), how, bytes]);
    command.env("LD_PRELOAD", library()).env("MEMWRIGHT_STATS", "1");
    command.env("MEMWRIGHT_DIRECT_IO", "65536");
    if old {
        command.env("OLD", "1");
    }
    let output = run(&mut command);
    let said = String::from_utf8(output.stderr).unwrap();
    let before = |what: &str| {
        let end = said.find(what)?;
        said[..end].split_whitespace().last()?.parse().ok()
    };
    let did = Did {
        resident: String::from_utf8(output.stdout).unwrap().trim().parse().unwrap(),
        kept_out: before(" MiB kept out").unwrap_or(0.0),
        unverified: before(" MiB more not verified")
            .or_else(|| before(" MiB asked to leave"))
            .unwrap_or(0.0),
    };
    let case = format!("{} {how} {bytes} old {old}: {did:?}", place.display());
    assert!(did.kept_out + did.resident <= MIB + 0.1, "more said than true: {case}");
    assert!(did.kept_out + did.unverified <= MIB + 0.1, "more said than done: {case}");
    did
}

/// The row of the table that was seen to be true.
fn row(name: &str, program: &Compiled, place: &Path) -> String {
    let both = |how| {
        let ways = [("8192", false), ("1048576", false), ("8192", true)];
        ways.map(|(bytes, old)| write(program, place, how, bytes, old))
    };
    let (written, updated) = (both("write"), both("update"));
    let all = || written.iter().chain(&updated);
    // A large write is verified when the disk has it, which may be after the program's end.
    let by_write_behind = |all: &[Did; 3]| [all[0], all[2]];
    let are_verified =
        |all: &[Did; 3]| by_write_behind(all).iter().all(|did| did.kept_out >= MIB - LITTLE_MIB);
    let kept_out = if all().all(|did| did.resident <= LITTLE_MIB) {
        "yes"
    } else if all().all(|did| did.resident >= MIB - 1.0 && did.kept_out == 0.0) {
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

fn check(name: &str, program: &Compiled, place: &Path) {
    let row = row(name, program, place);
    assert!(TABLE.lines().any(|line| line.starts_with(&row)), "docs/direct-io.md lacks: {row}");
}

/// A filesystem that this machine must be able to make.
fn disk(kind: &str) -> Disk {
    Disk::new(kind, None).unwrap_or_else(|| panic!("{kind} cannot be made here"))
}

#[test]
fn on_disks_it_is_kept_out_and_verified() {
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
    let bound = ext4.mount_beside(Command::new("mount").arg("--bind").arg(from)).unwrap();
    check("bind mount", &program, &bound);
}

#[test]
fn on_overlayfs_it_is_kept_out_and_verified() {
    let program = Compiled::new("transfers.c");
    for kind in ["ext4", "xfs", "btrfs"] {
        let mut disk = disk(kind);
        let overlay = disk.overlay(None).unwrap();
        check(&format!("overlayfs, upper directory on {kind}"), &program, &overlay);
    }
}

/// Who opened a file as root and is another user now is not told which of its pages are cached.
#[test]
fn on_overlayfs_it_is_kept_out_after_privileges_were_dropped() {
    let program = Compiled::new("transfers.c");
    let overlay = &mut disk("ext4");
    let overlay = overlay.overlay(None).unwrap();
    for old in [false, true] {
        let did = write(&program, &overlay, "dropped", "8192", old);
        assert!(did.resident <= LITTLE_MIB, "it stays in the page cache: {did:?}");
        assert_eq!(did.kept_out, 0.0, "nobody can have seen that: {did:?}");
        assert!(did.unverified >= MIB - LITTLE_MIB, "{did:?}");
    }
}

#[test]
fn what_cannot_be_kept_out_is_left_alone_and_nothing_else_is_said() {
    let program = Compiled::new("transfers.c");
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    check("tmpfs", &program, memory.path());
    let mut disk = disk("ext4");
    let overlay = disk.overlay(Some(memory.path())).unwrap();
    check("overlayfs, upper directory on tmpfs", &program, &overlay);
}

/// The server has the file in the page cache, whatever becomes of the client's pages.
#[test]
fn on_fuse_nothing_is_done_or_said() {
    let program = Compiled::new("transfers.c");
    let mut disk = disk("ext4");
    let fuse = fuse(&mut disk);
    for how in ["write", "update"] {
        for (bytes, old) in [("8192", false), ("1048576", false), ("8192", true)] {
            let did = write(&program, &fuse, how, bytes, old);
            assert_eq!((did.kept_out, did.unverified), (0.0, 0.0), "{how} {bytes}: {did:?}");
        }
    }
    assert!(TABLE.contains("| FUSE (bindfs) | no | - |"));
}

fn fuse(disk: &mut Disk) -> PathBuf {
    let from = disk.path().join("from");
    fs::create_dir(&from).unwrap();
    disk.mount_beside(Command::new("bindfs").arg(from)).unwrap()
}
