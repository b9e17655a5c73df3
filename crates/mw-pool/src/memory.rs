//! A stripe in the server's hands: its file, and a mapping that keeps its pages in memory.

use crate::client::alignment;
use crate::lease_table::Ownership;
use mw_memory::{NumaPolicy, PageSize};
use mw_segment::{Phase, Workers};
use mw_sys::{HugeMappings, Region, ThpAdvice};
use rustix::fs::{
    FallocateFlags, MemfdFlags, Mode, OFlags, SealFlags, fallocate, fchmod, fcntl_add_seals, fstat,
    ftruncate, memfd_create, open,
};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What is zeroed at a time.
const CHUNK_BYTES: usize = 4 << 20;

/// A stripe's memory.
///
/// Its file is the description that memfd_create(2) returned, which the kernel does not count
/// ([`mw_sys::is_only_open`]): what is mapped through it here, and what the service manager keeps,
/// is in nobody's way. Clients get descriptions of their own, which are counted.
#[derive(Debug)]
pub(crate) struct Memory {
    file: OwnedFd,
    region: Region,
    pages: PageSize,
    nodes: NumaPolicy,
    locked: AtomicBool,
}

impl Memory {
    /// Takes a populated memfd, or one of an earlier server. It can then neither shrink nor grow,
    /// nor be sealed any further, and nobody but its owner and root can open it again: who holds it
    /// with `O_PATH`, which the kernel does not count, gets nothing from it.
    pub(crate) fn adopt(
        file: OwnedFd,
        bytes: usize,
        pages: PageSize,
        nodes: &NumaPolicy,
    ) -> io::Result<Self> {
        if fstat(&file)?.st_size.try_into() != Ok(bytes) {
            return Err(io::Error::other(format!("a stripe that is not of {bytes} bytes")));
        }
        fchmod(&file, Mode::RUSR | Mode::WUSR)?;
        match fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL) {
            // It has these seals already.
            Ok(()) | Err(rustix::io::Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
        let granule = if pages == PageSize::Thp { mw_sys::page_bytes() } else { granule(pages)? };
        let align = alignment(bytes);
        let region = Region::reserve(bytes, granule, align)?;
        region.map_file(0..bytes, file.as_fd(), 0)?;
        match pages {
            PageSize::Thp => region.advise_thp(ThpAdvice::Enable)?,
            // A kernel without transparent huge pages has nothing to decline.
            PageSize::Base => drop(region.advise_thp(ThpAdvice::Disable)),
            PageSize::Hugetlb(_) => {}
        }
        let nodes = nodes.clone();
        let locked = AtomicBool::new(pages.is_hugetlb());
        let memory = Self { file, region, pages, nodes, locked };
        if memory.nodes != NumaPolicy::Default {
            memory.place()?;
        }
        Ok(memory)
    }

    /// Has new pages of it come from where the pool's come from. Whoever maps it can have them come
    /// from elsewhere, and the kernel keeps that with the file (shmem's shared policy).
    fn place(&self) -> io::Result<()> {
        // The kernel does nothing where the mapping here has this policy already, whatever the file
        // has by now (mm/mempolicy.c, `mbind_range`): so it gets another one first.
        let changed = self.region.set_policy(self.all(), &NumaPolicy::Local);
        match changed.and_then(|()| self.region.set_policy(self.all(), &self.nodes)) {
            // Without NUMA there is nothing to undo.
            Err(error)
                if self.nodes == NumaPolicy::Default && error.kind() == ErrorKind::Unsupported =>
            {
                Ok(())
            }
            other => other,
        }
    }

    /// What must hold for it to be zeroed in place. Pages that its user gave back are not taken
    /// anew here, where nobody looks whether there is room for them.
    fn prepare(&self) -> io::Result<()> {
        self.place()?;
        let had = u64::try_from(fstat(&self.file)?.st_blocks).unwrap_or(0).saturating_mul(512);
        if had < self.region.bytes() as u64 {
            return Err(io::Error::other("its user gave pages of it back"));
        }
        Ok(())
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub(crate) fn is_locked(&self) -> bool {
        self.locked.load(Ordering::Relaxed)
    }

    pub(crate) fn is_hugetlb(&self) -> bool {
        self.pages.is_hugetlb()
    }

    /// Keeps its pages in memory, and has them in the page tables here, which clients may share.
    pub(crate) fn lock(&self) -> io::Result<()> {
        if self.is_hugetlb() {
            return self.region.populate(self.all());
        }
        self.region.lock(self.all())?;
        self.locked.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// A description of its own for somebody else.
    pub(crate) fn another(&self) -> io::Result<OwnedFd> {
        another(&self.file)
    }

    /// Whether anybody else has it. `proves` is whether the kernel's word counts here.
    pub(crate) fn verdict(&self, proves: bool) -> Ownership {
        let asked = || mw_sys::is_only_open(self.another()?.as_fd());
        match proves.then(asked) {
            Some(Ok(true)) => Ownership::Free,
            Some(Ok(false)) => Ownership::InUse,
            Some(Err(_)) | None => Ownership::Unknown,
        }
    }

    /// Gives its pages back to the kernel, where nobody else has it mapped or open: who holds it with
    /// `O_PATH`, which is not counted, keeps an empty file.
    pub(crate) fn empty(&self) {
        if self.verdict(true) == Ownership::Free {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let _ = fallocate(&self.file, flags, 0, self.region.bytes() as u64);
        }
    }

    /// Makes a part of it zero.
    fn scrub_part(&self, range: Range<usize>) -> io::Result<()> {
        // Into the page tables; where the kernel cannot say what is absent (before 6.7), all of it.
        if self.region.absent_bytes(range.clone()).unwrap_or(1) > 0 {
            self.region.populate(range.clone())?;
        }
        match self.region.zero_uncached(range.clone()) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => self.region.zero(range),
            other => other,
        }
    }

    /// Whether its pages are as they were: the kernel may have split huge ones. Before Linux 6.7, which
    /// does not say so of a range, `mappings` does.
    fn is_intact(&self, mappings: &OnceCell<Option<HugeMappings>>) -> bool {
        if self.pages != PageSize::Thp {
            return true;
        }
        let from_smaps = |error: io::Error| {
            let read = mappings.get_or_init(|| HugeMappings::read().ok());
            read.as_ref().map_or(Err(error), |read| self.region.huge_bytes_in(read))
        };
        let huge = self.region.huge_bytes(self.all()).or_else(from_smaps);
        huge.is_ok_and(|huge| huge == self.region.bytes())
    }

    fn all(&self) -> Range<usize> {
        0..self.region.bytes()
    }
}

/// Makes stripes of the same size zero: all at once, since helpers are made for each operation.
/// Nobody else has them. One that is not as it was when it was handed out fails.
pub(crate) fn scrub(stripes: &[Arc<Memory>]) -> Vec<io::Result<()>> {
    let Some(first) = stripes.first() else { return Vec::new() };
    let bytes = first.region.bytes();
    let unfit = |(number, stripe): (usize, &Arc<Memory>)| Some((number, stripe.prepare().err()?));
    let unfit: BTreeMap<usize, io::Error> = stripes.iter().enumerate().filter_map(unfit).collect();
    let is_unfit: BTreeSet<usize> = unfit.keys().copied().collect();
    let failures = Mutex::new(unfit);
    let failed = || failures.lock().unwrap_or_else(PoisonError::into_inner);
    let work = |range: Range<usize>| {
        let (number, start) = (range.start / bytes, range.start % bytes);
        let Some(stripe) = stripes.get(number).filter(|_| !is_unfit.contains(&number)) else {
            return Ok(());
        };
        if let Err(error) = stripe.scrub_part(start..start + range.len()) {
            failed().entry(number).or_insert(error);
        }
        Ok(())
    };
    let chunk = CHUNK_BYTES.max(granule(first.pages).unwrap_or(CHUNK_BYTES));
    let all = 0..bytes * stripes.len();
    let ran = Workers::with_threads().each_chunk(Phase::Create, all, chunk, &work);
    let mappings = OnceCell::new();
    let mut result = |(number, stripe): (usize, &Arc<Memory>)| match failed().remove(&number) {
        Some(error) => Err(error),
        None if ran.is_err() => Err(io::Error::other("it was not zeroed")),
        None if stripe.is_intact(&mappings) => Ok(()),
        None => Err(io::Error::other("its huge pages were split")),
    };
    stripes.iter().enumerate().map(&mut result).collect()
}

fn granule(pages: PageSize) -> io::Result<usize> {
    usize::try_from(pages.granule_bytes(mw_sys::page_bytes() as u64)).map_err(io::Error::other)
}

/// Opens a file once more.
fn another(file: &OwnedFd) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(open(path.as_str(), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
}

/// Whether the kernel's word on who has a file can be relied on, tried with one: it must see
/// another description that can read and write, one that can only read, and a mapping, and must see
/// nobody once they are gone. Kernels from 7.0 on have leases only where a file system offers them.
pub(crate) fn proves(pages: PageSize) -> bool {
    try_proof(pages).unwrap_or(false)
}

fn try_proof(pages: PageSize) -> io::Result<bool> {
    let size = mw_sys::memfd_page_flags(pages);
    let file = memfd_create("memwright-proof", MemfdFlags::CLOEXEC | size)?;
    ftruncate(&file, pages.granule_bytes(mw_sys::page_bytes() as u64))?;
    let alone = || mw_sys::is_only_open(another(&file)?.as_fd());
    let mut right = alone()?;
    for flags in [OFlags::RDWR, OFlags::RDONLY] {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let other = open(path.as_str(), flags | OFlags::CLOEXEC, Mode::empty())?;
        right &= !alone()?;
        drop(other);
        right &= alone()?;
    }
    // A mapping of huge pages would have to be had; it holds its file as any other does.
    if !pages.is_hugetlb() {
        let bytes = granule(pages)?;
        let region = Region::reserve(bytes, mw_sys::page_bytes(), mw_sys::page_bytes())?;
        region.map_file(0..bytes, another(&file)?.as_fd(), 0)?;
        right &= !alone()?;
        drop(region);
        right &= alone()?;
    }
    Ok(right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::{pread, pwrite};

    const BYTES: usize = 8 << 20;

    fn memory() -> Memory {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("mw-pool-test", flags).unwrap();
        ftruncate(&file, BYTES as u64).unwrap();
        Memory::adopt(file, BYTES, PageSize::Base, &NumaPolicy::Default).unwrap()
    }

    #[test]
    fn what_is_scrubbed_is_zero_and_what_has_holes_is_exchanged() {
        let (whole, holed) = (Arc::new(memory()), Arc::new(memory()));
        for memory in [&whole, &holed] {
            let flags = FallocateFlags::empty();
            fallocate(memory.another().unwrap(), flags, 0, BYTES as u64).unwrap();
            pwrite(memory.another().unwrap(), &[7; 10_000], 4_190_000).unwrap();
        }
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(holed.another().unwrap(), hole, 1 << 20, 1 << 20).unwrap();
        let results = scrub(&[Arc::clone(&holed), Arc::clone(&whole)]);
        assert!(results[0].is_err() && results[1].is_ok(), "{results:?}");
        let mut seen = vec![1; 10_000];
        pread(whole.another().unwrap(), &mut seen, 4_190_000).unwrap();
        assert!(seen.iter().all(|byte| *byte == 0));
        let taken = fstat(&holed.file).unwrap().st_blocks * 512;
        assert!(taken < BYTES as i64, "holes are filled where nobody looks for room");
    }

    #[test]
    fn the_kernel_says_who_has_it() {
        if !proves(PageSize::Base) {
            return;
        }
        let memory = memory();
        assert_eq!(memory.verdict(true), Ownership::Free);
        let other = memory.another().unwrap();
        assert_eq!(memory.verdict(true), Ownership::InUse);
        drop(other);
        assert_eq!(memory.verdict(true), Ownership::Free);
        assert_eq!(memory.verdict(false), Ownership::Unknown);
    }

    #[test]
    fn nobody_makes_it_useless() {
        let other = memory().another().unwrap();
        assert!(fcntl_add_seals(&other, SealFlags::WRITE).is_err());
        assert!(ftruncate(&other, 0).is_err());
        assert!(ftruncate(&other, 2 * BYTES as u64).is_err());
    }
}
