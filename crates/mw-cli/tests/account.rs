//! `explain --all-memory` on this machine: what a test allocates is where the account says it is, and named.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_memory::PageSize;
use mw_sys::{Region, SysvSegment, ThpAdvice};
use mw_test::{HugePages, TestCgroup, alone, assert_schema, is_root, own_mounts, skip};
use rustix::fs::{MemfdFlags, OFlags, memfd_create};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{PipeReader, PipeWriter, Write};
use std::process::{self, Command};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// Bytes that each test allocates.
const BYTES: u64 = 512 * MIB;

/// Error of the account: a twentieth.
const MOST_OFF: u64 = BYTES / 20;

fn json(args: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwright"));
    let output = command.args(["explain", "--all-memory", "--json"]).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The bytes of all entries that are wanted.
fn bytes(entry: &Value, is_wanted: &dyn Fn(&Value) -> bool) -> u64 {
    let own = if is_wanted(entry) { entry["bytes"].as_u64().unwrap_or(0) } else { 0 };
    let parts = entry["parts"].as_array().map_or(&[][..], Vec::as_slice);
    own + parts.iter().map(|part| bytes(part, is_wanted)).sum::<u64>()
}

fn named(entry: &Value, name: &str) -> u64 {
    bytes(entry, &|entry| entry["name"].as_str().is_some_and(|it| it.contains(name)))
}

fn part(entry: &Value, id: &str) -> u64 {
    bytes(entry, &|entry| entry["id"] == id)
}

/// Whether a line grew by what was allocated.
fn check(what: &str, before: u64, after: u64, allocated: u64) {
    let grown = after.saturating_sub(before);
    assert!(grown.abs_diff(allocated) <= MOST_OFF, "{what}: {} MiB more", grown / MIB);
}

fn fill(file: &mut File, bytes: u64) {
    let piece = vec![1; MIB as usize];
    for _ in 0..bytes / MIB {
        file.write_all(&piece).unwrap();
    }
}

/// True if files in the page cache can be asked: cachestat(2), and the privilege to take descriptors.
fn is_blind(account: &Value) -> bool {
    let unseen = account["unseen"].as_array().unwrap();
    unseen.iter().any(|missing| missing["what"] == "page cache by file")
}

#[test]
fn parts_add_up_to_all_memory() {
    let account = json(&[]);
    let total = account["total_bytes"].as_u64().unwrap();
    let over = account["overcounted_bytes"].as_u64().unwrap();
    let parts = account["parts"].as_array().unwrap();
    assert_eq!(parts.iter().map(|part| part["bytes"].as_u64().unwrap()).sum::<u64>(), total + over);
    assert!(part(&account, "unaccounted") < total / 50, "{account:#}");
}

/// Promise (All memory): What a program allocates is in the right part within 5%, with its holder: cgroup, tmpfs,
/// memfd, System V segment, file, pipes, huge pages, page tables.
#[test]
fn anonymous_memory_is_named_by_cgroup() {
    let _alone = alone();
    let Ok(group) = TestCgroup::with_memory(BYTES * 2) else {
        return skip("no memory cgroup that a test may create");
    };
    let name = group.path().file_name().unwrap().to_str().unwrap().to_owned();
    let before = named(&json(&[]), &name);
    fs::write(group.members(), process::id().to_string()).unwrap();
    let region = Region::anonymous(BYTES as usize, PageSize::Base).unwrap();
    region.populate(0..BYTES as usize).unwrap();
    check("anonymous", before, named(&json(&[]), &name), BYTES);
}

#[test]
fn files_of_a_tmpfs_are_named_by_mount() {
    let _alone = alone();
    if !is_root() {
        return;
    }
    own_mounts();
    let dir = TempDir::new().unwrap();
    mount("none", dir.path(), "tmpfs", MountFlags::empty(), None).unwrap();
    let name = dir.path().to_str().unwrap();
    let before = named(&json(&[]), name);
    fill(&mut File::create(dir.path().join("file")).unwrap(), BYTES);
    let after = named(&json(&[]), name);
    unmount(dir.path(), UnmountFlags::DETACH).unwrap();
    check("tmpfs", before, after, BYTES);
}

#[test]
fn a_memfd_that_nobody_maps_is_named_by_process() {
    let _alone = alone();
    let mut file = File::from(memfd_create("account-test", MemfdFlags::CLOEXEC).unwrap());
    let before = json(&[]);
    if is_blind(&before) {
        return skip("needs cachestat(2) (6.5)");
    }
    fill(&mut file, BYTES);
    check("memfd", named(&before, "account-test"), named(&json(&[]), "account-test"), BYTES);
}

#[test]
fn a_segment_that_nobody_maps_is_named() {
    let _alone = alone();
    let segment = SysvSegment::create(0, BYTES as usize, None).unwrap();
    let region = Region::reserve(BYTES as usize, 2 << 20, 2 << 20).unwrap();
    region.attach(segment).unwrap();
    let populated = region.populate(0..BYTES as usize);
    drop(region);
    let name = format!("SysV segment {}", segment.id());
    let after = named(&json(&[]), &name);
    segment.remove().unwrap();
    populated.unwrap();
    check("System V", 0, after, BYTES);
}

#[test]
fn page_cache_is_named_by_file() {
    let _alone = alone();
    let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("cached");
    let mut file = File::create(&path).unwrap();
    let before = json(&[]);
    if is_blind(&before) {
        return skip("needs cachestat(2) (6.5)");
    }
    fill(&mut file, BYTES);
    file.sync_all().unwrap();
    let name = path.to_str().unwrap();
    check("page cache", named(&before, name), named(&json(&[]), name), BYTES);
}

#[test]
fn data_in_pipes_is_accounted_for() {
    let _alone = alone();
    if !is_root() {
        return;
    }
    let files = Rlimit { current: Some(4096), maximum: Some(4096) };
    setrlimit(Resource::Nofile, files).unwrap();
    let before = json(&[]);
    if is_blind(&before) {
        return skip("needs cachestat(2) (6.5)");
    }
    let pipes: Vec<(PipeReader, PipeWriter)> = (0..BYTES / MIB).map(|_| full_pipe()).collect();
    check("pipes", named(&before, "pipes"), named(&json(&[]), "pipes"), BYTES);
    drop(pipes);
}

fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&writer, MIB as usize).unwrap();
    rustix::fs::fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    writer.write_all(&vec![1; MIB as usize]).unwrap();
    (reader, writer)
}

#[test]
fn idle_huge_pages_are_named() {
    let _alone = alone();
    let before = json(&[]);
    let Some(_pages) = HugePages::more(2 << 20, BYTES / (2 * MIB)) else {
        return skip("no free memory in huge pages");
    };
    let after = json(&[]);
    check("pool", part(&before, "huge_pages"), part(&after, "huge_pages"), BYTES);
    check(
        "free pages",
        named(&before, "2 MiB pages free"),
        named(&after, "2 MiB pages free"),
        BYTES,
    );
}

/// A page table for each 2 MiB of addresses, all of which lead to the page of zeros.
#[test]
fn page_tables_of_a_sparse_mapping_are_accounted_for() {
    const TABLE: usize = 2 << 20;
    /// More at once than the machine has is refused.
    const PIECE: usize = 8 << 30;
    let _alone = alone();
    let page = rustix::param::page_size();
    if page != 4096 {
        return skip("page tables of other pages than 4 KiB have another size");
    }
    let bytes = (BYTES as usize / page) * TABLE;
    let region = Region::reserve(bytes, page, TABLE).unwrap();
    for start in (0..bytes).step_by(PIECE) {
        region.map_anonymous(start..start + PIECE, false).unwrap();
    }
    if region.advise_thp(ThpAdvice::Disable).is_err() {
        eprintln!("this kernel has no transparent huge pages");
    }
    let before = part(&json(&[]), "page_tables");
    for start in (0..bytes).step_by(TABLE) {
        region.map_cached(start..start + page).unwrap();
    }
    check("page tables", before, part(&json(&[]), "page_tables"), BYTES);
}

/// Promise (All memory): What a captured tree lacks is said.
#[test]
fn a_captured_tree_is_accounted_for_and_says_what_it_lacks() {
    let tree = mw_test::fixture("tmpfs-full/firing").display().to_string();
    let account = json(&["--root", &tree]);
    assert_eq!(account["root"], tree.as_str());
    assert!(account["summary"].as_str().unwrap().contains("tmpfs /"), "{account:#}");
    let unseen = account["unseen"].as_array().unwrap();
    assert!(unseen.iter().any(|missing| missing["what"] == "/proc/PID/fd"), "{account:#}");
    assert_schema("account-v1", [&account]);
}

#[test]
fn the_first_line_is_the_sentence() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwright"));
    command.args(["explain", "--all-memory", "--root"]).arg(mw_test::fixture("healthy/host"));
    let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let first = text.lines().next().unwrap();
    assert!(first.starts_with("23.5 GiB: "), "{first}");
    assert!(first.ends_with(" unaccounted for"), "{first}");
}
