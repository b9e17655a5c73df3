//! The most that the machine could provide if it were idle and without limits.

use super::node_memory::NodeMemory;
use mw_model::{HugePool, PageSize, Request, Snapshot, derived, format_bytes};

/// Remedy for a request that exceeds it; `None` if it does not.
pub(super) fn exceeded(
    snapshot: &Snapshot,
    request: &Request,
    nodes: &[NodeMemory],
) -> Option<String> {
    let eligible = || nodes.iter().filter(|node| node.eligible);
    let memory = derived::total(eligible().map(|node| node.total));
    let (swap, in_use) = match request.page {
        PageSize::Hugetlb(page_bytes) => (0, pages_in_use(snapshot, page_bytes)),
        PageSize::Base | PageSize::Thp | PageSize::Folio(_) | PageSize::Best if request.lock => {
            (0, 0)
        }
        PageSize::Base | PageSize::Thp | PageSize::Folio(_) | PageSize::Best => {
            (swap_bytes(snapshot), 0)
        }
    };
    if request.size_bytes <= memory.saturating_add(swap).saturating_sub(in_use) {
        return None;
    }
    let whole = if eligible().count() == nodes.len() {
        "this machine has".to_owned()
    } else {
        let nodes: Vec<String> = eligible().map(|node| node.node.to_string()).collect();
        let word = if nodes.len() == 1 { "node" } else { "nodes" };
        let verb = if nodes.len() == 1 { "has" } else { "have" };
        format!("{word} {} {verb}", nodes.join(","))
    };
    let swap = match swap {
        0 => String::new(),
        swap => format!(" and {} of swap", format_bytes(swap)),
    };
    let memory = format_bytes(memory);
    Some(format!("request less, or add memory: {whole} {memory} in total{swap}"))
}

/// Pages of the pool that other programs use or have reserved.
fn pages_in_use(snapshot: &Snapshot, page_bytes: u64) -> u64 {
    let pools = snapshot.hugepages.value().map_or(&[][..], Vec::as_slice);
    let pool = HugePool::find(pools, page_bytes);
    let in_use = pool.map_or(0, |pool| pool.total_pages.saturating_sub(pool.available_pages()));
    in_use.saturating_mul(page_bytes)
}

fn swap_bytes(snapshot: &Snapshot) -> u64 {
    snapshot.sample.meminfo.value().and_then(|m| m.swap_total_bytes).unwrap_or(0)
}
