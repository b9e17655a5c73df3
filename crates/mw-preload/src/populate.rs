//! Populating mappings in parallel.

use crate::heap;
use crate::settings::{self, HugePages};
use crate::stats::{self, Call};
use mw_segment::{MappedPart, MemoryType, Workers, has_room};
use std::io;
use std::ops::Range;

/// The largest number of mappings of an operation; one with more is left to the kernel.
pub(crate) const MAX_PARTS: usize = 4096;

/// The mappings in a range; none if they are unknown, or if memory of the library itself may have
/// appeared in a hole of the range.
pub(crate) fn mapped_parts(addresses: &Range<usize>, limit: usize) -> Option<Vec<MappedPart>> {
    let before = heap::mappings();
    let parts = mw_segment::parts(addresses.clone(), limit).ok()?;
    (heap::mappings() == before).then_some(parts)
}

/// The mappings that can be populated in parallel, from the start of the range to the first hole or
/// mapping that cannot: there the system call may stop.
pub(crate) fn populatable_prefix(addresses: &Range<usize>) -> Option<Vec<MappedPart>> {
    let mut parts = mapped_parts(addresses, MAX_PARTS)?;
    let mut end = addresses.start;
    let mut count = 0;
    for part in &parts {
        if part.addresses.start != end || !can_populate(part) {
            break;
        }
        end = part.addresses.end;
        count += 1;
    }
    parts.truncate(count);
    Some(parts)
}

/// Whether it consists of memory, not of files on disks, and may be accessed.
pub(crate) fn can_populate(part: &MappedPart) -> bool {
    part.memory != MemoryType::Other && part.fault.is_some()
}

fn bytes(parts: &[MappedPart]) -> usize {
    parts.iter().map(MappedPart::bytes).sum()
}

/// Whether the parts are large, and enough memory is available for them. Otherwise the system call
/// decides, including whether the OOM killer runs.
pub(crate) fn is_worthwhile(parts: &[MappedPart]) -> bool {
    // Pages of the hugetlb pool are not part of available memory.
    let hugetlb =
        parts.iter().filter(|part| part.memory == MemoryType::Hugetlb).map(MappedPart::bytes);
    let (all, hugetlb) = (bytes(parts), hugetlb.sum::<usize>());
    all >= settings::threshold() && has_room((all - hugetlb) as u64)
}

/// Populates parts one after the other, each in parallel, and counts them as `call`.
///
/// # Errors
/// The first error of a part.
pub(crate) fn populate(workers: &Workers<'_>, call: Call, parts: &[MappedPart]) -> io::Result<()> {
    request_huge_pages_for(parts);
    let all = bytes(parts);
    let first = parts.first().and_then(|part| Some((part.addresses.clone(), part.fault?)));
    stats::measure(
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

/// Requests transparent huge pages for the parts as configured.
fn request_huge_pages_for(parts: &[MappedPart]) {
    let is_requested = wants_huge_pages(bytes(parts));
    for part in parts.iter().filter(|part| is_requested && part.memory != MemoryType::Hugetlb) {
        // A mapping that cannot have them stays as it is.
        let _ = mw_sys::advise_huge_pages(part.addresses.clone());
    }
}

/// Requests transparent huge pages for a mapping as configured.
pub(crate) fn request_huge_pages(addresses: &Range<usize>) {
    if wants_huge_pages(addresses.len()) {
        let _ = mw_sys::advise_huge_pages(addresses.clone());
    }
}

/// With `auto` only if they are free for all, so that none requires compaction.
fn wants_huge_pages(bytes: usize) -> bool {
    match settings::huge_pages() {
        HugePages::Unchanged => false,
        HugePages::Auto => mw_segment::has_huge_pages(bytes as u64),
        HugePages::Always => true,
    }
}
