//! Memory pressure for which nobody waited.
//!
//! The kernel's trigger counts kswapd and kcompactd as stalled while they run (mm/vmscan.c, `balance_pgdat()`;
//! mm/compaction.c, `kcompactd()`), and a program that fills the page cache as waiting for what it does itself. Neither
//! is a stall of anybody else.

use crate::outlook::{counts_refaults, direct_per_s};
use mw_model::{
    FloodShare, Incident, KernelWait, Subject, TriggerKind, VmActivity, WaitKind, Window,
};

/// Of the pages that fill the page cache, for a process that fills it.
const STREAMER_PERCENT: u64 = 10;

/// True if the kernel's pressure trigger alone began an incident, and no task but those that fill the page cache waited
/// for memory as long as the trigger asks for.
#[must_use]
pub fn is_pressure_alone(incident: &Incident, window: &Window) -> bool {
    incident.trigger.kind == TriggerKind::Pressure
        && !counts_refaults(window)
        && match incident.waits.is_empty() {
            true => incident.causes.is_empty() && counts_no_reclaim(window),
            false => {
                !is_of_cgroup(incident) && others_waited_ms(incident) < incident.trigger.limit_ms
            }
        }
}

/// True if a cause is the limit of a cgroup: no event tells how long a task is throttled over memory.high.
fn is_of_cgroup(incident: &Incident) -> bool {
    incident.causes.iter().any(|cause| matches!(cause.finding.subject, Subject::Cgroup(_)))
}

/// True if tasks reclaimed and compacted nothing, for the machine or at the limit of a cgroup; false where that is
/// unknown.
fn counts_no_reclaim(window: &Window) -> bool {
    direct_per_s(window) <= 0.0
        && window.activity(VmActivity::CgroupSteals).is_ok_and(|per_s| per_s <= 0.0)
}

/// The time in milliseconds for which tasks waited for memory that do not fill the page cache.
fn others_waited_ms(incident: &Incident) -> f64 {
    let all: u64 = incident.flood.iter().map(|share| share.pages).sum();
    let streams = |share: &&FloodShare| {
        share.pages.saturating_mul(100) >= all.saturating_mul(STREAMER_PERCENT)
    };
    let streamers: Vec<u32> =
        incident.flood.iter().filter(streams).map(|share| share.pid).collect();
    let is_of_memory = |wait: &&KernelWait| {
        !matches!(wait.kind, WaitKind::DirtyThrottle | WaitKind::Swap)
            && !streamers.contains(&wait.pid)
    };
    let waited_us: u64 = incident.waits.iter().filter(is_of_memory).map(|wait| wait.total_us).sum();
    waited_us as f64 / 1000.0
}
