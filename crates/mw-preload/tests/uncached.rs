//! Discovered direct I/O: programs in C transfer files with the library and without, on whatever
//! filesystems this machine can make.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::disk::{Disk, quiet};
use common::{Compiled, library, run, same, text};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

const SIZE: (&str, &str) = ("MEMWRIGHT_DIRECT_IO", "65536");
const READS: (&str, &str) = ("MEMWRIGHT_DIRECT_IO_READS", "1");

/// As on a kernel without RWF_DONTCACHE: by write-behind alone.
const OLD: (&str, &str) = ("OLD", "1");

/// What a program prints in a situation, in a new folder.
fn said(program: &Compiled, args: &[&str], place: &Path, with: Option<&[(&str, &str)]>) -> String {
    let dir = tempfile::tempdir_in(place).unwrap();
    let mut all = vec![args[0], dir.path().to_str().unwrap()];
    all.extend(&args[1..]);
    let mut command = program.command(&all);
    if let Some(variables) = with {
        command.env("LD_PRELOAD", library()).envs(variables.iter().copied());
    }
    let output = run(&mut command);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{args:?}");
    text(output)
}

/// The same with the library and without, writing and reading, and with write-behind alone.
fn check(program: &Compiled, args: &[&str], place: &Path) {
    let plain = said(program, args, place, None);
    for with in [&[SIZE, READS][..], &[SIZE, READS, OLD]] {
        let with = said(program, args, place, Some(with));
        same(&format!("{args:?} in {}", place.display()), &plain, &with);
    }
}

/// A folder on the disk that tests are built on: /tmp may be memory.
fn on_disk() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Room for a disk that is in memory: syncing it costs next to nothing.
const IN_MEMORY: Option<&str> = Some("size=400m");

/// `MW_SEQUENCES=1000000` takes some hours.
#[test]
fn random_transfers_have_the_same_results() {
    let count = std::env::var("MW_SEQUENCES").ok().and_then(|count| count.parse().ok());
    let count: usize = count.unwrap_or(80);
    let program = Compiled::new("transfers.c");
    check(&program, &["sequences", "0", "20"], on_disk().path());
    check(&program, &["sequences", "1000", "20"], Path::new("/dev/shm"));
    for kind in ["ext4", "xfs", "btrfs"] {
        if let Some(disk) = Disk::new(kind, IN_MEMORY) {
            // So many that each command ends in its time.
            for first in (0..count).step_by(200) {
                let (first, some) = (first.to_string(), (count - first).min(200).to_string());
                check(&program, &["sequences", &first, &some], &disk.path());
            }
        }
    }
    if let Some(mut disk) = Disk::new("ext4", IN_MEMORY) {
        check(&program, &["sequences", "2000", "40"], &disk.overlay(None).unwrap());
    }
}

#[test]
fn programs_transfer_the_same_in_every_situation() {
    let program = Compiled::new("transfers.c");
    let disk = Disk::new("ext4", IN_MEMORY);
    let dir = on_disk();
    let place = disk.as_ref().map_or(dir.path().to_owned(), Disk::path);
    for situation in
        ["ways", "limited", "signals", "threads", "forks", "pipes", "files", "cancelled"]
    {
        check(&program, &[situation], &place);
    }
    if rustix::process::geteuid().is_root() {
        check(&program, &["root"], &place);
    }
    let Some(mut disk) = disk else { return };
    let overlay = disk.overlay(None).unwrap();
    for situation in ["ways", "limited", "signals", "threads", "forks", "files", "cancelled"] {
        check(&program, &[situation], &overlay);
    }
    check(&program, &["root"], &overlay);
}

#[test]
fn a_full_disk_is_met_at_the_same_byte() {
    let Some(disk) = Disk::new("ext4", None) else { return };
    let program = Compiled::new("transfers.c");
    check(&program, &["full"], &disk.path());
}

/// A disk loses what it has taken, is mended, and takes more. Whoever asks is told, with the library as
/// without: nothing of what it does takes an error from the program.
#[test]
fn an_error_of_the_disk_is_told_to_who_asks() {
    let program = Compiled::new("transfers.c");
    for (bytes, is_overlay) in [("16384", false), ("262144", false), ("16384", true)] {
        let with = [&[][..], &[SIZE], &[SIZE, OLD]];
        let told = with.map(|with| lost(&program, bytes, is_overlay, with));
        let [Some(plain), Some(with), Some(behind)] = told else { return };
        assert!(plain.contains("first -1"), "the disk lost nothing: {plain}");
        same(&format!("lost, {bytes} at a time, overlayfs {is_overlay}"), &plain, &with);
        same(&format!("lost, {bytes} at a time, by write-behind"), &plain, &behind);
    }
}

fn lost(
    program: &Compiled,
    bytes: &str,
    is_overlay: bool,
    with: &[(&str, &str)],
) -> Option<String> {
    let mut disk = Disk::new("ext4", Some("size=24m"))?;
    let place = if is_overlay { disk.overlay(None).unwrap() } else { disk.path() };
    let mut command = program.command(&["lost", place.to_str().unwrap(), bytes]);
    if !with.is_empty() {
        command.env("LD_PRELOAD", library()).envs(with.iter().copied());
    }
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "written\n");
    let backing = disk.dir.path().join("backing");
    quiet(Command::new("mount").args(["-o", "remount,size=400m"]).arg(backing)).unwrap();
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success());
    Some(rest)
}

/// MiB of 96 that stay in the page cache, by the way they were written or read.
fn kept(program: &Compiled, place: &Path, with: Option<&[(&str, &str)]>) -> BTreeMap<String, u64> {
    let said = said(program, &["cache"], place, with);
    let pair = |line: &str| {
        let (way, mib) = line.split_once(' ').unwrap();
        (way.to_owned(), mib.parse().unwrap())
    };
    said.lines().map(pair).collect()
}

#[test]
fn what_is_large_or_sequential_does_not_stay_in_the_page_cache() {
    let program = Compiled::new("transfers.c");
    let dir = on_disk();
    // What a run has just written is on its way, or was not yet looked at.
    let little = 24;
    let all = 90;
    let plain = kept(&program, dir.path(), None);
    let with = kept(&program, dir.path(), Some(&[SIZE]));
    let behind = kept(&program, dir.path(), Some(&[SIZE, OLD]));
    for way in ["small", "tale", "large", "pieces", "sent"] {
        assert!(plain[way] >= all, "{way}: {plain:?}");
        assert!(with[way] <= little, "{way}: {with:?}");
        assert!(behind[way] <= little, "{way}, by write-behind: {behind:?}");
    }
    // In no row, and reads that nobody asked for.
    for way in ["random", "read-small", "read-tale"] {
        assert!(with[way] >= all, "{way}: {with:?}");
    }
    let reads = kept(&program, dir.path(), Some(&[SIZE, READS]));
    assert!(reads["read-small"] <= little && reads["read-tale"] <= little, "{reads:?}");
}

/// What a handler leaves by siglongjmp(3) would be held for good.
#[test]
fn a_handler_may_leave_a_write_by_siglongjmp() {
    let program = Compiled::new("transfers.c");
    let dir = on_disk();
    for with in [&[SIZE][..], &[SIZE, OLD]] {
        let said = said(&program, &["jumps"], dir.path(), Some(with));
        let number = |what: &str| {
            let number = said.lines().find_map(|line| line.strip_prefix(what));
            number.unwrap().trim().parse::<u64>().unwrap()
        };
        assert!(number("stays ") <= 24, "MiB of 48, {with:?}: {said}");
        assert!(number("waits ") <= 500, "ms, {with:?}: {said}");
    }
}

/// It was in the page cache before and is no stream: neither written at each call nor dropped. The last
/// 8 MiB of the first stream may be dropped when the second pass begins.
#[test]
fn what_is_cached_and_rewritten_stays_in_the_page_cache() {
    let program = Compiled::new("transfers.c");
    let dir = on_disk();
    for bytes in ["4096", "65536", "262144"] {
        for with in [&[SIZE][..], &[SIZE, OLD], &[("MEMWRIGHT_DIRECT_IO", "4096")]] {
            let stayed = said(&program, &["rewrites", bytes], dir.path(), Some(with));
            let stayed: u64 = stayed.trim().parse().unwrap();
            assert!(stayed >= 36, "{bytes} at a time, {with:?}: {stayed} of 48 MiB");
        }
    }
}
