//! All memory is accounted for: on every captured kernel within a limit, and whatever the counters say.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_collect::{Source, input};
use mw_memory::MemoryPart;
use mw_model::{AccountEntry, Holders, MemoryAccount, Reading, Snapshot};
use mw_proc::meminfo::Meminfo;
use proptest::prelude::*;

/// Upper bound of the memory that no counter has, in parts of MemTotal.
const MOST_SHARE: u64 = 100;

/// Memory that a kernel allocates for itself however small the machine is: queues of block devices, rings of
/// network cards.
const MOST_FIXED_BYTES: u64 = 5 << 20;

fn snapshot(fixture: &str) -> Snapshot {
    mw_collect::snapshot(&input::open(&mw_test::fixture(fixture)).unwrap())
}

fn account(snapshot: &Snapshot) -> MemoryAccount {
    mw_rules::account(snapshot, &Holders::default()).unwrap()
}

/// The sum of the parts of each entry is the entry.
fn check_sums(entry: &AccountEntry) {
    if !entry.parts.is_empty() {
        let sum = entry.parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.bytes));
        assert_eq!(sum, entry.bytes, "{}", entry.name);
    }
    entry.parts.iter().for_each(check_sums);
}

fn check_total(account: &MemoryAccount) {
    let sum: u64 = account.parts.iter().map(|part| part.bytes).sum();
    assert_eq!(sum, account.total_bytes + account.overcounted_bytes);
    account.parts.iter().for_each(check_sums);
}

fn bytes(entries: &[AccountEntry], wanted: MemoryPart) -> u64 {
    let is_it = |entry: &AccountEntry| if entry.id == wanted.id() { entry.bytes } else { 0 };
    entries.iter().map(|entry| is_it(entry) + bytes(&entry.parts, wanted)).sum()
}

/// False for a tree whose counters were made up.
fn is_captured(fixture: &str) -> bool {
    let archive = mw_collect::text_archive::TextArchive::load(&mw_test::fixture(fixture)).unwrap();
    let origin = archive.tree.file("origin.txt").unwrap_or_default();
    !origin.starts_with(b"Made up")
}

/// Promise (All memory): On every captured kernel less than 1% of memory, or 5 MiB, is in no counter.
#[test]
fn every_captured_kernel_is_accounted_for() {
    let (mut accounted, mut failures) = (0, Vec::new());
    for fixture in mw_test::fixtures().into_iter().filter(|fixture| is_captured(fixture)) {
        let snapshot = snapshot(&fixture);
        // Excerpts of the field report have no MemTotal.
        let Ok(account) = mw_rules::account(&snapshot, &Holders::default()) else { continue };
        accounted += 1;
        check_total(&account);
        let most = (account.total_bytes / MOST_SHARE).max(MOST_FIXED_BYTES);
        let unaccounted = bytes(&account.parts, MemoryPart::Unaccounted);
        if unaccounted > most || account.overcounted_bytes > most {
            let over = account.overcounted_bytes;
            failures.push(format!("{fixture}: {unaccounted} missing, {over} over"));
        }
    }
    assert!(accounted > 60, "{accounted}");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_kind_of_memory_is_the_largest_somewhere() {
    let share = |fixture: &str, part: MemoryPart| {
        let account = account(&snapshot(fixture));
        bytes(&account.parts, part) * 100 / account.total_bytes
    };
    assert!(share("unreclaimable-ramfs/firing", MemoryPart::UnevictableCache) > 30);
    assert!(share("unreclaimable-ramfs/firing-tmpfs", MemoryPart::Shared) > 30);
    assert!(share("hugepage-hoard/firing", MemoryPart::HugePages) > 20);
    assert!(share("slab-bloat/firing", MemoryPart::SlabUnreclaimable) > 15);
    assert!(share("slab-bloat/quiet-unused", MemoryPart::SlabReclaimable) > 5);
    assert!(share("page-cache-flood/firing", MemoryPart::DirtyCache) > 5);
    assert!(share("oom-kill/quiet", MemoryPart::Free) > 30);
    // Pages that the case keeps in pipes after their program has unmapped them.
    assert!(share("fragmented-node/firing", MemoryPart::UnmappedAnonymous) >= 3);
}

#[test]
fn a_file_system_is_named_with_what_its_files_take() {
    let account = account(&snapshot("tmpfs-full/firing"));
    let shared = account.parts.iter().find(|part| part.name == "shared memory").unwrap();
    let largest = &shared.parts[0].parts[0];
    assert!(largest.name.starts_with("tmpfs /"), "{largest:?}");
    assert!(account.summary.contains(&largest.name), "{}", account.summary);
}

/// A program that holds memory may start or end between two counters.
#[test]
fn this_machine_is_accounted_for() {
    let source = Source::live().unwrap();
    let snapshot = mw_collect::snapshot(&source);
    let holders = mw_collect::holders(&source, &snapshot);
    let account = mw_rules::account(&snapshot, &holders).unwrap();
    println!("{account:#?}");
    check_total(&account);
    let unaccounted = bytes(&account.parts, MemoryPart::Unaccounted);
    assert!(unaccounted < account.total_bytes / 50, "{account:#?}");
    assert!(account.overcounted_bytes < account.total_bytes / 50, "{account:#?}");
}

fn any_bytes() -> impl Strategy<Value = Option<u64>> {
    prop::option::of(prop_oneof![Just(0), 0..1_u64 << 20, 0..1_u64 << 50])
}

proptest! {
    /// Promise (All memory): The parts of `explain --all-memory` exclude each other and add up to MemTotal, whatever
    /// the counters say.
    #[test]
    fn parts_add_up_whatever_the_counters_say(
        total in 1..1_u64 << 50,
        free in 0..1_u64 << 50,
        lines in prop::collection::vec(any_bytes(), Meminfo::NAMES.len()),
    ) {
        let mut meminfo = Meminfo::default();
        for (name, value) in Meminfo::NAMES.iter().zip(lines) {
            meminfo.set(name, value);
        }
        meminfo.mem_total_bytes = Some(total);
        meminfo.mem_free_bytes = Some(free);
        let mut snapshot = Snapshot::default();
        snapshot.origin.page_bytes = 4096;
        snapshot.sample.meminfo = Reading::Value(meminfo);
        check_total(&account(&snapshot));
    }
}
