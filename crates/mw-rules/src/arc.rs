//! Where the memory of the ZFS ARC is counted.

use crate::counted::counted;
use mw_memory::MemoryPart;
use mw_model::{Snapshot, derived};
use mw_proc::slabinfo::Slab;

/// Caches of the module that the size of the ARC covers: their names begin with one of these. Operations under way
/// (`zio_cache`, `zio_link_cache`) are no part of it.
const CACHES: [&str; 10] =
    ["abd_", "arc_", "dbuf", "dmu_", "dnode", "sa_", "zfs_", "zio_buf", "zio_data", "zap_"];

/// The ARC by the kernel's counter that has it, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ArcParts {
    /// In SUnreclaim.
    pub(crate) slab: u64,
    /// In no counter.
    pub(crate) unaccounted: u64,
}

/// ZFS takes its data from slab caches, or in pages that no counter has (ABD, since 0.7): as its caches in slabinfo tell,
/// or what no counter has. Nothing where there is no ZFS.
pub(crate) fn parts(snapshot: &Snapshot) -> ArcParts {
    let Some(arc) = snapshot.arc.value() else { return ArcParts::default() };
    let Ok(account) = counted(snapshot) else { return ArcParts::default() };
    let slab = account.bytes(MemoryPart::SlabUnreclaimable);
    let unaccounted = account.bytes(MemoryPart::Unaccounted);
    let caches =
        snapshot.slabs.value().map_or(&[][..], Vec::as_slice).iter().filter(|s| is_of_zfs(s));
    let caches = derived::total(caches.map(|cache| cache.bytes(snapshot.origin.page_bytes)));
    if caches >= arc.size_bytes / 2 {
        let slab = arc.size_bytes.min(slab);
        let unaccounted = arc.size_bytes.saturating_sub(slab).min(unaccounted);
        return ArcParts { slab, unaccounted };
    }
    let unaccounted = arc.size_bytes.min(unaccounted);
    ArcParts { slab: arc.size_bytes.saturating_sub(unaccounted).min(slab), unaccounted }
}

pub(crate) fn is_of_zfs(cache: &Slab) -> bool {
    CACHES.iter().any(|prefix| cache.name.starts_with(prefix))
}
