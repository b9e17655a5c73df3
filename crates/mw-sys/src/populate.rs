//! Populating: allocating the pages of a range in advance.

use crate::region::{Region, advise};
use crate::touch::touch;
use rustix::io::Errno;
use rustix::mm::Advice;
use std::io;
use std::ops::Range;

impl Region {
    /// Populates pages in `range` for writing, with `MADV_POPULATE_WRITE` where the kernel has it
    /// (5.14). Populated pages do not change.
    ///
    /// # Errors
    /// `InvalidInput` for a bad range, else madvise(2)'s: `ENOMEM`; `EFAULT` where a store would
    /// raise SIGBUS; `EHWPOISON` for a page with a hardware error.
    pub fn populate(&self, range: Range<usize>) -> io::Result<()> {
        match self.advise(range.clone(), Advice::LinuxPopulateWrite) {
            Err(error) if is_unknown(&error) => self.touch(range),
            other => other,
        }
    }

    /// Populates huge pages of `page` bytes each, transparent or hugetlb, then the rest of
    /// `range`. The kernel zeroes a huge page from its ends towards the base page that was touched
    /// (mm/memory.c, process_huge_page): touched at its start, as in [`Region::populate`], it is
    /// zeroed from the last byte to the first, which takes 2.5 times as long as touched at its end.
    ///
    /// # Errors
    /// As [`Region::populate`]; `InvalidInput` for a page size that is not a power of two or
    /// smaller than the base page.
    pub fn populate_huge(&self, range: Range<usize>, page: usize) -> io::Result<()> {
        let (start, bytes) = self.part(&range)?;
        let base = rustix::param::page_size();
        if !page.is_power_of_two() || page < base {
            return Err(Errno::INVAL.into());
        }
        for end in (page..=bytes).step_by(page) {
            let last = start.wrapping_add(end - base);
            match advise(last, base, Advice::LinuxPopulateWrite) {
                Err(error) if is_unknown(&error) => touch(last, base, base)?,
                other => other?,
            }
        }
        self.populate(range)
    }

    /// Maps the pages of a shared file in `range` that are in memory, many at a time where the
    /// kernel can (`MADV_POPULATE_READ`, 5.14), and populates the rest.
    ///
    /// # Errors
    /// As [`Region::populate`].
    pub fn map_cached(&self, range: Range<usize>) -> io::Result<()> {
        match self.advise(range.clone(), Advice::LinuxPopulateRead) {
            Err(error) if is_unknown(&error) => self.touch(range),
            other => other,
        }
    }

    /// Populates by an atomic read-modify-write of every page, as [`Region::populate`] does on
    /// kernels before 5.14. Raises no signal.
    ///
    /// # Errors
    /// As [`Region::populate`].
    pub fn touch(&self, range: Range<usize>) -> io::Result<()> {
        let (start, bytes) = self.part(&range)?;
        touch(start, bytes, self.granule)
    }
}

/// True if the kernel does not know the advice.
fn is_unknown(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::INVAL.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ThpAdvice;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use std::os::fd::AsFd;

    const MIB: usize = 1 << 20;

    #[track_caller]
    fn assert_populated(region: &Region, bytes: usize) {
        match region.absent_bytes(0..bytes) {
            Ok(absent) => assert_eq!(absent, 0),
            Err(error) => mw_test::skip(format!("needs PAGEMAP_SCAN (6.7): {error}")),
        }
    }

    #[test]
    fn huge_pages_are_populated_throughout() {
        let _alone = crate::anonymous::tests::alone();
        let region = Region::reserve(4 * MIB, 4096, 2 * MIB).unwrap();
        region.map_anonymous(0..4 * MIB, false).unwrap();
        // Also where none is available.
        region.advise_thp(ThpAdvice::Disable).unwrap();
        region.populate_huge(0..4 * MIB, 2 * MIB).unwrap();
        assert_populated(&region, 4 * MIB);
        assert!(region.populate_huge(0..8 * MIB, 2 * MIB).is_err());
        for page in [0, 1, 3 * MIB] {
            assert!(region.populate_huge(0..4 * MIB, page).is_err());
        }
    }

    #[test]
    fn cached_pages_are_mapped_and_others_populated() {
        let region = Region::reserve(2 * MIB, 4096, 4096).unwrap();
        let fd = memfd_create("mw-sys-test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&fd, 2 * MIB as u64).unwrap();
        region.map_file(0..2 * MIB, fd.as_fd(), 0).unwrap();
        rustix::io::pwrite(&fd, &[0; MIB], 0).unwrap();
        region.map_cached(0..2 * MIB).unwrap();
        assert_populated(&region, 2 * MIB);
    }
}
