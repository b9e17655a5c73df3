//! What a node has of the requested kind of memory, and what can become of the rest.

use crate::preflight::facts::RequestFacts;
use crate::preflight::growth;
use crate::preflight::hugetlb::LARGEST_ORDER;
use crate::preflight::node_memory::NodeMemory;
use mw_model::{HugePool, Missing, PageSize, Request, Share, Snapshot, derived};

/// The most that is reclaimed, moved, swapped out or added to the pool before the next measurement.
pub(super) const CHUNK_BYTES: u64 = 256 << 20;

/// One node as a step finds it. All sizes in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeState {
    pub node: u32,
    /// Size of a page of the request.
    pub page_bytes: u64,
    /// True if the pages come from a hugetlb pool.
    pub is_pool: bool,
    /// True if memory has to be contiguous.
    pub is_huge: bool,
    /// True if a page is larger than the largest block of the buddy allocator: the kernel then moves what is in the way
    /// while it adds the page to the pool.
    pub is_gigantic: bool,
    /// Of the requested kind, there now: free pages of the pool; otherwise free memory in blocks of that size.
    pub available: u64,
    /// Free above the high watermarks in blocks of a page of the request.
    pub whole: u64,
    /// Free above the high watermarks.
    pub free: u64,
    /// Clean page cache, less what the kernel keeps.
    pub clean: u64,
    /// Page cache behind sequential readers and writers.
    pub left_behind: u64,
    /// Anonymous memory that may be swapped out.
    pub swappable: u64,
    /// Anonymous memory that may be moved to other nodes, as far as there is room.
    pub movable: u64,
    /// The node to which memory would be moved, and how much has room there.
    pub target: Option<RequestPart>,
    /// The least and the most that may be whole after reclaim and compaction.
    pub reach: Option<(u64, u64)>,
    /// Memory that cannot be reclaimed, by holder.
    pub unreclaimable: Vec<Share>,
}

/// Permitted changes to anonymous memory of other programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RoomConsent {
    /// It may be swapped out.
    pub swap: bool,
    /// It may be moved to other nodes.
    pub migrate: bool,
}

/// Features of this kernel, and the consent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// True if it can reclaim a node or a cgroup.
    pub reclaim: bool,
    /// True if it can compact a node.
    pub compact: bool,
    /// The consent.
    pub consent: RoomConsent,
    /// True if there is swap space.
    pub has_swap: bool,
}

/// Part of the request that a node is to provide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestPart {
    pub node: u32,
    pub bytes: u64,
}

/// The nodes from which the request may take memory. `left_behind` counts for the machine, and only where it
/// is certain on which node it is. Memory that can be swapped out or moved to other nodes counts only if it may be.
///
/// # Errors
/// meminfo was not read, or the node cannot be used.
pub fn node_states(
    snapshot: &Snapshot,
    request: &Request,
    left_behind: u64,
    consent: RoomConsent,
) -> Result<Vec<NodeState>, Missing> {
    let facts = RequestFacts::read(snapshot, request)?;
    if let Some(node) = facts.unreachable_node() {
        return Err(Missing::absent(node.what(), node.remedy()));
    }
    let nodes = &facts.nodes;
    let is_only = nodes.len() == 1;
    let page_bytes = derived::page_bytes(snapshot, request.page);
    let mut unpromised = pool_available(snapshot, page_bytes);
    let of_node = |node: &NodeMemory| {
        let others: Vec<&NodeMemory> =
            nodes.iter().filter(|other| consent.migrate && other.node != node.node).collect();
        let mut state = state(snapshot, request, node, consent, &others);
        if state.is_pool {
            let free =
                if is_only { unpromised } else { node_pool(snapshot, page_bytes, node.node) };
            state.available = free.min(unpromised);
            unpromised = unpromised.saturating_sub(state.available);
        }
        state.left_behind = if is_only { left_behind.min(node.all_clean) } else { 0 };
        state
    };
    Ok(nodes.iter().filter(|node| node.eligible).map(of_node).collect())
}

/// `others` are the nodes to which memory may be moved.
fn state(
    snapshot: &Snapshot,
    request: &Request,
    node: &NodeMemory,
    consent: RoomConsent,
    others: &[&NodeMemory],
) -> NodeState {
    let page_bytes = derived::page_bytes(snapshot, request.page);
    let is_huge = request.page != PageSize::Base;
    let swappable = if consent.swap { node.swappable } else { 0 };
    let room = derived::total(others.iter().map(|other| room_on(other)));
    let movable = node.anonymous.min(room);
    let leaving = swappable.saturating_add(movable).min(node.anonymous.max(swappable));
    let growth = growth::of_node(snapshot, page_bytes, node, leaving);
    let whole = if is_huge { growth.now_bytes } else { node.free };
    let sum = || {
        let least = node.free.saturating_add(node.clean).saturating_sub(node.doubtful);
        (least.max(whole), node.possible().saturating_add(leaving).max(whole))
    };
    NodeState {
        node: node.node,
        page_bytes,
        is_pool: matches!(request.page, PageSize::Hugetlb(_)),
        is_huge,
        is_gigantic: derived::order_of(page_bytes, snapshot.origin.page_bytes) > LARGEST_ORDER,
        available: whole,
        whole,
        free: node.free,
        clean: node.clean,
        left_behind: 0,
        swappable,
        movable,
        target: target(others),
        reach: if is_huge { growth.least_bytes.zip(growth.most_bytes) } else { Some(sum()) },
        unreclaimable: unreclaimable(node, consent.swap),
    }
}

/// Memory that fits on a node: its cache makes way.
fn room_on(node: &NodeMemory) -> u64 {
    node.free.saturating_add(node.clean)
}

/// A node with free memory rather than one whose cache has to make way.
fn target(others: &[&NodeMemory]) -> Option<RequestPart> {
    let is_free = |node: &NodeMemory| node.free >= CHUNK_BYTES;
    let best = others.iter().max_by_key(|node| (is_free(node), room_on(node)))?;
    let bytes = if is_free(best) { best.free } else { room_on(best) };
    Some(RequestPart { node: best.node, bytes })
}

/// Without consent, what could be swapped out stays as well.
fn unreclaimable(node: &NodeMemory, may_swap: bool) -> Vec<Share> {
    let unswapped = (!may_swap && node.swappable > 0).then(|| Share {
        holder: "anonymous memory of processes (swapping out is not allowed)".to_owned(),
        bytes: node.swappable,
    });
    let mut shares: Vec<Share> =
        unswapped.into_iter().chain(node.unreclaimable.iter().cloned()).collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.bytes));
    shares
}

/// Pages of the machine's pool that nobody has reserved, in bytes.
fn pool_available(snapshot: &Snapshot, page_bytes: u64) -> u64 {
    let pools = snapshot.hugepages.value().map_or(&[][..], Vec::as_slice);
    HugePool::find(pools, page_bytes).map_or(0, HugePool::available_bytes)
}

fn node_pool(snapshot: &Snapshot, page_bytes: u64, node: u32) -> u64 {
    let nodes = snapshot.nodes.value().map_or(&[][..], Vec::as_slice);
    let node = nodes.iter().find(|known| known.id == node);
    let pool = node.and_then(|node| HugePool::find(&node.hugepages, page_bytes));
    pool.map_or(0, |pool| pool.free_pages.saturating_mul(page_bytes))
}

/// Part that each node is to provide: first what is there, then what is whole, then what can certainly become
/// whole, then what may. What no node can provide is the last one's.
pub fn split(states: &[NodeState], request: &Request) -> Vec<RequestPart> {
    let page = states.first().map_or(1, |state| state.page_bytes.max(1));
    let wanted = request.size_bytes.div_ceil(page).saturating_mul(page);
    let mut parts: Vec<RequestPart> =
        states.iter().map(|state| RequestPart { node: state.node, bytes: 0 }).collect();
    let mut left = wanted;
    let ready = |state: &NodeState| if state.is_pool { state.available } else { 0 };
    let bounds: [&dyn Fn(&NodeState) -> u64; 4] = [
        &ready,
        &|state| ready(state).saturating_add(state.whole),
        &|state| ready(state).saturating_add(state.reach.map_or(0, |reach| reach.0)),
        &|state| ready(state).saturating_add(state.reach.map_or(0, |reach| reach.1)),
    ];
    for bound in bounds {
        for (part, state) in parts.iter_mut().zip(states) {
            let most = bound(state);
            let most = most.saturating_sub(most.checked_rem(page).unwrap_or(0));
            let more = most.saturating_sub(part.bytes).min(left);
            part.bytes = part.bytes.saturating_add(more);
            left = left.saturating_sub(more);
        }
    }
    if let Some(last) = parts.last_mut() {
        last.bytes = last.bytes.saturating_add(left);
    }
    parts.retain(|part| part.bytes > 0);
    parts
}
