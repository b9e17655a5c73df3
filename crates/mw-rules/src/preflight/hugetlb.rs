//! Pages of a hugetlb pool.

use super::growth;
use super::node_memory::NodeMemory;
use super::notes::Notes;
use super::plan::Plan;
use mw_memory::huge_pool_dir;
use mw_model::{HugePool, Request, Snapshot, derived, format_bytes, format_count, zones};

/// The largest order of the buddy allocator in every kernel so far: larger pages are allocated only
/// when the pool is resized, never for a request.
pub(crate) const LARGEST_ORDER: usize = 10;

/// A request for pages of the pool: free unreserved ones, then surplus pages, where overcommit allows
/// them and memory has free blocks of that size.
pub(super) fn plan(
    snapshot: &Snapshot,
    request: &Request,
    page_bytes: u64,
    nodes: &[NodeMemory],
    notes: &mut Notes,
) -> Plan {
    let pool = match snapshot.hugepages.required() {
        Ok(pools) => HugePool::find(pools, page_bytes).copied(),
        Err(missing) => {
            notes.unseen(&missing);
            from_meminfo(snapshot, page_bytes)
        }
    };
    let requested = request.size_bytes.div_ceil(page_bytes);
    let free = free_by_node(snapshot, page_bytes, nodes, pool);
    let Some(pool) = pool else {
        let page = format_bytes(page_bytes);
        let lift = format!("no such pool exists: {}", sizes(snapshot));
        let what = format!("hugetlb pool of {page} pages");
        notes.huge_pool(what, request.size_bytes, 0, lift);
        return Plan { taken: vec![0; nodes.len()], pool_free: Some(free), ..Plan::default() };
    };
    let reached = nodes.iter().zip(&free).filter(|(node, _)| node.eligible);
    let in_reach = derived::total(reached.map(|(_, free)| *free));
    let free_unreserved = pool.available_pages().min(pages(in_reach, page_bytes));
    let beyond = surplus_pages(snapshot, request, &pool);
    let made = requested.saturating_sub(free_unreserved).min(beyond);
    let available = free_unreserved.saturating_add(made).saturating_mul(page_bytes);
    if free_unreserved.saturating_add(beyond) < requested {
        let growth = growth::of_nodes(snapshot, page_bytes, nodes);
        notes.pool_growth = Some(growth);
        short(request, &pool, requested, available, notes);
    } else if made > 0 {
        let bytes = made.saturating_mul(page_bytes);
        let lift = "raise vm.nr_hugepages in advance: these pages are allocated one by one while the program waits";
        notes.obstacle(false, "surplus pages beyond the pool", Some(bytes), Some(bytes), lift);
    }
    group_limits(snapshot, request, requested.saturating_mul(page_bytes), page_bytes, notes);
    let mut left = requested.min(free_unreserved).saturating_mul(page_bytes);
    let taken = nodes.iter().zip(&free).map(|(node, free)| {
        let part = if node.eligible { (*free).min(left) } else { 0 };
        left = left.saturating_sub(part);
        part
    });
    Plan {
        taken: taken.collect(),
        overcommitted: made.saturating_mul(page_bytes),
        pool_free: Some(free),
        ..Plan::default()
    }
}

/// The limits of the hugetlb controller: a page fault beyond one is a SIGBUS.
fn group_limits(
    snapshot: &Snapshot,
    request: &Request,
    needed: u64,
    page_bytes: u64,
    notes: &mut Notes,
) {
    let limits = snapshot.cgroups.value().map_or(&[][..], |cgroups| &cgroups.hugetlb);
    for limit in limits.iter().filter(|limit| limit.page_bytes == page_bytes) {
        let available = limit.limit_bytes.saturating_sub(limit.used_bytes);
        if needed > available {
            let what = format!("{} of cgroup {}", limit.file, limit.path);
            let lift = format!("raise {} of the cgroup to hold {request} as well", limit.file);
            notes.obstacle(true, what, Some(needed), Some(available), lift);
        }
    }
}

/// The pool of the default size, for kernels or trees without /sys.
fn from_meminfo(snapshot: &Snapshot, page_bytes: u64) -> Option<HugePool> {
    let meminfo = snapshot.sample.meminfo.value()?;
    meminfo.hugepagesize_bytes.filter(|size| *size == page_bytes)?;
    Some(HugePool {
        page_bytes,
        total_pages: meminfo.hugepages_total_pages?,
        free_pages: meminfo.hugepages_free_pages?,
        reserved_pages: meminfo.hugepages_rsvd_pages.unwrap_or(0),
        surplus_pages: meminfo.hugepages_surp_pages.unwrap_or(0),
        overcommit_pages: 0,
    })
}

/// Free memory of the pool on each node; all on the first node if the kernel does not count by node.
fn free_by_node(
    snapshot: &Snapshot,
    page_bytes: u64,
    nodes: &[NodeMemory],
    pool: Option<HugePool>,
) -> Vec<u64> {
    let with_pools = snapshot.nodes.value().map_or(&[][..], Vec::as_slice);
    let of = |node: &NodeMemory| {
        let pools = with_pools.iter().find(|known| known.id == node.node)?;
        Some(HugePool::find(&pools.hugepages, page_bytes)?.free_pages.saturating_mul(page_bytes))
    };
    if nodes.iter().all(|node| of(node).is_none()) {
        let all = pool.map_or(0, |pool| pool.free_pages.saturating_mul(page_bytes));
        return (0..nodes.len()).map(|index| if index == 0 { all } else { 0 }).collect();
    }
    nodes.iter().map(|node| of(node).unwrap_or(0)).collect()
}

/// Surplus pages that the kernel may allocate and has blocks for.
fn surplus_pages(snapshot: &Snapshot, request: &Request, pool: &HugePool) -> u64 {
    let allowed = pool.overcommit_pages.saturating_sub(pool.surplus_pages);
    let order = derived::order_of(pool.page_bytes, snapshot.origin.page_bytes);
    if allowed == 0 || order > LARGEST_ORDER {
        return 0;
    }
    let is_eligible = |node: u32| request.node.is_none_or(|requested| requested == node);
    let free = zones::free_in_blocks_bytes(snapshot, order, is_eligible);
    free.map_or(allowed, |bytes| allowed.min(pages(bytes, pool.page_bytes)))
}

/// Whole pages in so many bytes.
fn pages(bytes: u64, page_bytes: u64) -> u64 {
    bytes.checked_div(page_bytes).unwrap_or(0)
}

fn sizes(snapshot: &Snapshot) -> String {
    let pools = snapshot.hugepages.value().map_or(&[][..], Vec::as_slice);
    let sizes: Vec<String> = pools.iter().map(|pool| format_bytes(pool.page_bytes)).collect();
    match sizes.is_empty() {
        true => "this kernel has no huge pages".to_owned(),
        false => format!("the kernel has {}", sizes.join(" and ")),
    }
}

fn short(request: &Request, pool: &HugePool, requested: u64, available: u64, notes: &mut Notes) {
    let page = format_bytes(pool.page_bytes);
    let place = request.node.map_or(String::new(), |node| format!(" on node {node}"));
    let missing = requested.saturating_sub(pages(available, pool.page_bytes));
    let total = pool.total_pages.saturating_add(missing);
    let file = format!("{}/nr_hugepages", huge_pool_dir(pool.page_bytes, request.node));
    let by_hand = match request.node {
        Some(_) => format!("raise {file} by {}", format_count(missing, "page")),
        None => format!("write {total} to {file}, preferably at boot"),
    };
    let growth = notes.pool_growth.unwrap_or_default();
    let most = growth.most_bytes.unwrap_or(growth.now_bytes);
    let lift = if missing.saturating_mul(pool.page_bytes) <= most {
        format!("run memwright make-room {}, or {by_hand}", request.argument())
    } else {
        by_hand
    };
    let what = format!("hugetlb pool of {page} pages{place}");
    notes.huge_pool(what, requested.saturating_mul(pool.page_bytes), available, lift);
}
