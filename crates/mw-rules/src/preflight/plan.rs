//! How much of the request each node contributes, and from what.

use super::disk;
use super::node_memory::NodeMemory;
use super::notes::Notes;
use mw_model::{NodeAccount, PageSize, Request, Snapshot, derived, format_bytes};

/// Sources of the memory of a request. All sizes in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Contribution of each node, in the order of the nodes.
    pub(super) taken: Vec<u64>,
    /// Free memory of the hugetlb pool by node; only for a request for such pages.
    pub(super) pool_free: Option<Vec<u64>>,
    /// From clean page cache and slab.
    pub(super) clean: u64,
    /// From dirty memory, which has to be written back first.
    pub(super) dirty: u64,
    /// By swapping out other memory, or the request itself.
    pub(super) swapped: u64,
    /// From memory below the watermarks and cache in active use.
    pub(super) scraped: u64,
    /// From other nodes while every page first tries to reclaim the local node.
    pub(super) zone_reclaimed: u64,
    /// Without transparent huge pages, or only after compaction.
    pub(super) not_huge_bytes: u64,
    /// In pages that are smaller than the folios that were requested.
    pub(super) not_folio_bytes: u64,
    /// Huge pages allocated beyond the pool for the request.
    pub(super) overcommitted: u64,
    /// From free memory that was never touched.
    pub(super) untouched: u64,
}

impl Plan {
    pub(super) fn is_slow(&self) -> bool {
        let slow = [
            self.dirty,
            self.swapped,
            self.scraped,
            self.zone_reclaimed,
            self.not_huge_bytes,
            self.not_folio_bytes,
            self.overcommitted,
        ];
        slow.iter().any(|bytes| *bytes > 0)
    }

    /// The nodes' accounts, as they are shown.
    pub(super) fn accounts(&self, nodes: &[NodeMemory], request: &Request) -> Vec<NodeAccount> {
        let huge = matches!(request.page, PageSize::Hugetlb(_));
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
        nodes.iter().enumerate().map(account).collect()
    }
}

/// 512 base pages need a page of page tables; a transparent huge page reserves one for when it is
/// split.
pub(super) fn with_page_tables(size: u64) -> u64 {
    size.saturating_add(size / 512)
}

/// Takes from nodes until the request is satisfied.
struct Taking<'a> {
    nodes: &'a [NodeMemory],
    taken: Vec<u64>,
    left: u64,
}

impl Taking<'_> {
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
pub(super) fn ordinary(
    snapshot: &Snapshot,
    request: &Request,
    nodes: &[NodeMemory],
    notes: &mut Notes,
) -> Plan {
    let needed = with_page_tables(request.size_bytes);
    let mut taking = Taking { nodes, taken: vec![0; nodes.len()], left: needed };
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
        swapped = swapped.saturating_add(taking.take_anywhere(swap_left(snapshot, nodes)));
    }
    let available = needed.saturating_sub(taking.left);
    let short = taking.left > needed.saturating_sub(request.size_bytes);
    if short {
        short_of_memory(request, nodes, available, notes);
    }
    let mut plan =
        Plan { taken: taking.taken, clean, dirty, swapped, scraped, untouched, ..Plan::default() };
    if !short {
        doubts(snapshot, request, nodes, dirty, notes);
        plan.zone_reclaimed = zone_reclaim(snapshot, request, nodes, touched, notes);
        slow_parts(&plan, snapshot, notes);
    }
    plan
}

/// Memory that the kernel may or may not give, whatever the plan says.
fn doubts(
    snapshot: &Snapshot,
    request: &Request,
    nodes: &[NodeMemory],
    dirty: u64,
    notes: &mut Notes,
) {
    let soon = (disk::bytes_per_s(snapshot) * DIRTY_S) as u64;
    if dirty > soon.max(DIRTY_BYTES) {
        notes.undecided(format!(
            "{} have to be written back first, and the kernel may call the OOM killer before the disk is done; run sync",
            format_bytes(dirty)
        ));
    }
    let eligible = || nodes.iter().filter(|node| node.eligible);
    let possible = |node: &NodeMemory| node.possible().saturating_add(node.swappable);
    let own_swap = if request.lock { 0 } else { swap_left(snapshot, nodes) };
    let spare = derived::total(eligible().map(possible).chain([own_swap]))
        .saturating_sub(with_page_tables(request.size_bytes));
    if spare < derived::total(eligible().map(|node| node.doubtful)) {
        let spare = format_bytes(spare);
        notes.undecided(format!(
            "it takes all that the kernel can give but {spare}, of which some may not be given"
        ));
    }
}

impl Taking<'_> {
    fn take_anywhere(&mut self, bytes: u64) -> u64 {
        let part = bytes.min(self.left);
        self.left = self.left.saturating_sub(part);
        part
    }
}

fn swap_left(snapshot: &Snapshot, nodes: &[NodeMemory]) -> u64 {
    let free = snapshot.sample.meminfo.value().and_then(|m| m.swap_free_bytes).unwrap_or(0);
    let others = derived::total(nodes.iter().map(|node| node.swappable));
    free.saturating_sub(others)
}

fn short_of_memory(request: &Request, nodes: &[NodeMemory], available: u64, notes: &mut Notes) {
    let eligible = || nodes.iter().filter(|node| node.eligible);
    let held = eligible().flat_map(|node| &node.unreclaimable).max_by_key(|share| share.bytes);
    let held = held.map_or_else(String::new, |share| {
        format!("; the largest part is {} ({})", share.holder, format_bytes(share.bytes))
    });
    let what = request.node.map_or("memory".to_owned(), |node| format!("memory of node {node}"));
    // Locked memory is not swapped out itself: only other memory can be.
    let others =
        derived::total(eligible().map(|node| node.anonymous.saturating_sub(node.swappable)));
    let missing = request.size_bytes.saturating_sub(available);
    let swap = if request.lock && others < missing { "" } else { ", or add swap" };
    let lift = format!("free some of the unreclaimable memory{swap}{held}");
    notes.obstacle(true, what, Some(request.size_bytes), Some(available), lift);
}

/// Cost of an allocation beyond the local node with vm.zone_reclaim_mode: every page first scans
/// the local node for page cache to drop, even if none can be dropped.
fn zone_reclaim(
    snapshot: &Snapshot,
    request: &Request,
    nodes: &[NodeMemory],
    touched: u64,
    notes: &mut Notes,
) -> u64 {
    let mode = snapshot.sysctl.number("vm.zone_reclaim_mode").unwrap_or(0);
    let smallest = nodes.iter().filter(|node| node.eligible).map(|node| node.free).min();
    let local = smallest.unwrap_or(0);
    let beyond = request.size_bytes.min(touched).saturating_sub(local);
    if mode == 0 || nodes.len() < 2 || request.node.is_some() || beyond == 0 {
        return 0;
    }
    notes.obstacle(
        false,
        format!("vm.zone_reclaim_mode is {mode}"),
        Some(request.size_bytes),
        Some(local),
        "set it to 0: once its own node is full, a thread scans that node for page cache at every \
         allocation before it uses another node",
    );
    // Without bit 4 the scan leaves out mapped and shared memory, and ends at once.
    if mode & 4 != 0 { beyond } else { 0 }
}

fn slow_parts(plan: &Plan, snapshot: &Snapshot, notes: &mut Notes) {
    if plan.dirty > 0 {
        let lift = "wait for writeback, or run sync; lower vm.dirty_bytes";
        notes.obstacle(false, "dirty memory", Some(plan.dirty), None, lift);
    }
    if plan.swapped > 0 {
        let free = snapshot.sample.meminfo.value().and_then(|m| m.swap_free_bytes);
        let lift = "stop idle programs, or request less: this much has to be swapped out first";
        notes.obstacle(false, "swap", Some(plan.swapped), free, lift);
    }
    if plan.scraped > 0 {
        let lift = "request less: this much is below the watermarks or in cache that is in use";
        notes.obstacle(false, "memory below the watermarks", Some(plan.scraped), None, lift);
    }
}
