//! Kinds of segments and sizes of pages.

use crate::raw::guard;
use mw_segment::{PageSize, SegmentKind};
use std::ffi::{CStr, c_char, c_int};
use std::ptr;

/// Kinds of segments.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum mw_kind {
    /// No kind: that of a NULL segment.
    MW_KIND_NONE = 0,
    /// A System V segment, locked as a whole (SHM_LOCK) and populated when it is attached.
    MW_KIND_ISM = 1,
    /// A System V segment, locked by mlock(2) if at all.
    MW_KIND_DISM = 2,
    /// Several memfds mapped next to each other; the default.
    MW_KIND_MEMFD = 3,
    /// Private anonymous memory.
    MW_KIND_ANON = 4,
    /// As MW_KIND_MEMFD, of hugetlb pages: 2 MiB unless another size is requested.
    MW_KIND_HUGETLB = 5,
    /// POSIX shared memory with a name (shm_open(3)).
    MW_KIND_POSIX = 6,
}

use mw_kind::{
    MW_KIND_ANON, MW_KIND_DISM, MW_KIND_HUGETLB, MW_KIND_ISM, MW_KIND_MEMFD, MW_KIND_POSIX,
};

const KINDS: [(mw_kind, SegmentKind, &CStr); 6] = [
    (MW_KIND_ISM, SegmentKind::Ism, c"ism"),
    (MW_KIND_DISM, SegmentKind::Dism, c"dism"),
    (MW_KIND_MEMFD, SegmentKind::Memfd, c"memfd"),
    (MW_KIND_ANON, SegmentKind::Anon, c"anon"),
    (MW_KIND_HUGETLB, SegmentKind::Hugetlb, c"hugetlb"),
    (MW_KIND_POSIX, SegmentKind::Posix, c"posix"),
];

/// Sizes of pages.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum mw_page {
    /// The largest that is available now, without compaction; the default. An existing segment has
    /// one of the others.
    MW_PAGE_AUTO = 0,
    /// The base page: 4 KiB on x86.
    MW_PAGE_BASE = 1,
    /// Transparent huge pages.
    MW_PAGE_THP = 2,
    /// Hugetlb pages of 2 MiB.
    MW_PAGE_2M = 3,
    /// Hugetlb pages of 1 GiB.
    MW_PAGE_1G = 4,
    /// The largest folios or transparent huge pages that are free without compaction, mixed; base
    /// pages where none are.
    MW_PAGE_BEST = 5,
    /// Folios (mTHP) of 16 KiB.
    MW_PAGE_16K = 6,
    /// Folios of 32 KiB.
    MW_PAGE_32K = 7,
    /// Folios of 64 KiB.
    MW_PAGE_64K = 8,
    /// Folios of 128 KiB.
    MW_PAGE_128K = 9,
    /// Folios of 256 KiB.
    MW_PAGE_256K = 10,
    /// Folios of 512 KiB.
    MW_PAGE_512K = 11,
    /// Folios of 1 MiB.
    MW_PAGE_1M = 12,
}

use mw_page::{
    MW_PAGE_1G, MW_PAGE_1M, MW_PAGE_2M, MW_PAGE_16K, MW_PAGE_32K, MW_PAGE_64K, MW_PAGE_128K,
    MW_PAGE_256K, MW_PAGE_512K, MW_PAGE_AUTO, MW_PAGE_BASE, MW_PAGE_BEST, MW_PAGE_THP,
};

const PAGES: [(mw_page, Option<PageSize>, &CStr); 13] = [
    (MW_PAGE_AUTO, None, c"auto"),
    (MW_PAGE_BASE, Some(PageSize::Base), c"4k"),
    (MW_PAGE_THP, Some(PageSize::Thp), c"thp"),
    (MW_PAGE_2M, Some(PageSize::HUGE_2M), c"2M"),
    (MW_PAGE_1G, Some(PageSize::HUGE_1G), c"1G"),
    (MW_PAGE_BEST, Some(PageSize::Best), c"best"),
    (MW_PAGE_16K, Some(PageSize::Folio(16 << 10)), c"16k"),
    (MW_PAGE_32K, Some(PageSize::Folio(32 << 10)), c"32k"),
    (MW_PAGE_64K, Some(PageSize::Folio(64 << 10)), c"64k"),
    (MW_PAGE_128K, Some(PageSize::Folio(128 << 10)), c"128k"),
    (MW_PAGE_256K, Some(PageSize::Folio(256 << 10)), c"256k"),
    (MW_PAGE_512K, Some(PageSize::Folio(512 << 10)), c"512k"),
    (MW_PAGE_1M, Some(PageSize::Folio(1 << 20)), c"1M"),
];

pub(crate) fn parse_kind(number: c_int) -> Result<SegmentKind, String> {
    let found = KINDS.iter().find(|(kind, ..)| *kind as c_int == number);
    let none = || format!("invalid mw_kind {number} (use 1, MW_KIND_ISM, to 6, MW_KIND_POSIX)");
    found.map(|(_, kind, _)| *kind).ok_or_else(none)
}

pub(crate) fn parse_page(number: c_int) -> Result<Option<PageSize>, String> {
    let found = PAGES.iter().find(|(page, ..)| *page as c_int == number);
    let none = || format!("invalid mw_page {number} (use 0, MW_PAGE_AUTO, to 12, MW_PAGE_1M)");
    found.map(|(_, page, _)| *page).ok_or_else(none)
}

impl From<SegmentKind> for mw_kind {
    fn from(kind: SegmentKind) -> Self {
        let found = KINDS.iter().find(|(_, known, _)| *known == kind);
        found.map_or(Self::MW_KIND_NONE, |(number, ..)| *number)
    }
}

impl From<Option<PageSize>> for mw_page {
    fn from(page: Option<PageSize>) -> Self {
        let found = PAGES.iter().find(|(_, known, _)| *known == page);
        found.map_or(Self::MW_PAGE_AUTO, |(number, ..)| *number)
    }
}

/// The name of a kind, as on memwright's command line: "ism", "memfd" and so on.
///
/// kind: an mw_kind.
/// Returns: a static text; NULL for an invalid kind.
/// Threads: may be called from any thread.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_kind_name(kind: c_int) -> *const c_char {
    let found = || KINDS.iter().find(|(known, ..)| *known as c_int == kind);
    guard(ptr::null(), || found().map_or(ptr::null(), |(.., name)| name.as_ptr()))
}

/// The name of a page size, as on memwright's command line: "auto", "4k", "thp", "2M",
/// "1G", "best", "64k" and so on.
///
/// page: an mw_page.
/// Returns: a static text; NULL for an invalid page size.
/// Threads: may be called from any thread.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_page_name(page: c_int) -> *const c_char {
    let found = || PAGES.iter().find(|(known, ..)| *known as c_int == page);
    guard(ptr::null(), || found().map_or(ptr::null(), |(.., name)| name.as_ptr()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_page_sizes_have_numbers_and_names() {
        for kind in SegmentKind::ALL {
            let number = mw_kind::from(kind);
            assert_eq!(parse_kind(number as c_int), Ok(kind));
            assert!(KINDS.iter().any(|(.., name)| name.to_str() == Ok(kind.name())));
        }
        let folios = PageSize::FOLIO_BYTES.map(PageSize::Folio);
        let pages = PageSize::ALL.into_iter().chain(folios).chain([PageSize::Best]);
        for page in pages.map(Some).chain([None]) {
            assert_eq!(parse_page(mw_page::from(page) as c_int), Ok(page));
            let text = page.map_or("auto".to_owned(), PageSize::name);
            assert!(PAGES.iter().any(|(.., name)| name.to_str() == Ok(&text)));
        }
    }

    #[test]
    fn undefined_numbers_have_no_name() {
        for number in [-1, 0, 7, c_int::MIN, c_int::MAX] {
            assert!(parse_kind(number).is_err());
            assert!(mw_kind_name(number).is_null());
        }
        for number in [-1, 13, c_int::MIN, c_int::MAX] {
            assert!(parse_page(number).is_err());
            assert!(mw_page_name(number).is_null());
        }
    }
}
