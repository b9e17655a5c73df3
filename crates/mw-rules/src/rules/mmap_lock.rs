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
//! The kernel changes an address space under one lock. mmap(2) with MAP_POPULATE, mlock(2), munmap(2)
//! and mprotect(2) of many GiB hold it for seconds; page faults and further calls of all threads wait. A reader of
//! /proc/PID/smaps holds it as well: the next thread that changes a mapping waits for it, and all others behind.
//!
//! ## What it looks like
//! Threads are in `rwsem_down_read_slowpath` below a page fault; one thread of the process runs in
//! `populate_vma_page_range`, `unmap_vmas` or `change_protection`.
//!
//! ## How to fix it
//! Populate and free memory in parts of some MiB, or in another process. `memwright run` does that for
//! unmodified programs; huge pages make each call 512 times as cheap. Read /proc/PID/smaps_rollup, and seldom.
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

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let Some(part) = stall.request.and_then(|request| request.largest(&[TimeClass::AddressSpace]))
    else {
        return Ok(None);
    };
    let name = part.task.name.clone();
    let (headline, sure) = headline(part);
    let remedy = if reads(part) {
        Remedy::named(
            "read smaps_rollup instead of smaps, and less often",
            vec![Step::manual("cat /proc/PID/smaps_rollup")],
        )
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
