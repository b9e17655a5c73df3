//! Free memory by the size of its blocks: what is available to folios without reclaim and compaction.

use crate::DeferredInit;
use mw_proc::buddyinfo::{BuddyZone, Buddyinfo};
use mw_proc::zoneinfo::Zone;

/// The most worker threads of an operation, unless a caller wants more.
pub const MAX_WORKERS: usize = 16;

/// Folios are requested for so much memory at a time.
pub const FOLIO_CHUNK_BYTES: usize = 4 << 20;

/// Memory that must stay free in blocks of a size while `workers` threads populate memory with it: a chunk for each
/// of them, and one more.
#[must_use]
pub fn folio_reserve_bytes(workers: usize) -> u64 {
    let chunks = workers.max(1).saturating_add(1);
    (FOLIO_CHUNK_BYTES as u64).saturating_mul(chunks as u64)
}

/// The free blocks of a machine, and what the kernel keeps free of each zone.
#[derive(Debug, Clone, Copy)]
pub struct FreeBlocks<'a> {
    pub buddyinfo: &'a Buddyinfo,
    pub zones: &'a [Zone],
    /// Memory that no zone manages yet: in no list, and in one piece.
    pub deferred: Option<DeferredInit<'a>>,
    pub page_bytes: u64,
}

impl FreeBlocks<'_> {
    /// Bytes that blocks of at least `block_bytes` provide before a zone falls below its high watermark, where the
    /// kernel begins to reclaim; of the nodes that are wanted. A zone whose watermark is unknown provides nothing.
    #[must_use]
    pub fn available_bytes(&self, block_bytes: u64, is_wanted: impl Fn(u32) -> bool) -> u64 {
        let blocks = block_bytes.checked_div(self.page_bytes).and_then(u64::checked_ilog2);
        let Some(order) = blocks else { return 0 };
        let wanted = self.buddyinfo.zones.iter().filter(|zone| is_wanted(zone.node));
        let pages = wanted.filter_map(|zone| self.pages_of(zone, order as usize));
        pages.fold(0, u64::saturating_add).saturating_mul(self.page_bytes)
    }

    fn pages_of(&self, blocks: &BuddyZone, order: usize) -> Option<u64> {
        let is_known = |zone: &&Zone| zone.node == blocks.node && zone.name == blocks.name;
        let zone = self.zones.iter().find(is_known)?;
        let deferred = self.deferred.map_or(0, |deferred| deferred.zone_bytes(zone));
        let unlisted = deferred.checked_div(self.page_bytes).unwrap_or(0);
        let unlisted = unlisted.saturating_add(zone.unaccepted_pages.unwrap_or(0));
        let of = |from| pages_in_blocks(blocks.values(), from).saturating_add(unlisted);
        Some(of(order).min(of(0).saturating_sub(kept_pages(zone))))
    }
}

fn kept_pages(zone: &Zone) -> u64 {
    zone.unboosted_high_pages().saturating_add(zone.reserve_pages())
}

fn pages_in_blocks(blocks: &[u64], from_order: usize) -> u64 {
    let pages = |(order, blocks): (usize, &u64)| blocks.saturating_mul(1 << order);
    blocks.iter().enumerate().skip(from_order).map(pages).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_proc::meminfo::Meminfo;
    use mw_proc::zoneinfo::{ZoneName, Zoneinfo};

    const PAGE: u64 = 4096;

    fn blocks(node: u32, blocks: &[u64]) -> BuddyZone {
        let mut zone = BuddyZone::new(node, ZoneName::default());
        for (order, count) in blocks.iter().enumerate() {
            zone.set(order, *count);
        }
        zone
    }

    fn zone(node: u32, high_pages: u64) -> Zone {
        Zone { node, high_pages, ..Zone::default() }
    }

    fn pages(buddyinfo: &Buddyinfo, zones: &[Zone], order: u32, node: Option<u32>) -> u64 {
        let free = FreeBlocks { buddyinfo, zones, deferred: None, page_bytes: PAGE };
        let is_wanted = |of| node.is_none_or(|node| node == of);
        free.available_bytes(PAGE << order, is_wanted) / PAGE
    }

    #[test]
    fn blocks_count_above_the_watermark_and_on_the_wanted_nodes() {
        let now = Buddyinfo { zones: vec![blocks(0, &[100, 10, 5]), blocks(1, &[0, 0, 50])] };
        let all = [zone(0, 0), zone(1, 0)];
        assert_eq!([0, 1, 2].map(|order| pages(&now, &all, order, None)), [340, 240, 220]);
        assert_eq!(pages(&now, &[zone(1, 150)], 2, Some(1)), 50);
        assert_eq!(pages(&now, &[zone(0, 0)], 2, None), 20, "a zone without a known watermark");
    }

    #[test]
    fn a_boosted_watermark_withholds_no_more_than_the_usual_one() {
        let now = Buddyinfo { zones: vec![blocks(0, &[0, 0, 100])] };
        let boosted = Zone { high_pages: 250, boost_pages: Some(150), ..Zone::default() };
        assert_eq!(pages(&now, &[boosted], 2, None), pages(&now, &[zone(0, 100)], 2, None));
    }

    /// Promise (Segments): Folios count as free in memory that no zone manages yet, as far as it is above the
    /// watermarks.
    #[test]
    fn memory_that_no_zone_has_yet_is_free_in_one_piece() {
        let pages_of = |mib: u64| mib << 8;
        let own = Zone {
            present_pages: pages_of(4096),
            managed_pages: Some(pages_of(1024)),
            free_pages: pages_of(512),
            high_pages: pages_of(64),
            ..Zone::default()
        };
        let zoneinfo = Zoneinfo { zones: vec![own], ..Zoneinfo::default() };
        let (mem_total_bytes, mem_free_bytes) = (Some(4 << 30), Some(3584 << 20));
        let meminfo = Meminfo { mem_total_bytes, mem_free_bytes, ..Meminfo::default() };
        let buddyinfo = Buddyinfo { zones: vec![blocks(0, &[pages_of(512)])] };
        let deferred = Some(DeferredInit::new(&meminfo, &zoneinfo, PAGE));
        let zones = zoneinfo.zones.as_slice();
        let free = FreeBlocks { buddyinfo: &buddyinfo, zones, deferred, page_bytes: PAGE };
        assert_eq!(free.available_bytes(64 << 10, |_| true), 3072 << 20);
        assert_eq!(free.available_bytes(PAGE, |_| true), (3584 - 64) << 20);
    }
}
