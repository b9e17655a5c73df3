//! The page size of a memfd.

use mw_memory::PageSize;
use rustix::fs::MemfdFlags;

/// `MFD_HUGE_SHIFT` (linux/memfd.h): the base-2 logarithm of the size begins at this bit.
const HUGE_SHIFT: u32 = 26;

/// The flags of memfd_create(2) for files of these pages.
#[must_use]
pub fn memfd_page_flags(page: PageSize) -> MemfdFlags {
    match page.hugetlb_bytes() {
        None => MemfdFlags::empty(),
        Some(bytes) => {
            let size = MemfdFlags::from_bits_retain(bytes.trailing_zeros() << HUGE_SHIFT);
            MemfdFlags::HUGETLB | size
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_encoded_as_the_kernel_s_headers_do() {
        let huge = |flag| MemfdFlags::HUGETLB | flag;
        assert_eq!(memfd_page_flags(PageSize::HUGE_2M), huge(MemfdFlags::HUGE_2MB));
        assert_eq!(memfd_page_flags(PageSize::HUGE_1G), huge(MemfdFlags::HUGE_1GB));
        assert_eq!(memfd_page_flags(PageSize::Thp), MemfdFlags::empty());
    }
}
