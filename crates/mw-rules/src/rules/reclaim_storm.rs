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
//! With `vm.swappiness` 0 the kernel swaps nothing out while it finds page cache (mm/vmscan.c, `get_scan_count()`): 1 lets
//! it use swap late. Where faults on mapped files read 512 KiB and more each, and a quarter of what is read had been in the
//! page cache before, lower the device's read-ahead (`/sys/block/DEVICE/queue/read_ahead_kb`).
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
//! `kcompactd()`). Less than 1% of the scanned pages freed, while tasks reclaim and twice the high watermarks are free in small blocks that compaction does not make whole, is a
//! warning at least: reclaim stops at the high watermark (`shrink_node()`), so that only a request for a large block goes
//! on. All rates are those of a second at least; `check`
//! takes that long only where the kernel reclaims.
//!
//! ## References
//! Linux, Documentation/accounting/psi.rst; Documentation/admin-guide/sysctl/vm.rst,
//! watermark_scale_factor; mm/vmscan.c.

use crate::cause_score::CauseScore;
use crate::largest_holders::program_words;
use crate::outlook;
use crate::read_ahead;
use crate::share::{high_watermark_bytes, percent};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_model::{
    Area, Finding, Missing, Quantity, Remedy, Severity, Step, Sysctl, VmActivity, Window, derived,
    format_bytes, zones,
};

const SCAN_PAGES_PER_S: f64 = 10_000.0;
const PRESSURE_PERCENT: f64 = 10.0;
const IN_VAIN_PERCENT: f64 = 1.0;

const SCALE_FACTOR: &str = "vm.watermark_scale_factor";
const WIDER_SCALE_FACTOR: u64 = 100;

/// The rates of reclaim, 0 where they are unknown.
struct Storm {
    scan_per_s: f64,
    kswapd_per_s: f64,
    stalls_per_s: f64,
    some_percent: f64,
    /// Pages freed a second, where it is known.
    freed_per_s: Option<f64>,
    /// True if free memory is above the high watermarks, and much of it in small blocks.
    is_fragmented: bool,
}

impl Storm {
    /// Share of the scanned pages that reclaim freed, where it is next to none and tasks reclaim although memory is
    /// free: they want blocks of pages.
    fn in_vain_percent(&self) -> Option<f64> {
        let freed = self.freed_per_s? * 100.0 / self.scan_per_s;
        let is_in_vain = freed < IN_VAIN_PERCENT && self.stalls_per_s > 0.0 && self.is_fragmented;
        is_in_vain.then_some(freed)
    }
}

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let storm = storm(window)?;
    let scans = storm.scan_per_s >= SCAN_PAGES_PER_S;
    let pressed = storm.some_percent >= PRESSURE_PERCENT && storm.stalls_per_s > 0.0;
    if !scans && !pressed {
        return Ok(Vec::new());
    }
    let severity = outlook::reclaim_severity(window);
    let in_vain = storm.in_vain_percent().filter(|_| scans);
    let severity = if in_vain.is_some() { severity.max(Severity::Warning) } else { severity };
    let headline = if let Some(freed) = in_vain {
        format!(
            "tasks reclaim without effect: {freed:.2}% of the {:.0} pages that are scanned a second are freed, while {} are \
             free in small blocks",
            storm.scan_per_s,
            format_bytes(free_bytes(window))
        )
    } else if scans {
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
    let remedy = if in_vain.is_some() { remedy_in_vain(window) } else { remedy(window) };
    Ok(vec![with_others(finding, window).with_remedy(remedy)])
}

fn free_bytes(window: &Window) -> u64 {
    window.now.sample.meminfo.value().and_then(|m| m.mem_free_bytes).unwrap_or(0)
}

/// Compaction, and what helps those that ask for large blocks: without free blocks reclaim goes on although pages are free.
fn remedy_in_vain(window: &Window) -> Remedy {
    let mut steps =
        vec![Step::Once { path: "/proc/sys/vm/compact_memory".to_owned(), value: "1".to_owned() }];
    let summary = match window.now.arc.value() {
        Some(arc) => {
            steps.push(Step::manual(format!(
                "echo {} > /sys/module/zfs/parameters/zfs_arc_max",
                arc.size_bytes / 2
            )));
            format!(
                "compact memory once, and limit the ZFS ARC, which has {} that these lists do not",
                format_bytes(arc.size_bytes)
            )
        }
        None => "compact memory once: what is free is in small blocks".to_owned(),
    };
    Remedy::named(summary, steps)
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
        freed_per_s: window.activity(VmActivity::MachineSteals).ok(),
        is_fragmented: zones::has_fragmented(&window.now)
            && !outlook::is_served_in_huge_pages(
                &window.now,
                derived::huge_page_bytes(&window.now),
            )
            && high_watermark_bytes(&window.now)
                .is_ok_and(|high| free_bytes(window) > high.saturating_mul(2)),
    })
}

const SWAPPINESS: &str = "vm.swappiness";

/// Free swap that the kernel may not use while it finds page cache, in bytes: with a swappiness of 0 it scans anonymous
/// pages only when free memory and page cache together are down at the high watermarks (mm/vmscan.c, `get_scan_count()`).
fn forbidden_swap_bytes(window: &Window) -> Option<u64> {
    const ANON_PERCENT: f64 = 50.0;
    const AVAILABLE_PERCENT: f64 = 10.0;
    const FREE_SWAP_PERCENT: f64 = 1.0;
    let meminfo = window.now.sample.meminfo.value()?;
    let total = derived::memory_bytes(&window.now.sample).ok()?;
    let free = meminfo.swap_free_bytes?;
    let available = derived::available_bytes(&window.now).ok()?;
    // With much page cache left, the setting does what it is for.
    let is_short = percent(meminfo.anon_pages_bytes?, total) >= ANON_PERCENT
        && percent(available, total) < AVAILABLE_PERCENT
        && percent(free, total) >= FREE_SWAP_PERCENT;
    (window.now.sysctl.number(SWAPPINESS) == Ok(0) && is_short).then_some(free)
}

fn remedy(window: &Window) -> Remedy {
    if let Some(free) = forbidden_swap_bytes(window) {
        return Remedy::named(
            format!(
                "set {SWAPPINESS} to 1: with 0 the kernel swaps nothing out while it finds page cache, and may kill instead, although \
                 {} of swap are free; or have programs use less memory{}",
                format_bytes(free),
                program_words(&window.now)
            ),
            vec![Step::write(Sysctl::path(SWAPPINESS), 1)],
        );
    }
    if let Some(remedy) = read_ahead::remedy(window) {
        return remedy;
    }
    match window.now.sysctl.number(SCALE_FACTOR) {
        Ok(factor) if factor < WIDER_SCALE_FACTOR => Remedy::named(
            format!("set {SCALE_FACTOR} to {WIDER_SCALE_FACTOR}, so that kswapd starts earlier"),
            vec![Step::write(Sysctl::path(SCALE_FACTOR), WIDER_SCALE_FACTOR)],
        ),
        _ => Remedy::named(
            format!(
                "find the program that uses the memory, and limit it{}",
                program_words(&window.now)
            ),
            vec![Step::manual("systemd-run -p MemoryHigh=SIZE COMMAND")],
        ),
    }
}
