//! Pages of a hugetlb pool.

use super::facts::RequestFacts;
use super::growth;
use super::node_memory::NodeMemory;
use super::plan::SupplyPlan;
use mw_model::{
    Constraint, ConstraintEffect, ConstraintKind, HugePool, MemorySources, Snapshot, derived, zones,
};

/// The largest order of the buddy allocator in every kernel so far: larger pages are allocated only
/// when the pool is resized, never for a request.
pub(crate) const LARGEST_ORDER: usize = 10;

/// A request for pages of the pool: free unreserved ones, then surplus pages, where overcommit allows
/// them and memory has free blocks of that size.
pub(super) fn plan(facts: &RequestFacts<'_>, page_bytes: u64) -> SupplyPlan {
    let RequestFacts { snapshot, request, nodes, .. } = facts;
    let mut constraints = Vec::new();
    let pool = match snapshot.hugepages.required() {
        Ok(pools) => HugePool::find(pools, page_bytes).copied(),
        Err(missing) => {
            constraints.push(Constraint::unread(missing));
            from_meminfo(snapshot, page_bytes)
        }
    };
    let requested = request.size_bytes.div_ceil(page_bytes);
    let free = free_by_node(facts, page_bytes, pool);
    let Some(pool) = pool else {
        constraints.push(no_pool(facts, page_bytes));
        let taken = vec![0; nodes.len()];
        return SupplyPlan { taken, pool_free: Some(free), constraints, ..SupplyPlan::default() };
    };
    let reached = nodes.iter().zip(&free).filter(|(node, _)| node.eligible);
    let in_reach = derived::total(reached.map(|(_, free)| *free));
    let free_unreserved = pool.available_pages().min(pages(in_reach, page_bytes));
    let beyond = surplus_pages(facts, &pool);
    let made = requested.saturating_sub(free_unreserved).min(beyond);
    let overcommitted = made.saturating_mul(page_bytes);
    let needed = requested.saturating_mul(page_bytes);
    if free_unreserved.saturating_add(beyond) < requested {
        let available = free_unreserved.saturating_add(made).saturating_mul(page_bytes);
        let growth = growth::of_nodes(facts, page_bytes);
        let kind = ConstraintKind::HugePool { pool, node: request.node, growth };
        constraints.push(Constraint::new(ConstraintEffect::Refuses, kind, needed, available));
    } else if made > 0 {
        let kind = ConstraintKind::SurplusPages;
        let (effect, bytes) = (ConstraintEffect::Slows, overcommitted);
        constraints.push(Constraint::new(effect, kind, bytes, bytes));
    }
    constraints.extend(group_limits(snapshot, needed, page_bytes));
    let mut left = requested.min(free_unreserved).saturating_mul(page_bytes);
    let taken = nodes.iter().zip(&free).map(|(node, free)| {
        let part = if node.eligible { (*free).min(left) } else { 0 };
        left = left.saturating_sub(part);
        part
    });
    SupplyPlan {
        taken: taken.collect(),
        pool_free: Some(free),
        sources: MemorySources { overcommitted, ..MemorySources::default() },
        constraints,
    }
}

fn no_pool(facts: &RequestFacts<'_>, page_bytes: u64) -> Constraint {
    let pools = facts.snapshot.hugepages.value().map_or(&[][..], Vec::as_slice);
    let sizes = pools.iter().map(|pool| pool.page_bytes).collect();
    let kind = ConstraintKind::NoHugePool { page_bytes, sizes };
    Constraint::new(ConstraintEffect::Refuses, kind, facts.request.size_bytes, 0)
}

/// The limits of the hugetlb controller: a page fault beyond one is a SIGBUS.
fn group_limits(snapshot: &Snapshot, needed: u64, page_bytes: u64) -> Vec<Constraint> {
    let limits = snapshot.cgroups.value().map_or(&[][..], |cgroups| &cgroups.hugetlb);
    let exceeded =
        limits.iter().filter(|limit| limit.page_bytes == page_bytes).filter_map(|limit| {
            let available = limit.limit_bytes.saturating_sub(limit.used_bytes);
            let (path, file) = (limit.path.clone(), limit.file.clone());
            let kind = ConstraintKind::HugetlbGroup { path, file };
            (needed > available)
                .then(|| Constraint::new(ConstraintEffect::Refuses, kind, needed, available))
        });
    exceeded.collect()
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
fn free_by_node(facts: &RequestFacts<'_>, page_bytes: u64, pool: Option<HugePool>) -> Vec<u64> {
    let RequestFacts { snapshot, nodes, .. } = facts;
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
fn surplus_pages(facts: &RequestFacts<'_>, pool: &HugePool) -> u64 {
    let RequestFacts { snapshot, request, .. } = facts;
    let allowed = pool.surplus_left_pages();
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
