//! Which node gives how much, of what.

use super::Notes;
use super::room::Room;
use mw_model::{NodeAccount, PageKind, Request, Snapshot, derived, format_bytes};

/// What a request takes. All sizes in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// How much is taken, node by node, in the order of the rooms.
    pub(super) taken: Vec<u64>,
    /// Free pages of the pool by node; only for a request on them.
    pub(super) pool_free: Option<Vec<u64>>,
    /// Taken from clean page cache and slab.
    pub(super) clean: u64,
    /// Taken from dirty memory, that has to be written first.
    pub(super) dirty: u64,
    /// Taken by swapping others out, or the request itself.
    pub(super) swapped: u64,
    /// Taken from what lies between what is surely there and the last page.
    pub(super) scraped: u64,
    /// Taken from nodes beyond the first while every page of it tries to reclaim the first.
    pub(super) zone_reclaimed: u64,
    /// What does not come on transparent huge pages without compaction, or not at all.
    pub(super) not_huge_bytes: u64,
    /// Huge pages that are made for the request.
    pub(super) overcommitted: u64,
    /// Taken from free memory that nothing ever touched.
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
            self.overcommitted,
        ];
        slow.iter().any(|bytes| *bytes > 0)
    }

    /// The nodes' accounts, as they are shown.
    pub(super) fn nodes(&self, rooms: &[Room], request: &Request) -> Vec<NodeAccount> {
        let huge = matches!(request.page, PageKind::Hugetlb(_));
        let account = |(index, room): (usize, &Room)| {
            let pool_free = self.pool_free.as_ref().and_then(|free| free.get(index));
            NodeAccount {
                node: room.node,
                total_bytes: room.total,
                free_bytes: if huge { pool_free.copied().unwrap_or(0) } else { room.free },
                clean_bytes: room.clean,
                dirty_bytes: room.dirty,
                swappable_bytes: room.swappable,
                watermark_bytes: room.watermark,
                unreclaimable: room.unreclaimable.clone(),
                taken_bytes: self.taken.get(index).copied().unwrap_or(0),
            }
        };
        rooms.iter().enumerate().map(account).collect()
    }
}

/// Base pages need a page of page tables for 512 of them; transparent huge pages keep one in
/// store for the day that they are split.
pub(super) fn with_page_tables(size: u64) -> u64 {
    size.saturating_add(size / 512)
}

/// Takes from rooms until the request is satisfied.
struct Taking<'a> {
    rooms: &'a [Room],
    taken: Vec<u64>,
    left: u64,
}

impl Taking<'_> {
    /// Takes what `of` says that a room has, room by room; how much it was.
    fn take(&mut self, of: impl Fn(&Room) -> u64) -> u64 {
        let before = self.left;
        for (room, taken) in self.rooms.iter().zip(&mut self.taken) {
            let part = if room.eligible { of(room).min(self.left) } else { 0 };
            *taken = taken.saturating_add(part);
            self.left = self.left.saturating_sub(part);
        }
        before.saturating_sub(self.left)
    }
}

/// A request for memory from the free lists and from reclaim, in the kernel's order: free memory
/// of every node, then clean, then what must be written, then swap.
pub(super) fn ordinary(
    snapshot: &Snapshot,
    request: &Request,
    rooms: &[Room],
    notes: &mut Notes,
) -> Plan {
    let needed = with_page_tables(request.size_bytes);
    let mut taking = Taking { rooms, taken: vec![0; rooms.len()], left: needed };
    let touched = taking.take(|room| room.free.saturating_sub(room.untouched));
    let untouched = taking.take(|room| room.untouched);
    let clean = taking.take(|room| room.clean);
    let dirty = taking.take(|room| room.dirty);
    let mut swapped = taking.take(|room| room.swappable);
    let scraped = taking.take(|room| {
        let free = room.free_to_the_last.saturating_sub(room.free);
        free.saturating_add(room.clean_to_the_last.saturating_sub(room.clean))
    });
    if !request.lock {
        // Memory that is not locked may itself be swapped out while the rest of it is touched.
        swapped = swapped.saturating_add(taking.take_anywhere(swap_left(snapshot, rooms)));
    }
    let had = needed.saturating_sub(taking.left);
    let short = taking.left > needed.saturating_sub(request.size_bytes);
    if short {
        short_of_memory(request, rooms, had, notes);
    }
    let mut plan =
        Plan { taken: taking.taken, clean, dirty, swapped, scraped, untouched, ..Plan::default() };
    if !short {
        plan.zone_reclaimed = zone_reclaim(snapshot, request, rooms, touched, notes);
        slow_parts(&plan, snapshot, notes);
    }
    plan
}

impl Taking<'_> {
    fn take_anywhere(&mut self, bytes: u64) -> u64 {
        let part = bytes.min(self.left);
        self.left = self.left.saturating_sub(part);
        part
    }
}

fn swap_left(snapshot: &Snapshot, rooms: &[Room]) -> u64 {
    let free = snapshot.sample.meminfo.seen().and_then(|m| m.swap_free_bytes).unwrap_or(0);
    let others = derived::total(rooms.iter().map(|room| room.swappable));
    free.saturating_sub(others)
}

fn short_of_memory(request: &Request, rooms: &[Room], had: u64, notes: &mut Notes) {
    let eligible = || rooms.iter().filter(|room| room.eligible);
    let held = eligible().flat_map(|room| &room.unreclaimable).max_by_key(|share| share.bytes);
    let held = held.map_or_else(String::new, |share| {
        format!("; most is held by {} ({})", share.holder, format_bytes(share.bytes))
    });
    let what = request.node.map_or("memory".to_owned(), |node| format!("memory of node {node}"));
    // Locked memory is not swapped out itself: only that of others makes room for it.
    let others =
        derived::total(eligible().map(|room| room.anonymous.saturating_sub(room.swappable)));
    let missing = request.size_bytes.saturating_sub(had);
    let swap = if request.lock && others < missing { "" } else { ", or add swap" };
    let lift = format!("free memory that nothing reclaims{swap}{held}");
    notes.obstacle(true, what, Some(request.size_bytes), Some(had), lift);
}

/// What an allocation beyond the local node costs with vm.zone_reclaim_mode: first it scans the
/// local node for page cache to drop, page by page, also when none can be dropped.
fn zone_reclaim(
    snapshot: &Snapshot,
    request: &Request,
    rooms: &[Room],
    touched: u64,
    notes: &mut Notes,
) -> u64 {
    let mode = snapshot.sysctl.number("vm.zone_reclaim_mode").unwrap_or(0);
    let smallest = rooms.iter().filter(|room| room.eligible).map(|room| room.free).min();
    let local = smallest.unwrap_or(0);
    let beyond = request.size_bytes.min(touched).saturating_sub(local);
    if mode == 0 || rooms.len() < 2 || request.node.is_some() || beyond == 0 {
        return 0;
    }
    notes.obstacle(
        false,
        format!("vm.zone_reclaim_mode is {mode}"),
        Some(request.size_bytes),
        Some(local),
        "set it to 0: beyond what its own node has free, a thread scans that node for page cache \
         at every allocation before it goes to another node",
    );
    // Without bit 4, mapped and shared memory is left out of the scan, and it ends at once.
    if mode & 4 != 0 { beyond } else { 0 }
}

fn slow_parts(plan: &Plan, snapshot: &Snapshot, notes: &mut Notes) {
    if plan.dirty > 0 {
        let lift = "wait until it is written, or write it now with sync; lower vm.dirty_bytes";
        notes.obstacle(false, "memory that is not written yet", Some(plan.dirty), None, lift);
    }
    if plan.swapped > 0 {
        let free = snapshot.sample.meminfo.seen().and_then(|m| m.swap_free_bytes);
        let lift = "stop what is idle, or ask for less: this much has to be swapped out first";
        notes.obstacle(false, "swapping", Some(plan.swapped), free, lift);
    }
    if plan.scraped > 0 {
        let lift = "ask for less: this much lies below the watermarks or in cache that is in use";
        notes.obstacle(false, "the last free memory", Some(plan.scraped), None, lift);
    }
}
