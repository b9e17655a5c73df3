//! # hugepage-shortage
//!
//! Somebody asked for huge pages and the kernel gave fewer.
//!
//! ## What it finds
//! A boot line (`hugepages=`) or a sysctl file (`vm.nr_hugepages`) asks for more huge pages than
//! the pool has; or, where neither does, the kernel has failed to enlarge a pool since boot.
//!
//! As the cause of a stall: a pool was being enlarged (`htlb_buddy_alloc_success` and `_fail` went up) while
//! tasks waited in compaction, or were found stuck making pages for it.
//!
//! ## Why it hurts
//! The kernel gives what it can and says nothing. The database then fails to start, or starts on
//! 4 KiB pages: slower to create and to lock, more memory for page tables, and the pool's pages are
//! lost to everybody.
//!
//! ## What it looks like
//! `HugePages_Total` is smaller than what was configured; `htlb_buddy_alloc_fail` in /proc/vmstat
//! is not 0.
//!
//! ## Threshold
//! Any page that is missing is a warning. It is critical when less than half was given. A failure of
//! which nothing says how many pages were wanted is a note.
//!
//! ## How to fix it
//! `memwright fix hugepage-shortage` compacts memory and asks again; that moves pages of running
//! programs, so it is done only when asked for by name, and not where more is missing than memory is
//! available: asking again would drive everything else out. If it does not help, only a reboot with
//! `hugepages=N` on the boot line gets them all: before anything else is in memory. If it was the
//! boot line that asked, it asked for more than there is. So that a restart does not have to find them
//! again, a pool keeps them between two runs of a program (`memwright pool create NAME --huge 2M`, then
//! `memwright run --pool NAME`).
//!
//! ## References
//! Linux, Documentation/admin-guide/mm/hugetlbpage.rst; Documentation/admin-guide/kernel-parameters.txt.

use crate::kernel::HUGE_POOL;
use crate::stall::Stall;
use crate::suspicion::Suspicion;
use mw_model::{
    Cause, Finding, HugePool, HugepagesWanted, Missing, Quantity, Remedy, Severity, Step, Window,
    derived, format_bytes,
};
use mw_proc::vmstat::Counter;

const BOOT_LINE: &str = "/proc/cmdline";

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let pools = window.now.hugepages.need()?;
    let wanted = window.now.hugepages_wanted.need()?;
    let vmstat = window.now.sample.vmstat.seen();
    let failures = vmstat.and_then(|v| v.get(Counter::HtlbBuddyAllocFail));
    let available = derived::ready_bytes(&window.now).unwrap_or(u64::MAX);
    let mut findings: Vec<Finding> = pools
        .iter()
        .filter_map(|pool| {
            // Sysctl files are applied after the boot line, in their order: the last one counts.
            let asked = wanted.iter().rfind(|wanted| wanted.page_bytes == pool.page_bytes)?;
            finding(pool, asked, failures, available)
        })
        .collect();
    if findings.is_empty() {
        findings.extend(failures.filter(|count| *count > 0).map(refused));
    }
    Ok(findings)
}

pub(crate) fn cause(stall: &Stall<'_>) -> Result<Option<Cause>, Missing> {
    const MADE: &[Counter] = &[Counter::HtlbBuddyAllocSuccess, Counter::HtlbBuddyAllocFail];
    let suspicion = Suspicion::of_compaction(stall).stuck(HUGE_POOL).profile(HUGE_POOL);
    let made = stall.rate(MADE);
    if made.as_ref().is_ok_and(|rate| *rate <= 0.0) {
        return suspicion.nothing();
    }
    let rate = made?;
    let suspicion =
        suspicion.see("pages made or missed for pools", Quantity::PerSecond(rate), "/proc/vmstat");
    let headline =
        suspicion.said("a pool of huge pages was being enlarged, and memory compacted for it");
    let finding = Finding::new(Severity::Critical, "pools of huge pages", headline)
        .hurts("Whoever enlarges a pool at run time moves other programs' pages for it.")
        .mended_by(Remedy::named(
            "ask for huge pages at boot",
            vec![Step::BootParameter { parameter: "hugepages=N".to_owned() }],
        ));
    suspicion.cause(finding)
}

/// Somebody asked at run time, and nothing says for how many.
fn refused(failures: u64) -> Finding {
    let headline = format!("{failures} times since boot the kernel found no huge page to give");
    Finding::new(Severity::Note, "pools of huge pages", headline)
        .seen("htlb_buddy_alloc_fail", Quantity::Count(failures), "/proc/vmstat")
        .hurts("A pool that was enlarged at run time may be smaller than what was asked for.")
        .mended_by(Remedy::named(
            "compare nr_hugepages with what was asked for, and ask at boot",
            vec![Step::BootParameter { parameter: "hugepages=N".to_owned() }],
        ))
}

fn finding(
    pool: &HugePool,
    asked: &HugepagesWanted,
    failures: Option<u64>,
    available_bytes: u64,
) -> Option<Finding> {
    let has = pool.total_pages.saturating_sub(pool.surplus_pages);
    let lacks = asked.pages.checked_sub(has).filter(|lacks| *lacks > 0)?;
    let severity = if has < asked.pages / 2 { Severity::Critical } else { Severity::Warning };
    let size = format_bytes(pool.page_bytes);
    let headline = format!(
        "{} asks for {} huge pages of {size} and the kernel gave {has}: {} are missing",
        asked.source,
        asked.pages,
        format_bytes(lacks.saturating_mul(pool.page_bytes))
    );
    let file =
        format!("/sys/kernel/mm/hugepages/hugepages-{}kB/nr_hugepages", pool.page_bytes / 1024);
    let mut finding = Finding::new(severity, format!("pool of {size} pages"), headline)
        .seen("asked for", Quantity::Count(asked.pages), asked.source.clone())
        .seen("nr_hugepages", Quantity::Count(has), file.clone())
        .hurts("What was to run on huge pages fails to start, or runs on 4 KiB pages.")
        .mended_by(remedy(asked, &file, lacks, available_bytes));
    if let Some(count) = failures {
        finding = finding.seen("htlb_buddy_alloc_fail", Quantity::Count(count), "/proc/vmstat");
    }
    Some(finding)
}

fn remedy(asked: &HugepagesWanted, file: &str, lacks: u64, available_bytes: u64) -> Remedy {
    if asked.source == BOOT_LINE {
        return Remedy::named(
            "ask for fewer huge pages on the boot line: there is no room for so many",
            vec![Step::BootParameter { parameter: "hugepages=N, with a smaller N".to_owned() }],
        );
    }
    let lacking_bytes = lacks.saturating_mul(asked.page_bytes);
    if lacking_bytes > available_bytes {
        // Asking again would only drive everything else out of memory.
        let lacking = format_bytes(lacking_bytes);
        let command = format!(
            "ask for fewer in {}: {lacking} are missing, and {} of memory are available",
            asked.source,
            format_bytes(available_bytes)
        );
        let summary = "ask for fewer huge pages, or at boot: there is no room for so many now";
        return Remedy::named(summary, vec![Step::manual(command), at_boot(asked)]);
    }
    Remedy::named(
        format!("compact memory and ask for {} pages again", asked.pages),
        vec![
            Step::Once { path: "/proc/sys/vm/compact_memory".to_owned(), value: "1".to_owned() },
            Step::write(file, asked.pages),
            at_boot(asked),
        ],
    )
}

fn at_boot(asked: &HugepagesWanted) -> Step {
    let parameter = format!("hugepagesz={}M hugepages={}", asked.page_bytes >> 20, asked.pages);
    Step::BootParameter { parameter }
}
