//! # zone-reclaim
//!
//! A full node reclaims its own memory before it uses free memory of another node.
//!
//! ## What it finds
//! `vm.zone_reclaim_mode` is not 0. Bit 1 enables node-local reclaim, bit 2 lets it write pages of shared
//! and anonymous memory to swap (from 5.10 on at least, no task writes pages of files there), bit 4 lets it unmap
//! pages.
//!
//! As the cause of a stall: the mode is not 0 and tasks waited in node reclaim, or the profile shows it,
//! or its scans increased by at least 1,000 a second.
//!
//! ## Why it hurts
//! Every allocation that does not fit the local node scans that node's pages first, although another
//! node has free memory. If little of the node is reclaimable (a RAM disk, locked memory), the scan finds next to
//! nothing, and is repeated for the next page: bit 4 has the kernel count shared memory as page cache that it could
//! reclaim (node_pagecache_reclaimable()). A database that locked 32 GB of shared memory took two
//! hours.
//!
//! ## What it looks like
//! One thread at 100% system time in `mlock` or in page faults; `ps` and `ls /proc` hang, since they
//! wait for the mmap lock that the faulting process holds; `zone_reclaim_failed` in /proc/vmstat
//! increases by thousands a second.
//!
//! ## How to fix it
//! `memwright fix zone-reclaim` sets `vm.zone_reclaim_mode` to 0, the kernel's own default since 3.16.
//! Programs that benefit from node-local memory can bind themselves with numactl.
//!
//! ## Threshold
//! Any value but 0. With several nodes it is critical if bit 4 is set, if the kernel has already counted
//! failed scans, or if a quarter of a node is unreclaimable. In our measurements on kernel 6.1 (two
//! nodes of 2 GB, one of them filled by a tmpfs) locking 1 GiB took 2 to 3 s with modes 0 to 2 and 14 to
//! 15 s with modes 4, 5 and 7; docs/evaluations has all eight. The kernel of the field report, 2.6.18,
//! waited with mode 2. With a single node it is a warning: there is no other node, but every allocation
//! below the low watermark reclaims directly before it wakes kswapd.
//!
//! ## References
//! Linux, Documentation/admin-guide/sysctl/vm.rst, zone_reclaim_mode; mm/vmscan.c, node_reclaim().

use crate::cause_score::CauseScore;
use crate::share::percent;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::kernel::NODE_RECLAIM;
use mw_model::{
    Finding, Missing, Quantity, Remedy, Severity, Snapshot, Step, Subject, Sysctl, WaitKind,
    Window, zones,
};
use mw_proc::vmstat::Counter;

const SETTING: &str = "vm.zone_reclaim_mode";
const MODE_UNMAP: u64 = 4;

/// From which unreclaimable share of a node on scanning it mostly frees nothing.
const VAIN_PERCENT: f64 = 25.0;

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    let mode = snapshot.sysctl.number(SETTING)?;
    if mode == 0 {
        return Ok(Vec::new());
    }
    let nodes = snapshot.nodes.value().map_or(1, Vec::len);
    let failed = snapshot.sample.vmstat.value().and_then(|v| v.get(Counter::ZoneReclaimFailed));
    let fullest = fullest_node(snapshot);
    let vain = fullest.is_some_and(|(_, share)| share >= VAIN_PERCENT);
    let scans_fail = failed.is_some_and(|count| count > 0);
    let severity = match nodes {
        0 | 1 => Severity::Warning,
        _ if mode & MODE_UNMAP != 0 || vain || scans_fail => Severity::Critical,
        _ => Severity::Warning,
    };
    let headline = if nodes > 1 {
        format!(
            "{SETTING} is {mode}: a full node reclaims its own memory before it uses another node"
        )
    } else {
        format!("{SETTING} is {mode}: allocations reclaim directly, before kswapd does")
    };
    let mut finding = Finding::new(severity, Subject::Sysctl(SETTING.to_owned()), headline)
        .with_evidence(SETTING, Quantity::Count(mode), Sysctl::path(SETTING))
        .with_evidence("NUMA nodes", Quantity::Count(nodes as u64), "/sys/devices/system/node")
        .with_impact(
            "Large allocations rescan unreclaimable memory for every page: minutes to hours instead \
             of seconds.",
        )
        .with_remedy(remedy());
    if let Some(count) = failed {
        finding =
            finding.with_evidence("zone_reclaim_failed", Quantity::Count(count), "/proc/vmstat");
    }
    if let Some((node, share)) = fullest {
        let what = format!("unreclaimable memory of node {node}");
        let source = format!("/sys/devices/system/node/node{node}/meminfo");
        finding = finding.with_evidence(what, Quantity::Percent(share), source);
    }
    Ok(vec![finding])
}

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    const SCANS_PER_S: f64 = 1000.0;
    let snapshot = &stall.window.now;
    let mode = snapshot.sysctl.number(SETTING)?;
    if mode == 0 {
        return Ok(None);
    }
    let mut score = CauseScore::new(stall)
        .waits(&[WaitKind::NodeReclaim])
        .blocked_in(&[NODE_RECLAIM])
        .profile(&[NODE_RECLAIM])
        .rate(
            "zone_reclaim_failed and _success",
            &[Counter::ZoneReclaimFailed, Counter::ZoneReclaimSuccess],
            SCANS_PER_S,
        );
    if let Some((node, share)) = fullest_node(snapshot) {
        let source = format!("/sys/devices/system/node/node{node}/meminfo");
        let what = format!("unreclaimable memory of node {node}");
        score = score.with_evidence(what, Quantity::Percent(share), source);
    }
    let headline = format!("zone_reclaim_mode {mode} rescanned a full node");
    let finding = Finding::new(Severity::Critical, Subject::Sysctl(SETTING.to_owned()), headline)
        .with_evidence(SETTING, Quantity::Count(mode), Sysctl::path(SETTING))
        .with_impact("Every allocation first scanned the full node.")
        .with_remedy(remedy());
    score.cause(finding)
}

fn remedy() -> Remedy {
    let step = Step::write(Sysctl::path(SETTING), 0);
    Remedy::automatic(format!("set {SETTING} to 0"), vec![step])
}

/// The node with the largest share of unreclaimable memory.
fn fullest_node(snapshot: &Snapshot) -> Option<(u32, f64)> {
    let swap_free = snapshot.sample.meminfo.value().and_then(|m| m.swap_free_bytes).unwrap_or(0);
    zones::node_meminfos(snapshot)
        .into_iter()
        .filter_map(|(node, meminfo)| {
            let shmem = meminfo.shmem_bytes?.saturating_sub(swap_free);
            let held = shmem.max(meminfo.unevictable_bytes?);
            Some((node, percent(held, meminfo.mem_total_bytes?)))
        })
        .max_by(|a, b| a.1.total_cmp(&b.1))
}
