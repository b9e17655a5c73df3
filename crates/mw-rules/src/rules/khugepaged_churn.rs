//! # khugepaged-churn
//!
//! khugepaged is configured to scan and collapse pages almost without pause.
//!
//! ## What it finds
//! khugepaged is set to scan more than a hundred times as fast as the kernel's default, or to retry
//! within a second after a huge page allocation failed.
//!
//! As the cause of a stall: khugepaged was active (at least a tenth of a CPU) while tasks were blocked
//! on the lock of their address space. Without such tasks the score is lower; it is also lower where
//! the settings are the kernel's defaults.
//!
//! ## Why it hurts
//! Each collapse takes the program's mmap lock for writing and copies 2 MiB; each failed attempt
//! compacts memory again. Threads of a busy program then wait for the lock, and copying occupies a CPU.
//!
//! ## What it looks like
//! `khugepaged` uses CPU time constantly; `thp_collapse_alloc_failed` in /proc/vmstat increases; page
//! faults of large programs show rare long delays.
//!
//! ## Threshold
//! The default is 4096 pages every 10 s (410 pages a second) and a pause of 60 s after a failure. A
//! hundred times that is 41,000 pages a second, 160 MiB/s: enough to scan 64 GiB in seven minutes, and
//! more than any workload needs. With a pause below one second, a fragmented machine is compacted at
//! least once a second for as long as it stays fragmented.
//!
//! ## How to fix it
//! `memwright fix khugepaged-churn` restores the kernel's defaults.
//!
//! ## References
//! Linux, Documentation/admin-guide/mm/transhuge.rst, "Khugepaged controls"; mm/khugepaged.c.

use crate::cause_score::CauseScore;
use crate::kernel::{COLLAPSE, MMAP_LOCK};
use crate::stall::Stall;
use mw_model::{Area, Cause, Finding, Missing, Quantity, Remedy, Severity, Step, Window};

const DIR: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged";
const DEFAULT_PAGES: u64 = 4096;
const DEFAULT_SLEEP_MS: u64 = 10_000;
const DEFAULT_ALLOC_SLEEP_MS: u64 = 60_000;
const MAX_PAGES_PER_S: u64 = 100 * DEFAULT_PAGES * 1000 / DEFAULT_SLEEP_MS;
const MIN_ALLOC_SLEEP_MS: u64 = 1000;

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let thp = window.now.thp.required()?;
    let setting = |name: &str| {
        let missing = || Missing::absent(format!("{DIR}/{name}"), "not in this snapshot");
        thp.khugepaged.get(name).copied().ok_or_else(missing)
    };
    let pages = setting("pages_to_scan")?;
    let sleep_ms = setting("scan_sleep_millisecs")?;
    let alloc_sleep_ms = setting("alloc_sleep_millisecs")?;
    let pages_per_s = pages.saturating_mul(1000).checked_div(sleep_ms.max(1)).unwrap_or(u64::MAX);
    let off = thp.enabled.selected() == Some("never");
    let too_fast = pages_per_s > MAX_PAGES_PER_S;
    if off || (!too_fast && alloc_sleep_ms >= MIN_ALLOC_SLEEP_MS) {
        return Ok(Vec::new());
    }
    let headline = if too_fast {
        format!(
            "khugepaged is set to scan {pages_per_s} pages a second, {} times the default",
            pages_per_s / (DEFAULT_PAGES * 1000 / DEFAULT_SLEEP_MS)
        )
    } else {
        format!("khugepaged retries {alloc_sleep_ms} ms after a huge page allocation failed")
    };
    let path = |name: &str| format!("{DIR}/{name}");
    let wanted = [
        ("pages_to_scan", pages, DEFAULT_PAGES),
        ("scan_sleep_millisecs", sleep_ms, DEFAULT_SLEEP_MS),
        ("alloc_sleep_millisecs", alloc_sleep_ms, DEFAULT_ALLOC_SLEEP_MS),
    ];
    let mut finding = Finding::new(Severity::Warning, Area::Khugepaged, headline).with_impact(
        "Programs wait for the mmap lock while khugepaged collapses pages, and memory is \
         compacted over and over.",
    );
    for (name, value, _) in wanted {
        finding = finding.with_evidence(name, Quantity::Count(value), path(name));
    }
    let steps = wanted
        .iter()
        .filter(|(_, value, default)| value != default)
        .map(|(name, _, default)| Step::write(path(name), default))
        .collect();
    Ok(vec![finding.with_remedy(Remedy::automatic("restore khugepaged's defaults", steps))])
}

pub(crate) fn cause(stall: &Stall<'_>) -> Result<Option<Cause>, Missing> {
    const WORKING_MOST: f64 = 55.0;
    const BY_DEFAULT: f64 = 0.7;
    let active = CauseScore::new(stall).profile(COLLAPSE);
    let found = hazard(stall.window)?.pop();
    if active.confidence_percent() <= 0.0 {
        return active.no_cause();
    }
    let waited = stall.blocked_in(MMAP_LOCK).is_some();
    let score = if waited { active.blocked_in(MMAP_LOCK) } else { active.at_most(WORKING_MOST) };
    let score = score.scaled(if found.is_some() { 1.0 } else { BY_DEFAULT });
    let headline = score.headline("khugepaged was collapsing huge pages under the mmap lock");
    let remedy = Remedy::named(
        "make khugepaged less aggressive",
        vec![Step::manual(format!("echo 0 > {DIR}/defrag"))],
    );
    let finding = found.unwrap_or_else(|| {
        Finding::new(Severity::Warning, Area::Khugepaged, "")
            .with_impact("Programs wait for the mmap lock while khugepaged collapses pages.")
            .with_remedy(remedy)
    });
    score.cause(Finding { headline, ..finding })
}
