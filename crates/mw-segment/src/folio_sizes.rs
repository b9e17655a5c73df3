//! The sizes of folios that a segment may have, by the kernel's switches.
//!
//! A switch allows a size for the whole machine, and a mapping cannot choose among those that are allowed:
//! the kernel tries the largest first. How a segment gets one size in spite of that is explained in
//! folio_pages.rs.

use crate::free_pages::allowed;
use crate::machine;
use crate::segment_kind::SegmentKind;
use mw_memory::{PageSize, WHY_ONLY_THE_LARGEST};

/// A size that a segment may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FolioSize {
    pub(crate) bytes: usize,
    /// True if the kernel would try a larger one first.
    pub(crate) is_capped: bool,
}

/// The folios of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FolioSizes {
    /// The largest first.
    pub(crate) sizes: Vec<FolioSize>,
    /// True if the whole segment must be of the one size.
    pub(crate) strict: bool,
    /// The reason why there is no size, or no folio at all.
    pub(crate) why_none: Option<String>,
}

impl FolioSizes {
    /// For [`PageSize::Folio`] that one, or in lenient mode all up to it; for [`PageSize::Best`] all.
    pub(crate) fn new(kind: SegmentKind, page: PageSize, lenient: bool) -> Option<Self> {
        let (most, least) = match page {
            PageSize::Folio(bytes) if lenient => (bytes, 0),
            PageSize::Folio(bytes) => (bytes, bytes),
            PageSize::Best => (u64::MAX, 0),
            PageSize::Base | PageSize::Thp | PageSize::Hugetlb(_) => return None,
        };
        let mut sizes = usable(kind, mw_sys::has_guard_pages());
        sizes.retain(|size| (least..=most).contains(&(size.bytes as u64)));
        let smallest = PageSize::FOLIO_BYTES[2].min(most);
        let why_none = sizes.is_empty().then(|| is_supported(kind, smallest).err()).flatten();
        Some(Self { sizes, strict: least == most, why_none })
    }
}

/// All sizes that the switches allow for this kind and that can be chosen, the largest first.
fn usable(kind: SegmentKind, has_guard_pages: bool) -> Vec<FolioSize> {
    let allowed = if has_folios(kind).is_ok() { allowed(kind.is_shared()) } else { Vec::new() };
    let capped = allowed
        .iter()
        .enumerate()
        .map(|(place, bytes)| FolioSize { bytes: *bytes, is_capped: place > 0 });
    let choosable = |size: &FolioSize| !size.is_capped || kind.is_shared() || has_guard_pages;
    capped.filter(choosable).collect()
}

fn has_folios(kind: SegmentKind) -> Result<(), String> {
    match kind {
        SegmentKind::Memfd | SegmentKind::Anon => Ok(()),
        SegmentKind::Ism | SegmentKind::Dism => {
            Err("the kernel has none for System V segments (use kind memfd \
                                       or anon)"
                .to_owned())
        }
        SegmentKind::Posix => Err("the mount option huge= of /dev/shm decides".to_owned()),
        SegmentKind::Hugetlb => Err("a hugetlb segment has pages of 2M or 1G".to_owned()),
    }
}

/// Whether a segment of this kind can have folios of this size only, or what is missing.
pub(crate) fn is_supported(kind: SegmentKind, bytes: u64) -> Result<(), String> {
    has_folios(kind)?;
    let shared = kind.is_shared();
    if let Some(why) = machine::folio_switch(bytes, shared).why_not(bytes, shared) {
        return Err(why);
    }
    let is_usable = |size: &FolioSize| size.bytes as u64 == bytes;
    if usable(kind, mw_sys::has_guard_pages()).iter().any(is_usable) {
        return Ok(());
    }
    Err(WHY_ONLY_THE_LARGEST.to_owned())
}
