//! How much of the request each node contributes, and from what.

use super::disk;
use super::facts::RequestFacts;
use super::node_memory::NodeMemory;
use crate::watermark::{MIN_FREE, kernel_choice_kib};
use mw_model::{
    Constraint, ConstraintEffect, ConstraintKind, MemorySources, NodeAccount, PageSize, derived,
};

/// Sources of the memory of a request, and the constraints on them.
#[derive(Debug, Default)]
pub(super) struct SupplyPlan {
    /// Contribution of each node in bytes, in the order of the nodes.
    pub(super) taken: Vec<u64>,
    /// Free memory of the hugetlb pool by node; only for a request for such pages.
    pub(super) pool_free: Option<Vec<u64>>,
    pub(super) sources: MemorySources,
    pub(super) constraints: Vec<Constraint>,
}

impl SupplyPlan {
    /// The nodes' accounts, as they are shown.
    pub(super) fn accounts(&self, facts: &RequestFacts<'_>) -> Vec<NodeAccount> {
        let huge = matches!(facts.request.page, PageSize::Hugetlb(_));
        let account = |(index, node): (usize, &NodeMemory)| {
            let pool_free = self.pool_free.as_ref().and_then(|free| free.get(index));
            NodeAccount {
                node: node.node,
                total_bytes: node.total,
                free_bytes: if huge { pool_free.copied().unwrap_or(0) } else { node.free },
                clean_bytes: node.clean,
                dirty_bytes: node.dirty,
                swappable_bytes: node.swappable,
                watermark_bytes: node.watermark,
                unreclaimable: node.unreclaimable.clone(),
                taken_bytes: self.taken.get(index).copied().unwrap_or(0),
            }
        };
        facts.nodes.iter().enumerate().map(account).collect()
    }
}

/// 512 base pages need a page of page tables; a transparent huge page reserves one for when it is
/// split.
pub(super) fn with_page_tables(size: u64) -> u64 {
    size.saturating_add(size / 512)
}

/// Takes from nodes until the request is satisfied.
struct NodeAllocation<'a> {
    nodes: &'a [NodeMemory],
    taken: Vec<u64>,
    left: u64,
}

impl NodeAllocation<'_> {
    /// Takes `of` each node, in order, and returns how much it was.
    fn take(&mut self, of: impl Fn(&NodeMemory) -> u64) -> u64 {
        let before = self.left;
        for (node, taken) in self.nodes.iter().zip(&mut self.taken) {
            let part = if node.eligible { of(node).min(self.left) } else { 0 };
            *taken = taken.saturating_add(part);
            self.left = self.left.saturating_sub(part);
        }
        before.saturating_sub(self.left)
    }
}

/// So long reclaim retries while the disk writes dirty memory back, and so much is written back meanwhile even by a slow
/// one. With more, the OOM killer may come first: reclaim counts its own progress, not that of the disk
/// (`should_reclaim_retry()`).
const DIRTY_S: f64 = 1.0;
const DIRTY_BYTES: u64 = 8 << 20;

/// A request for base or transparent huge pages, in the kernel's order: free memory of every node,
/// then clean cache, then dirty memory, then swap.
pub(super) fn ordinary(facts: &RequestFacts<'_>) -> SupplyPlan {
    let RequestFacts { request, nodes, .. } = facts;
    let needed = with_page_tables(request.size_bytes);
    let mut taking = NodeAllocation { nodes, taken: vec![0; nodes.len()], left: needed };
    let touched = taking.take(|node| node.free.saturating_sub(node.untouched));
    let untouched = taking.take(|node| node.untouched);
    let clean = taking.take(|node| node.clean);
    let dirty = taking.take(|node| node.dirty);
    let mut swapped = taking.take(|node| node.swappable);
    let scraped = taking.take(|node| {
        let free = node.free_above_min.saturating_sub(node.free);
        free.saturating_add(node.all_clean.saturating_sub(node.clean))
    });
    if !request.lock {
        // Unlocked memory may itself be swapped out while the rest of it is touched.
        swapped = swapped.saturating_add(taking.take_anywhere(swap_left(facts)));
    }
    let mut sources =
        MemorySources { clean, dirty, swapped, scraped, untouched, ..MemorySources::default() };
    let mut constraints = Vec::new();
    if taking.left > needed.saturating_sub(request.size_bytes) {
        constraints.push(short_of_memory(facts, needed.saturating_sub(taking.left)));
    } else {
        constraints.extend(doubts(facts, dirty));
        let zone_reclaim = zone_reclaim(facts, touched);
        sources.zone_reclaimed = zone_reclaim
            .as_ref()
            .filter(|(_, constraint)| constraint.effect == ConstraintEffect::Slows)
            .map_or(0, |(beyond, _)| *beyond);
        constraints.extend(zone_reclaim.map(|(_, constraint)| constraint));
        constraints.extend(slow_parts(facts, &sources));
    }
    SupplyPlan { taken: taking.taken, sources, constraints, ..SupplyPlan::default() }
}

/// Memory that the kernel may or may not give, whatever the plan says.
fn doubts(facts: &RequestFacts<'_>, dirty: u64) -> Vec<Constraint> {
    let mut doubts = Vec::new();
    let mut doubt = |kind, needed, available| {
        doubts.push(Constraint::new(ConstraintEffect::MayRefuse, kind, needed, available));
    };
    let soon = (disk::bytes_per_s(facts.snapshot) * DIRTY_S) as u64;
    if dirty > soon.max(DIRTY_BYTES) {
        doubt(ConstraintKind::Dirty, Some(dirty), None);
    }
    let possible = |node: &NodeMemory| node.possible().saturating_add(node.swappable);
    let own_swap = if facts.request.lock { 0 } else { swap_left(facts) };
    let spare = derived::total(facts.eligible().map(possible).chain([own_swap]))
        .saturating_sub(with_page_tables(facts.request.size_bytes));
    if spare < derived::total(facts.eligible().map(|node| node.doubtful)) {
        doubt(ConstraintKind::LastMemory, None, Some(spare));
    }
    doubts
}

impl NodeAllocation<'_> {
    fn take_anywhere(&mut self, bytes: u64) -> u64 {
        let part = bytes.min(self.left);
        self.left = self.left.saturating_sub(part);
        part
    }
}

fn swap_left(facts: &RequestFacts<'_>) -> u64 {
    let others = derived::total(facts.nodes.iter().map(|node| node.swappable));
    facts.free_swap_bytes().unwrap_or(0).saturating_sub(others)
}

fn short_of_memory(facts: &RequestFacts<'_>, available: u64) -> Constraint {
    let request = facts.request;
    let unreclaimable = facts.eligible().flat_map(|node| &node.unreclaimable);
    let missing = request.size_bytes.saturating_sub(available);
    // Locked memory is not swapped out itself: only other memory can be.
    let others =
        derived::total(facts.eligible().map(|node| node.anonymous.saturating_sub(node.swappable)));
    let kind = ConstraintKind::Memory {
        node: request.node,
        swap_helps: !request.lock || others >= missing,
        largest: unreclaimable.max_by_key(|share| share.bytes).cloned(),
        min_free_kib: min_free_kib(facts, missing),
    };
    Constraint::new(ConstraintEffect::Refuses, kind, request.size_bytes, available)
}

/// The value of `vm.min_free_kbytes` that leaves what is missing to programs. With less than the kernel chooses itself it
/// would run out.
fn min_free_kib(facts: &RequestFacts<'_>, missing: u64) -> Option<u64> {
    let snapshot = facts.snapshot;
    let kept = snapshot.sysctl.number(MIN_FREE).ok()?;
    let lower = kept.checked_sub(with_page_tables(missing).div_ceil(1024))?;
    let all_nodes = facts.eligible().count() == facts.nodes.len();
    (all_nodes && lower >= kernel_choice_kib(snapshot).ok()?).then_some(lower)
}

/// Size of the allocations beyond the local node with vm.zone_reclaim_mode, and the constraint: every page first scans
/// the local node for page cache to drop, even if none can be dropped.
fn zone_reclaim(facts: &RequestFacts<'_>, touched: u64) -> Option<(u64, Constraint)> {
    let request = facts.request;
    let mode = facts.snapshot.sysctl.number("vm.zone_reclaim_mode").unwrap_or(0);
    let local = facts.eligible().map(|node| node.free).min().unwrap_or(0);
    let beyond = request.size_bytes.min(touched).saturating_sub(local);
    if mode == 0 || facts.nodes.len() < 2 || request.node.is_some() || beyond == 0 {
        return None;
    }
    // Without bit 4 the scan leaves out mapped and shared memory, and ends at once.
    let is_slow = mode & 4 != 0;
    let effect = if is_slow { ConstraintEffect::Slows } else { ConstraintEffect::Informs };
    let kind = ConstraintKind::ZoneReclaim { mode };
    Some((beyond, Constraint::new(effect, kind, request.size_bytes, local)))
}

fn slow_parts(facts: &RequestFacts<'_>, sources: &MemorySources) -> Vec<Constraint> {
    let parts = [
        (ConstraintKind::Dirty, sources.dirty, None),
        (ConstraintKind::Swap, sources.swapped, facts.free_swap_bytes()),
        (ConstraintKind::BelowWatermarks, sources.scraped, None),
    ];
    let slow = parts.into_iter().filter(|(_, needed, _)| *needed > 0);
    let constraint = |(kind, needed, available)| {
        Constraint::new(ConstraintEffect::Slows, kind, needed, available)
    };
    slow.map(constraint).collect()
}
