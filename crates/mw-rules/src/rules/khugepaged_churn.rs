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
//! ## How to fix it
//! `memwright fix khugepaged-churn` restores the kernel's defaults. Where they are in force and khugepaged still holds up a
//! program, have it scan less often (a longer `scan_sleep_millisecs`, fewer `pages_to_scan`), or exclude the program:
//! prctl(2) PR_SET_THP_DISABLE, or madvise(2) MADV_NOHUGEPAGE for its memory. `khugepaged/defrag` does not shorten the
//! lock: the huge page is allocated, and memory compacted, before the lock is taken for writing (`collapse_huge_page`).
//!
//! ## Threshold
//! The default is eight huge pages every 10 s (4096 pages of 4 KiB, 410 a second) and a pause of 60 s after
//! a failure. A hundred times that is 41,000 pages a second, 160 MiB/s: enough to scan 64 GiB in seven
//! minutes, and more than any workload needs. With a pause below one second, a fragmented machine is
//! compacted at least once a second for as long as it stays fragmented.
//!
//! ## References
//! Linux, Documentation/admin-guide/mm/transhuge.rst, "Khugepaged controls"; mm/khugepaged.c.

use crate::cause_score::CauseScore;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::kernel::{COLLAPSE, is_wait_for_mmap_lock};
use mw_model::{Area, Finding, Missing, Quantity, Remedy, Severity, Step, Window};

const DIR: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged";
const DEFAULT_SLEEP_MS: u64 = 10_000;
const DEFAULT_ALLOC_SLEEP_MS: u64 = 60_000;
const MAX_TIMES_DEFAULT: u64 = 100;
const MIN_ALLOC_SLEEP_MS: u64 = 1000;

/// Eight huge pages (`HPAGE_PMD_NR * 8`), each of as many pages as a page table has entries of 8 bytes.
fn default_pages(page_bytes: u64) -> u64 {
    page_bytes.max(4 << 10)
}

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
    let default_pages = default_pages(window.now.origin.page_bytes);
    let default_per_s = default_pages.saturating_mul(1000) / DEFAULT_SLEEP_MS;
    let too_fast = pages_per_s > default_per_s.saturating_mul(MAX_TIMES_DEFAULT);
    if off || (!too_fast && alloc_sleep_ms >= MIN_ALLOC_SLEEP_MS) {
        return Ok(Vec::new());
    }
    let headline = if too_fast {
        format!(
            "khugepaged is set to scan {pages_per_s} pages a second, {} times the default",
            pages_per_s.checked_div(default_per_s).unwrap_or(0)
        )
    } else {
        format!("khugepaged retries {alloc_sleep_ms} ms after a huge page allocation failed")
    };
    let path = |name: &str| format!("{DIR}/{name}");
    let wanted = [
        ("pages_to_scan", pages, default_pages),
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

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    const WORKING_MOST: f64 = 55.0;
    const BY_DEFAULT: f64 = 0.7;
    let active = CauseScore::new(stall).profile(&[COLLAPSE]);
    let found = hazard(stall.window)?.pop();
    if active.strength_percent() <= 0.0 {
        return active.no_cause();
    }
    let waited = stall.blocked_where(is_wait_for_mmap_lock).is_some();
    let score = if waited { active.blocked_on_mmap_lock() } else { active.at_most(WORKING_MOST) };
    let score = score.scaled(if found.is_some() { 1.0 } else { BY_DEFAULT });
    let headline = "khugepaged held mmap_lock to collapse pages".to_owned();
    let finding = found.unwrap_or_else(|| {
        Finding::new(Severity::Warning, Area::Khugepaged, "")
            .with_impact("Programs wait for the mmap lock while khugepaged collapses pages.")
            .with_remedy(slower_scan(stall.window))
    });
    score.cause(Finding { headline, ..finding })
}

/// Fewer collapses: the settings are no worse than the kernel's defaults, and each collapse takes the lock for writing.
fn slower_scan(window: &Window) -> Remedy {
    const TIMES_SLOWER: u64 = 10;
    let khugepaged = window.now.thp.value().map(|thp| &thp.khugepaged);
    let sleep_ms = khugepaged.and_then(|settings| settings.get("scan_sleep_millisecs")).copied();
    let sleep_ms = sleep_ms.unwrap_or(DEFAULT_SLEEP_MS).saturating_mul(TIMES_SLOWER);
    Remedy::named(
        "have khugepaged scan less often, or exclude the program that waited",
        vec![
            Step::manual(format!("echo {sleep_ms} > {DIR}/scan_sleep_millisecs")),
            Step::manual(
                "call prctl(PR_SET_THP_DISABLE) or madvise(MADV_NOHUGEPAGE) in the program",
            ),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_eight_huge_pages_of_each_page_size() {
        for (page_kib, huge_mib) in [(4, 2), (16, 32), (64, 512)] {
            assert_eq!(default_pages(page_kib << 10) * (page_kib << 10), 8 * (huge_mib << 20));
        }
    }
}
