//! Deferred initialization: memory that the kernel has not handed to its zones yet.
//!
//! A kernel that initializes its page structures lazily counts all memory in MemTotal, and the
//! uninitialized part in MemFree too. The zones get that memory in pieces, when they run short. Until
//! then it is missing from `managed` and `free` in /proc/zoneinfo, `nr_free_pages` in /proc/vmstat,
//! /proc/buddyinfo and the meminfo of every node.
//!
//! A balloon, an offlined memory block and unaccepted memory are different: the first two lower
//! MemTotal together with `managed`; the last is managed and free.

use mw_proc::meminfo::Meminfo;
use mw_proc::zoneinfo::{Zone, Zoneinfo};

/// A smaller difference may come from counters that are read one after the other.
const MIN_BYTES: u64 = 64 << 20;

/// The deferred memory of a machine.
#[derive(Debug, Clone, Copy)]
pub struct DeferredInit<'a> {
    zones: &'a [Zone],
    bytes: u64,
}

impl<'a> DeferredInit<'a> {
    /// The part of MemTotal and of MemFree, whichever is less, that no zone counts, and at most what
    /// the zones could still get. `meminfo` is the machine's.
    #[must_use]
    pub fn new(meminfo: &Meminfo, zoneinfo: &'a Zoneinfo, page_bytes: u64) -> Self {
        let zones = zoneinfo.zones.as_slice();
        let sum = |pages: &dyn Fn(&Zone) -> u64| {
            zones.iter().fold(0_u64, |sum, zone| sum.saturating_add(pages(zone)))
        };
        let bytes = |pages: u64| pages.saturating_mul(page_bytes);
        let managed = bytes(sum(&Zone::managed_or_present_pages));
        let listed = bytes(sum(&|zone| zone.free_pages));
        let total = meminfo.mem_total_bytes.unwrap_or(0).saturating_sub(managed);
        let free = meminfo.mem_free_bytes.unwrap_or(0).saturating_sub(listed);
        let unmanaged = bytes(sum(&|zone| unmanaged_pages(zones, zone)));
        let deferred = total.min(free).min(unmanaged);
        Self { zones, bytes: if deferred < MIN_BYTES { 0 } else { deferred } }
    }

    /// Deferred memory of the whole machine in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Deferred memory of one node in bytes.
    #[must_use]
    pub fn node_bytes(&self, node: u32) -> u64 {
        let zones = self.zones.iter().filter(|zone| zone.node == node);
        zones.fold(0, |sum, zone| sum.saturating_add(self.zone_bytes(zone)))
    }

    /// Deferred memory of one zone in bytes. The kernel does not report which zone will get how much:
    /// this is the zone's share in proportion to its unmanaged pages.
    #[must_use]
    pub fn zone_bytes(&self, zone: &Zone) -> u64 {
        let pages = |zone| u128::from(unmanaged_pages(self.zones, zone));
        let all = self.zones.iter().fold(0_u128, |sum, zone| sum.saturating_add(pages(zone)));
        let part = u128::from(self.bytes).saturating_mul(pages(zone)).checked_div(all);
        u64::try_from(part.unwrap_or(0)).unwrap_or(u64::MAX)
    }
}

/// Pages that a zone may still get. Only the last populated zone of a node is initialized late
/// (`defer_init()`): the lower ones are needed for DMA from the start, and their unmanaged pages are
/// reserved for good.
fn unmanaged_pages(zones: &[Zone], zone: &Zone) -> u64 {
    let last = zones.iter().rfind(|other| other.node == zone.node && other.is_populated());
    if last.is_none_or(|last| last.name != zone.name) {
        return 0;
    }
    zone.present_pages.saturating_sub(zone.managed_or_present_pages())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_proc::zoneinfo::ZoneName;

    const GIB: u64 = 1 << 30;

    fn zone(node: u32, name: &str, present_gib: u64, managed_gib: u64, free_gib: u64) -> Zone {
        Zone {
            node,
            name: ZoneName::new(name.as_bytes()).unwrap(),
            present_pages: present_gib << 18,
            managed_pages: Some(managed_gib << 18),
            free_pages: free_gib << 18,
            ..Zone::default()
        }
    }

    fn meminfo(total_gib: u64, free_gib: u64) -> Meminfo {
        let bytes = |gib: u64| Some(gib * GIB);
        let (mem_total_bytes, mem_free_bytes) = (bytes(total_gib), bytes(free_gib));
        Meminfo { mem_total_bytes, mem_free_bytes, ..Meminfo::default() }
    }

    /// Promise (Findings): Deferred and unaccepted memory counts as free and unfragmented, and a growing zone is not
    /// judged; a balloon does not count as either.
    #[test]
    fn belongs_to_the_last_zone_of_each_node() {
        let zones = vec![
            zone(0, "DMA32", 4, 3, 3),
            zone(0, "Normal", 20, 4, 1),
            zone(0, "Movable", 0, 0, 0),
            zone(1, "Normal", 24, 16, 2),
        ];
        let info = Zoneinfo { zones, ..Zoneinfo::default() };
        let deferred = DeferredInit::new(&meminfo(23 + 24, 6 + 24), &info, 4096);
        assert_eq!(deferred.bytes(), 24 * GIB);
        assert_eq!((deferred.node_bytes(0), deferred.node_bytes(1)), (16 * GIB, 8 * GIB));
        let parts: Vec<u64> = info.zones.iter().map(|zone| deferred.zone_bytes(zone)).collect();
        assert_eq!(parts, [0, 16 * GIB, 0, 8 * GIB]);
    }

    #[test]
    fn a_balloon_and_offlined_memory_are_not_deferred() {
        // MemTotal is what the zones manage, however much less than what is present.
        let balloon = Zoneinfo { zones: vec![zone(0, "Normal", 16, 4, 2)], ..Zoneinfo::default() };
        assert_eq!(DeferredInit::new(&meminfo(4, 2), &balloon, 4096).bytes(), 0);
        let offlined = Zoneinfo { zones: vec![zone(0, "Normal", 8, 8, 6)], ..Zoneinfo::default() };
        assert_eq!(DeferredInit::new(&meminfo(8, 6), &offlined, 4096).bytes(), 0);
    }

    #[test]
    fn both_files_must_count_it() {
        let info = Zoneinfo { zones: vec![zone(0, "Normal", 16, 8, 2)], ..Zoneinfo::default() };
        // MemFree does not count it: nothing gives it to programs.
        assert_eq!(DeferredInit::new(&meminfo(16, 2), &info, 4096).bytes(), 0);
        // Much was allocated between the two readings.
        assert_eq!(DeferredInit::new(&meminfo(8, 7), &info, 4096).bytes(), 0);
        // A container's own view of meminfo.
        assert_eq!(DeferredInit::new(&meminfo(1, 1), &info, 4096).bytes(), 0);
        assert_eq!(DeferredInit::new(&Meminfo::default(), &info, 4096).bytes(), 0);
        assert_eq!(DeferredInit::new(&meminfo(16, 8), &Zoneinfo::default(), 4096).bytes(), 0);
    }

    #[test]
    fn absurd_numbers_do_not_overflow() {
        let most = Zone { present_pages: u64::MAX, ..zone(0, "Normal", 0, 0, 0) };
        let info = Zoneinfo { zones: vec![most; 3], ..Zoneinfo::default() };
        let huge = Some(u64::MAX);
        let meminfo = Meminfo { mem_total_bytes: huge, mem_free_bytes: huge, ..meminfo(0, 0) };
        let deferred = DeferredInit::new(&meminfo, &info, u64::MAX);
        assert_eq!(deferred.bytes(), u64::MAX);
        assert!(deferred.node_bytes(0) > 0);
    }
}
