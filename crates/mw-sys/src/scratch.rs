//! Memory that is populated by plain stores and discarded, repeatedly.

use crate::region::Region;
use mw_memory::PageSize;
use rustix::io::Errno;
use std::io;
use std::ops::Range;

/// Private memory whose new pages one thread populates as any program does: by a store and the page
/// fault that it causes.
///
/// [`Region::populate`] does the same at less cost, but holds the mmap lock while it waits for memory.
/// A page fault does not (from kernel 6.4 on), so that a thread that blocks here does not keep other
/// threads from mapping memory.
#[derive(Debug)]
pub struct Scratch {
    region: Region,
    page_bytes: usize,
}

impl Scratch {
    /// Maps `bytes`, rounded up to whole pages, of base pages only.
    ///
    /// # Errors
    /// As [`Region::anonymous`].
    pub fn with_base_pages(bytes: usize) -> io::Result<Self> {
        Ok(Self::new(Region::anonymous(bytes, PageSize::Base)?))
    }

    /// Maps `bytes` at a multiple of `bytes`, a power of two, without advice about huge pages: the
    /// kernel's default decides, as for most programs.
    ///
    /// # Errors
    /// As [`Region::reserve`].
    pub fn with_default_pages(bytes: usize) -> io::Result<Self> {
        let region = Region::reserve(bytes, rustix::param::page_size(), bytes)?;
        region.map_anonymous(0..bytes, false)?;
        Ok(Self::new(region))
    }

    fn new(region: Region) -> Self {
        Self { region, page_bytes: rustix::param::page_size() }
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.region.bytes()
    }

    /// Stores a byte into every base page of `range`, which populates it.
    ///
    /// # Errors
    /// `InvalidInput` for a range that is not of whole pages within it.
    pub fn touch(&mut self, range: Range<usize>) -> io::Result<()> {
        let (start, bytes) = self.region.part(&range)?;
        for offset in (0..bytes).step_by(self.page_bytes) {
            let byte = start.wrapping_add(offset);
            // SAFETY: the byte lies in a region that is mapped for writing throughout and of which
            // nobody has a reference; `&mut` keeps other threads out. No file is mapped in it that
            // could shrink, so that no SIGBUS comes of it.
            #[allow(unsafe_code, reason = "stores into memory that this type owns")]
            unsafe {
                byte.write_volatile(1);
            }
        }
        Ok(())
    }

    /// Frees every page: the next store populates new ones.
    ///
    /// # Errors
    /// As [`Region::discard`].
    pub fn discard(&mut self) -> io::Result<()> {
        self.region.discard(0..self.region.bytes())
    }
}

/// The size of transparent huge pages in bytes.
///
/// # Errors
/// The kernel's file could not be read or parsed, as on a kernel without them.
pub fn huge_page_bytes() -> io::Result<usize> {
    let text =
        crate::kernel_file::read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")?;
    text.trim().parse().map_err(|_| Errno::INVAL.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn pages_are_new_every_time() {
        let _alone = crate::anonymous::tests::alone();
        let mut scratch = Scratch::with_base_pages(MIB).unwrap();
        for _ in 0..3 {
            scratch.touch(0..MIB).unwrap();
            match scratch.region.absent_bytes(0..MIB) {
                Ok(absent) => assert_eq!(absent, 0),
                Err(error) => return mw_test::skip(format!("needs PAGEMAP_SCAN (6.7): {error}")),
            }
            scratch.discard().unwrap();
            assert_eq!(scratch.region.absent_bytes(0..MIB).unwrap(), MIB);
        }
    }

    #[test]
    fn ranges_outside_are_invalid() {
        let mut scratch = Scratch::with_default_pages(2 * MIB).unwrap();
        assert_eq!(scratch.bytes(), 2 * MIB);
        assert_eq!(scratch.region.as_ptr().as_ptr().align_offset(2 * MIB), 0);
        scratch.touch(2 * MIB - 4096..2 * MIB).unwrap();
        assert!(scratch.touch(0..4 * MIB).is_err());
        assert!(scratch.touch(1..4096).is_err());
        assert!(Scratch::with_default_pages(3 * MIB).is_err());
    }
}
