//! What is left of huge pages, as it is recorded.

use crate::preflight::facts::RequestFacts;
use crate::preflight::growth;
use crate::preflight::hugetlb::LARGEST_ORDER;
use mw_model::{HolderSize, HugePool, PageSize, Request, SizedHolder, Snapshot, derived};

/// Free pages of each hugetlb pool that has some, and what can certainly become whole transparent huge pages where
/// page blocks were sampled: of the machine, and of each node where there are several.
#[must_use]
pub fn huge_pages_left(snapshot: &Snapshot) -> Vec<HolderSize> {
    let mut sizes = pools(snapshot);
    sizes.extend(contiguous(snapshot));
    sizes
}

fn pools(snapshot: &Snapshot) -> Vec<HolderSize> {
    let left = |pool: &HugePool, node| {
        let page_bytes = pool.page_bytes;
        (pool.total_pages > 0).then(|| HolderSize {
            holder: SizedHolder::PoolPages { page_bytes, node },
            bytes: pool.available_bytes(),
            limit_bytes: Some(pool.total_pages.saturating_mul(page_bytes)),
        })
    };
    let machine = snapshot.hugepages.value().map_or(&[][..], Vec::as_slice);
    let mut sizes: Vec<HolderSize> = machine.iter().filter_map(|pool| left(pool, None)).collect();
    let nodes = snapshot.nodes.value().map_or(&[][..], Vec::as_slice);
    for node in nodes.iter().filter(|_| nodes.len() > 1) {
        sizes.extend(node.hugepages.iter().filter_map(|pool| left(pool, Some(node.id))));
    }
    sizes
}

fn contiguous(snapshot: &Snapshot) -> Vec<HolderSize> {
    let page_bytes = derived::huge_page_bytes(snapshot);
    let request = Request { size_bytes: 0, lock: false, page: PageSize::Thp, node: None };
    let order = derived::order_of(page_bytes, snapshot.origin.page_bytes);
    let facts = RequestFacts::read(snapshot, &request);
    let Some(facts) = facts.ok().filter(|_| order <= LARGEST_ORDER) else { return Vec::new() };
    let nodes = &facts.nodes;
    let least = |node| growth::of_node(snapshot, page_bytes, node, 0).least_bytes;
    let Some(least) = nodes.iter().map(least).collect::<Option<Vec<u64>>>() else {
        return Vec::new();
    };
    let size = |bytes, node| HolderSize {
        holder: SizedHolder::Contiguous { page_bytes, node },
        bytes,
        limit_bytes: None,
    };
    let mut sizes = vec![size(derived::total(least.iter().copied()), None)];
    if nodes.len() > 1 {
        sizes.extend(nodes.iter().zip(&least).map(|(node, bytes)| size(*bytes, Some(node.node))));
    }
    sizes
}
