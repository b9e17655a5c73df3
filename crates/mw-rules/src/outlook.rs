//! The outcome for a large request, by preflight's arithmetic. The severity of a hazard is what a request would meet, not
//! a state of the free lists or a rate.

use crate::preflight::{self, HugeSupply};
use crate::share::pressure_percent;
use mw_model::{Answer, PoolGrowth, Resource, Severity, Snapshot, VmActivity, Window, derived};
use mw_proc::vmstat::Counter;

/// A large request is this share of memory, and at most half of what is ready; where that is less than a twentieth of
/// memory, a twentieth.
const LARGE_SHARE: u64 = 4;
const LEAST_SHARE: u64 = 20;

/// Direct reclaims and compactions a second over a whole second that are more than a single burst.
const STALLS_PER_S: f64 = 10.0;
/// Of the time, in which some task waited for memory: Android's lmkd acts from 7% on (70 ms of a second), systemd-oomd
/// only from 60% over 30 s.
const PRESSURE_PERCENT: f64 = 10.0;
/// Pages a second that are read or swapped in again from which on tasks wait for them.
const AGAIN_PER_S: f64 = 256.0;

/// The size of a large request in bytes.
fn large_bytes(snapshot: &Snapshot) -> Option<u64> {
    let memory = derived::memory_bytes(&snapshot.sample).ok()?;
    let ready = derived::ready_bytes(snapshot).ok()?;
    Some((memory / LARGE_SHARE).min(ready / 2).max(memory / LEAST_SHARE))
}

/// True if a large request gets base pages without writeback and swap: from free memory and clean page cache, at the
/// speed of memory.
pub(crate) fn is_served(snapshot: &Snapshot) -> bool {
    large_bytes(snapshot)
        .is_some_and(|bytes| preflight::of_machine(snapshot, bytes) == Ok(Answer::Yes))
}

/// The outcome of a large request for huge pages on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HugeOutlook {
    /// Reclaim and compaction provide them.
    Served(PoolGrowth),
    /// They cannot.
    Refused,
    /// They may: the sample of page blocks permits both.
    Uncertain,
    /// The page blocks are unknown.
    Unknown,
}

/// The outcome of a request on one node, for a quarter of it in huge pages of `page_bytes`, or for half of what is free
/// and clean there.
pub(crate) fn for_huge_pages(snapshot: &Snapshot, page_bytes: u64, node: u32) -> HugeOutlook {
    let supplies = preflight::huge_supplies(snapshot, page_bytes).unwrap_or_default();
    let supply = supplies.into_iter().find(|(number, _)| *number == node);
    supply.map_or(HugeOutlook::Unknown, |(_, supply)| judge(supply))
}

/// True if every node serves such a request.
pub(crate) fn is_served_in_huge_pages(snapshot: &Snapshot, page_bytes: u64) -> bool {
    let supplies = preflight::huge_supplies(snapshot, page_bytes).unwrap_or_default();
    let is_served = |supply| matches!(judge(supply), HugeOutlook::Served(_));
    !supplies.is_empty() && supplies.into_iter().all(|(_, supply)| is_served(supply))
}

fn judge(supply: HugeSupply) -> HugeOutlook {
    let wanted = (supply.total_bytes / LARGE_SHARE).min(supply.ready_bytes / 2);
    let PoolGrowth { now_bytes, least_bytes, most_bytes } = supply.growth;
    match (least_bytes, most_bytes) {
        _ if now_bytes >= wanted => HugeOutlook::Served(supply.growth),
        (Some(least), _) if least >= wanted => HugeOutlook::Served(supply.growth),
        (_, Some(most)) if most < wanted => HugeOutlook::Refused,
        (Some(_), Some(_)) => HugeOutlook::Uncertain,
        _ => HugeOutlook::Unknown,
    }
}

/// True if this kernel compacts memory at all; unknown where vmstat was not read.
pub(crate) fn has_compaction(snapshot: &Snapshot) -> Option<bool> {
    let vmstat = snapshot.sample.vmstat.value()?;
    Some(vmstat.get(Counter::CompactStall).is_some())
}

/// True if direct compaction mostly fails, over a second at least.
pub(crate) fn compaction_fails(window: &Window) -> bool {
    let failed = window.activity(VmActivity::FailedCompactions).unwrap_or(0.0);
    let succeeded = window.rate(Counter::CompactSuccess).unwrap_or(0.0);
    window.is_sustained() && failed >= STALLS_PER_S && failed >= succeeded
}

/// True if tasks wait for memory now: direct reclaim or compaction, or pressure with another sign of it, over a second
/// at least. A short window shows bursts, which are no condition.
fn is_waited_for(window: &Window) -> bool {
    if !window.is_sustained() {
        return false;
    }
    let now = pressure_percent(window, Resource::Memory);
    // A captured tree has one reading of pressure, with the average of the last 10 s.
    let recent = || window.now.sample.pressure.memory.value().map(|p| p.some.avg10_percent);
    let is_pressed = now.or_else(recent).is_some_and(|some| some >= PRESSURE_PERCENT);
    direct_per_s(window) >= STALLS_PER_S || (is_pressed && counts_waits(window))
}

/// Direct reclaims or compactions a second, whichever are more.
pub(crate) fn direct_per_s(window: &Window) -> f64 {
    let per_s = |activity| window.activity(activity).unwrap_or(0.0);
    per_s(VmActivity::DirectReclaims).max(per_s(VmActivity::DirectCompactions))
}

/// True if counters show that tasks waited for memory. Pressure alone does not: kswapd and kcompactd count as stalled
/// while they run (psi_memstall_enter() in balance_pgdat() and kcompactd()).
pub(crate) fn counts_waits(window: &Window) -> bool {
    direct_per_s(window) > 0.0 || counts_refaults(window)
}

/// True if pages are read or swapped in again so often that tasks wait for them.
fn counts_refaults(window: &Window) -> bool {
    let again = [Counter::WorkingsetRefaultFile, Counter::Pswpin, Counter::Zswpin];
    let again = again.iter().map(|counter| window.rate(*counter).unwrap_or(0.0)).sum::<f64>();
    is_felt_again(again)
}

/// True if tasks wait for pages that are read or swapped in again so often.
pub(crate) fn is_felt_again(pages_per_s: f64) -> bool {
    pages_per_s >= AGAIN_PER_S
}

/// True if only kswapd reclaims, and most of what it scans: whatever the rate, nobody waits for it.
fn is_kswapd_alone(window: &Window) -> bool {
    let per_s = |activity| window.activity(activity).unwrap_or(0.0);
    let throttled = window.rate(Counter::PgscanDirectThrottle).unwrap_or(0.0);
    let (scans, steals) = (per_s(VmActivity::MachineScans), per_s(VmActivity::MachineSteals));
    per_s(VmActivity::DirectReclaims) <= 0.0 && throttled <= 0.0 && steals * 2.0 >= scans
}

/// The share of the time for which others wait than those that use memory up, where it counts as pressure here; unknown
/// where nobody watched.
pub(crate) fn others_percent(window: &Window) -> Option<f64> {
    let others = window.waiters.value()?.others_percent();
    (others >= PRESSURE_PERCENT).then_some(others)
}

/// The severity of reclaim that goes on now: critical where tasks wait and a large request would as well; a warning where
/// a large request would wait, or others than those that use memory up; a note where the kernel only reclaims clean pages
/// for their readers, or kswapd does all of it.
pub(crate) fn reclaim_severity(window: &Window) -> Severity {
    if !window.is_sustained() {
        return Severity::Note;
    }
    if is_kswapd_alone(window) && !is_waited_for(window) && others_percent(window).is_none() {
        return Severity::Note;
    }
    match (is_waited_for(window), is_served(&window.now)) {
        (true, false) => Severity::Critical,
        (false, false) => Severity::Warning,
        (_, true) if others_percent(window).is_some() => Severity::Warning,
        (_, true) => Severity::Note,
    }
}
