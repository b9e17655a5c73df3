//! # range-migration
//!
//! The kernel emptied a range of memory, and a task waited for pages that were moved out of it.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The request waited for a page that was moved because somebody allocated
//! contiguous memory (a gigantic page, CMA, virtio-mem) or took memory offline; or it did so itself.
//!
//! ## Why it hurts
//! A range becomes free by moving every page in it (`alloc_contig_range`, mm/page_alloc.c, and
//! `alloc_contig_frozen_range` in Linux 7.3; `offline_pages`, mm/memory_hotplug.c). Who touches a page on the move
//! waits in `migration_entry_wait` until it is mapped again. A page that cannot be moved at once is tried again, up to
//! 5 times by the one and until it can be moved or a signal comes by the other.
//!
//! ## What it looks like
//! `pgmigrate_success` in /proc/vmstat increases, and neither `numa_pages_migrated` nor `compact_isolated` nearly as
//! much. Tasks are in `migration_entry_wait`; one is in `alloc_contig_range_noprof` or `offline_pages`.
//!
//! ## How to fix it
//! Reserve gigantic pages at boot (`hugetlb_cma=`, `hugepages=`), and give memory back while nobody is served. Memory
//! that is to be taken offline again belongs into ZONE_MOVABLE (`memhp_default_state=online_movable`), and pinned pages
//! out of it.
//!
//! ## Threshold
//! The wait takes at least half of the request. Who moved the page is known from the wake-up that ended the wait, so
//! that it needs a trace: /proc/PID/stack of a waiter looks the same for compaction and NUMA balancing. Read on 5.10 to
//! 7.3.
//!
//! ## References
//! Linux, mm/page_alloc.c, `__alloc_contig_migrate_range()`; Documentation/admin-guide/mm/memory-hotplug.rst.

use crate::stack_evidence::StackEvidence;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::kernel::{FunctionSet, MIGRATION_WAIT};
use mw_model::{Area, Finding, Missing, Remedy, Severity, Step};

const ALLOCATE: FunctionSet = FunctionSet::new(&[
    "alloc_contig_range",
    "alloc_contig_frozen_range",
    "__alloc_contig_migrate_range",
]);
const OFFLINE: FunctionSet = FunctionSet::new(&["offline_pages"]);

pub(crate) const FUNCTIONS: &[FunctionSet] = &[ALLOCATE, OFFLINE];

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    const CASES: &[(FunctionSet, &str)] =
        &[(ALLOCATE, "contiguous memory"), (OFFLINE, "memory taken offline")];
    let find = |moves: FunctionSet| {
        StackEvidence::find_part(
            stall,
            |part| {
                let waits = MIGRATION_WAIT.are_in(&part.stack) && moves.are_in(&part.waker_stack);
                waits || moves.are_in(&part.stack)
            },
            |stack| moves.are_in(stack),
        )
    };
    let seen = CASES.iter().find_map(|(moves, what)| Some((find(*moves)?, what)));
    let Some((seen, what)) = seen else { return Ok(None) };
    let headline = format!("{what} held up {}", seen.task());
    let finding = Finding::new(Severity::Warning, Area::Compaction, headline)
        .with_impact("A page that is on the move cannot be accessed.")
        .with_remedy(Remedy::named(
            "reserve contiguous memory at boot; change the size of the machine while nobody is served",
            vec![Step::manual("grep -E 'pgmigrate|cma_alloc' /proc/vmstat")],
        ));
    seen.cause(finding)
}
