//! # thp-compaction
//!
//! Page faults compact memory to allocate a transparent huge page.
//!
//! ## What it finds
//! Transparent huge pages of some size are enabled for every program (`enabled` is `always`) and a fault that
//! finds no free page of that size compacts at once (`defrag` is `always`); or faults are compacting right now.
//! Since Linux 6.8 each size has a switch of its own (`hugepages-64kB/enabled`), `defrag` counts for all
//! (`alloc_anon_folio`, mm/memory.c).
//!
//! As the cause of a stall: tasks waited in compaction for blocks of a huge page's size while the
//! settings let faults compact, or direct compactions increased by at least 10 a second, or the kernel
//! profile shows compaction that was not there before.
//!
//! ## Why it hurts
//! A page fault of any thread may block for as long as the kernel takes to move pages. A database
//! refused all connections for 5 to 20 s at a time; its profile showed `compaction_alloc`.
//!
//! ## What it looks like
//! System time rises for seconds in all threads of the program; `compact_stall` in /proc/vmstat
//! increases, and `compact_fail` with it when memory is badly fragmented.
//!
//! `compact_stall` counts any allocation of a large block, of slab, drivers and the page cache as well, and until
//! Linux 6.12 at least also those whose compaction was deferred, for which the kernel did nothing (mm/page_alloc.c,
//! `__alloc_pages_direct_compact()`). It counts here only while `compact_migrate_scanned` increases by more than
//! `compact_daemon_migrate_scanned`.
//!
//! ## How to fix it
//! `memwright fix thp-compaction` sets `defrag` to `defer+madvise` (kernel 4.11; `madvise` before):
//! programs that request huge pages still wait for them, all others get them in the background. Huge
//! pages stay enabled. If programs that request them must not wait either, set `defer`: in our
//! measurements 1 GiB of such memory took 9.7 s with `always` and 1.5 s with `defer`, and where memory
//! is fragmented `defer` got as many huge pages (docs/evaluations). Shared memory from a pool
//! (`memwright run --pool NAME`) is not affected: nothing is allocated.
//!
//! ## Threshold
//! `always` for both is a warning, since the stall shows only when memory is fragmented, and a note where tasks have
//! compacted less than once a minute since the machine was started, an hour ago or longer (`compact_stall`). Faults compact
//! now if direct compactions increase by 10 a second, and so do `thp_fault_alloc` and `thp_fault_fallback`
//! together (in our reproduction of the field report by 108 a second), over a second at least. It is critical if
//! half of that fails and a node cannot provide a quarter of its memory in huge pages (see
//! fragmented-node); a program that advises huge pages and gets them is a note. The kernel's own default
//! has been `madvise` since 4.6 because of such stalls.
//!
//! ## References
//! Linux, Documentation/admin-guide/mm/transhuge.rst; commit 444eb2a449ef ("mm: thp: set THP defrag by
//! default to madvise").

use crate::cause_score::CauseScore;
use crate::outlook;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_model::{
    Area, Finding, Missing, Quantity, Remedy, Severity, Step, Thp, VmActivity, Window, derived,
};
use mw_proc::vmstat::Counter;

const DEFRAG: &str = "/sys/kernel/mm/transparent_hugepage/defrag";
const ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Settings that keep faults from compacting, the best first.
const BETTER: [&str; 3] = ["defer+madvise", "madvise", "never"];

const STALLS_NOW_PER_S: f64 = 10.0;

/// Uptime from which on it shows something that tasks have seldom compacted.
const LONG_UPTIME_S: f64 = 3600.0;

/// Between two direct compactions, on average since the machine was started, that are seldom.
const SELDOM_S: f64 = 60.0;

/// Page faults for huge pages.
const FAULTS: &[Counter] = &[Counter::ThpFaultAlloc, Counter::ThpFaultFallback];

/// The score's factor where the setting is mild and programs request huge pages: then the remedy is
/// less fragmentation.
const IF_REQUESTED: f64 = 0.85;

/// The score's factor while a pool of huge pages is being enlarged.
const IF_FOR_A_POOL: f64 = 0.7;

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let thp = window.now.thp.required()?;
    let every_fault = every_fault_compacts(thp);
    let rate = window.activity(VmActivity::DirectCompactions).unwrap_or(0.0);
    let rate = rate.min(faults_per_s(window));
    let is_off = thp.enabled.selected() == Some("never");
    let compacting = !is_off && window.is_sustained() && rate >= STALLS_NOW_PER_S;
    if !every_fault && !compacting {
        return Ok(Vec::new());
    }
    let vmstat = window.now.sample.vmstat.value();
    let count = |counter| vmstat.and_then(|v| v.get(counter)).unwrap_or(0);
    let (stalls, failed) = (count(Counter::CompactStall), count(Counter::CompactFail));
    let severity = severity(window, every_fault, compacting);
    let headline = if compacting {
        format!("page faults are compacting memory now, {rate:.0} a second")
    } else {
        "any page fault may block to compact memory for a transparent huge page".to_owned()
    };
    let selected = |choice: Option<&str>| Quantity::Text(choice.unwrap_or("none").to_owned());
    let finding = Finding::new(severity, Area::TransparentHugePages, headline)
        .with_evidence("enabled", selected(thp.enabled.selected()), ENABLED)
        .with_evidence("defrag", selected(thp.defrag.selected()), DEFRAG)
        .with_evidence("compact_stall since boot", Quantity::Count(stalls), "/proc/vmstat")
        .with_evidence("compact_fail since boot", Quantity::Count(failed), "/proc/vmstat")
        .with_impact(
            "Threads block in page faults while the kernel moves pages: for seconds, where free memory is in small pieces.",
        );
    Ok(vec![finding.with_remedy(remedy(thp))])
}

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let snapshot = &stall.window.now;
    let thp = snapshot.thp.required()?;
    let huge_order =
        derived::order_of(derived::huge_page_bytes(snapshot), snapshot.origin.page_bytes);
    let sizes: Vec<usize> = sizes_of_every_fault(thp, derived::huge_page_bytes(snapshot))
        .map(|bytes| derived::order_of(bytes, snapshot.origin.page_bytes))
        .collect();
    let wanted = stall.order_wanted().map(|order| order as usize);
    let is_of_size = wanted.is_none_or(|order| order >= huge_order || sizes.contains(&order));
    if (thp.enabled.selected() == Some("never") && sizes.is_empty()) || !is_of_size {
        return Ok(None);
    }
    let settings_are_the_cause = every_fault_compacts(thp);
    let score = CauseScore::for_compaction(stall)
        .scaled(if settings_are_the_cause { 1.0 } else { IF_REQUESTED })
        .scaled(if is_for_a_pool(stall) { IF_FOR_A_POOL } else { 1.0 });
    let who = score.longest_waiter().unwrap_or("tasks");
    let is_fault =
        stall.order_wanted().is_some() || stall.rate(FAULTS).map_or(true, |faults| faults > 0.0);
    let what = if is_fault { "huge pages" } else { "large blocks" };
    let headline = format!("{who} compacted memory for {what}");
    let failed = stall.rate(&[Counter::CompactFail]).unwrap_or(0.0);
    let selected = |choice: Option<&str>| Quantity::Text(choice.unwrap_or("none").to_owned());
    let finding = Finding::new(Severity::Critical, Area::TransparentHugePages, headline)
        .with_evidence("compact_fail", Quantity::PerSecond(failed), "/proc/vmstat")
        .with_evidence("enabled", selected(thp.enabled.selected()), ENABLED)
        .with_evidence("defrag", selected(thp.defrag.selected()), DEFRAG)
        .with_impact("Threads blocked in allocations while the kernel moved pages.")
        .with_remedy(remedy(thp));
    score.cause(finding)
}

/// Compaction that succeeds is what a program asks for that advises huge pages. Where it mostly fails, every fault waits for
/// nothing, unless other nodes have the pages.
fn severity(window: &Window, every_fault: bool, compacting: bool) -> Severity {
    let huge_bytes = derived::huge_page_bytes(&window.now);
    let in_vain = compacting && outlook::compaction_fails(window);
    if in_vain && !outlook::is_served_in_huge_pages(&window.now, huge_bytes) {
        Severity::Critical
    } else if in_vain || (every_fault && !compacts_seldom(window)) {
        Severity::Warning
    } else {
        Severity::Note
    }
}

/// True if tasks have seldom compacted since the machine was started, an hour ago or longer: `compact_stall` counts each
/// that tried, whatever it wanted.
fn compacts_seldom(window: &Window) -> bool {
    let stalls = window.now.sample.vmstat.value().and_then(|v| v.get(Counter::CompactStall));
    let uptime_s = window.now.origin.uptime_s.filter(|seconds| *seconds >= LONG_UPTIME_S);
    stalls.zip(uptime_s).is_some_and(|(stalls, uptime_s)| stalls as f64 * SELDOM_S <= uptime_s)
}

/// Page faults a second for huge pages: the page cache and kernel objects have the kernel compact as well.
fn faults_per_s(window: &Window) -> f64 {
    window.rate_of(FAULTS).unwrap_or(0.0)
}

/// True if the settings let every fault that finds no huge page compact.
pub(crate) fn every_fault_compacts(thp: &Thp) -> bool {
    let any = sizes_of_every_fault(thp, thp.pmd_bytes.unwrap_or(0)).next();
    any.is_some() && thp.defrag.selected() == Some("always")
}

/// Sizes in bytes that every fault of private memory tries. Where sizes have switches of their own, the common one is for
/// those that inherit it.
fn sizes_of_every_fault(thp: &Thp, huge_bytes: u64) -> impl Iterator<Item = u64> {
    let is_common = thp.enabled.selected() == Some("always");
    let has_own = thp.sizes.iter().any(|size| size.page_bytes == huge_bytes);
    let of_sizes = thp.sizes.iter().filter(move |size| match size.enabled.selected() {
        Some("always") => true,
        Some("inherit") => is_common,
        _ => false,
    });
    let huge = (is_common && !has_own).then_some(huge_bytes);
    of_sizes.map(|size| size.page_bytes).chain(huge)
}

/// True if pages were allocated for a pool of huge pages at the same rate.
fn is_for_a_pool(stall: &StallWindow<'_>) -> bool {
    let rate = |counters: &[Counter]| stall.rate(counters).unwrap_or(0.0);
    let of_pools = rate(&[Counter::HtlbBuddyAllocSuccess, Counter::HtlbBuddyAllocFail]);
    of_pools > 0.0 && of_pools * 2.0 >= rate(&[Counter::CompactStall])
}

fn remedy(thp: &Thp) -> Remedy {
    let in_force = thp.defrag.selected();
    match BETTER.iter().find(|better| thp.defrag.offers(better)) {
        Some(better) if in_force == Some("always") => Remedy::automatic(
            format!("set transparent_hugepage/defrag to {better}"),
            vec![Step::write(DEFRAG, better)],
        ),
        _ => Remedy::named(
            "reduce the fragmentation: faults compact although the setting is mild, because a \
             program requests huge pages (madvise) or other large blocks",
            vec![Step::manual("memwright explain fragmented-node")],
        ),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use mw_model::ThpSize;
    use mw_proc::choice::Choice;

    #[test]
    fn folios_of_every_fault_compact_as_huge_pages_do() {
        let choice = |text: &str| Choice::parse(text.as_bytes()).unwrap();
        let thp = |enabled: &str, sizes: &[(u64, &str)]| Thp {
            enabled: choice(enabled),
            defrag: choice("[always] defer defer+madvise madvise never\n"),
            pmd_bytes: Some(2 << 20),
            sizes: sizes
                .iter()
                .map(|(kib, text)| ThpSize {
                    page_bytes: kib << 10,
                    enabled: choice(text),
                    shmem_enabled: None,
                })
                .collect(),
            ..Thp::default()
        };
        let (always, madvise) = ("[always] madvise never\n", "always [madvise] never\n");
        let own = "[always] inherit madvise never\n";
        let (inherits, never) =
            ("always [inherit] madvise never\n", "always inherit madvise [never]\n");
        for (enabled, sizes, expected) in [
            (always, &[][..], true),
            (madvise, &[], false),
            (madvise, &[(64, own), (2048, inherits)], true),
            (madvise, &[(64, never), (2048, inherits)], false),
            (always, &[(64, never), (2048, inherits)], true),
            (always, &[(64, never), (2048, never)], false),
        ] {
            assert_eq!(every_fault_compacts(&thp(enabled, sizes)), expected, "{enabled} {sizes:?}");
        }
    }
}
