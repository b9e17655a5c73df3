//! What the kernel takes for itself, as far as it counts it.

use super::entry::{group, leaf, split};
use crate::arc;
use mw_memory::{Account, MemoryPart, is_reclaimable_cache};
use mw_model::{AccountEntry, Snapshot, derived, format_bytes};

pub(super) fn entry(snapshot: &Snapshot, account: &Account) -> AccountEntry {
    let compressed = leaf(account, MemoryPart::CompressedSwap, "compressed swap (zram, zswap)");
    let [reclaimable, unreclaimable] = slab(snapshot, account);
    group(
        "kernel",
        vec![
            reclaimable,
            unreclaimable,
            leaf(account, MemoryPart::OtherReclaimable, "other reclaimable memory of the kernel"),
            leaf(account, MemoryPart::KernelStacks, "kernel stacks"),
            leaf(account, MemoryPart::PageTables, "page tables"),
            leaf(account, MemoryPart::SecondaryPageTables, "page tables of KVM and IOMMU"),
            leaf(account, MemoryPart::Percpu, "variables of each CPU"),
            leaf(account, MemoryPart::Vmalloc, "vmalloc (modules, BPF, tables)"),
            leaf(account, MemoryPart::PageStructures, "page structures of memory added later"),
            compressed,
            leaf(account, MemoryPart::Bounce, "bounce buffers"),
            leaf(account, MemoryPart::FuseWriteback, "copies of pages that FUSE writes"),
        ],
    )
}

/// Slab memory by cache. slabinfo does not say which caches are reclaimable.
fn slab(snapshot: &Snapshot, account: &Account) -> [AccountEntry; 2] {
    let caches = snapshot.slabs.value().map_or(&[][..], Vec::as_slice);
    let page_bytes = snapshot.origin.page_bytes;
    let of = |wanted: bool| {
        let caches = caches.iter().filter(|cache| is_reclaimable_cache(cache) == wanted);
        caches.map(|cache| (cache.name.clone(), cache.bytes(page_bytes))).collect()
    };
    let mut reclaimable = leaf(account, MemoryPart::SlabReclaimable, "reclaimable slab");
    let in_use = derived::unreclaimable_slab(snapshot);
    if in_use.min_bytes > 0 {
        let in_use = format_bytes(in_use.min_bytes);
        reclaimable.note = Some(format!("at least {in_use} of it is objects in use, which stay"));
    }
    split(&mut reclaimable, of(true), "other caches");
    let mut unreclaimable = leaf(account, MemoryPart::SlabUnreclaimable, "unreclaimable slab");
    let arc = arc::parts(snapshot).slab;
    let mut others: Vec<(String, u64)> = of(false);
    if arc > 0 {
        let caches = caches.iter().filter(|cache| arc::is_of_zfs(cache));
        let names: Vec<&str> = caches.map(|cache| cache.name.as_str()).collect();
        others.retain(|(name, _)| !names.contains(&name.as_str()));
        others.push(("ZFS ARC".to_owned(), arc));
    }
    split(&mut unreclaimable, others, "other caches");
    [reclaimable, unreclaimable]
}
