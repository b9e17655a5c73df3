//! Free memory by the size of its blocks, on the nodes that a segment's memory comes from.

use crate::machine;
use crate::segment_kind::Placement;
use mw_memory::{DeferredInit, NumaPolicy};
use mw_proc::buddyinfo::Buddyinfo;
use mw_proc::meminfo::Meminfo;
use mw_proc::zoneinfo::Zoneinfo;

/// The zones, and what the kernel keeps free of each.
#[derive(Debug)]
pub(crate) struct ZoneFreeBlocks {
    /// None is every node.
    nodes: Option<Vec<u32>>,
    zoneinfo: Zoneinfo,
    /// True if the kernel still hands memory to the zones: then they are read each time.
    is_growing: bool,
}

/// The free blocks of a moment.
#[derive(Debug)]
pub(crate) struct FreeNow {
    buddyinfo: Buddyinfo,
    grown: Option<(Meminfo, Zoneinfo)>,
}

impl ZoneFreeBlocks {
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
        let zoneinfo = machine::zoneinfo()?;
        let page = mw_sys::page_bytes() as u64;
        let deferred = |meminfo| DeferredInit::new(&meminfo, &zoneinfo, page).bytes();
        let is_growing = machine::meminfo().map(deferred).is_some_and(|bytes| bytes > 0);
        Some(Self { nodes, zoneinfo, is_growing })
    }

    /// The free blocks now.
    pub(crate) fn read(&self) -> Option<FreeNow> {
        let buddyinfo = machine::buddyinfo()?;
        let grown = || Some((machine::meminfo()?, machine::zoneinfo()?));
        Some(FreeNow { buddyinfo, grown: self.is_growing.then(grown).flatten() })
    }

    /// Bytes that blocks of at least `block_bytes` provide.
    pub(crate) fn available_bytes(&self, now: &FreeNow, block_bytes: usize) -> u64 {
        let page_bytes = mw_sys::page_bytes() as u64;
        let deferred = now
            .grown
            .as_ref()
            .map(|(meminfo, zoneinfo)| DeferredInit::new(meminfo, zoneinfo, page_bytes));
        let zones = now.grown.as_ref().map_or(&self.zoneinfo.zones, |(_, info)| &info.zones);
        let free = mw_memory::FreeBlocks { buddyinfo: &now.buddyinfo, zones, deferred, page_bytes };
        let is_wanted = |node| self.nodes.as_ref().is_none_or(|nodes| nodes.contains(&node));
        free.available_bytes(block_bytes as u64, is_wanted)
    }
}
