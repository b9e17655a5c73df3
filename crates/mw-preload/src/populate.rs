//! Populating mappings in parallel.

use crate::heap;
use crate::settings::{self, ThpPolicy};
use crate::stats::{self, CountedCall};
use mw_segment::{FreePages, MappedPart, MemoryType, PreparedRanges, Workers, has_room};
use mw_sys::{Fault, ThpAdvice};
use std::ffi::c_int;
use std::io;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

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

/// True if it consists of memory, not of files on disks, and may be accessed.
pub(crate) fn can_populate(part: &MappedPart) -> bool {
    part.memory != MemoryType::Other && part.fault.is_some()
}

fn bytes(parts: &[MappedPart]) -> usize {
    parts.iter().map(MappedPart::bytes).sum()
}

/// True if the parts are large, and enough memory is available for them. Otherwise the system call
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
pub(crate) fn populate(
    workers: &Workers<'_>,
    call: CountedCall,
    parts: &[MappedPart],
) -> io::Result<()> {
    let prepared: Vec<PreparedRanges> =
        parts.iter().filter_map(|part| request_huge_pages(part, workers.workers())).collect();
    let all = bytes(parts);
    let first = parts.first().and_then(|part| Some((part.addresses.clone(), part.fault?)));
    let populated = stats::measure(
        call,
        all,
        &|sample| {
            let (addresses, fault) = first.clone()?;
            let end = (addresses.start + sample).min(addresses.end);
            let addresses = addresses.start..end;
            let populate = || mw_sys::populate_existing(addresses.clone(), fault, None);
            stats::count_pages_of(addresses.clone(), &populate).ok()?;
            Some(addresses.len())
        },
        &|| {
            parts
                .iter()
                .try_for_each(|part| workers.populate_by(part, &stats::count_pages_of).map(drop))
        },
    );
    prepared.into_iter().for_each(PreparedRanges::settle);
    populated
}

/// Requests transparent huge pages for a part as configured.
fn request_huge_pages(part: &MappedPart, workers: usize) -> Option<PreparedRanges> {
    // A mapping that cannot have them stays as it is.
    match (settings::huge_pages(), part.memory) {
        (ThpPolicy::Unchanged, _) | (_, MemoryType::Hugetlb | MemoryType::Other) => None,
        (ThpPolicy::Auto, memory) => {
            let shared = memory == MemoryType::Shmem;
            let is_suitable = shared || !part.shared && part.fault == Some(Fault::Write);
            free_pages(shared, workers)
                .filter(|_| is_suitable)?
                .prepare(part.addresses.clone())
                .ok()
        }
        (ThpPolicy::Always, _) => {
            let _ = mw_sys::advise_thp_existing(part.addresses.clone(), ThpAdvice::Enable);
            None
        }
    }
}

/// Requests transparent huge pages for a mapping that is populated later, as far as that is decided now: where they are
/// free for all of it. `background` decides on each part of the others.
pub(crate) fn request_free_huge_pages(addresses: &Range<usize>, shared: bool) {
    if free_pages(shared, 1).is_some_and(|free| free.has_largest_for(addresses.len())) {
        let _ = mw_sys::advise_thp_existing(addresses.clone(), ThpAdvice::Enable);
    }
}

/// The sizes that may be requested for `--huge auto`; none if the program requests huge pages itself.
pub(crate) fn free_pages(shared: bool, workers: usize) -> Option<FreePages> {
    let is_wanted = settings::huge_pages() == ThpPolicy::Auto && !does_program_advise();
    is_wanted.then(|| FreePages::new(shared, workers)).flatten()
}

/// True if the program has advised on huge pages: what it did not advise is left alone as well, since the advice of its
/// mappings is not known.
pub(crate) fn does_program_advise() -> bool {
    DOES_PROGRAM_ADVISE.load(Relaxed)
}

static DOES_PROGRAM_ADVISE: AtomicBool = AtomicBool::new(false);

/// Before the program's madvise(2).
#[inline]
pub(crate) fn note_advice(advice: c_int) {
    if matches!(advice, libc::MADV_HUGEPAGE | libc::MADV_NOHUGEPAGE | MADV_COLLAPSE) {
        DOES_PROGRAM_ADVISE.store(true, Relaxed);
    }
}

/// Linux 6.1.
const MADV_COLLAPSE: c_int = 25;
