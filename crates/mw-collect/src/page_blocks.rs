//! What the blocks of a huge page's size consist of: a sample of /proc/kpageflags.
//!
//! A block becomes a huge page if compaction can move each page in it that is not free. The flags tell most
//! pages that it cannot: kernel objects, page tables, pages of ramfs, and pages that no process maps and that
//! are nevertheless held (in pipes, by direct I/O). They do not tell pages that are mapped and held as well;
//! vmstat counts those (`nr_foll_pin_acquired`), but not where they are. Neither do they tell free pages on the
//! lists of CPUs from kernel memory without a type of its own: zoneinfo counts them (`pagesets`).

use crate::page_flags::{
    ANON, BUDDY, COMPOUND_HEAD, COMPOUND_TAIL, FILE, HUGE, HWPOISON, LRU, MLOCKED, MMAP, NOPAGE,
    OFFLINE, PGTABLE, RESERVED, SLAB, SWAPBACKED, SWAPCACHE, UNEVICTABLE, UPTODATE, ZERO_PAGE,
};
use crate::source::Source;
use crate::spread::spread;
use mw_model::{Missing, OriginKind, PageBlocks, Snapshot};
use mw_proc::zoneinfo::Zone;
use mw_sys::kernel_file;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

const UNEVICTABLE_MOVED: &str = "/proc/sys/vm/compact_unevictable_allowed";
const WORD: usize = size_of::<u64>();
/// Pages whose flags are read at once.
const PAGES_AT_ONCE: u64 = 512;
/// The most blocks of a zone that are looked at: their share is then known to two percent.
const MOST_BLOCKS: u64 = 2048;
/// As many are read however long they take, some 10 µs of CPU time each: on a busy machine the time may be over before it
/// was ours, and a few blocks leave everything open.
const LEAST_BLOCKS: u64 = 256;

const NEVER_MOVED: u64 = HUGE | HWPOISON | NOPAGE | OFFLINE | ZERO_PAGE | PGTABLE | RESERVED;

/// A page, as compaction sees it; the worst of a block's pages counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PageKind {
    Free,
    Movable,
    /// Being put on a list, or taken off one.
    Uncertain,
    /// Kernel memory, or free and on the list of a CPU.
    Unflagged,
    /// Kernel objects, which the kernel may free.
    Slab,
    Fixed,
}

/// The zones' blocks of `block_bytes`, of the running machine.
///
/// # Errors
/// The flags cannot be read: they are root's.
pub fn page_blocks(
    source: &Source,
    snapshot: &Snapshot,
    block_bytes: u64,
    time: Duration,
) -> Result<Vec<PageBlocks>, Missing> {
    page_blocks_up_to(source, snapshot, block_bytes, time, MOST_BLOCKS)
}

/// The same of at most so many blocks of a zone: where the time is not what ends it, they are the same ones each time.
///
/// # Errors
/// The flags cannot be read: they are root's.
pub fn page_blocks_up_to(
    source: &Source,
    snapshot: &Snapshot,
    block_bytes: u64,
    time: Duration,
    most_blocks: u64,
) -> Result<Vec<PageBlocks>, Missing> {
    if source.kind() == OriginKind::Tree {
        return Err(Missing::absent(FILE, "a captured tree does not have them"));
    }
    let zones = &snapshot.sample.zoneinfo.required()?.zones;
    let skipped = |error: std::io::Error| Missing::skipped(FILE, format!("{error} (needs root)"));
    let file = kernel_file::open(FILE).map_err(skipped)?;
    let moves_unevictable = source.number(UNEVICTABLE_MOVED).is_ok_and(|allowed| allowed == 1);
    let page_bytes = snapshot.origin.page_bytes.max(1);
    let all: u64 = zones.iter().map(|zone| zone.spanned_pages).sum();
    let mut blocks = Vec::new();
    for zone in zones.iter().filter(|zone| zone.is_populated()) {
        let share = zone.spanned_pages as f64 / all.max(1) as f64;
        let until = Instant::now() + time.mul_f64(share.min(1.0));
        let sample = BlockSample {
            block_pages: block_bytes / page_bytes,
            moves_unevictable,
            until,
            most_blocks,
        };
        let found = sample.zone(zone, &mut |frame, words| {
            file.read_exact_at(words, frame.checked_mul(WORD as u64)?).ok()
        });
        blocks.push(PageBlocks { node: zone.node, block_bytes, ..found });
    }
    Ok(blocks)
}

/// Reads the flags of pages from a frame on.
type ReadFlags<'a> = &'a mut dyn FnMut(u64, &mut [u8]) -> Option<()>;

struct BlockSample {
    block_pages: u64,
    moves_unevictable: bool,
    until: Instant,
    most_blocks: u64,
}

impl BlockSample {
    fn zone(&self, zone: &Zone, read: ReadFlags<'_>) -> PageBlocks {
        let start = zone.start_pfn.unwrap_or(0);
        let first = start.div_ceil(self.block_pages.max(1));
        let end = start.saturating_add(zone.spanned_pages).checked_div(self.block_pages);
        let blocks = end.unwrap_or(0).saturating_sub(first);
        let mut found = PageBlocks { blocks, ..PageBlocks::default() };
        for (place, _) in spread(blocks).zip(0..self.most_blocks) {
            let Some((kind, free)) = self.block((first + place) * self.block_pages, read) else {
                break;
            };
            found.sampled += 1;
            match kind {
                PageKind::Free | PageKind::Movable => found.movable += 1,
                PageKind::Uncertain => found.uncertain += 1,
                PageKind::Unflagged => found.unflagged += 1,
                PageKind::Slab => found.slab += 1,
                PageKind::Fixed => {}
            }
            if kind > PageKind::Movable {
                found.stuck_free_pages += free;
            }
            if found.sampled >= LEAST_BLOCKS && Instant::now() > self.until {
                break;
            }
        }
        found
    }

    /// The worst page of a block, and its free pages.
    fn block(&self, frame: u64, read: ReadFlags<'_>) -> Option<(PageKind, u64)> {
        let mut words = vec![0; PAGES_AT_ONCE.min(self.block_pages) as usize * WORD];
        let (mut worst, mut head, mut free) = (PageKind::Free, PageKind::Fixed, 0);
        for part in (0..self.block_pages).step_by(PAGES_AT_ONCE as usize) {
            read(frame + part, &mut words)?;
            for word in words.as_chunks::<WORD>().0 {
                let flags = u64::from_ne_bytes(*word);
                // Before 6.9 a tail has few flags of its own.
                if flags & COMPOUND_TAIL == 0 {
                    head = self.kind(flags);
                }
                free += u64::from(head == PageKind::Free);
                worst = worst.max(head);
            }
        }
        Some((worst, free))
    }

    fn kind(&self, flags: u64) -> PageKind {
        let is = |mask: u64| flags & mask != 0;
        let held_by_nobody_visible = is(ANON) && !is(MMAP) && !is(SWAPCACHE);
        // Their file system cannot move them, or nobody may.
        let stays = is(UNEVICTABLE) && (!self.moves_unevictable || !is(MLOCKED | SWAPBACKED));
        if is(BUDDY) {
            PageKind::Free
        } else if is(SLAB) {
            PageKind::Slab
        } else if is(NEVER_MOVED) || stays || held_by_nobody_visible {
            PageKind::Fixed
        } else if is(LRU) {
            PageKind::Movable
        } else if is(MMAP | ANON | SWAPBACKED | UPTODATE) {
            PageKind::Uncertain
        } else if is(COMPOUND_HEAD) {
            PageKind::Fixed
        } else {
            PageKind::Unflagged
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> BlockSample {
        let until = Instant::now() + Duration::from_secs(60);
        BlockSample { block_pages: 512, moves_unevictable: true, until, most_blocks: MOST_BLOCKS }
    }

    fn zone(blocks: u64) -> Zone {
        let spanned_pages = blocks * 512 + 100;
        Zone { start_pfn: Some(512 * 3 - 50), spanned_pages, ..Zone::default() }
    }

    /// Block N of the zone has this page among file pages.
    fn check(flags: &[u64], movable: u64, uncertain: u64) {
        let found = sample().zone(&zone(flags.len() as u64), &mut |frame, words| {
            for (page, word) in words.as_chunks_mut::<WORD>().0.iter_mut().enumerate() {
                let block = usize::try_from(frame / 512 - 3).unwrap();
                let special = if page == 77 { flags[block] } else { LRU | UPTODATE };
                *word = special.to_ne_bytes();
            }
            Some(())
        });
        assert_eq!(found.sampled, flags.len() as u64);
        assert_eq!((found.movable, found.uncertain), (movable, uncertain), "{flags:x?}");
        let count =
            |wanted: &dyn Fn(u64) -> bool| flags.iter().filter(|f| wanted(**f)).count() as u64;
        assert_eq!(found.unflagged, count(&|flags| flags == 0));
        assert_eq!(found.slab, count(&|flags| flags & SLAB != 0));
    }

    #[test]
    fn one_page_decides_for_its_block() {
        check(&[BUDDY, LRU | ANON | MMAP, LRU | UPTODATE], 3, 0);
        check(&[SLAB, RESERVED, 0, PGTABLE, HUGE | COMPOUND_TAIL], 1, 0);
        check(&[LRU | ANON | SWAPBACKED, LRU | ANON | SWAPBACKED | SWAPCACHE], 1, 0);
        check(&[MMAP | ANON, UPTODATE, LRU | UPTODATE], 1, 2);
        check(&[LRU | UNEVICTABLE, LRU | UNEVICTABLE | MLOCKED | MMAP], 1, 0);
    }

    #[test]
    fn free_pages_beside_a_fixed_one_are_stuck() {
        let found = sample().zone(&zone(4), &mut |frame, words| {
            for (page, word) in words.as_chunks_mut::<WORD>().0.iter_mut().enumerate() {
                let fixed = frame / 512 == 4 && page == 5;
                *word = if fixed { SLAB } else { BUDDY }.to_ne_bytes();
            }
            Some(())
        });
        assert_eq!((found.blocks, found.movable, found.stuck_free_pages), (4, 3, 511));
    }

    #[test]
    fn what_cannot_be_read_is_not_sampled() {
        let found = sample().zone(&zone(4), &mut |_, _| None);
        assert_eq!((found.blocks, found.sampled), (4, 0));
    }
}
