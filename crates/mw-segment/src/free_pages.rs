//! The largest pages for memory that other code has mapped, as far as they are free: no page fault compacts.
//!
//! Memory that is advised to have huge pages gets the largest size that the switches allow, or the next smaller
//! one after direct compaction, where `defrag` permits that. It is therefore advised only as far as blocks are free
//! (/proc/buddyinfo); and so that the kernel does not try a size of which none is free, a page is mapped in each range
//! of that size before the memory is advised: the kernel allocates a folio only where all of its range is empty
//! (mm/memory.c, alloc_anon_folio). That page is the kernel's zero page, mapped by a read, which takes no memory,
//! changes no content and may be accessed at any time, unlike the guard pages of a segment; around it the memory
//! consists of smaller pages.

use crate::free_blocks::{FreeNow, ZoneFreeBlocks};
use crate::machine;
use crate::segment_kind::Placement;
use mw_memory::{NumaPolicy, PageSize, SwitchState, folio_reserve_bytes};
use mw_sys::{Fault, ThpAdvice, advise_thp_existing, populate_existing};
use std::io;
use std::ops::Range;

/// Pages of one size are for multiples of this, a huge page of most machines.
const STEP_BYTES: usize = 2 << 20;

/// The sizes that the switches allow for advised memory of one kind, and what is free of each.
#[derive(Debug)]
pub struct FreePages {
    /// In bytes, the largest first.
    sizes: Vec<usize>,
    free: ZoneFreeBlocks,
    shared: bool,
    /// True if a page fault on advised memory compacts where no block is free.
    compacts: bool,
    workers: usize,
}

/// A range of addresses whose pages are to be of one size.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PageSizeRange {
    addresses: Range<usize>,
    page_bytes: usize,
    /// The next larger size that is allowed.
    larger: Option<usize>,
}

/// Ranges that are to consist of smaller pages than the switches allow.
#[derive(Debug, Default)]
#[must_use]
pub struct PreparedRanges(Vec<Range<usize>>);

impl PreparedRanges {
    /// After they were populated: what is freed and touched again later must not compact, nor khugepaged for huge pages.
    pub fn settle(self) {
        for addresses in self.0 {
            // A mapping that is gone needs none.
            let _ = advise_thp_existing(addresses, ThpAdvice::Disable);
        }
    }
}

impl FreePages {
    /// For private or shared memory that `workers` threads populate; none if no size is allowed or the kernel does not
    /// report what is free.
    #[must_use]
    pub fn new(shared: bool, workers: usize) -> Option<Self> {
        let sizes = allowed(shared);
        let free = ZoneFreeBlocks::new(&Placement::Uniform(NumaPolicy::Default))?;
        let compacts = !matches!(machine::defrag().as_deref(), Some("defer" | "never"));
        (!sizes.is_empty()).then_some(Self { sizes, free, shared, compacts, workers })
    }

    /// True if `bytes` fit into free blocks of the largest size.
    #[must_use]
    pub fn has_largest_for(&self, bytes: usize) -> bool {
        let largest = self.sizes.first().copied();
        largest
            .zip(self.free.read())
            .is_some_and(|(largest, now)| self.available(&now, largest) >= bytes)
    }

    /// Prepares absent memory so that populating it takes the largest pages that are free.
    ///
    /// # Errors
    /// Those of madvise(2): a part may be prepared then.
    pub fn prepare(&self, addresses: Range<usize>) -> io::Result<PreparedRanges> {
        if !self.compacts {
            advise_thp_existing(addresses, ThpAdvice::Enable)?;
            return Ok(PreparedRanges::default());
        }
        let Some(now) = self.free.read() else { return Ok(PreparedRanges::default()) };
        let mut prepared = PreparedRanges::default();
        for PageSizeRange { addresses, larger, .. } in self.shares(&now, &addresses) {
            if let Some(larger) = larger {
                advise_thp_existing(addresses.clone(), ThpAdvice::Disable)?;
                exclude(&addresses, larger)?;
                prepared.0.push(addresses.clone());
            }
            advise_thp_existing(addresses, ThpAdvice::Enable)?;
        }
        Ok(prepared)
    }

    fn available(&self, now: &FreeNow, page_bytes: usize) -> usize {
        let free = self.free.available_bytes(now, page_bytes);
        let free = free.saturating_sub(folio_reserve_bytes(self.workers));
        usize::try_from(free).unwrap_or(usize::MAX)
    }

    /// From the start, the largest size first. A file in memory has the largest alone.
    fn shares(&self, now: &FreeNow, addresses: &Range<usize>) -> Vec<PageSizeRange> {
        let free = self.sizes.iter().map(|size| (*size, self.available(now, *size)));
        let free: Vec<_> = free.take(if self.shared { 1 } else { usize::MAX }).collect();
        divide(addresses, &free)
    }
}

/// Divides addresses by what is free of each size, of which a larger one serves for a smaller one.
fn divide(addresses: &Range<usize>, free: &[(usize, usize)]) -> Vec<PageSizeRange> {
    let (mut shares, mut at, mut larger) = (Vec::new(), addresses.start, None);
    for (page_bytes, free) in free {
        let taken = at - addresses.start;
        let most = at.saturating_add(free.saturating_sub(taken)).min(addresses.end);
        let end = if most == addresses.end { most } else { most - most % STEP_BYTES };
        if end > at {
            shares.push(PageSizeRange { addresses: at..end, page_bytes: *page_bytes, larger });
            at = end;
        }
        larger = Some(*page_bytes);
    }
    shares
}

/// Maps the zero page once in each range of a folio of this size, so that none is allocated there.
fn exclude(addresses: &Range<usize>, folio: usize) -> io::Result<()> {
    let page = mw_sys::page_bytes();
    let mut start = addresses.start - addresses.start % folio;
    while start < addresses.end {
        let end = start.saturating_add(folio).min(addresses.end);
        populate_existing(end - page..end, Fault::Read, None)?;
        start = start.saturating_add(folio);
    }
    Ok(())
}

/// The sizes that the switches allow, the largest first.
pub(crate) fn allowed(shared: bool) -> Vec<usize> {
    let huge = machine::thp_bytes().filter(|_| machine::thp_is_allowed(shared));
    let is_on = |bytes: &u64| machine::folio_switch(*bytes, shared) == SwitchState::On;
    let folios = PageSize::FOLIO_BYTES.into_iter().rev().filter(is_on);
    huge.into_iter().chain(folios.filter_map(|bytes| usize::try_from(bytes).ok())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_sys::Region;

    const MIB: usize = 1 << 20;

    #[test]
    fn the_largest_size_comes_first_as_far_as_it_is_free() {
        let share = |from, to, page_bytes, larger| PageSizeRange {
            addresses: from * MIB..to * MIB,
            page_bytes,
            larger,
        };
        let free = [(2 * MIB, 5 * MIB), (MIB, 5 * MIB), (MIB / 16, 15 * MIB)];
        let at = |range: Range<usize>| divide(&(range.start * MIB..range.end * MIB), &free);
        assert_eq!(at(2..4), [share(2, 4, 2 * MIB, None)]);
        assert_eq!(
            at(2..40),
            [share(2, 6, 2 * MIB, None), share(6, 16, MIB / 16, Some(MIB))],
            "blocks that are taken serve no other size"
        );
        assert_eq!(divide(&(0..MIB), &[(MIB, 0)]), []);
    }

    /// By the page faults: one for each folio, of whatever size.
    ///
    /// Promise (Under unmodified programs): Under `run --huge auto` memory consists of the sizes that are free, of no
    /// larger one that is excluded, and keeps its content.
    #[test]
    fn no_folio_is_allocated_where_a_larger_one_is_excluded() {
        const ALL_KIB: [u64; 7] = [16, 32, 64, 128, 256, 512, 1024];
        let _alone = mw_test::alone();
        let Some(_switches) = mw_test::FolioSwitchGuard::only(&ALL_KIB) else {
            return mw_test::skip("needs root and switches for folio sizes (Linux 6.11)");
        };
        for larger in [128 << 10, MIB, 2 * MIB] {
            let region = Region::reserve(32 * MIB, 4096, 2 * MIB).unwrap();
            region.map_anonymous(0..32 * MIB, false).unwrap();
            let start = region.as_ptr().as_ptr().expose_provenance();
            let addresses = start..start + 32 * MIB - 8192;
            advise_thp_existing(addresses.clone(), ThpAdvice::Disable).unwrap();
            exclude(&addresses, larger).unwrap();
            advise_thp_existing(addresses.clone(), ThpAdvice::Enable).unwrap();
            let before = mw_sys::thread_page_faults();
            populate_existing(addresses.clone(), Fault::Write, None).unwrap();
            let faults = usize::try_from(mw_sys::thread_page_faults() - before).unwrap();
            // Halves of halves down to 16 KiB, and four base pages, of which one replaces the zero page.
            let each = (larger / (16 << 10)).ilog2() as usize + 4;
            let least = (32 * MIB / larger) * each - each;
            assert!(faults >= least, "{larger}: {faults} faults, {least} expected");
            assert!(faults < 32 * MIB / 4096, "{larger}: no folios");
            assert_eq!(region.absent_bytes(0..32 * MIB - 8192).unwrap(), 0);
        }
    }
}
