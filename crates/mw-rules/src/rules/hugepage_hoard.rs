//! # hugepage-hoard
//!
//! Memory is reserved as huge pages that no program uses.
//!
//! ## What it finds
//! Free, unreserved pages in the hugetlb pools that make up at least a tenth of memory.
//!
//! As the cause of a stall: at least a quarter of memory was reserved and idle while tasks reclaimed.
//! The condition existed before the stall, so it scores lower than what happened during it.
//!
//! ## Why it hurts
//! A page of the pool serves hugetlb mappings and nothing else: neither the page cache nor malloc.
//! Everything else has that much less memory and reclaims that much sooner, while `free` counts the
//! pages as used.
//!
//! ## What it looks like
//! `HugePages_Free` minus `HugePages_Rsvd` in /proc/meminfo is large; MemAvailable is small, and no
//! process accounts for the difference.
//!
//! ## Threshold
//! A tenth of memory is a note: a database that is about to start needs its pool. A quarter is a
//! warning: that is commonly the whole buffer pool of a service that is down, or that failed to get its
//! huge pages and runs without them.
//!
//! ## How to fix it
//! `memwright fix hugepage-hoard` frees the idle pages. A program may be about to use them, so it is
//! done only if you name the rule.
//!
//! ## References
//! Linux, Documentation/admin-guide/mm/hugetlbpage.rst.

use crate::cause_score::{CauseScore, LATENT_MOST};
use crate::share::percent;
use crate::stall::Stall;
use mw_memory::huge_pool_dir;
use mw_model::{
    Cause, Finding, HugePool, Missing, Quantity, Remedy, Severity, Step, Subject, Window, derived,
    format_bytes,
};

const NOTE_PERCENT: f64 = 10.0;
const WARNING_PERCENT: f64 = 25.0;

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let pools = window.now.hugepages.required()?;
    let total = derived::memory_bytes(&window.now.sample)?;
    Ok(pools.iter().filter_map(|pool| finding(pool, total)).collect())
}

pub(crate) fn cause(stall: &Stall<'_>) -> Result<Option<Cause>, Missing> {
    let score = CauseScore::for_reclaim(stall).at_most(LATENT_MOST);
    let mut found = hazard(stall.window)?.into_iter().filter(|f| f.severity >= Severity::Warning);
    let Some(mut finding) = found.next() else { return score.no_cause() };
    finding.headline = score.headline(&finding.headline);
    score.cause(finding)
}

fn finding(pool: &HugePool, memory_bytes: u64) -> Option<Finding> {
    let idle_pages = pool.available_pages();
    let idle = idle_pages.saturating_mul(pool.page_bytes);
    let share = percent(idle, memory_bytes);
    if share < NOTE_PERCENT {
        return None;
    }
    let severity = if share >= WARNING_PERCENT { Severity::Warning } else { Severity::Note };
    let size = format_bytes(pool.page_bytes);
    let dir = huge_pool_dir(pool.page_bytes, None);
    let headline = format!(
        "{} are reserved as {size} huge pages that no program uses ({share:.0}% of memory)",
        format_bytes(idle)
    );
    let keep = pool.total_pages.saturating_sub(idle_pages).saturating_sub(pool.surplus_pages);
    Some(
        Finding::new(severity, Subject::HugePool(pool.page_bytes), headline)
            .with_evidence("nr_hugepages", Quantity::Count(pool.total_pages), dir.clone())
            .with_evidence("free_hugepages", Quantity::Count(pool.free_pages), dir.clone())
            .with_evidence("resv_hugepages", Quantity::Count(pool.reserved_pages), dir.clone())
            .with_impact("Everything that does not use huge pages has that much less memory.")
            .with_remedy(Remedy::named(
                format!("shrink the pool to the {keep} pages that are in use or reserved"),
                vec![Step::write(format!("{dir}/nr_hugepages"), keep)],
            )),
    )
}
