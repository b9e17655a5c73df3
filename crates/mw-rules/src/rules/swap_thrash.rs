//! # swap-thrash
//!
//! Pages are swapped out and needed again at once.
//!
//! ## What it finds
//! At least 256 pages a second (1 MiB/s) are swapped in while as many are swapped out; or, where there
//! is only one sample, half of the swap is used and memory pressure stopped all programs for a tenth of
//! the last minute.
//!
//! As the cause of a stall: pages were swapped in and out at such rates and tasks waited for memory; or
//! tasks waited for their own pages to be swapped in.
//!
//! ## Why it hurts
//! The programs' working set does not fit into memory. Everything runs at the speed of the swap device.
//! Afterwards free memory is fragmented: a node that has thrashed may fail to allocate what it could
//! allocate before (see fragmented-node).
//!
//! ## What it looks like
//! `si` and `so` of vmstat(8) are both large; one CPU is busy with system time while programs make no
//! progress.
//!
//! ## How to fix it
//! Limit the program that outgrew the machine: with its cgroup
//! (`systemd-run -p MemoryMax=20G -p MemorySwapMax=0`), a smaller heap or a smaller buffer pool. Without
//! the second limit it thrashes inside the first: in our measurements the next job then got half of its
//! huge pages, all of them with both limits, and none without any. Swap settings only move the problem.
//!
//! ## Threshold
//! Traffic in one direction is harmless: idle pages are swapped out, or come back after a peak. 1 MiB/s
//! in both directions, over a second at least, is more than such an exchange causes on an idle machine. Ten
//! times that, or memory pressure above 10%, is critical, unless a large request is served without swap
//! all the same: then a cgroup thrashes at its own limit.
//!
//! ## References
//! Linux, Documentation/accounting/psi.rst; proc_vmstat(5).

use crate::cause_score::CauseScore;
use crate::outlook;
use crate::share::percent;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::kernel::SWAP;
use mw_model::{Area, Finding, Missing, Quantity, Remedy, Severity, Step, WaitKind, Window};
use mw_proc::vmstat::Counter;

const PAGES_PER_S: f64 = 256.0;
const CRITICAL_PAGES_PER_S: f64 = 2560.0;
const PRESSURE_PERCENT: f64 = 10.0;
const USED_PERCENT: f64 = 50.0;

/// The highest score while pages are only swapped in.
const ONE_WAY_MOST: f64 = 85.0;

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let swaps = window.now.swaps.required()?;
    if swaps.is_empty() {
        return Ok(Vec::new());
    }
    let pressure = window.now.sample.pressure.memory.required();
    let some = pressure.as_ref().map_or(0.0, |p| p.some.avg10_percent);
    let rates = window.rate(Counter::Pswpin).and_then(|i| Ok((i, window.rate(Counter::Pswpout)?)));
    let (pages_in, pages_out) = match (rates, pressure) {
        (Ok(rates), _) => rates,
        (Err(_), Ok(pressure)) => {
            let stopped = pressure.full.map_or(0.0, |full| full.avg60_percent);
            return Ok(after_the_fact(window, stopped).into_iter().collect());
        }
        (Err(missing), Err(_)) => return Err(missing),
    };
    if pages_in < PAGES_PER_S || pages_out < PAGES_PER_S {
        return Ok(Vec::new());
    }
    let heavy = pages_in + pages_out >= CRITICAL_PAGES_PER_S || some >= PRESSURE_PERCENT;
    let severity = match (window.is_sustained(), outlook::is_served(&window.now)) {
        (false, _) => Severity::Note,
        (true, false) if heavy => Severity::Critical,
        _ => Severity::Warning,
    };
    let headline =
        format!("{pages_out:.0} pages a second are swapped out while {pages_in:.0} are swapped in");
    let finding = Finding::new(severity, Area::Swap, headline)
        .with_evidence("pswpin", Quantity::PerSecond(pages_in), "/proc/vmstat")
        .with_evidence("pswpout", Quantity::PerSecond(pages_out), "/proc/vmstat")
        .with_evidence(
            "memory pressure, some, 10 s",
            Quantity::Percent(some),
            "/proc/pressure/memory",
        );
    Ok(vec![complete(finding)])
}

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    if stall.window.now.swaps.required()?.is_empty() {
        return Ok(None);
    }
    let (pages_in, pages_out) = (stall.rate(&[Counter::Pswpin]), stall.rate(&[Counter::Pswpout]));
    let both_ways = [&pages_in, &pages_out]
        .iter()
        .all(|rate| rate.as_ref().is_ok_and(|pages| *pages >= PAGES_PER_S));
    let base = if both_ways { CauseScore::for_reclaim(stall) } else { CauseScore::new(stall) };
    let score = base
        .waits(&[WaitKind::Swap])
        .blocked_in(SWAP)
        .rate("pswpin and pswpout", &[Counter::Pswpin, Counter::Pswpout], PAGES_PER_S * 2.0)
        .at_most(if both_ways { 100.0 } else { ONE_WAY_MOST });
    let waited = score.longest_waiter().is_some() || stall.blocked_in(SWAP).is_some();
    if !both_ways && !waited {
        return score.no_cause();
    }
    let headline =
        if both_ways { "pages were swapped out and in again" } else { "tasks waited for swap-in" };
    let finding = Finding::new(Severity::Critical, Area::Swap, headline)
        .with_evidence("pswpin", Quantity::PerSecond(pages_in.unwrap_or(0.0)), "/proc/vmstat")
        .with_evidence("pswpout", Quantity::PerSecond(pages_out.unwrap_or(0.0)), "/proc/vmstat");
    score.cause(complete(finding))
}

/// Without a rate: swap that is in use and pressure that has stopped all tasks.
fn after_the_fact(window: &Window, stopped_percent: f64) -> Option<Finding> {
    let meminfo = window.now.sample.meminfo.value()?;
    let total = meminfo.swap_total_bytes?;
    let used = total.saturating_sub(meminfo.swap_free_bytes?);
    if percent(used, total) < USED_PERCENT || stopped_percent < PRESSURE_PERCENT {
        return None;
    }
    let headline = format!(
        "swap is {:.0}% used, and memory pressure stopped all tasks for {stopped_percent:.0}% of the last \
         minute",
        percent(used, total)
    );
    let finding = Finding::new(Severity::Critical, Area::Swap, headline)
        .with_evidence("swap used", Quantity::Bytes(used), "/proc/meminfo")
        .with_evidence(
            "memory pressure, full, 60 s",
            Quantity::Percent(stopped_percent),
            "/proc/pressure/memory",
        );
    Some(complete(finding))
}

fn complete(finding: Finding) -> Finding {
    finding
        .with_impact(
            "Programs run at the speed of the swap device, and memory is fragmented afterwards.",
        )
        .with_remedy(Remedy::named(
            "limit the memory of the program that outgrew the machine",
            vec![Step::manual("systemd-run -p MemoryMax=SIZE -p MemorySwapMax=0 COMMAND")],
        ))
}
