//! Private anonymous memory in one call: a [`Region`] that is mapped throughout.

use crate::region::{Region, ThpAdvice};
use crate::scratch::huge_page_bytes;
use mw_memory::PageSize;
use rustix::io::Errno;
use std::io;

impl Region {
    /// Maps at least `bytes` of private memory, rounded up to whole pages. Nothing is populated. For
    /// [`PageSize::Base`] transparent huge pages are disabled; for [`PageSize::Thp`] and folios they are
    /// enabled, and the memory starts at a multiple of their size.
    ///
    /// # Errors
    /// `InvalidInput` for zero bytes or a page size that is not a power of two, else mmap(2)'s:
    /// `ENOMEM` without address space, commit or free hugetlb pages.
    pub fn anonymous(bytes: usize, page: PageSize) -> io::Result<Self> {
        let base = rustix::param::page_size();
        let (granule, align) = match page {
            PageSize::Base => (base, base),
            PageSize::Thp | PageSize::Folio(_) | PageSize::Best => {
                (base, huge_page_bytes().unwrap_or(base))
            }
            PageSize::Hugetlb(size) => {
                let size = usize::try_from(size).map_err(io::Error::other)?;
                (size, size)
            }
        };
        let invalid = || io::Error::from(Errno::INVAL);
        if !granule.is_power_of_two() {
            return Err(invalid());
        }
        let bytes = bytes.checked_next_multiple_of(granule).ok_or_else(invalid)?;
        let region = Self::reserve(bytes, granule, align)?;
        region.map_anonymous(0..bytes, page.is_hugetlb())?;
        match page {
            PageSize::Hugetlb(_) => {}
            PageSize::Thp | PageSize::Folio(_) | PageSize::Best => {
                region.advise_thp(ThpAdvice::Enable)?;
            }
            // A kernel without transparent huge pages has nothing to decline.
            PageSize::Base => region.advise_thp(ThpAdvice::Disable).or_else(|error| {
                let none = error.raw_os_error() == Some(Errno::INVAL.raw_os_error());
                if none { Ok(()) } else { Err(error) }
            })?,
        }
        Ok(region)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    const MIB: usize = 1 << 20;

    /// Tests that populate private memory take turns with those that count it for the process.
    pub(crate) fn alone() -> MutexGuard<'static, ()> {
        static TURN: Mutex<()> = Mutex::new(());
        TURN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn base(bytes: usize) -> Region {
        Region::anonymous(bytes, PageSize::Base).unwrap()
    }

    fn resident_kib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("RssAnon")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    #[test]
    fn memory_is_populated_and_freed() {
        let _alone = alone();
        let mapping = base(16 * MIB);
        let before = resident_kib();
        mapping.populate(0..16 * MIB).unwrap();
        assert!(resident_kib() >= before + 15 * 1024);
        mapping.discard(0..16 * MIB).unwrap();
        assert!(resident_kib() < before + 8 * 1024);
    }

    #[test]
    fn touching_populates_as_well() {
        let _alone = alone();
        let mapping = base(4 * MIB);
        let before = resident_kib();
        mapping.touch(0..4 * MIB).unwrap();
        assert!(resident_kib() >= before + 3 * 1024);
    }

    #[test]
    fn a_transparent_mapping_is_aligned() {
        let _alone = alone();
        let mapping = Region::anonymous(3 * MIB, PageSize::Thp).unwrap();
        assert_eq!(mapping.as_ptr().as_ptr().align_offset(2 * MIB), 0);
        assert_eq!(mapping.bytes(), 3 * MIB);
        mapping.populate(0..3 * MIB).unwrap();
    }

    #[test]
    fn bad_ranges_are_invalid() {
        let mapping = base(MIB);
        for range in [0..0, 1..4096, 0..MIB + 4096, 0..100, MIB..MIB] {
            assert_eq!(mapping.populate(range).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        let nowhere = mw_memory::NumaPolicy::Bind(vec![9_999]);
        assert!(mapping.set_policy(0..MIB, &nowhere).is_err());
    }

    #[test]
    fn impossible_mappings_fail() {
        for (bytes, page) in [
            (0, PageSize::Base),
            (usize::MAX, PageSize::Base),
            (MIB, PageSize::Hugetlb(3)),
            (MIB, PageSize::Hugetlb(1 << 40)),
        ] {
            assert!(Region::anonymous(bytes, page).is_err(), "{bytes}");
        }
    }

    #[test]
    fn more_huge_pages_than_there_are_is_an_error_and_no_signal() {
        let request = Region::anonymous(1 << 40, PageSize::HUGE_2M);
        assert!(request.is_err());
    }
}
