//! # min-free-too-low
//!
//! The kernel keeps too little memory free for itself.
//!
//! ## What it finds
//! `vm.min_free_kbytes` is less than half of what the kernel would choose for a machine of this
//! size.
//!
//! ## Why it hurts
//! The background reclaimer starts so late that a burst of allocations overtakes it: programs
//! reclaim by themselves, network packets are dropped for want of a page, and the reserve that
//! writing to disk needs to make progress may run out.
//!
//! ## What it looks like
//! "page allocation failure ... GFP_ATOMIC" in the kernel log; `allocstall` in /proc/vmstat moves
//! while kswapd is mostly idle.
//!
//! ## Threshold
//! The kernel's own choice is 4 * sqrt(memory in KiB), between 128 KiB and 256 MiB; distributions
//! and khugepaged only ever raise it. Less than half of it was set by hand.
//!
//! ## How to fix it
//! `memwright fix min-free-too-low` sets the kernel's own choice.
//!
//! ## References
//! Linux, mm/page_alloc.c, calculate_min_free_kbytes(); Documentation/admin-guide/sysctl/vm.rst.

use crate::watermark::{MIN_FREE, kernel_choice_kib};
use mw_model::{Finding, Missing, Quantity, Remedy, Severity, Step, Sysctl, Window, format_bytes};

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    let set_kib = snapshot.sysctl.number(MIN_FREE)?;
    let choice_kib = kernel_choice_kib(snapshot)?;
    if set_kib >= choice_kib / 2 {
        return Ok(Vec::new());
    }
    let bytes = |kib: u64| kib.saturating_mul(1024);
    let headline = format!(
        "{MIN_FREE} keeps {} free; the kernel itself would keep {}",
        format_bytes(bytes(set_kib)),
        format_bytes(bytes(choice_kib))
    );
    Ok(vec![
        Finding::new(Severity::Warning, MIN_FREE, headline)
            .seen(MIN_FREE, Quantity::Bytes(bytes(set_kib)), Sysctl::path(MIN_FREE))
            .seen("the kernel's choice", Quantity::Bytes(bytes(choice_kib)), "/proc/zoneinfo")
            .hurts(
                "Bursts of allocations overtake the background reclaimer: programs stall, packets \
                 are dropped.",
            )
            .mended_by(Remedy::automatic(
                format!("set {MIN_FREE} to {choice_kib}"),
                vec![Step::write(Sysctl::path(MIN_FREE), choice_kib)],
            )),
    ])
}
