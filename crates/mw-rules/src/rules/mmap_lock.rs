//! # mmap-lock
//!
//! A thread changed a large mapping and held up all threads of its process.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The request's thread waited for mmap_lock while another thread of its
//! process populated, unmapped, locked or protected a large mapping, or while another process read its mappings.
//! The thread is named with its system call. A fork that holds the lock is [fork-copy](fork-copy.md).
//!
//! ## Why it hurts
//! The kernel changes an address space under one lock. mprotect(2) and mremap(2) of many GiB hold it for writing, for
//! seconds; mmap(2) with MAP_POPULATE, mlock(2) and the part of munmap(2) that frees pages hold it for reading. Threads
//! that only read wait for a reader no earlier than behind a thread that waits to write, which is any that changes a
//! mapping. Since Linux 6.4 most page faults take the lock of one mapping instead (`lock_vma_under_rcu`, mm/memory.c),
//! and wait only where that mapping changes, or where they have to fall back to mmap_lock.
//!
//! A reader of /proc/PID/smaps or smaps_rollup holds the lock for reading as well. Both walk the same page tables. smaps
//! releases the lock with each read(2), smaps_rollup between two mappings, and only where others wait for it
//! (`show_smaps_rollup`, fs/proc/task_mmu.c). Since Linux 7.3 smaps takes the lock of one mapping alone
//! (`lock_vma_range`, same file), smaps_rollup still mmap_lock.
//!
//! ## What it looks like
//! Threads are in `rwsem_down_read_slowpath` below a page fault; one thread of the process runs in
//! `populate_vma_page_range`, `unmap_vmas` or `change_protection`.
//!
//! ## How to fix it
//! Populate and free memory in parts of some MiB, or in another process. `memwright run` does that for
//! unmodified programs; huge pages make each call 512 times as cheap.
//!
//! Read smaps and smaps_rollup less often, and since Linux 7.3 smaps rather than smaps_rollup. Where a sum without shared
//! pages counted twice is enough, memory.stat of the cgroup has it without a walk and without the lock.
//!
//! ## Threshold
//! The wait takes at least half of the request.
//!
//! ## References
//! Linux, Documentation/mm/process_addrs.rst; mmap(2), mlock(2), mprotect(2).

use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::TimeClass;
use mw_critical_path::kernel::{self, FunctionSet};
use mw_critical_path::{KernelWork, PathPart, RunMode, TimeKind};
use mw_model::{Finding, Missing, Remedy, Severity, Step, Subject};
use mw_proc::version::KernelVersion;

const CONFIRMED: u8 = 90;
/// The holder of the lock is not known.
const INFERRED: u8 = 65;

/// Calls that hold mmap_lock, by a function of each. mlock(2) populates, so that it precedes mmap(2).
const CALLS: &[(&str, FunctionSet)] = &[
    ("in mlock(2)", FunctionSet::new(&["do_mlock", "__do_sys_mlockall", "__x64_sys_mlockall"])),
    ("in mprotect(2)", FunctionSet::new(&["do_mprotect_pkey", "mprotect_fixup"])),
    (
        "in mremap(2)",
        FunctionSet::new(&["__do_sys_mremap", "__x64_sys_mremap", "move_page_tables"]),
    ),
    ("in munmap(2)", FunctionSet::new(&["__vm_munmap", "__x64_sys_munmap"])),
    ("in madvise(2)", FunctionSet::new(&["do_madvise", "__x64_sys_madvise"])),
    ("in brk(2)", FunctionSet::new(&["__do_sys_brk", "__x64_sys_brk"])),
    ("in mmap(2)", FunctionSet::new(&["vm_mmap_pgoff", "ksys_mmap_pgoff"])),
    ("to collapse huge pages", kernel::COLLAPSE),
];

/// Reading the page tables of all mappings, and of all of them under one lock.
const SMAPS: FunctionSet = FunctionSet::new(&["show_smap"]);
const SMAPS_ROLLUP: FunctionSet = FunctionSet::new(&["show_smaps_rollup"]);

/// Every set of this file, and what it recognizes.
pub(crate) fn sets() -> impl Iterator<Item = (&'static str, FunctionSet)> {
    CALLS.iter().copied().chain([("smaps", SMAPS), ("smaps_rollup", SMAPS_ROLLUP)])
}

/// Since then, smaps takes the lock of one mapping instead of mmap_lock.
const SMAPS_BY_MAPPING: KernelVersion = KernelVersion::new(7, 3, 0);

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let Some(part) = stall.request.and_then(|request| request.largest(&[TimeClass::AddressSpace]))
    else {
        return Ok(None);
    };
    let name = part.task.name.clone();
    let (headline, sure) = headline(part);
    let remedy = if reads(part) {
        reader_remedy(part, stall.window.now.origin.kernel)
    } else {
        Remedy::named(
            "populate and free memory in small parts",
            vec![Step::manual("memwright run --prefault -- COMMAND")],
        )
    };
    let finding = Finding::new(Severity::Critical, Subject::Process(name), headline)
        .with_impact("Page faults and mmap calls of all threads of the process waited.")
        .with_remedy(remedy);
    Ok(Some(Suspect::new(finding, sure)))
}

/// Remedy for a reader of mappings, by the file that it read and by the lock that this kernel takes for it.
fn reader_remedy(part: &PathPart, kernel: Option<KernelVersion>) -> Remedy {
    if !SMAPS.are_in(&part.stack) {
        return Remedy::named(
            "read the mappings and the memory of the process less often",
            vec![Step::manual("run the program that reads them less often")],
        );
    }
    let by_group = Step::manual("cat /sys/fs/cgroup/GROUP/memory.stat");
    if SMAPS_ROLLUP.are_in(&part.stack) && kernel.is_some_and(|kernel| kernel >= SMAPS_BY_MAPPING) {
        return Remedy::named(
            "read smaps, which locks one mapping at a time, instead of smaps_rollup, and less often",
            vec![Step::manual("cat /proc/PID/smaps"), by_group],
        );
    }
    Remedy::named(
        "read smaps and smaps_rollup less often, or the memory of the cgroup instead",
        vec![by_group],
    )
}

/// True if the part's task read the mappings of another process.
fn reads(part: &PathPart) -> bool {
    kernel::MMAP_LOCK_READERS.are_in(&part.stack)
}

fn headline(part: &PathPart) -> (String, u8) {
    let who = part.task.label();
    if reads(part) {
        return (format!("{who} held mmap_lock to read the mappings"), CONFIRMED);
    }
    let call = CALLS.iter().find(|(_, functions)| functions.are_in(&part.stack));
    let (did, sure) = match (part.kind, call) {
        (TimeKind::Running(_), Some((call, _))) => (*call, CONFIRMED),
        (TimeKind::Running(RunMode::Kernel(KernelWork::Populate)), None) => {
            ("to populate", CONFIRMED)
        }
        (TimeKind::Running(RunMode::Kernel(KernelWork::Unmap)), None) => ("to unmap", CONFIRMED),
        (TimeKind::Running(_), None) => ("to change mappings", CONFIRMED),
        _ => return (format!("{who} waited for mmap_lock"), INFERRED),
    };
    (format!("{who} held mmap_lock {did}"), sure)
}
