//! What operations on large memory have in common.

use crate::heap;
use crate::settings::{self, Huge};
use crate::stats::{self, Call};
use mw_segment::{MappedPart, MemoryType, Workers, has_room};
use std::io;
use std::ops::Range;

/// The most mappings that an operation is split over; whoever has more is left to the kernel.
pub(crate) const MAX_PARTS: usize = 4096;

/// What is mapped in the range; none where that cannot be said, or where memory of our own may have
/// been in a hole of it.
pub(crate) fn parts(addresses: &Range<usize>, limit: usize) -> Option<Vec<MappedPart>> {
    let before = heap::mapped();
    let parts = mw_segment::parts(addresses.clone(), limit).ok()?;
    (heap::mapped() == before).then_some(parts)
}

/// The parts that can be populated in parallel, from the start of the range to the first hole or
/// part that cannot: there the kernel's own call may stop.
pub(crate) fn beginning(addresses: &Range<usize>) -> Option<Vec<MappedPart>> {
    let mut parts = parts(addresses, MAX_PARTS)?;
    let mut end = addresses.start;
    let mut whole = 0;
    for part in &parts {
        if part.addresses.start != end || !can_be_populated(part) {
            break;
        }
        end = part.addresses.end;
        whole += 1;
    }
    parts.truncate(whole);
    Some(parts)
}

/// Whether nothing but memory is needed to populate it.
pub(crate) fn can_be_populated(part: &MappedPart) -> bool {
    part.memory != MemoryType::Other && part.fault.is_some()
}

pub(crate) fn bytes(parts: &[MappedPart]) -> usize {
    parts.iter().map(MappedPart::bytes).sum()
}

/// Whether it is large, and can be populated without anybody being killed for it: what cannot is
/// left to the kernel, which then decides what comes of it.
pub(crate) fn is_worth_it(parts: &[MappedPart]) -> bool {
    // The pool of huge pages is no available memory.
    let pool =
        parts.iter().filter(|part| part.memory == MemoryType::Hugetlb).map(MappedPart::bytes);
    let (all, pool) = (bytes(parts), pool.sum::<usize>());
    all >= settings::threshold() && has_room((all - pool) as u64)
}

/// Populates parts one after the other, each in parallel, and notes that.
///
/// # Errors
/// The first that a part met.
pub(crate) fn populate(workers: &Workers<'_>, call: Call, parts: &[MappedPart]) -> io::Result<()> {
    choose_huge_pages(parts);
    let all = bytes(parts);
    let first = parts.first().and_then(|part| Some((part.addresses.clone(), part.fault?)));
    stats::noted(
        call,
        all,
        &|sample| {
            let (addresses, fault) = first.clone()?;
            let end = (addresses.start + sample).min(addresses.end);
            mw_sys::populate_existing(addresses.start..end, fault, None).ok()?;
            Some(end - addresses.start)
        },
        &|| parts.iter().try_for_each(|part| workers.populate(part).map(drop)),
    )
}

/// Asks for transparent huge pages where that is wanted: `auto` only where they are free for all of
/// it, so that none has to be made by compaction.
fn choose_huge_pages(parts: &[MappedPart]) {
    let wanted = match settings::huge() {
        Huge::Unchanged => false,
        Huge::Auto => mw_segment::has_huge_pages(bytes(parts) as u64),
        Huge::Always => true,
    };
    for part in parts.iter().filter(|part| wanted && part.memory != MemoryType::Hugetlb) {
        // A mapping that cannot have them stays as it is.
        let _ = mw_sys::advise_huge_pages(part.addresses.clone());
    }
}
