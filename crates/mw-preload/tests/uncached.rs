//! Discovered direct I/O: C programs transfer files with and without the library, on all filesystems that
//! this machine can create.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::disk::{Disk, quiet};
use common::{Compiled, assert_same, library, run, text};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

const SIZE: (&str, &str) = ("MEMWRIGHT_DIRECT_IO", "65536");
const READS: (&str, &str) = ("MEMWRIGHT_DIRECT_IO_READS", "1");

/// Makes the program emulate a kernel without RWF_DONTCACHE: only write-behind.
const OLD: (&str, &str) = ("OLD", "1");

/// The output of a program in a situation, in a new directory.
fn output_of(
    program: &Compiled,
    args: &[&str],
    parent: &Path,
    with: Option<&[(&str, &str)]>,
) -> String {
    let dir = tempfile::tempdir_in(parent).unwrap();
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

/// Asserts that the output is the same without the library, with it, and with only write-behind.
fn check(program: &Compiled, args: &[&str], parent: &Path) {
    let plain = output_of(program, args, parent, None);
    for with in [&[SIZE, READS][..], &[SIZE, READS, OLD]] {
        let with = output_of(program, args, parent, Some(with));
        assert_same(&format!("{args:?} in {}", parent.display()), &plain, &with);
    }
}

/// A directory on the disk of the build: /tmp may be a tmpfs.
fn on_disk() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// For a disk in memory: syncing it is cheap.
const IN_MEMORY: Option<&str> = Some("size=400m");

/// `MW_SEQUENCES=1000000` takes some hours.
///
/// Promise (Under unmodified programs): With `--direct-io` results, errno, file positions and data are the kernel's
/// own: in random transfers on ext4, xfs, btrfs and tmpfs, and in appends, syncs, short writes at a limit or on a
/// full disk, interrupts, threads, after fork, over reused descriptors, pipes and sockets.
#[test]
fn random_transfers_have_the_same_results() {
    let count = std::env::var("MW_SEQUENCES").ok().and_then(|count| count.parse().ok());
    let count: usize = count.unwrap_or(80);
    let program = Compiled::new("transfers.c");
    check(&program, &["sequences", "0", "20"], on_disk().path());
    check(&program, &["sequences", "1000", "20"], Path::new("/dev/shm"));
    for kind in ["ext4", "xfs", "btrfs"] {
        if let Some(disk) = Disk::new(kind, IN_MEMORY) {
            // In batches, each within the time limit of a command.
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
fn transfers_are_the_same_in_every_situation() {
    let program = Compiled::new("transfers.c");
    let disk = Disk::new("ext4", IN_MEMORY);
    let dir = on_disk();
    let place = disk.as_ref().map_or(dir.path().to_owned(), Disk::path);
    for situation in
        ["functions", "limited", "signals", "threads", "forks", "pipes", "files", "cancelled"]
    {
        check(&program, &[situation], &place);
    }
    if rustix::process::geteuid().is_root() {
        check(&program, &["root"], &place);
    }
    let Some(mut disk) = disk else { return };
    let overlay = disk.overlay(None).unwrap();
    for situation in ["functions", "limited", "signals", "threads", "forks", "files", "cancelled"] {
        check(&program, &[situation], &overlay);
    }
    check(&program, &["root"], &overlay);
}

#[test]
fn a_full_disk_fails_at_the_same_byte() {
    let Some(disk) = Disk::new("ext4", None) else { return };
    let program = Compiled::new("transfers.c");
    check(&program, &["full"], &disk.path());
}

/// A disk loses data that it has accepted, and then works again. With the library the program gets the same
/// errors as without: the library consumes none.
///
/// Promise (Under unmodified programs): The library consumes no write error that fsync(2) must report.
#[test]
fn a_disk_error_is_reported_to_fsync() {
    let program = Compiled::new("transfers.c");
    for (bytes, is_overlay) in [("16384", false), ("262144", false), ("16384", true)] {
        let with = [&[][..], &[SIZE], &[SIZE, OLD]];
        let results = with.map(|with| lost(&program, bytes, is_overlay, with));
        let [Some(plain), Some(with), Some(write_behind)] = results else { return };
        assert!(plain.contains("first -1"), "the disk lost nothing: {plain}");
        assert_same(&format!("lost, {bytes} at a time, overlayfs {is_overlay}"), &plain, &with);
        assert_same(&format!("lost, {bytes} at a time, by write-behind"), &plain, &write_behind);
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

/// MiB of 96 that stay in the page cache, by the method of writing or reading.
fn cached_mib(
    program: &Compiled,
    parent: &Path,
    with: Option<&[(&str, &str)]>,
) -> BTreeMap<String, u64> {
    let output = output_of(program, &["cache"], parent, with);
    let pair = |line: &str| {
        let (method, mib) = line.split_once(' ').unwrap();
        (method.to_owned(), mib.parse().unwrap())
    };
    output.lines().map(pair).collect()
}

/// Promise (Under unmodified programs): Large and sequential transfers leave the page cache; others stay.
#[test]
fn large_and_sequential_transfers_leave_the_page_cache() {
    let program = Compiled::new("transfers.c");
    let dir = on_disk();
    // Writes in flight, and those after the last examination, are still cached.
    let little = 24;
    let all = 90;
    let plain = cached_mib(&program, dir.path(), None);
    let with = cached_mib(&program, dir.path(), Some(&[SIZE]));
    let write_behind = cached_mib(&program, dir.path(), Some(&[SIZE, OLD]));
    for method in ["small", "medium", "large", "vectored", "sendfile"] {
        assert!(plain[method] >= all, "{method}: {plain:?}");
        assert!(with[method] <= little, "{method}: {with:?}");
        assert!(write_behind[method] <= little, "{method}, by write-behind: {write_behind:?}");
    }
    // Random writes, and reads without the setting.
    for method in ["random", "read-small", "read-medium"] {
        assert!(with[method] >= all, "{method}: {with:?}");
    }
    let reads = cached_mib(&program, dir.path(), Some(&[SIZE, READS]));
    assert!(reads["read-small"] <= little && reads["read-medium"] <= little, "{reads:?}");
}

/// A lock that a handler leaves by siglongjmp(3) would stay held.
#[test]
fn a_handler_may_leave_a_write_by_siglongjmp() {
    let program = Compiled::new("transfers.c");
    let dir = on_disk();
    for with in [&[SIZE][..], &[SIZE, OLD]] {
        let output = output_of(&program, &["siglongjmp"], dir.path(), Some(with));
        let number = |name: &str| {
            let number = output.lines().find_map(|line| line.strip_prefix(name));
            number.unwrap().trim().parse::<u64>().unwrap()
        };
        assert!(number("stays ") <= 24, "MiB of 48, {with:?}: {output}");
        assert!(number("waits ") <= 500, "ms, {with:?}: {output}");
    }
}

/// Data that was cached before is not a stream: it is neither written back in each call nor dropped. The
/// last 8 MiB of the first pass may be dropped when the second pass begins.
///
/// Promise (Under unmodified programs): Rewritten cached data stays cached.
#[test]
fn rewritten_cached_data_stays_in_the_page_cache() {
    let program = Compiled::new("transfers.c");
    let dir = on_disk();
    for bytes in ["4096", "65536", "262144"] {
        for with in [&[SIZE][..], &[SIZE, OLD], &[("MEMWRIGHT_DIRECT_IO", "4096")]] {
            let stayed = output_of(&program, &["rewrites", bytes], dir.path(), Some(with));
            let stayed: u64 = stayed.trim().parse().unwrap();
            assert!(stayed >= 36, "{bytes} at a time, {with:?}: {stayed} of 48 MiB");
        }
    }
}
