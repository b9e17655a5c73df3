//! Zone counters cross-checked with meminfo: free memory that they leave out is added here, so that
//! no consumer takes a zone that the kernel still fills for a small, full or fragmented one.
//!
//! | memory | MemTotal, MemFree | `managed` | zone's `free`, nr_free_pages | buddyinfo |
//! |---|---|---|---|---|
//! | deferred: page structures not initialised yet | yes | no | no | no |
//! | unaccepted: a confidential guest's, not accepted yet | yes | yes | yes | no |
//! | in a balloon, offlined | no | no | no | no |
//!
//! Deferred and unaccepted memory is *untouched*: free, in one piece, and slower to populate for the
//! first time. A balloon that may deflate when memory runs out is memory in use, in every file.

use crate::{Missing, Sample, Snapshot, Window, contradiction, derived, fragmentation};
use mw_memory::DeferredInit;
use mw_proc::buddyinfo::BuddyZone;
use mw_proc::meminfo::Meminfo;
use mw_proc::vmstat::Counter;
use mw_proc::zoneinfo::Zone;

/// Pages that can hold page cache, in vmstat: free pages and the lists of file pages.
pub const DIRTYABLE: [Counter; 3] =
    [Counter::NrFreePages, Counter::NrActiveFile, Counter::NrInactiveFile];

/// The memory that no zone manages yet, where both files were seen.
pub fn deferred(sample: &Sample, page_bytes: u64) -> Option<DeferredInit<'_>> {
    Some(DeferredInit::new(sample.meminfo.value()?, sample.zoneinfo.value()?, page_bytes))
}

/// The memory of the machine that no zone manages yet, in bytes.
pub fn deferred_bytes(sample: &Sample, page_bytes: u64) -> u64 {
    deferred(sample, page_bytes).map_or(0, |deferred| deferred.bytes())
}

/// The memory of a node that no zone manages yet, in bytes.
pub fn node_deferred_bytes(snapshot: &Snapshot, node: u32) -> u64 {
    deferred(&snapshot.sample, snapshot.origin.page_bytes).map_or(0, |d| d.node_bytes(node))
}

/// The free memory of a node that nobody has touched yet, in bytes: deferred and unaccepted.
pub fn node_untouched_bytes(snapshot: &Snapshot, node: u32) -> u64 {
    let zones = snapshot.sample.zoneinfo.value().map_or(&[][..], |info| info.zones.as_slice());
    let zones = zones.iter().filter(|zone| zone.node == node);
    let pages = derived::total(zones.filter_map(|zone| zone.unaccepted_pages));
    let unaccepted = pages.saturating_mul(snapshot.origin.page_bytes);
    node_deferred_bytes(snapshot, node).saturating_add(unaccepted)
}

/// The free memory of a zone that is in no list of buddyinfo, in bytes: deferred and unaccepted.
pub fn unlisted_bytes(sample: &Sample, page_bytes: u64, zone: &BuddyZone) -> u64 {
    let Some(known) = zone_of(sample, zone) else { return 0 };
    let deferred = deferred(sample, page_bytes).map_or(0, |deferred| deferred.zone_bytes(known));
    let unaccepted = known.unaccepted_pages.unwrap_or(0).saturating_mul(page_bytes);
    deferred.saturating_add(unaccepted)
}

fn zone_of<'a>(sample: &'a Sample, zone: &BuddyZone) -> Option<&'a Zone> {
    let zones = &sample.zoneinfo.value()?.zones;
    zones.iter().find(|known| known.node == zone.node && known.name == zone.name)
}

/// True if the kernel is still giving memory to a zone: its counters say how much it has had so
/// far, not how much there is. Deferred initialisation, a balloon that deflates, a memory block
/// that is being onlined.
pub fn is_growing(window: &Window, zone: &BuddyZone) -> bool {
    let (now, page_bytes) = (&window.now.sample, window.now.origin.page_bytes);
    let Some(known) = zone_of(now, zone) else { return false };
    if deferred(now, page_bytes).is_some_and(|deferred| deferred.zone_bytes(known) > 0) {
        return true;
    }
    let Some(before) = window.earlier.first() else { return false };
    match zone_of(before, zone) {
        Some(before) => before.managed_pages < known.managed_pages,
        // A capture has no earlier zoneinfo.
        None => {
            let total = |sample: &Sample| sample.meminfo.value()?.mem_total_bytes;
            total(before).is_some_and(|before| Some(before) < total(now))
        }
    }
}

/// The share of a zone's free memory that cannot serve a request of `order`, in thousandths, as
/// [`fragmentation::unusable_milli`], with what is in no list counted as one piece.
pub fn unusable_milli(sample: &Sample, page_bytes: u64, zone: &BuddyZone, order: usize) -> u32 {
    let unlisted = unlisted_bytes(sample, page_bytes, zone).checked_div(page_bytes).unwrap_or(0);
    if unlisted == 0 {
        return fragmentation::unusable_milli(zone, order);
    }
    let listed = fragmentation::free_pages(zone);
    let usable = fragmentation::free_pages_from_order(zone, order);
    let unusable = u128::from(listed.saturating_sub(usable));
    let free = u128::from(listed).saturating_add(u128::from(unlisted));
    u32::try_from(unusable * 1000 / free).unwrap_or(1000)
}

/// Free memory in blocks of at least `order` on the nodes that `wanted` names, in bytes.
///
/// # Errors
/// buddyinfo was not seen.
pub fn free_in_blocks_bytes(
    snapshot: &Snapshot,
    order: usize,
    wanted: impl Fn(u32) -> bool,
) -> Result<u64, Missing> {
    let page_bytes = snapshot.origin.page_bytes;
    let zones = snapshot.sample.buddyinfo.required()?.zones.iter();
    let of_zone = |zone: &BuddyZone| {
        let listed = fragmentation::free_pages_from_order(zone, order).saturating_mul(page_bytes);
        listed.saturating_add(unlisted_bytes(&snapshot.sample, page_bytes, zone))
    };
    Ok(derived::total(zones.filter(|zone| wanted(zone.node)).map(of_zone)))
}

/// The index from which on the free memory of a zone counts as fragmented, in thousandths.
const FRAGMENTED_MILLI: u32 = 500;
/// Share of a zone that has to be free and unusable for it to count.
const MIN_UNUSABLE_PERCENT: u64 = 5;
/// The same where the zone's size is unknown, and its minimum, in bytes.
const MIN_UNUSABLE_BYTES: u64 = 64 << 20;

/// The free memory of a zone by what a request of an order can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeBySize {
    pub free_bytes: u64,
    /// In blocks of the order, and beyond.
    pub usable_bytes: u64,
    /// The unusable free space index, in thousandths.
    pub unusable_milli: u32,
}

impl FreeBySize {
    pub fn unusable_bytes(&self) -> u64 {
        self.free_bytes.saturating_sub(self.usable_bytes)
    }
}

/// The free memory of a zone, if much of it is in blocks that are too small for `order`.
pub fn fragmented(snapshot: &Snapshot, zone: &BuddyZone, order: usize) -> Option<FreeBySize> {
    let (sample, page_bytes) = (&snapshot.sample, snapshot.origin.page_bytes);
    let unlisted = unlisted_bytes(sample, page_bytes, zone);
    let bytes = |pages: u64| pages.saturating_mul(page_bytes).saturating_add(unlisted);
    let free = FreeBySize {
        free_bytes: bytes(fragmentation::free_pages(zone)),
        usable_bytes: bytes(fragmentation::free_pages_from_order(zone, order)),
        unusable_milli: unusable_milli(sample, page_bytes, zone, order),
    };
    let share = zone_of(sample, zone).map_or(0, |zone| {
        let bytes = zone.managed_or_present_pages().saturating_mul(page_bytes);
        (bytes / 100).saturating_mul(MIN_UNUSABLE_PERCENT)
    });
    let is_much = free.unusable_bytes() >= share.max(MIN_UNUSABLE_BYTES);
    (free.unusable_milli >= FRAGMENTED_MILLI && is_much).then_some(free)
}

/// True if some zone is fragmented for huge pages by its free lists.
pub fn has_fragmented(snapshot: &Snapshot) -> bool {
    let order = derived::order_of(derived::huge_page_bytes(snapshot), snapshot.origin.page_bytes);
    let zones = snapshot.sample.buddyinfo.value().map_or(&[][..], |info| info.zones.as_slice());
    zones.iter().any(|zone| fragmented(snapshot, zone, order).is_some())
}

/// Memory that can hold page cache, in bytes: what the kernel's dirty limits are shares of
/// (`global_dirtyable_memory()`). By vmstat, which is of the same moment as the limit.
///
/// # Errors
/// vmstat lacks the counters, and meminfo was not seen or lacks the lines.
pub fn dirtyable_bytes(snapshot: &Snapshot) -> Result<u64, Missing> {
    let sample = &snapshot.sample;
    let vmstat = sample.vmstat.value();
    let pages: Option<Vec<u64>> =
        DIRTYABLE.iter().map(|counter| vmstat.and_then(|v| v.get(*counter))).collect();
    let page_bytes = snapshot.origin.page_bytes;
    if let Some(pages) = pages {
        let counted = derived::total(pages).saturating_mul(page_bytes);
        return Ok(counted.saturating_add(deferred_bytes(sample, page_bytes)));
    }
    let meminfo = sample.meminfo.required()?;
    let free = derived::free_bytes(meminfo)?;
    Ok(free.saturating_add(derived::file_cache_bytes(meminfo)))
}

/// The kernel keeps less than this share of what is present for itself: where more is not managed,
/// somebody has taken it.
const TAKEN_SHARE: u64 = 4;

/// All memory of the machine in bytes, with what a balloon has taken for now: MemTotal, or what is
/// present in the zones where that is a quarter more. Settings that the kernel or a person has
/// chosen for the whole machine stay when a balloon takes a part of it.
///
/// # Errors
/// meminfo was not seen or has no MemTotal.
pub fn present_bytes(snapshot: &Snapshot) -> Result<u64, Missing> {
    let zones = snapshot.sample.zoneinfo.value().map_or(&[][..], |info| info.zones.as_slice());
    let pages = derived::total(zones.iter().map(|zone| zone.present_pages));
    let present = pages.saturating_mul(snapshot.origin.page_bytes);
    let total = derived::memory_bytes(&snapshot.sample)?;
    let taken = present.saturating_sub(total) > present / TAKEN_SHARE;
    Ok(if taken { present } else { total })
}

/// meminfo of the nodes where it was seen, with deferred memory in MemTotal and MemFree; of the
/// machine, as node 0, where no node says.
pub fn node_meminfos(snapshot: &Snapshot) -> Vec<(u32, Meminfo)> {
    let sample = &snapshot.sample;
    let are_of_machine = !contradiction::nodes_are_of_another_machine(snapshot);
    let nodes = sample.nodes.iter().filter(|_| are_of_machine);
    let nodes = nodes.filter_map(|of| Some((of.node, mw_memory::sound(of.meminfo.value()?))));
    let completed: Vec<_> = nodes
        .map(|(node, mut meminfo)| {
            let deferred = node_deferred_bytes(snapshot, node);
            for field in [&mut meminfo.mem_total_bytes, &mut meminfo.mem_free_bytes] {
                *field = field.map(|bytes| bytes.saturating_add(deferred));
            }
            (node, meminfo)
        })
        .collect();
    if completed.is_empty() {
        return sample
            .meminfo
            .value()
            .map(|meminfo| (0, mw_memory::sound(meminfo)))
            .into_iter()
            .collect();
    }
    completed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NodeSample, Reading};
    use mw_proc::buddyinfo::Buddyinfo;
    use mw_proc::zoneinfo::{ZoneName, Zoneinfo};

    const GIB: u64 = 1 << 30;

    /// A machine of 16 GiB whose only zone manages so much and has so much free, in GiB.
    fn machine(managed: u64, free: u64, mem_total: u64, mem_free: u64) -> Snapshot {
        let mut snapshot = Snapshot::default();
        snapshot.origin.page_bytes = 4096;
        let zone = Zone {
            name: ZoneName::new(b"Normal").unwrap(),
            present_pages: 16 << 18,
            managed_pages: Some(managed << 18),
            free_pages: free << 18,
            ..Zone::default()
        };
        let (mem_total_bytes, mem_free_bytes) = (Some(mem_total * GIB), Some(mem_free * GIB));
        let of = Meminfo { mem_total_bytes, mem_free_bytes, ..Meminfo::default() };
        let total = Meminfo { mem_total_bytes: Some(managed * GIB), ..of };
        let of_node = Meminfo { mem_free_bytes: Some(free * GIB), ..total };
        snapshot.sample.meminfo = Reading::Value(of);
        snapshot.sample.zoneinfo =
            Reading::Value(Zoneinfo { zones: vec![zone], ..Zoneinfo::default() });
        snapshot.sample.nodes = vec![NodeSample { node: 0, meminfo: Reading::Value(of_node) }];
        let mut buddyinfo = Buddyinfo::default();
        let line = format!("Node 0, zone Normal {} 0 0 0 0 0 0 0 0 0 0\n", free << 18);
        buddyinfo.parse_into(line.as_bytes()).unwrap();
        snapshot.sample.buddyinfo = Reading::Value(buddyinfo);
        snapshot
    }

    fn buddy(snapshot: &Snapshot) -> BuddyZone {
        snapshot.sample.buddyinfo.value().unwrap().zones[0]
    }

    fn unusable(snapshot: &Snapshot) -> u32 {
        unusable_milli(&snapshot.sample, 4096, &buddy(snapshot), 9)
    }

    #[test]
    fn deferred_memory_is_free_whole_and_part_of_its_node() {
        let lazy = machine(4, 1, 16, 13);
        assert_eq!(deferred_bytes(&lazy.sample, 4096), 12 * GIB);
        assert_eq!(unusable(&lazy), 76);
        assert_eq!(free_in_blocks_bytes(&lazy, 9, |_| true).unwrap(), 12 * GIB);
        assert_eq!(free_in_blocks_bytes(&lazy, 9, |_| false).unwrap(), 0);
        let (_, node) = node_meminfos(&lazy)[0];
        assert_eq!((node.mem_total_bytes, node.mem_free_bytes), (Some(16 * GIB), Some(13 * GIB)));
        assert!(is_growing(&Window::new(lazy.clone()), &buddy(&lazy)));
    }

    #[test]
    fn unaccepted_memory_is_free_and_whole_and_counted_by_its_zone() {
        let mut guest = machine(16, 13, 16, 13);
        let Reading::Value(zoneinfo) = &mut guest.sample.zoneinfo else { panic!() };
        zoneinfo.zones[0].unaccepted_pages = Some(39 << 18);
        assert_eq!(deferred_bytes(&guest.sample, 4096), 0);
        assert_eq!((unusable(&guest), node_untouched_bytes(&guest, 0)), (250, 39 * GIB));
        let (_, node) = node_meminfos(&guest)[0];
        assert_eq!((node.mem_total_bytes, node.mem_free_bytes), (Some(16 * GIB), Some(13 * GIB)));
        assert!(!is_growing(&Window::new(guest.clone()), &buddy(&guest)));
    }

    #[test]
    fn a_balloon_leaves_the_counters_as_they_are() {
        let shrunk = machine(4, 1, 4, 1);
        assert_eq!((deferred_bytes(&shrunk.sample, 4096), unusable(&shrunk)), (0, 1000));
        let (_, node) = node_meminfos(&shrunk)[0];
        assert_eq!(node.mem_total_bytes, Some(4 * GIB));
        assert!(!is_growing(&Window::new(shrunk.clone()), &buddy(&shrunk)));
        assert_eq!(present_bytes(&shrunk), Ok(16 * GIB));
    }

    #[test]
    fn a_zone_grows_that_manages_more_than_before() {
        let (before, now) = (machine(4, 1, 4, 1), machine(6, 3, 6, 3));
        let zone = buddy(&now);
        let window = Window::since([before.sample.clone()], now);
        assert!(is_growing(&window, &zone));
        let captured = Sample { zoneinfo: Reading::default(), ..before.sample.clone() };
        let window = Window::since([captured], window.now);
        assert!(is_growing(&window, &zone));
        let same = Window::since([window.now.sample.clone()], window.now);
        assert!(!is_growing(&same, &zone));
    }

    #[test]
    fn page_cache_may_fill_what_no_zone_has_yet() {
        let mut lazy = machine(4, 1, 16, 13);
        assert_eq!(dirtyable_bytes(&lazy).unwrap(), 13 * GIB, "by meminfo");
        let mut vmstat = mw_proc::vmstat::Vmstat::default();
        let text = format!("nr_free_pages {}\nnr_inactive_file 0\nnr_active_file 0\n", 1 << 18);
        vmstat.parse_into(text.as_bytes()).unwrap();
        lazy.sample.vmstat = Reading::Value(vmstat);
        assert_eq!(dirtyable_bytes(&lazy).unwrap(), 13 * GIB, "by vmstat");
    }
}
