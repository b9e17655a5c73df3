//! # numa-node-exhausted
//!
//! One NUMA node is exhausted while another has plenty of free memory.
//!
//! ## What it finds
//! A node with CPUs in which less than 5% of memory is free or clean page cache, while another node has
//! at least a quarter of its memory free; or a node without CPUs (persistent memory, CXL) while pages are written to swap.
//!
//! As the cause of a stall: a node is exhausted as above and tasks reclaimed, on that node where the
//! kernel reports the node. A canary on another node is not affected.
//!
//! ## Why it hurts
//! Programs on the full node get remote memory (slower, and unevenly so), reclaim runs on that node
//! alone, and a program that is bound to it (`numactl --membind`, a cpuset) is swapped out or killed
//! although half of the machine is free.
//!
//! ## What it looks like
//! `numa_miss` and `numa_foreign` increase; `numastat` shows one node near zero; kswapd of that node is
//! busy and the others are idle.
//!
//! ## How to fix it
//! Start large programs with `numactl --interleave=all`, or move a running program's memory with
//! `migratepages PID 0 1`. Spread a tmpfs with `mpol=interleave`.
//!
//! ## Threshold
//! On machines of 16 GiB to 1 TiB, 5% is the kernel's own watermarks plus a few hundred megabytes. A
//! quarter free on another node shows that this is imbalance and not a full machine. With
//! `vm.zone_reclaim_mode` set it is critical, since the kernel then reclaims before it uses the other
//! node.
//!
//! ## References
//! Linux, Documentation/admin-guide/mm/numa_memory_policy.rst; numactl(8), migratepages(8).

use crate::cause_score::CauseScore;
use crate::share::percent;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_model::{
    Finding, Missing, Quantity, Remedy, Severity, Step, Subject, WaitKind, Window, derived,
    format_bytes, zones,
};
use mw_proc::meminfo::Meminfo;
use mw_proc::vmstat::Counter;

const EXHAUSTED_PERCENT: f64 = 5.0;
const PLENTY_PERCENT: f64 = 25.0;

struct Room {
    node: u32,
    bytes: u64,
    share: f64,
}

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    let nodes = snapshot.nodes.required()?;
    let rooms: Vec<Room> = zones::node_meminfos(snapshot).into_iter().filter_map(room).collect();
    let Some(roomiest) = rooms.iter().max_by(|a, b| a.share.total_cmp(&b.share)) else {
        return Err(Missing::absent("/sys/devices/system/node/node*/meminfo", "not seen"));
    };
    if rooms.len() < 2 || roomiest.share < PLENTY_PERCENT {
        return Ok(Vec::new());
    }
    let has_cpus = |id: u32| nodes.iter().any(|node| node.id == id && !node.cpus.is_empty());
    let reclaims_first = snapshot.sysctl.number("vm.zone_reclaim_mode").is_ok_and(|mode| mode != 0);
    // A node without CPUs is filled by demotion; where it is full and pages go to swap, a program is bound to it.
    let swaps_out = window.rate_of(&[Counter::Pswpout]).is_ok_and(|rate| rate > 0.0);
    let counts =
        |room: &&Room| room.share < EXHAUSTED_PERCENT && (swaps_out || has_cpus(room.node));
    let exhausted = rooms.iter().filter(counts);
    Ok(exhausted.map(|room| finding(room, roomiest, reclaims_first)).collect())
}

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    const KINDS: &[WaitKind] = &[WaitKind::DirectReclaim, WaitKind::ReclaimThrottle];
    let score = CauseScore::for_reclaim(stall);
    let waited_on = stall.waits(KINDS).max_by_key(|wait| wait.total_us).and_then(|wait| wait.node);
    let here = |f: &Finding| waited_on.is_none_or(|node| f.subject == Subject::Node(node));
    let Some(mut finding) = hazard(stall.window)?.into_iter().find(here) else {
        return score.no_cause();
    };
    finding.headline = format!("{} was full, other nodes were not", finding.subject);
    finding.severity = Severity::Critical;
    score.cause(finding)
}

/// Memory that can be allocated on a node without writeback or swap.
fn room((node, meminfo): (u32, Meminfo)) -> Option<Room> {
    let total = meminfo.mem_total_bytes.filter(|total| *total > 0)?;
    let clean =
        derived::file_cache_bytes(&meminfo).saturating_sub(derived::unwritten_bytes(&meminfo));
    let bytes = meminfo.mem_free_bytes?.saturating_add(clean);
    Some(Room { node, bytes, share: percent(bytes, total) })
}

fn finding(room: &Room, roomiest: &Room, reclaims_first: bool) -> Finding {
    let severity = if reclaims_first { Severity::Critical } else { Severity::Warning };
    let headline = format!(
        "node {} has {} available ({:.1}%) while node {} has {} ({:.0}%)",
        room.node,
        format_bytes(room.bytes),
        room.share,
        roomiest.node,
        format_bytes(roomiest.bytes),
        roomiest.share
    );
    let source = |node: u32| format!("/sys/devices/system/node/node{node}/meminfo");
    Finding::new(severity, Subject::Node(room.node), headline)
        .with_evidence(
            format!("free and clean memory of node {}", room.node),
            Quantity::Bytes(room.bytes),
            source(room.node),
        )
        .with_evidence(
            format!("free and clean memory of node {}", roomiest.node),
            Quantity::Bytes(roomiest.bytes),
            source(roomiest.node),
        )
        .with_impact(
            "Programs on this node get remote memory; those bound to it reclaim, are swapped out or \
             are killed although the machine has memory.",
        )
        .with_remedy(Remedy::named(
            "spread large programs over the nodes",
            vec![
                Step::manual("numactl --interleave=all COMMAND"),
                Step::manual(format!("migratepages PID {} {}", room.node, roomiest.node)),
            ],
        ))
}
