//! Each node's free, reclaimable and unreclaimable memory, from zoneinfo and meminfo.

use super::unreclaimable::{self, NodePart};
use crate::protection::{self, ProtectedMemory};
use mw_memory::UnreclaimableSlab;
use mw_model::{Missing, Origin, Reading, Request, Share, Snapshot, derived, zones};
use mw_proc::meminfo::Meminfo;
use mw_proc::zoneinfo::Zone;

/// The share of memory that may be on per-CPU lists when the OOM killer is called: the kernel drains them only after
/// reclaim has made progress, and fills them again (`__alloc_pages_direct_reclaim()`). From 6.7 on there may be
/// more, up to an eighth of a zone.
const PER_CPU_SHARE: u64 = 64;
/// The share of a zone that the kernel may keep for atomic allocations (`reserve_highatomic_pageblock()`); it is
/// counted as free.
const HIGHATOMIC_SHARE: u64 = 100;

/// The memory of one node. All sizes in bytes.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeMemory {
    pub(crate) node: u32,
    /// True if the request may take memory from here.
    pub(crate) eligible: bool,
    pub(crate) total: u64,
    /// Free above the high watermark and the reserves for lower zones.
    pub(crate) free: u64,
    /// Free above the min watermark, with the pages on per-CPU lists and those that this process releases when it
    /// ends.
    pub(crate) free_above_min: u64,
    /// Part of all this that the kernel may not give: the reserve for atomic allocations, pages on per-CPU lists, and kernel
    /// objects that may be in use or not.
    pub(crate) doubtful: u64,
    /// The part of `free` that was never touched: the kernel initializes or accepts it when it is
    /// allocated.
    pub(crate) untouched: u64,
    /// Kept free by the watermarks.
    pub(crate) watermark: u64,
    /// Clean page cache and slab, less the reserve of the kernel's own MemAvailable.
    pub(crate) clean: u64,
    /// All reclaimable page cache and slab, without dirty pages and pinned objects.
    pub(crate) all_clean: u64,
    /// Kernel objects that are counted as reclaimable but certainly in use.
    pub(crate) pinned: u64,
    /// Page cache that cgroups certainly keep.
    pub(crate) protected: u64,
    pub(crate) dirty: u64,
    /// Anonymous and shared memory that fits into free swap.
    pub(crate) swappable: u64,
    /// The same with unlimited swap.
    pub(crate) anonymous: u64,
    pub(crate) unreclaimable: Vec<Share>,
}

impl NodeMemory {
    /// All that the kernel may give, without swap.
    pub(crate) fn possible(&self) -> u64 {
        let free = self.free_above_min.max(self.free);
        derived::total([free, self.all_clean.max(self.clean), self.dirty])
    }

    /// Adds its share of what the ZFS ARC releases when memory is short: late, so that it is no clean cache. Metadata in
    /// use stays.
    fn add_arc(&mut self, snapshot: &Snapshot, machine: u64) {
        let Some(arc) = snapshot.arc.value() else { return };
        let share = |bytes: u64| (bytes as f64 * self.total as f64 / machine.max(1) as f64) as u64;
        let releasable = arc.releasable_bytes().min(machine);
        let in_use = share(arc.metadata_bytes.unwrap_or(0).min(releasable));
        self.all_clean = self.all_clean.saturating_add(share(releasable));
        self.doubtful = self.doubtful.saturating_add(in_use);
    }

    /// Takes off its share of what cgroups keep: it is counted for the machine only.
    fn protect(&mut self, least: &ProtectedMemory, most: &ProtectedMemory, machine: (u64, u64)) {
        let share =
            |of: u64, own: u64, all: u64| (of as f64 * own as f64 / all.max(1) as f64) as u64;
        let (cache, anonymous) = machine;
        let own = self.all_clean.saturating_add(self.dirty);
        self.clean = self.clean.saturating_sub(share(most.cache, own, cache));
        self.protected = share(least.cache, own, cache);
        self.all_clean = self.all_clean.saturating_sub(self.protected);
        let kept = share(least.anonymous, self.anonymous, anonymous);
        self.anonymous = self.anonymous.saturating_sub(kept);
    }
}

/// The memory of all nodes, or of the whole machine if the kernel does not report nodes; and the files that could not
/// be read.
pub(super) fn read(
    snapshot: &Snapshot,
    request: &Request,
) -> Result<(Vec<NodeMemory>, Vec<Missing>), Missing> {
    let machine = derived::sound(snapshot.sample.meminfo.required()?);
    let (per_node, mut unread) = node_meminfos(snapshot, &machine);
    let zoneinfo = snapshot.sample.zoneinfo.required().map(|zoneinfo| &*zoneinfo.zones);
    let zoneinfo: &[Zone] = zoneinfo.unwrap_or_else(|missing| {
        unread.push(missing);
        &[]
    });
    let page = snapshot.origin.page_bytes.max(1);
    let in_use = derived::unreclaimable_slab(snapshot);
    let of_node = |(node, meminfo): &(u32, Meminfo)| {
        let slab = NodeSlab::new(meminfo, &machine, in_use);
        node_memory(*node, meminfo, &slab, zoneinfo, page)
    };
    let mut nodes: Vec<NodeMemory> = per_node.iter().map(of_node).collect();
    // On which node is not known: more is counted than there is, rather than less.
    let own = snapshot.origin.own_bytes.unwrap_or(0);
    let (least, most) = protection::bounds(snapshot);
    let machine_lists = (derived::file_cache_bytes(&machine), anon_lists(&machine));
    let mut swap = machine.swap_free_bytes.unwrap_or(0);
    for (node, (_, meminfo)) in nodes.iter_mut().zip(&per_node) {
        let deferred = zones::node_deferred_bytes(snapshot, node.node);
        node.free = node.free.saturating_add(deferred);
        node.free_above_min = derived::total([node.free_above_min, deferred, own]);
        node.untouched = zones::node_untouched_bytes(snapshot, node.node).min(node.free);
        node.anonymous = anon_lists(meminfo);
        node.add_arc(snapshot, machine.mem_total_bytes.unwrap_or(0));
        node.protect(&least, &most, machine_lists);
        node.swappable = node.anonymous.min(swap);
        swap = swap.saturating_sub(node.swappable);
        node.doubtful = node.doubtful.saturating_add(own);
        node.eligible = is_eligible(snapshot, request, node.node);
        let part = NodePart {
            node: node.node,
            is_only: per_node.len() == 1,
            swappable_bytes: node.swappable,
            pinned_bytes: node.pinned,
            protected_bytes: node.protected,
        };
        node.unreclaimable = unreclaimable::shares(snapshot, meminfo, &part);
    }
    Ok((nodes, unread))
}

fn is_eligible(snapshot: &Snapshot, request: &Request, node: u32) -> bool {
    let Origin { memory_nodes, policy_nodes, .. } = &snapshot.origin;
    let is_in = |nodes: &Option<Vec<u32>>| nodes.as_ref().is_none_or(|nodes| nodes.contains(&node));
    let chosen = request.node.map_or_else(|| is_in(policy_nodes), |requested| requested == node);
    chosen && is_in(memory_nodes)
}

/// meminfo of every node, or of the machine, as node 0, if the kernel does not report nodes; and the files that could
/// not be read.
fn node_meminfos(snapshot: &Snapshot, machine: &Meminfo) -> (Vec<(u32, Meminfo)>, Vec<Missing>) {
    let sampled = || snapshot.sample.nodes.iter().map(|node| &node.meminfo);
    let mut unread: Vec<Missing> = sampled().filter_map(Reading::missing).cloned().collect();
    if sampled().all(|meminfo| meminfo.value().is_none()) {
        unread.extend(snapshot.nodes.required().err());
    }
    let nodes = zones::node_meminfos(snapshot);
    match nodes[..] {
        // A single node has the memory of the machine, whose file has more lines.
        [(node, _)] => (vec![(node, *machine)], unread),
        _ => (nodes, unread),
    }
}

/// A node's kernel objects that are counted as reclaimable, in bytes.
struct NodeSlab {
    /// Those that reclaim certainly frees.
    sure: u64,
    /// Those that may be unused.
    maybe_unused: u64,
    /// Those that are certainly in use.
    in_use: u64,
}

impl NodeSlab {
    /// The kernel counts objects in use for the machine only: a node gets a share in proportion to its
    /// objects.
    fn new(node: &Meminfo, machine: &Meminfo, in_use: UnreclaimableSlab) -> Self {
        let [own, all] = [node, machine].map(derived::kernel_reclaimable_bytes);
        let share = own as f64 / all.max(1) as f64;
        let [least, most] =
            [in_use.min_bytes, in_use.max_bytes].map(|bytes| (bytes as f64 * share) as u64);
        Self {
            sure: own.saturating_sub(most),
            maybe_unused: own.saturating_sub(least),
            in_use: least.min(own),
        }
    }
}

fn node_memory(
    node: u32,
    meminfo: &Meminfo,
    slab: &NodeSlab,
    zones: &[Zone],
    page: u64,
) -> NodeMemory {
    let own = || zones.iter().filter(|zone| zone.node == node && zone.is_populated());
    let sum = |f: &dyn Fn(&Zone) -> u64| derived::total(own().map(f)).saturating_mul(page);
    let known = own().next().is_some();
    let all_free = meminfo.mem_free_bytes.unwrap_or(0);
    let low = sum(&|zone| zone.low_pages);
    let file = derived::file_cache_bytes(meminfo);
    let unwritten = derived::unwritten_bytes(meminfo);
    let less_reserve = |bytes: u64| bytes.saturating_sub((bytes / 2).min(low.max(bytes / 64)));
    let total = meminfo.mem_total_bytes.unwrap_or(0);
    let last = if known { sum(&Zone::free_above_min_pages) } else { all_free };
    let per_cpu = sum(&|zone| zone.pcp_pages.unwrap_or(0));
    let may_be_on_lists = (total / PER_CPU_SHARE).saturating_sub(per_cpu);
    let kept = (total / HIGHATOMIC_SHARE).saturating_add(may_be_on_lists).min(last);
    NodeMemory {
        node,
        total,
        free: if known {
            sum(&Zone::free_above_high_pages)
        } else {
            all_free.saturating_sub(all_free / 16)
        },
        free_above_min: last.saturating_add(per_cpu),
        doubtful: derived::total([kept, per_cpu, slab.maybe_unused.saturating_sub(slab.sure)]),
        watermark: sum(&|zone| zone.unboosted_high_pages().saturating_add(zone.reserve_pages()))
            .min(all_free),
        clean: less_reserve(file).saturating_sub(unwritten).saturating_add(less_reserve(slab.sure)),
        all_clean: file.saturating_sub(unwritten).saturating_add(slab.maybe_unused),
        pinned: slab.in_use,
        dirty: unwritten.min(file),
        ..NodeMemory::default()
    }
}

fn anon_lists(meminfo: &Meminfo) -> u64 {
    match (meminfo.active_anon_bytes, meminfo.inactive_anon_bytes) {
        (None, None) => meminfo.anon_pages_bytes.unwrap_or(0),
        (active, inactive) => derived::total([active, inactive].into_iter().flatten()),
    }
}
