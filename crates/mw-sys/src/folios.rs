//! Populating private memory with folios of one size, although larger ones are enabled.

use crate::region::{Region, advise};
use rustix::io::Errno;
use rustix::mm::Advice;
use std::io;
use std::ops::Range;

/// `MADV_GUARD_INSTALL` and `MADV_GUARD_REMOVE` (6.13), which rustix does not know.
const GUARD_INSTALL: i32 = 102;
const GUARD_REMOVE: i32 = 103;

/// True if the kernel has guard pages (6.13), which [`Region::populate_folios`] needs.
#[must_use]
pub fn has_guard_pages() -> bool {
    let page = rustix::param::page_size();
    let region = Region::reserve(page, page, page);
    region.is_ok_and(|region| {
        region.map_anonymous(0..page, false).is_ok()
            && guard(region.as_ptr().as_ptr(), page, GUARD_INSTALL).is_ok()
    })
}

impl Region {
    /// Populates private memory in `range`, which must not be locked, with folios of `page` bytes, or
    /// smaller ones where none is free, although larger ones are enabled.
    ///
    /// The kernel tries the largest enabled size first, but only where every page table entry of such a
    /// folio is empty (mm/memory.c, alloc_anon_folio). Guard pages in every other folio's range keep the
    /// next larger ones from being empty; once their neighbours are populated, they are removed.
    ///
    /// # Errors
    /// As [`Region::populate`]; `InvalidInput` for a page size that is not a power of two, or a range
    /// that does not start at a multiple of two folios; `EINVAL` for locked memory and before 6.13.
    pub fn populate_folios(&self, range: Range<usize>, page: usize) -> io::Result<()> {
        let (start, bytes) = self.part(&range)?;
        let base = rustix::param::page_size();
        let aligned = page.is_power_of_two() && start.addr().is_multiple_of(2 * page);
        if !aligned || page <= base {
            return Err(Errno::INVAL.into());
        }
        let populate_every_other = |first: usize| {
            (first..=bytes).step_by(2 * page).try_for_each(|end| {
                advise(start.wrapping_add(end - base), base, Advice::LinuxPopulateWrite)
            })
        };
        let guarded = (page..bytes)
            .step_by(2 * page)
            .try_for_each(|at| guard(start.wrapping_add(at), base, GUARD_INSTALL))
            .and_then(|()| populate_every_other(page));
        let removed = guard(start, bytes, GUARD_REMOVE);
        guarded.and(removed)?;
        populate_every_other(2 * page)?;
        self.populate(range)
    }
}

fn guard(start: *mut u8, bytes: usize, advice: i32) -> io::Result<()> {
    // SAFETY: every caller passes a range of its own region, which lends no references, so that nothing
    // touches a guard page; installing one discards content, which is sound for the same reason
    // (madvise(2)).
    #[allow(unsafe_code, reason = "rustix does not know this advice")]
    let done = unsafe { libc::madvise(start.cast(), bytes, advice) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ThpAdvice, thread_page_faults};

    const MIB: usize = 1 << 20;

    /// The number of faults says which folios the machine's switches allow: one size less, or base pages.
    #[test]
    fn memory_is_populated_by_a_fault_for_each_folio_at_least() {
        let _alone = crate::anonymous::tests::alone();
        if !has_guard_pages() {
            return mw_test::skip("needs guard pages (6.13)");
        }
        let region = Region::reserve(4 * MIB, 4096, 2 * MIB).unwrap();
        region.map_anonymous(0..4 * MIB, false).unwrap();
        region.advise_thp(ThpAdvice::Enable).unwrap();
        for (number, page) in [64 << 10, 512 << 10].into_iter().enumerate() {
            let range = number * 2 * MIB..(number + 1) * 2 * MIB - 4096;
            let before = thread_page_faults();
            region.populate_folios(range.clone(), page).unwrap();
            let faults = usize::try_from(thread_page_faults() - before).unwrap();
            assert!((range.len() / page..=range.len() / 4096).contains(&faults), "{faults}");
            assert_eq!(region.absent_bytes(range).unwrap(), 0);
        }
    }

    #[test]
    fn wrong_sizes_places_and_locked_memory_are_errors() {
        let region = Region::reserve(4 * MIB, 4096, 2 * MIB).unwrap();
        region.map_anonymous(0..4 * MIB, false).unwrap();
        for (range, page) in [(0..MIB, 4096), (0..MIB, 3 << 12), (65536..MIB, 65536)] {
            assert!(region.populate_folios(range, page).is_err());
        }
        region.lock_on_fault(0..MIB).unwrap();
        assert!(region.populate_folios(0..MIB, 65536).is_err());
    }
}
