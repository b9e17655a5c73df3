//! # reclaim-storm
//!
//! The kernel scans memory at a high rate to find pages to reclaim.
//!
//! ## What it finds
//! The kernel scans at least 10,000 pages a second because the machine is short of memory; or some task waits for
//! memory more than 10% of the time (pressure stall information) while tasks reclaim directly.
//!
//! As the cause of a stall: tasks waited in direct reclaim or were throttled by it, or the scan rate,
//! memory pressure with direct reclaim, or the canary show that all tasks did. Any rule that explains *why* memory was short
//! ranks before this one. If the canary's page faults were fast, scan rates and pressure alone do not
//! explain a stall.
//!
//! ## Why it hurts
//! When kswapd cannot keep up, each task that allocates has to reclaim first. Latencies grow from
//! microseconds to tens and hundreds of milliseconds, for every program on the machine.
//!
//! ## What it looks like
//! kswapd at 100%; `pgscan_direct` and `allocstall` in /proc/vmstat increase; `some` of
//! /proc/pressure/memory is above 0.
//!
//! From Linux 7.1 on `pgscan_direct` also counts what tasks scan at the limits of their cgroups (mm/vmscan.c,
//! `shrink_inactive_list()`); `allocstall` and `pgscan_kswapd` are the machine's on every kernel. Where
//! `allocstall` increases on such a kernel, the rule goes by it and by `pgscan_kswapd`.
//!
//! ## How to fix it
//! Find out which program uses the memory: `page-cache-flood`, `swap-thrash` or `cgroup-limit` usually
//! report a finding at the same time. A larger distance between the watermarks
//! (`vm.watermark_scale_factor` 100) makes kswapd start earlier.
//!
//! ## Threshold
//! 10,000 pages a second is a rate to look at, no more: heartbeats were missed at it in the field report "The Case
//! of the RAM Starved Cluster", on another kernel. On Linux a program that reads 41 MB/s through a full page cache
//! has kswapd scan as much. 10% of pressure is near the 70 ms of a second from which Android's lmkd acts;
//! systemd-oomd waits for 60% over 30 s (DefaultMemoryPressureLimit, oomd.conf(5)).
//!
//! A high rate alone harms nobody: a program that reads a file larger than memory has the kernel drop
//! clean pages as fast as it reads them, and every other request is still served at the speed of memory.
//! It is a note while kswapd does all of it and reclaims at least half of what it scans, and while a large request (a quarter of memory, at most half of what is available) needs no
//! writeback and no swap, unless other processes than those that fill the page cache wait in direct reclaim
//! or compaction for 10% of the time or more, which the kernel's tracepoints show (needs root). Otherwise it
//! is a warning, and critical if tasks wait as well: 10 direct reclaims or compactions a second, or 10% of pressure
//! together with direct reclaim, compaction, or pages read or swapped in again. Pressure alone shows nothing: kswapd
//! and kcompactd count as stalled while they run (mm/vmscan.c, `balance_pgdat()`; mm/compaction.c,
//! `kcompactd()`). All rates are those of a second at least; `check`
//! takes that long only where the kernel reclaims.
//!
//! ## References
//! Linux, Documentation/accounting/psi.rst; Documentation/admin-guide/sysctl/vm.rst,
//! watermark_scale_factor; mm/vmscan.c.

use crate::cause_score::CauseScore;
use crate::outlook;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_model::{
    Area, Finding, Missing, Quantity, Remedy, Severity, Step, Sysctl, VmActivity, Window,
};

const SCAN_PAGES_PER_S: f64 = 10_000.0;
const PRESSURE_PERCENT: f64 = 10.0;

const SCALE_FACTOR: &str = "vm.watermark_scale_factor";
const WIDER_SCALE_FACTOR: u64 = 100;

/// The rates of reclaim, 0 where they are unknown.
struct Storm {
    scan_per_s: f64,
    kswapd_per_s: f64,
    stalls_per_s: f64,
    some_percent: f64,
}

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let storm = storm(window)?;
    let scans = storm.scan_per_s >= SCAN_PAGES_PER_S;
    let pressed = storm.some_percent >= PRESSURE_PERCENT && storm.stalls_per_s > 0.0;
    if !scans && !pressed {
        return Ok(Vec::new());
    }
    let severity = outlook::reclaim_severity(window);
    let headline = if scans {
        format!("the kernel scans {:.0} pages a second to reclaim memory", storm.scan_per_s)
    } else {
        format!(
            "some task, kswapd included, waited for memory for {:.0}% of the last 10 s",
            storm.some_percent
        )
    };
    let finding = Finding::new(severity, Area::Reclaim, headline)
        .with_evidence("pages scanned", Quantity::PerSecond(storm.scan_per_s), "/proc/vmstat")
        .with_evidence("pgscan_kswapd", Quantity::PerSecond(storm.kswapd_per_s), "/proc/vmstat")
        .with_evidence("allocstall", Quantity::PerSecond(storm.stalls_per_s), "/proc/vmstat")
        .with_evidence(
            "memory pressure, some, 10 s",
            Quantity::Percent(storm.some_percent),
            "/proc/pressure/memory",
        )
        .with_impact("Any task that allocates may wait for tens or hundreds of milliseconds.");
    Ok(vec![with_others(finding, window).with_remedy(remedy(window))])
}

fn with_others(finding: Finding, window: &Window) -> Finding {
    let Some(percent) = outlook::others_percent(window) else { return finding };
    finding.with_evidence(
        "direct reclaim and compaction of other processes",
        Quantity::Percent(percent),
        "tracepoints of vmscan and compaction",
    )
}

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let score = CauseScore::for_reclaim(stall);
    let headline = "tasks had to reclaim memory directly";
    let finding = Finding::new(Severity::Critical, Area::Reclaim, headline)
        .with_impact("Every task that allocated waited for reclaim.")
        .with_remedy(remedy(stall.window));
    score.cause(finding)
}

fn storm(window: &Window) -> Result<Storm, Missing> {
    let kswapd = window.activity(VmActivity::KswapdScans);
    let scans = window.activity(VmActivity::MachineScans).or_else(|_| kswapd.clone());
    let pressure = window.now.sample.pressure.memory.required();
    let some_percent = pressure.as_ref().map_or(0.0, |p| p.some.avg10_percent);
    // Without a rate, little pressure shows that nobody waits; much of it does not show who does.
    if let Err(missing) = &scans
        && (pressure.is_err() || some_percent >= PRESSURE_PERCENT)
    {
        return Err(missing.clone());
    }
    Ok(Storm {
        scan_per_s: scans.unwrap_or(0.0),
        kswapd_per_s: kswapd.unwrap_or(0.0),
        stalls_per_s: window.activity(VmActivity::DirectReclaims).unwrap_or(0.0),
        some_percent,
    })
}

fn remedy(window: &Window) -> Remedy {
    match window.now.sysctl.number(SCALE_FACTOR) {
        Ok(factor) if factor < WIDER_SCALE_FACTOR => Remedy::named(
            format!("set {SCALE_FACTOR} to {WIDER_SCALE_FACTOR}, so that kswapd starts earlier"),
            vec![Step::write(Sysctl::path(SCALE_FACTOR), WIDER_SCALE_FACTOR)],
        ),
        _ => Remedy::named(
            "find the program that uses the memory, and limit it",
            vec![Step::manual("systemd-run -p MemoryHigh=SIZE COMMAND")],
        ),
    }
}
