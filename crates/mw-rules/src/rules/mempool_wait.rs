//! # mempool-wait
//!
//! I/O waited for a reserved object, because memory was short and the reserve was in use.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The request, or the flusher or kswapd that it waited for, slept until
//! another request to a block device completed and gave its bio or buffer back.
//!
//! ## Why it hurts
//! Block devices keep a small reserve (mempool) of what one request needs, so that memory can be freed by writing when
//! none is free. `mempool_alloc` (mm/mempool.c, Linux 5.10 to 7.3) takes from it when the allocator has nothing without
//! waiting. When it is empty as well, it reclaims, then sleeps until an object comes back, for at most 5 s at a time
//! (`mempool_alloc_from_pool` in 7.3). All I/O goes at the speed of the few reserved requests then; dm-crypt, RAID and
//! swap on top of them stack several pools.
//!
//! ## What it looks like
//! Tasks in state D in `io_schedule_timeout` below `mempool_alloc`, with free memory near the min watermarks. No
//! counter shows it. A wait in the allocator below `mempool_alloc` is direct reclaim, and not this.
//!
//! ## How to fix it
//! Memory is short for allocations that may not wait: raise `vm.min_free_kbytes`
//! ([min-free-too-low](min-free-too-low.md)), or use less memory. Swap on a plain partition instead of an encrypted or
//! stacked device needs fewer objects.
//!
//! ## Threshold
//! The wait takes at least half of the request; without a critical path, it is scored by how often a task was found in
//! it.
//!
//! ## References
//! Linux, mm/mempool.c, `mempool_alloc()`; Documentation/block/biovecs.rst.

use crate::stack_evidence::StackEvidence;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::kernel::{FunctionSet, is_wait_for_lock_of};
use mw_model::{Area, Finding, Missing, Remedy, Severity, Step};

const POOL: FunctionSet = FunctionSet::new(&["mempool_alloc$", "mempool_alloc_from_pool"]);
const SLEEP: FunctionSet = FunctionSet::new(&["io_schedule_timeout"]);

pub(crate) const FUNCTIONS: &[FunctionSet] = &[POOL, SLEEP];

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let Some(seen) = StackEvidence::find(stall, waits) else { return Ok(None) };
    let headline = format!("reserved requests ran out for {}", seen.task());
    let finding = Finding::new(Severity::Warning, Area::Reclaim, headline)
        .with_impact("I/O goes on at the speed of the few requests that are reserved.")
        .with_remedy(Remedy::named(
            "keep more memory free for allocations that may not wait",
            vec![Step::manual("memwright explain min-free-too-low")],
        ));
    seen.cause(finding)
}

/// True for a task that sleeps in the pool itself, and not in the allocator that it calls.
fn waits(stack: &[String]) -> bool {
    let others: Vec<String> =
        stack.iter().filter(|function| !SLEEP.has(function)).cloned().collect();
    is_wait_for_lock_of(&others, POOL)
}
