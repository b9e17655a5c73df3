//! # page-cache-compaction
//!
//! A read or write of a file compacted memory to get a large folio for the page cache.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The request did buffered I/O, and the kernel compacted memory for the
//! folios in which the page cache holds it. Huge pages are [thp-compaction](thp-compaction.md).
//!
//! ## Why it hurts
//! File systems with large folios read ahead and write in blocks of up to 2 MiB. For the order they ask the allocator
//! with `__GFP_NORETRY`, which does not retry but still allows direct compaction (`__filemap_get_folio`, mm/filemap.c;
//! `readahead_gfp_mask`, include/linux/pagemap.h); then they try a smaller order. With memory in small pieces, that is
//! compaction without effect for each step and folio, by the task that wants to read or write. A THP setting does not change
//! it.
//!
//! ## What it looks like
//! `compact_stall` and `compact_fail` in /proc/vmstat increase without `thp_fault_fallback`; tasks are in
//! `try_to_compact_pages` below `page_cache_ra_order` (read) or `__filemap_get_folio` (write); the tracepoint
//! `mm_compaction_try_to_compact_pages` has orders other than 9.
//!
//! ## How to fix it
//! For reads: a smaller readahead. The order is at most that of the window (`page_cache_ra_order`, mm/readahead.c):
//! with `read_ahead_kb` 32, folios have 8 pages. Sequential reads of slow devices become slower. For writes: the order
//! is at most that of one write(2), so that smaller writes ask for less; or direct I/O. For both:
//! [fragmented-node](fragmented-node.md) shows what keeps memory in pieces.
//!
//! ## Threshold
//! It takes at least half of the request; without a critical path, it is scored by how often a task was found in it.
//! Read on 6.1, where XFS reads ahead so, to 7.3. 5.10 has no large folios of files but those of huge tmpfs mounts.
//!
//! ## References
//! Linux, mm/readahead.c, `page_cache_ra_order()`; mm/filemap.c, `__filemap_get_folio()`; mm/page_alloc.c,
//! `__alloc_pages_slowpath()`.

use crate::stack_evidence::StackEvidence;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::kernel::{DIRECT_COMPACTION, FunctionSet};
use mw_model::{Area, Finding, Missing, Remedy, Severity, Step};

const READ_AHEAD: FunctionSet = FunctionSet::new(&["page_cache_ra_order"]);
const WRITE: FunctionSet = FunctionSet::new(&["__filemap_get_folio"]);

pub(crate) const FUNCTIONS: &[FunctionSet] = &[READ_AHEAD, WRITE];

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let below = |set: FunctionSet| {
        move |stack: &[String]| DIRECT_COMPACTION.are_in(stack) && set.are_in(stack)
    };
    let reads = StackEvidence::find(stall, below(READ_AHEAD));
    let writes = StackEvidence::find(stall, below(WRITE));
    let Some((seen, remedy)) = reads
        .map(|seen| (seen, smaller_readahead()))
        .or_else(|| writes.map(|seen| (seen, smaller_writes())))
    else {
        return Ok(None);
    };
    let headline = format!("{} compacted memory for files", seen.task());
    let finding = Finding::new(Severity::Warning, Area::Compaction, headline)
        .with_impact("Each read or write of a file compacts memory before it gets a folio.")
        .with_remedy(remedy);
    seen.cause(finding)
}

/// Readahead whose folios compaction hardly ever has to make.
fn smaller_readahead() -> Remedy {
    Remedy::named(
        "read ahead less on the device of the file, so that its folios are smaller",
        vec![Step::manual("echo 32 >/sys/block/DEVICE/queue/read_ahead_kb")],
    )
}

fn smaller_writes() -> Remedy {
    Remedy::named(
        "write less at a time, or with direct I/O; find out what keeps memory in pieces",
        vec![Step::manual("memwright explain fragmented-node")],
    )
}
