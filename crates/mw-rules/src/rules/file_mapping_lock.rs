//! # file-mapping-lock
//!
//! Processes that map one file waited for each other to map or unmap it.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. A task that exits, maps or unmaps memory, or looks for the mappings of a
//! page, waited for the lock of all mappings of one file (i_mmap_rwsem).
//!
//! ## Why it hurts
//! The kernel keeps all mappings of a file, by whichever process, in one tree under one lock (`i_mmap_rwsem`,
//! include/linux/fs.h). To map or unmap a part of the file takes it for writing (`vma_link`, `unlink_file_vma` in
//! mm/mmap.c of Linux 5.10; `vma_prepare`, `vma_link_file`, `unlink_file_vma_batch_process` in mm/vma.c of 6.12 and
//! 7.3), reclaim and migration of its pages for reading (`rmap_walk_file`, mm/rmap.c). A library or data file that
//! thousands of processes map makes starts and exits of all of them wait in turn; each takes the lock once for every
//! mapping. 6.12 and 7.3 take it once for up to 8 neighbouring mappings at an exit (`struct unlink_vma_file_batch`),
//! 5.10 does not.
//!
//! ## What it looks like
//! Tasks in state D in `unlink_file_vma`, `vma_link_file` or `rmap_walk_file`; many processes start and end.
//!
//! ## How to fix it
//! Start fewer processes: keep them, as a connection pooler or workers with more requests each do. Which file it is,
//! the stacks do not show: compare /proc/PID/maps of the processes that wait.
//!
//! ## Threshold
//! The wait takes at least half of the request; without a critical path, it is scored by how often a task was found in
//! it.
//! Read on 5.10 to 7.3. fork(2) takes this lock in the same function as mmap_lock (`dup_mmap`), and a change of a
//! mapping in the same as that of its anonymous pages (`vma_prepare`, `__vma_adjust`): these are not told from each
//! other.
//!
//! ## References
//! Linux, Documentation/mm/process_addrs.rst; Documentation/filesystems/locking.rst; mm/rmap.c, "Lock ordering in mm".

use crate::stack_evidence::StackEvidence;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::kernel::FunctionSet;
use mw_model::{Area, Finding, Missing, Remedy, Severity, Step};

/// Functions that take the lock and no other one.
const TAKERS: FunctionSet = FunctionSet::new(&[
    "unlink_file_vma",
    "vma_link$",
    "vma_link_file",
    "rmap_walk_file",
    "__rmap_walk_file",
]);

pub(crate) const FUNCTIONS: &[FunctionSet] = &[TAKERS];

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let Some(seen) = StackEvidence::find_lock(stall, TAKERS) else { return Ok(None) };
    let headline = match seen.other() {
        Some(other) => format!("{other} held the mappings of a file"),
        None => format!("the mappings of a file blocked {}", seen.task()),
    };
    let finding = Finding::new(Severity::Warning, Area::PageCache, headline)
        .with_impact("Processes that map the file start, exit and reclaim one after the other.")
        .with_remedy(Remedy::named(
            "start fewer processes that map it",
            vec![Step::manual(
                "awk '/r-xp/ {print $6}' /proc/[0-9]*/maps | sort | uniq -c | sort -n",
            )],
        ));
    seen.cause(finding)
}
