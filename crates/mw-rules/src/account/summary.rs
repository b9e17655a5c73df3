//! The answer in one sentence.

use crate::arc::ArcParts;
use crate::share::percent;
use mw_memory::{Account, MemoryPart};
use mw_model::{AccountEntry, derived, format_bytes};

/// From which share of memory on a part is named.
const LEAST_PERCENT: f64 = 1.0;

/// From which share of its part on a holder is named.
const HOLDER_PERCENT: f64 = 25.0;

/// Parts of the sentence in its order: what it is called there, and the parts of the kernel's count.
const NAMED: [(&str, &[MemoryPart]); 15] = [
    ("free", &[MemoryPart::Free, MemoryPart::PerCpuLists]),
    ("clean page cache", &[MemoryPart::CleanCache]),
    ("dirty page cache", &[MemoryPart::DirtyCache, MemoryPart::WritebackCache]),
    ("unevictable files", &[MemoryPart::UnevictableCache]),
    ("anonymous", &[MemoryPart::Anonymous, MemoryPart::SwapCache, MemoryPart::UnmappedAnonymous]),
    ("shared memory", &[MemoryPart::Shared]),
    ("huge page pools", &[MemoryPart::HugePages]),
    ("slab", &[MemoryPart::SlabReclaimable, MemoryPart::SlabUnreclaimable]),
    ("page tables", &[MemoryPart::PageTables, MemoryPart::SecondaryPageTables]),
    ("kernel stacks", &[MemoryPart::KernelStacks]),
    ("per-CPU memory", &[MemoryPart::Percpu]),
    ("vmalloc", &[MemoryPart::Vmalloc]),
    ("compressed swap", &[MemoryPart::CompressedSwap]),
    ("GPU memory", &[MemoryPart::GpuActive, MemoryPart::GpuReclaimable]),
    ("balloon", &[MemoryPart::Balloon]),
];

pub(super) fn sentence(account: &Account, arc: ArcParts, entries: &[AccountEntry]) -> String {
    let total = account.total_bytes();
    let unaccounted = account.bytes(MemoryPart::Unaccounted).saturating_sub(arc.unaccounted);
    let mut left = total.saturating_add(account.overcounted_bytes()).saturating_sub(unaccounted);
    let mut words = Vec::new();
    for (name, parts) in NAMED {
        let bytes = derived::total(parts.iter().map(|part| account.bytes(*part)));
        let of_arc = if parts.contains(&MemoryPart::SlabUnreclaimable) { arc.slab } else { 0 };
        let bytes = bytes.saturating_sub(of_arc);
        if percent(bytes, total) < LEAST_PERCENT {
            continue;
        }
        left = left.saturating_sub(bytes);
        let holder = parts.first().and_then(|part| largest_holder(entries, *part, bytes));
        words.push(format!("{} {name}{}", format_bytes(bytes), holder.unwrap_or_default()));
    }
    let of_arc = arc.slab.saturating_add(arc.unaccounted);
    if percent(of_arc, total) >= LEAST_PERCENT {
        left = left.saturating_sub(of_arc);
        words.push(format!("{} ZFS ARC", format_bytes(of_arc)));
    }
    words.push(format!("{} other", format_bytes(left)));
    words.push(format!("{} unaccounted for", format_bytes(unaccounted)));
    format!("{}: {}", format_bytes(total), words.join(", "))
}

/// The largest holder of a part, where it has much of what is named.
fn largest_holder(entries: &[AccountEntry], part: MemoryPart, bytes: u64) -> Option<String> {
    if matches!(part, MemoryPart::Free) {
        return None;
    }
    let entry = entries.iter().flat_map(|entry| &entry.parts).find(|of| of.id == part.id())?;
    let holder = entry.parts.iter().max_by_key(|holder| holder.bytes)?;
    let is_much = percent(holder.bytes, bytes) >= HOLDER_PERCENT;
    is_much.then(|| format!(" ({}: {})", format_bytes(holder.bytes), holder.name))
}
