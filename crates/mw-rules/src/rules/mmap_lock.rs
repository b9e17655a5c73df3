//! # mmap-lock
//!
//! A thread changed a large mapping and held up all threads of its process.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The request's thread waited for mmap_lock while another thread of its
//! process populated, unmapped, locked or protected a large mapping, or forked.
//!
//! ## Why it hurts
//! The kernel changes an address space under one lock. mmap(2) with MAP_POPULATE, mlock(2), munmap(2)
//! and mprotect(2) of many GiB hold it for seconds; page faults and further calls of all threads wait.
//!
//! ## What it looks like
//! Threads are in `rwsem_down_read_slowpath` below a page fault; one thread of the process runs in
//! `populate_vma_page_range`, `unmap_vmas` or `copy_page_range`.
//!
//! ## Threshold
//! The wait takes at least half of the request.
//!
//! ## How to fix it
//! Populate and free memory in parts of some MiB, or in another process. `memwright run` does that for
//! unmodified programs; huge pages make each call 512 times as cheap.
//!
//! ## References
//! Linux, Documentation/mm/process_addrs.rst; mmap(2), mlock(2).

use crate::request::Spent;
use crate::stall::Stall;
use mw_critical_path::{KernelWork, Kind, RunMode};
use mw_model::{Cause, Finding, Missing, Remedy, Severity, Step, Subject};

const CONFIRMED: u8 = 90;
/// The holder of the lock is not known.
const INFERRED: u8 = 65;

pub(crate) fn cause(stall: &Stall<'_>) -> Result<Option<Cause>, Missing> {
    let Some(part) = stall.request.and_then(|request| request.largest(&[Spent::AddressSpace]))
    else {
        return Ok(None);
    };
    let (did, sure) = match part.kind {
        Kind::Running(RunMode::Kernel(KernelWork::Populate)) => ("populated memory", CONFIRMED),
        Kind::Running(RunMode::Kernel(KernelWork::Unmap)) => ("unmapped memory", CONFIRMED),
        Kind::Running(_) => ("changed the address space", CONFIRMED),
        _ => ("waited for mmap_lock", INFERRED),
    };
    let name = part.task.name.clone();
    let headline = format!(
        "the thread {name} ({}) {did}, and other threads of its process waited for mmap_lock",
        part.task.tid
    );
    let finding = Finding::new(Severity::Critical, Subject::Process(name), headline)
        .with_impact("Page faults and mmap calls of all threads of the process waited.")
        .with_remedy(Remedy::named(
            "populate and free memory in small parts",
            vec![Step::manual("memwright run --prefault -- COMMAND")],
        ));
    Ok(Some(Cause::new(finding, sure)))
}
