//! Populates a segment with folios, each chunk of the largest size that is free without compaction.
//!
//! The kernel chooses the size: the largest that is enabled, or the next smaller one after it has tried
//! direct compaction, where `defrag` allows that for advised memory. A segment therefore asks only for a
//! size that /proc/buddyinfo lists enough of, and makes the kernel skip the larger ones:
//!
//! - **A memfd** is populated through a second mapping of it, a window, whose addresses are shifted
//!   against the file's offsets by one folio: a folio must be aligned in both, so that none larger than
//!   the shift fits (mm/huge_memory.c, thp_vma_suitable_order). The segment's own mapping is aligned and
//!   maps what is in the file then.
//! - **Private memory** is populated between guard pages ([`Region::populate_folios`]).
//!
//! What the kernel allocated is counted by the page faults of the worker: one for each folio.

use crate::backing::SegmentBacking;
use crate::folio_sizes::{FolioSize, FolioSizes};
use crate::free_blocks::ZoneFreeBlocks;
use crate::plan::{BASE_CHUNK_BYTES, LockMethod, SegmentPlan};
use mw_sys::{Region, ThpAdvice, thread_page_faults};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A size is not tried again once this share of a chunk was allocated in smaller pages: the free blocks
/// are reserved for others (`MIGRATE_HIGHATOMIC`, CMA).
const SHORTFALL_SHARE: usize = 8;

/// One size of the segment.
#[derive(Debug)]
struct Size {
    size: FolioSize,
    /// For files.
    window: Option<Region>,
    populated_bytes: AtomicUsize,
    is_exhausted: AtomicBool,
}

/// The population of one segment.
#[derive(Debug)]
pub(crate) struct FolioPages<'a> {
    plan: &'a SegmentPlan,
    region: &'a Region,
    backing: &'a SegmentBacking,
    sizes: Vec<Size>,
    free: Option<ZoneFreeBlocks>,
}

impl<'a> FolioPages<'a> {
    pub(crate) fn new(
        plan: &'a SegmentPlan,
        folios: &FolioSizes,
        region: &'a Region,
        backing: &'a SegmentBacking,
    ) -> io::Result<Self> {
        let size = |size: &FolioSize| {
            let window = match plan.kind.is_shared() {
                true => Some(window(plan, backing, size.bytes)?),
                false => None,
            };
            let (populated_bytes, is_exhausted) = Default::default();
            Ok(Size { size: *size, window, populated_bytes, is_exhausted })
        };
        let sizes = folios.sizes.iter().map(size).collect::<io::Result<_>>()?;
        Ok(Self { plan, region, backing, sizes, free: ZoneFreeBlocks::new(&plan.placement) })
    }

    /// Bytes that folios of a size can have now, without compaction.
    pub(crate) fn available_bytes(&self, page_bytes: usize) -> u64 {
        let now = self.free.as_ref().and_then(|free| Some((free, free.read()?)));
        now.map_or(0, |(free, now)| free.available_bytes(&now, page_bytes))
    }

    /// Populates a chunk. Private memory is locked afterwards if the mapping is to be locked: guard pages
    /// cannot be in locked memory.
    pub(crate) fn populate(&self, chunk: Range<usize>) -> io::Result<()> {
        match self.choose() {
            Some(size) => {
                let whole = chunk.len() - chunk.len() % size.size.bytes;
                let split = chunk.start + whole;
                self.populate_folios(size, chunk.start..split)?;
                self.populate_base(split..chunk.end)?;
            }
            None => self.populate_base(chunk.clone())?,
        }
        if matches!(self.backing, SegmentBacking::Anonymous)
            && self.plan.lock == LockMethod::Mapping
        {
            self.region.lock_on_fault(chunk)?;
        }
        Ok(())
    }

    /// The largest size of which every worker can populate a chunk, and one more remains.
    fn choose(&self) -> Option<&Size> {
        let free = self.free.as_ref()?;
        let now = free.read()?;
        let needed = mw_memory::folio_reserve_bytes(self.plan.group.max_workers);
        self.sizes.iter().find(|size| {
            !size.is_exhausted.load(Ordering::Relaxed)
                && free.available_bytes(&now, size.size.bytes) >= needed
        })
    }

    fn populate_folios(&self, size: &Size, range: Range<usize>) -> io::Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let bytes = size.size.bytes;
        let before = thread_page_faults();
        match &size.window {
            Some(window) => window.populate(shifted(&range, bytes))?,
            None if size.size.is_capped => self.region.populate_folios(range.clone(), bytes)?,
            None => self.region.populate_huge(range.clone(), bytes)?,
        }
        let faults = usize::try_from(thread_page_faults() - before).unwrap_or(usize::MAX);
        count(size, range.len() / bytes, faults);
        if let Some(window) = &size.window {
            self.region.map_cached(range.clone())?;
            window.discard(shifted(&range, bytes))?;
        }
        Ok(())
    }

    fn populate_base(&self, range: Range<usize>) -> io::Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let is_private =
            matches!(self.backing, SegmentBacking::Anonymous) && !self.sizes.is_empty();
        let advise = |advice| match is_private {
            true => self.region.advise_thp_in(range.clone(), advice),
            false => Ok(()),
        };
        advise(ThpAdvice::Disable)?;
        for start in range.clone().step_by(BASE_CHUNK_BYTES) {
            let end = range.end.min(start + BASE_CHUNK_BYTES);
            self.backing.populate(self.plan, self.region, start..end)?;
        }
        // Advised otherwise than its neighbours, each such range would be a mapping of its own.
        advise(ThpAdvice::Enable)
    }

    /// Bytes that are in folios of each size at least, and the rest in pages of the smallest size.
    pub(crate) fn bytes_by_size(&self) -> BTreeMap<usize, usize> {
        let folios = self
            .sizes
            .iter()
            .map(|size| (size.size.bytes, size.populated_bytes.load(Ordering::Relaxed)));
        let mut by_size: BTreeMap<_, _> = folios.filter(|(_, bytes)| *bytes > 0).collect();
        let rest = self.region.bytes() - by_size.values().sum::<usize>();
        if rest > 0 {
            by_size.insert(mw_sys::page_bytes(), rest);
        }
        by_size
    }
}

/// Counts the folios of a chunk: every one that is missing took at least one fault more.
fn count(size: &Size, expected: usize, faults: usize) {
    let missing = faults.saturating_sub(expected).min(expected);
    size.populated_bytes.fetch_add((expected - missing) * size.size.bytes, Ordering::Relaxed);
    if missing > expected / SHORTFALL_SHARE {
        size.is_exhausted.store(true, Ordering::Relaxed);
    }
}

/// Maps the files once more, shifted by one folio. Nothing is populated.
fn window(plan: &SegmentPlan, backing: &SegmentBacking, page: usize) -> io::Result<Region> {
    let base = mw_sys::page_bytes();
    let bytes = plan.layout.bytes().checked_add(page).ok_or(io::ErrorKind::InvalidInput)?;
    let window = Region::reserve(bytes, base, 2 * page)?;
    backing.map_files(plan, &window, page)?;
    window.advise_thp(ThpAdvice::Enable)?;
    Ok(window)
}

fn shifted(range: &Range<usize>, by: usize) -> Range<usize> {
    range.start + by..range.end + by
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_folio_costs_a_fault_at_least() {
        let size = |bytes| Size {
            size: FolioSize { bytes, is_capped: false },
            window: None,
            populated_bytes: AtomicUsize::new(0),
            is_exhausted: AtomicBool::new(false),
        };
        for (faults, populated, exhausted) in
            [(64, 64, false), (66, 62, false), (80, 48, true), (1024, 0, true), (0, 64, false)]
        {
            let size = size(1 << 16);
            count(&size, 64, faults);
            assert_eq!(size.populated_bytes.into_inner(), populated << 16, "{faults}");
            assert_eq!(size.is_exhausted.into_inner(), exhausted, "{faults}");
        }
    }
}
