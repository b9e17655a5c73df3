//! # kswapd-gave-up
//!
//! kswapd gave up on a node, so that only programs reclaim there.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. Programs reclaimed memory themselves, and at the end of the stall the
//! kernel called a node unreclaimable.
//!
//! ## Why it hurts
//! kswapd that reclaims nothing in 16 runs in a row (`MAX_RECLAIM_RETRIES`) does not run for that node any more
//! (`balance_pgdat`, `wakeup_kswapd`, mm/vmscan.c, Linux 5.10 to 7.3). From then on each allocation below the
//! watermarks is direct reclaim. In 5.10 and 6.12 direct reclaim that frees a page, that of a cgroup at its limit too,
//! starts kswapd again (`shrink_node`): if it gives up each time, it spins instead of resting. In 7.3 kswapd starts
//! again only when the node is balanced (`kswapd_try_clear_hopeless`).
//!
//! ## What it looks like
//! `node_unreclaimable: 1` in /proc/zoneinfo; `allocstall_*` increase in /proc/vmstat while `pgscan_kswapd` does not.
//! Where kswapd spins, the line is 0 most of the time, so that it is not told from work.
//!
//! ## How to fix it
//! Nothing on that node can be reclaimed: find out what holds it (`memwright explain --all-memory`): tmpfs without
//! swap, locked or pinned memory, slab, a program larger than the node. Free some of it, add swap, or move a program to
//! another node. There is no setting that starts kswapd again.
//!
//! ## Threshold
//! Direct reclaim takes at least half of the request; without a critical path, it is scored as
//! [reclaim-storm](reclaim-storm.md) is.
//!
//! ## References
//! Linux, mm/vmscan.c, `balance_pgdat()`, `wakeup_kswapd()`; mm/vmstat.c, `zoneinfo_show_print()`.

use crate::cause_score::CauseScore;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_model::{Finding, Missing, Quantity, Remedy, Severity, Step, Subject};

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let zones = &stall.window.now.sample.zoneinfo.required()?.zones;
    let given_up = zones.iter().find(|zone| zone.is_populated() && zone.unreclaimable == Some(1));
    let Some(node) = given_up.map(|zone| zone.node) else { return Ok(None) };
    let headline = format!("kswapd gave up on node {node}");
    let finding = Finding::new(Severity::Critical, Subject::Node(node), headline)
        .with_evidence("node_unreclaimable", Quantity::Count(1), "/proc/zoneinfo")
        .with_impact("Every allocation below the watermarks reclaims by itself.")
        .with_remedy(Remedy::named(
            "find out what holds the node's memory, and free some of it",
            vec![Step::manual("memwright explain --all-memory")],
        ));
    CauseScore::for_reclaim(stall).cause(finding)
}
