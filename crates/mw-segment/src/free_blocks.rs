//! Free memory by the size of its blocks: what is available to folios without reclaim and compaction.

use crate::machine;
use crate::segment_kind::Placement;
use mw_memory::NumaPolicy;
use mw_proc::buddyinfo::{BuddyZone, Buddyinfo};
use mw_proc::zoneinfo::Zone;

/// The zones that a segment's memory comes from, and what the kernel keeps free of each.
#[derive(Debug)]
pub(crate) struct FreeBlocks {
    /// None is every node.
    nodes: Option<Vec<u32>>,
    zones: Vec<Zone>,
}

impl FreeBlocks {
    /// None if the kernel does not report its watermarks.
    pub(crate) fn new(placement: &Placement) -> Option<Self> {
        let nodes = match placement {
            Placement::Uniform(NumaPolicy::Bind(nodes) | NumaPolicy::Interleave(nodes)) => {
                Some(nodes.clone())
            }
            Placement::Uniform(NumaPolicy::Default | NumaPolicy::Local) => {
                machine::own_node().map(|node| vec![node])
            }
            Placement::Ranges(ranges) => {
                Some(ranges.iter().flat_map(|(_, nodes)| nodes.iter().copied()).collect())
            }
        };
        Some(Self { nodes, zones: machine::zoneinfo()?.zones })
    }

    /// The free blocks now.
    pub(crate) fn read(&self) -> Option<Buddyinfo> {
        machine::buddyinfo()
    }

    /// Bytes that blocks of at least `block_bytes` provide before a zone falls below its high watermark,
    /// where the kernel begins to reclaim.
    pub(crate) fn available_bytes(&self, now: &Buddyinfo, block_bytes: usize) -> u64 {
        let page = mw_sys::page_bytes();
        let Some(order) = (block_bytes / page).checked_ilog2() else { return 0 };
        let of_node =
            |zone: &&BuddyZone| self.nodes.as_ref().is_none_or(|nodes| nodes.contains(&zone.node));
        let pages = now.zones.iter().filter(of_node).map(|zone| {
            let known = |own: &&Zone| own.node == zone.node && own.name == zone.name;
            let kept = self.zones.iter().find(known).map_or(u64::MAX, kept_pages);
            let of = |from: usize| pages_in_blocks(zone.values(), from);
            of(order as usize).min(of(0).saturating_sub(kept))
        });
        pages.fold(0, u64::saturating_add).saturating_mul(page as u64)
    }
}

fn kept_pages(zone: &Zone) -> u64 {
    let boost = zone.boost_pages.unwrap_or(0);
    zone.high_pages.saturating_add(zone.reserve_pages()).saturating_add(boost)
}

fn pages_in_blocks(blocks: &[u64], from_order: usize) -> u64 {
    let pages = |(order, blocks): (usize, &u64)| blocks.saturating_mul(1 << order);
    blocks.iter().enumerate().skip(from_order).map(pages).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_proc::zoneinfo::ZoneName;

    fn zone(node: u32, blocks: &[u64]) -> BuddyZone {
        let mut zone = BuddyZone::new(node, ZoneName::default());
        for (order, count) in blocks.iter().enumerate() {
            zone.set(order, *count);
        }
        zone
    }

    #[test]
    fn blocks_count_above_the_watermark_and_on_the_segment_s_nodes() {
        let page = mw_sys::page_bytes() as u64;
        let own = |node, high_pages| Zone { node, high_pages, ..Zone::default() };
        let now = Buddyinfo { zones: vec![zone(0, &[100, 10, 5]), zone(1, &[0, 0, 50])] };
        let all = FreeBlocks { nodes: None, zones: vec![own(0, 0), own(1, 0)] };
        let pages = |blocks: &FreeBlocks, order: u32| {
            blocks.available_bytes(&now, mw_sys::page_bytes() << order) / page
        };
        assert_eq!([pages(&all, 0), pages(&all, 1), pages(&all, 2)], [340, 240, 220]);
        let second = FreeBlocks { nodes: Some(vec![1]), zones: vec![own(1, 150)] };
        assert_eq!(pages(&second, 2), 50);
        let unknown = FreeBlocks { nodes: None, zones: vec![own(0, 0)] };
        assert_eq!(pages(&unknown, 2), 20, "a zone without a known watermark provides nothing");
    }
}
