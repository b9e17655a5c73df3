//! Other methods of creating a segment, for comparison: an equal share for each thread, one call for each
//! page, and the chunks of memwright with one slow thread.

use crate::sample::{SegmentTimes, ms_per_gib};
use mw_segment::{NumaPolicy, PageSize, Phase, SegmentKind, StdThreads, ThreadSpawner, Workers};
use mw_sys::{Region, SysvSegment, ThpAdvice};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

/// The chunk size of memwright for base pages.
const CHUNK_BYTES: usize = 1 << 20;
const THP_BYTES: usize = 2 << 20;

/// Division of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Split {
    /// Small chunks from one cursor: memwright.
    Chunks,
    /// An equal share and one call for each thread: QEMU, cloud-hypervisor.
    EqualShare,
    /// One call for each page: DPDK.
    PageByPage,
}

/// A segment that is created without mw-segment.
#[derive(Debug, Clone)]
pub(crate) struct BaselineSegment {
    pub(crate) split: Split,
    pub(crate) kind: SegmentKind,
    pub(crate) page: PageSize,
    pub(crate) threads: usize,
    /// The factor by which the last thread is slower; 1 for none.
    pub(crate) slowed: u32,
    /// NUMA policies of parts of the segment.
    pub(crate) policies: Vec<(Range<usize>, NumaPolicy)>,
}

impl BaselineSegment {
    /// Creates, locks and destroys one segment.
    pub(crate) fn measure(&self, bytes: usize) -> io::Result<SegmentTimes> {
        let granule = self.page.hugetlb_bytes().unwrap_or_else(mw_sys::page_bytes);
        let bytes = bytes.next_multiple_of(granule);
        let start = Instant::now();
        let region = Region::reserve(bytes, granule, THP_BYTES.max(granule))?;
        let file = map(self.kind, self.page, &region)?;
        self.prepare(&region)?;
        self.populate(&region)?;
        let create = start.elapsed();
        let nodes = region.node_shares().ok();
        let start = Instant::now();
        drop(region);
        drop(file);
        Ok(SegmentTimes {
            create: ms_per_gib(create, bytes),
            // It is locked while it is populated.
            lock: 0.0,
            destroy: ms_per_gib(start.elapsed(), bytes),
            threads: self.threads,
            nodes,
            page_shares: None,
            no_folios: None,
        })
    }

    /// Sets the pages, the NUMA policy and the lock.
    fn prepare(&self, region: &Region) -> io::Result<()> {
        match self.page {
            PageSize::Thp | PageSize::Folio(_) | PageSize::Best => {
                region.advise_thp(ThpAdvice::Enable)?
            }
            // Fails on a kernel without transparent huge pages, which has nothing to decline.
            PageSize::Base => drop(region.advise_thp(ThpAdvice::Disable)),
            PageSize::Hugetlb(_) => {}
        }
        for (range, policy) in &self.policies {
            region.set_policy(range.clone(), policy)?;
        }
        if self.page.hugetlb_bytes().is_some() {
            return Ok(());
        }
        region.lock_on_fault(0..region.bytes())
    }

    fn populate(&self, region: &Region) -> io::Result<()> {
        let spawner = MarkLastThread { threads: self.threads };
        match self.split {
            Split::Chunks => {
                let start = region.as_ptr().as_ptr().addr();
                let work = |at: Range<usize>| {
                    self.call(region, at.start - start..at.end - start, is_last_thread())
                };
                let addresses = start..start + region.bytes();
                let workers = Workers::new(&spawner);
                let chunk = CHUNK_BYTES.max(self.granule());
                workers.each_chunk(Phase::Create, addresses, chunk, &work).map(drop)
            }
            Split::EqualShare => std::thread::scope(|scope| {
                let shares = shares(region.bytes(), self.granule(), self.threads);
                let share = |(number, range): (usize, Range<usize>)| {
                    let last = number + 1 == self.threads;
                    scope.spawn(move || self.call(region, range, last))
                };
                let threads: Vec<_> = shares.into_iter().enumerate().map(share).collect();
                threads.into_iter().try_for_each(|thread| match thread.join() {
                    Ok(done) => done,
                    Err(_) => Err(io::ErrorKind::Other.into()),
                })
            }),
            Split::PageByPage => {
                let page = self.granule();
                let mut pages = (0..region.bytes()).step_by(page);
                pages.try_for_each(|at| region.populate(at..at + page))
            }
        }
    }

    /// One call; the last thread sleeps after it if it is to be slow.
    fn call(&self, region: &Region, range: Range<usize>, last: bool) -> io::Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let start = Instant::now();
        region.populate(range)?;
        if last {
            std::thread::sleep(start.elapsed() * self.slowed.saturating_sub(1));
        }
        Ok(())
    }

    /// The size of the pages in bytes.
    fn granule(&self) -> usize {
        self.page.hugetlb_bytes().unwrap_or_else(mw_sys::page_bytes)
    }
}

/// Equal parts of whole pages.
fn shares(bytes: usize, page: usize, threads: usize) -> Vec<Range<usize>> {
    let pages = bytes.div_ceil(page);
    let at = |thread: usize| (pages * thread / threads * page).min(bytes);
    (0..threads).map(|thread| at(thread)..at(thread + 1)).collect()
}

thread_local! {
    static LAST: Cell<bool> = const { Cell::new(false) };
}

fn is_last_thread() -> bool {
    LAST.get()
}

/// Marks the last thread.
struct MarkLastThread {
    threads: usize,
}

impl ThreadSpawner for MarkLastThread {
    fn run(
        &self,
        wanted: usize,
        worker: &(dyn Fn(usize, usize) + Sync),
        own: &mut dyn FnMut(usize),
    ) {
        let marked = |number: usize, workers: usize| {
            LAST.set(number + 1 == workers);
            worker(number, workers);
        };
        StdThreads.run(wanted.min(self.threads), &marked, own);
    }
}

/// Plain system calls: mlock(2) creates and locks the pages in one call, munmap(2) and close(2) free them.
pub(crate) fn plain(kind: SegmentKind, bytes: usize) -> io::Result<SegmentTimes> {
    let kind = if kind == SegmentKind::Hugetlb { SegmentKind::Memfd } else { kind };
    let start = Instant::now();
    let region = Region::reserve(bytes, mw_sys::page_bytes(), THP_BYTES)?;
    let file = map(kind, PageSize::Base, &region)?;
    // Base pages only.
    let _ = region.advise_thp(ThpAdvice::Disable);
    let create = start.elapsed();
    let start = Instant::now();
    region.lock(0..bytes)?;
    let lock = start.elapsed();
    let start = Instant::now();
    drop(region);
    drop(file);
    Ok(SegmentTimes {
        create: ms_per_gib(create, bytes),
        lock: ms_per_gib(lock, bytes),
        destroy: ms_per_gib(start.elapsed(), bytes),
        threads: 1,
        nodes: None,
        page_shares: None,
        no_folios: None,
    })
}

fn map(kind: SegmentKind, page: PageSize, region: &Region) -> io::Result<Option<OwnedFd>> {
    let (all, hugetlb) = (0..region.bytes(), page.hugetlb_bytes());
    match kind {
        SegmentKind::Ism | SegmentKind::Dism => {
            let segment = SysvSegment::create(0, region.bytes(), hugetlb)?;
            let attached = region.attach(segment);
            segment.remove()?;
            attached.map(|()| None)
        }
        SegmentKind::Anon => region.map_anonymous(all, hugetlb.is_some()).map(|()| None),
        SegmentKind::Memfd | SegmentKind::Hugetlb | SegmentKind::Posix => {
            let flags = MemfdFlags::CLOEXEC | mw_sys::memfd_page_flags(page);
            let file = memfd_create("memwright", flags)?;
            ftruncate(&file, region.bytes() as u64)?;
            region.map_file(all, file.as_fd(), 0)?;
            Ok(Some(file))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn baseline(split: Split, slowed: u32) -> BaselineSegment {
        let (kind, page) = (SegmentKind::Memfd, PageSize::Base);
        BaselineSegment { split, kind, page, threads: 3, slowed, policies: Vec::new() }
    }

    #[test]
    fn every_split_populates_the_whole_segment() {
        for split in [Split::Chunks, Split::EqualShare, Split::PageByPage] {
            let region = Region::reserve(20 * MIB, 4096, 2 * MIB).unwrap();
            let _file = map(SegmentKind::Memfd, PageSize::Base, &region).unwrap();
            baseline(split, 1).populate(&region).unwrap();
            let shares = region.node_shares();
            let sum: f64 = shares.map_or(1.0, |shares| shares.values().sum());
            assert!(sum > 0.999, "{split:?}: {sum}");
        }
    }

    #[test]
    fn shares_cover_everything_once() {
        for threads in 1..9 {
            let shares = shares(100 * 4096, 4096, threads);
            assert_eq!((shares[0].start, shares.last().unwrap().end), (0, 100 * 4096));
            assert!(shares.windows(2).all(|pair| pair[0].end == pair[1].start));
        }
    }

    #[test]
    fn a_slow_thread_delays_equal_shares_longer_than_chunks() {
        // An ordinary user may lock 8 MiB.
        if !mw_test::is_root() {
            return;
        }
        let time = |split| {
            let times = (0..3).map(|_| baseline(split, 8).measure(64 * MIB).unwrap().create);
            times.fold(f64::MAX, f64::min)
        };
        assert!(time(Split::Chunks) < time(Split::EqualShare));
    }
}
