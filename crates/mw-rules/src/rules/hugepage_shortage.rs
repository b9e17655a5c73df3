//! # hugepage-shortage
//!
//! The kernel allocated fewer huge pages than were configured.
//!
//! ## What it finds
//! The boot line (`hugepages=`) or a sysctl file (`vm.nr_hugepages`) configures more huge pages than the
//! pool has; or, where neither does, the kernel has failed to enlarge a pool since boot.
//!
//! As the cause of a stall: a pool was being enlarged (`htlb_buddy_alloc_success` and `_fail`
//! increased) while tasks waited in compaction, or were blocked allocating pages for it.
//!
//! ## Why it hurts
//! The kernel allocates what it can and reports no error. The database then fails to start, or starts
//! on 4 KiB pages: slower to populate and to lock, with more memory for page tables, while the pool's
//! pages are of no use to any program.
//!
//! ## What it looks like
//! `HugePages_Total` is smaller than configured; `htlb_buddy_alloc_fail` in /proc/vmstat is not 0.
//!
//! ## How to fix it
//! `memwright fix hugepage-shortage` compacts memory and writes the number again. That moves pages of
//! running programs, so it is done only if you name the rule, and not if more is missing than is
//! available: writing the number again would evict everything else. If it does not help, only a reboot
//! with `hugepages=N` on the boot line allocates them all, before anything else uses the memory. If the
//! boot line set the number, it is too large for the machine. A pool keeps the pages between two runs of
//! a program, so that a restart does not have to allocate them again (`memwright pool create NAME --huge
//! 2M`, then `memwright run --pool NAME`).
//!
//! ## Threshold
//! Any missing page is a warning. It is critical if less than half was allocated, and the rest cannot
//! certainly be allocated now. A failure for which the configured number is unknown is a note.
//!
//! ## References
//! Linux, Documentation/admin-guide/mm/hugetlbpage.rst; Documentation/admin-guide/kernel-parameters.txt.

use crate::cause_score::CauseScore;
use crate::preflight;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::kernel::HUGE_POOL;
use mw_memory::huge_pool_dir;
use mw_model::{
    Area, Finding, HugePool, HugepagesWanted, Missing, PoolGrowth, Quantity, Remedy, Severity,
    Snapshot, Step, Subject, Window, derived, format_bytes, format_count,
};
use mw_proc::vmstat::Counter;

const BOOT_LINE: &str = "/proc/cmdline";

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let pools = window.now.hugepages.required()?;
    let wanted = window.now.hugepages_wanted.required()?;
    let vmstat = window.now.sample.vmstat.value();
    let failures = vmstat.and_then(|v| v.get(Counter::HtlbBuddyAllocFail));
    let available = derived::ready_bytes(&window.now).unwrap_or(u64::MAX);
    let mut findings: Vec<Finding> = pools
        .iter()
        .filter_map(|pool| {
            // Sysctl files are applied after the boot line, in their order: the last one counts.
            let configured = wanted.iter().rfind(|wanted| wanted.page_bytes == pool.page_bytes)?;
            finding(&window.now, pool, configured, failures, available)
        })
        .collect();
    if findings.is_empty() {
        findings.extend(failures.filter(|count| *count > 0).map(failed_allocations));
    }
    Ok(findings)
}

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    const MADE: &[Counter] = &[Counter::HtlbBuddyAllocSuccess, Counter::HtlbBuddyAllocFail];
    let score = CauseScore::for_compaction(stall).blocked_in(&[HUGE_POOL]).profile(&[HUGE_POOL]);
    let made = stall.rate(MADE);
    if made.as_ref().is_ok_and(|rate| *rate <= 0.0) {
        return score.no_cause();
    }
    let rate = made?;
    let score = score.with_evidence(
        "allocations for pools, successful and failed",
        Quantity::PerSecond(rate),
        "/proc/vmstat",
    );
    let headline = "the kernel compacted for a huge page pool";
    let finding = Finding::new(Severity::Critical, Area::HugePools, headline)
        .with_impact("Enlarging a pool at run time moves pages of other programs.")
        .with_remedy(Remedy::named(
            "reserve huge pages at boot",
            vec![Step::BootParameter { parameter: "hugepages=N".to_owned() }],
        ));
    score.cause(finding)
}

/// The pool was enlarged at run time, and the number is unknown.
fn failed_allocations(failures: u64) -> Finding {
    let headline = format!(
        "the kernel has failed to allocate a huge page {} since boot",
        format_count(failures, "time")
    );
    Finding::new(Severity::Note, Area::HugePools, headline)
        .with_evidence("htlb_buddy_alloc_fail", Quantity::Count(failures), "/proc/vmstat")
        .with_impact("A pool that was enlarged at run time may be smaller than configured.")
        .with_remedy(Remedy::named(
            "compare nr_hugepages with the number that was written, and reserve huge pages at boot",
            vec![Step::BootParameter { parameter: "hugepages=N".to_owned() }],
        ))
}

/// Bytes that the nodes can certainly provide in huge pages of this size.
fn certain_bytes(snapshot: &Snapshot, page_bytes: u64) -> u64 {
    let supplies = preflight::huge_supplies(snapshot, page_bytes).unwrap_or_default();
    let least = |growth: PoolGrowth| growth.least_bytes.unwrap_or(growth.now_bytes);
    derived::total(supplies.into_iter().map(|(_, supply)| least(supply.growth)))
}

fn finding(
    snapshot: &Snapshot,
    pool: &HugePool,
    configured: &HugepagesWanted,
    failures: Option<u64>,
    available_bytes: u64,
) -> Option<Finding> {
    let has = pool.total_pages.saturating_sub(pool.surplus_pages);
    let missing = configured.pages.checked_sub(has).filter(|missing| *missing > 0)?;
    let missing_bytes = missing.saturating_mul(pool.page_bytes);
    let is_little = has < configured.pages / 2;
    let severity = if is_little && certain_bytes(snapshot, pool.page_bytes) < missing_bytes {
        Severity::Critical
    } else {
        Severity::Warning
    };
    let size = format_bytes(pool.page_bytes);
    let headline = format!(
        "{} configures {} huge pages of {size}, the kernel allocated {has}: {} are missing",
        configured.source,
        configured.pages,
        format_bytes(missing_bytes)
    );
    let file = format!("{}/nr_hugepages", huge_pool_dir(pool.page_bytes, None));
    let mut finding = Finding::new(severity, Subject::HugePool(pool.page_bytes), headline)
        .with_evidence("configured", Quantity::Count(configured.pages), configured.source.clone())
        .with_evidence("nr_hugepages", Quantity::Count(has), file.clone())
        .with_impact("Programs that need these huge pages fail to start, or run on 4 KiB pages.")
        .with_remedy(remedy(configured, &file, missing, available_bytes));
    if let Some(count) = failures {
        finding =
            finding.with_evidence("htlb_buddy_alloc_fail", Quantity::Count(count), "/proc/vmstat");
    }
    Some(finding)
}

fn remedy(configured: &HugepagesWanted, file: &str, missing: u64, available_bytes: u64) -> Remedy {
    if configured.source == BOOT_LINE {
        return Remedy::named(
            "reserve fewer huge pages on the boot line: memory is too small for so many",
            vec![Step::BootParameter { parameter: "hugepages=N, with a smaller N".to_owned() }],
        );
    }
    let missing_bytes = missing.saturating_mul(configured.page_bytes);
    if missing_bytes > available_bytes {
        // Writing the number again would only evict everything else.
        let missing = format_bytes(missing_bytes);
        let command = format!(
            "configure fewer in {}: {missing} are missing, and {} of memory is available",
            configured.source,
            format_bytes(available_bytes)
        );
        let summary = "configure fewer huge pages, or reserve them at boot: too little memory is available now";
        return Remedy::named(summary, vec![Step::manual(command), at_boot(configured)]);
    }
    Remedy::named(
        format!(
            "compact memory and set the pool to {} again",
            format_count(configured.pages, "page")
        ),
        vec![
            Step::Once { path: "/proc/sys/vm/compact_memory".to_owned(), value: "1".to_owned() },
            Step::write(file, configured.pages),
            at_boot(configured),
        ],
    )
}

fn at_boot(configured: &HugepagesWanted) -> Step {
    let parameter =
        format!("hugepagesz={}M hugepages={}", configured.page_bytes >> 20, configured.pages);
    Step::BootParameter { parameter }
}
