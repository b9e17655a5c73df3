//! The most that the machine could provide if it were idle and without limits.

use super::facts::RequestFacts;
use mw_model::{Ceiling, HugePool, PageSize, Snapshot, derived};

/// The machine's size; `None` if the request does not exceed it.
pub(super) fn exceeded(facts: &RequestFacts<'_>) -> Option<Ceiling> {
    let RequestFacts { snapshot, request, .. } = facts;
    let memory_bytes = derived::total(facts.eligible().map(|node| node.total));
    let (swap_bytes, in_use) = match request.page {
        PageSize::Hugetlb(page_bytes) => (0, pages_in_use(snapshot, page_bytes)),
        PageSize::Base | PageSize::Thp | PageSize::Folio(_) | PageSize::Best => {
            (if request.lock { 0 } else { total_swap_bytes(snapshot) }, 0)
        }
    };
    if request.size_bytes <= memory_bytes.saturating_add(swap_bytes).saturating_sub(in_use) {
        return None;
    }
    let are_all_eligible = facts.eligible().count() == facts.nodes.len();
    let nodes = (!are_all_eligible).then(|| facts.eligible().map(|node| node.node).collect());
    Some(Ceiling { nodes, memory_bytes, swap_bytes })
}

/// Pages of the pool that other programs use or have reserved.
fn pages_in_use(snapshot: &Snapshot, page_bytes: u64) -> u64 {
    let pools = snapshot.hugepages.value().map_or(&[][..], Vec::as_slice);
    let pool = HugePool::find(pools, page_bytes);
    let in_use = pool.map_or(0, |pool| pool.total_pages.saturating_sub(pool.available_pages()));
    in_use.saturating_mul(page_bytes)
}

fn total_swap_bytes(snapshot: &Snapshot) -> u64 {
    snapshot.sample.meminfo.value().and_then(|m| m.swap_total_bytes).unwrap_or(0)
}
