//! The pages that memory consists of.

use std::fmt;
use std::str::FromStr;

/// The kind of pages that memory consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, schemars::JsonSchema),
    serde(rename_all = "lowercase")
)]
pub enum PageSize {
    /// Base pages, 4 KiB on most machines.
    Base,
    /// Transparent huge pages (MADV_HUGEPAGE).
    Thp,
    /// Folios of this size in bytes, 16 KiB to 1 MiB: transparent too, smaller than a huge page (mTHP).
    Folio(u64),
    /// For each part of the memory the largest folios, or transparent huge pages, that are free without
    /// compaction; base pages where none are.
    Best,
    /// Pages of a hugetlb pool, of this size in bytes.
    Hugetlb(u64),
}

const MIB: u64 = 1 << 20;

impl PageSize {
    pub const HUGE_2M: Self = Self::Hugetlb(2 * MIB);
    pub const HUGE_1G: Self = Self::Hugetlb(1024 * MIB);

    /// The sizes of folios in bytes, the smallest first.
    pub const FOLIO_BYTES: [u64; 7] =
        [16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, MIB];

    /// Those of x86 that every kernel has, the smallest first.
    pub const ALL: [Self; 4] = [Self::Base, Self::Thp, Self::HUGE_2M, Self::HUGE_1G];

    /// The size of hugetlb pages in bytes; none for the others.
    #[must_use]
    pub fn hugetlb_bytes(self) -> Option<usize> {
        match self {
            Self::Hugetlb(bytes) => Some(usize::try_from(bytes).unwrap_or(usize::MAX)),
            Self::Base | Self::Thp | Self::Folio(_) | Self::Best => None,
        }
    }

    /// True if they are folios, of one size or mixed.
    #[must_use]
    pub fn is_folio(self) -> bool {
        matches!(self, Self::Folio(_) | Self::Best)
    }

    /// True if they are hugetlb pages: never swapped, so that they need no lock.
    #[must_use]
    pub fn is_hugetlb(self) -> bool {
        matches!(self, Self::Hugetlb(_))
    }

    /// The unit of sizes, in bytes: the page's own size, 2 MiB for transparent huge pages, a
    /// base page for folios, of which the last may be smaller.
    #[must_use]
    pub fn granule_bytes(self, base_page_bytes: u64) -> u64 {
        match self {
            Self::Base | Self::Folio(_) | Self::Best => base_page_bytes,
            Self::Thp => 2 * MIB,
            Self::Hugetlb(bytes) => bytes,
        }
    }

    /// As on the command line: `4k`, `64k`, `best`, `thp`, `2M`.
    #[must_use]
    pub fn name(self) -> String {
        self.to_string()
    }
}

impl fmt::Display for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Base => f.pad("4k"),
            Self::Thp => f.pad("thp"),
            Self::Best => f.pad("best"),
            Self::Hugetlb(bytes) if bytes >= 1024 * MIB => f.pad(&format!("{}G", bytes >> 30)),
            Self::Folio(bytes) | Self::Hugetlb(bytes) if bytes >= MIB => {
                f.pad(&format!("{}M", bytes >> 20))
            }
            Self::Folio(bytes) | Self::Hugetlb(bytes) => f.pad(&format!("{}k", bytes >> 10)),
        }
    }
}

/// A text that is not a page size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidPageSize(String);

impl fmt::Display for InvalidPageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid page size '{}' (use 4k, 16k to 1M, best, thp, 2M or 1G)", self.0)
    }
}

impl std::error::Error for InvalidPageSize {}

impl FromStr for PageSize {
    type Err = InvalidPageSize;

    fn from_str(text: &str) -> Result<Self, InvalidPageSize> {
        let folios = Self::FOLIO_BYTES.map(Self::Folio);
        let mut all = Self::ALL.into_iter().chain(folios).chain([Self::Best]);
        let known = all.find(|page| page.name().eq_ignore_ascii_case(text));
        known.ok_or_else(|| InvalidPageSize(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_and_printed() {
        let folios = PageSize::FOLIO_BYTES.map(PageSize::Folio);
        for page in PageSize::ALL.into_iter().chain(folios).chain([PageSize::Best]) {
            assert_eq!(page.name().parse(), Ok(page));
        }
        assert_eq!("1m".parse(), Ok(PageSize::Folio(MIB)));
        assert_eq!("2m".parse(), Ok(PageSize::HUGE_2M));
        assert_eq!(PageSize::Hugetlb(64 << 10).name(), "64k");
        assert_eq!(PageSize::Hugetlb(512 << 20).name(), "512M");
        let error = "3M".parse::<PageSize>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid page size '3M' (use 4k, 16k to 1M, best, thp, 2M or 1G)"
        );
    }
}
