//! A stripe in the server's hands: its file, and a mapping that keeps its pages in memory.

use crate::book::Verdict;
use crate::client::alignment;
use crate::spec::{Nodes, Pages};
use mw_segment::{Existing, Phase};
use mw_sys::{Huge, RangePolicy, Region};
use rustix::fs::{
    FallocateFlags, MemfdFlags, Mode, OFlags, SealFlags, fallocate, fchmod, fcntl_add_seals, fstat,
    ftruncate, memfd_create, open,
};
use std::collections::BTreeMap;
use std::io;
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
    pages: Pages,
    locked: AtomicBool,
}

impl Memory {
    /// Takes a populated memfd, or one of an earlier server. It can then neither shrink nor grow,
    /// nor be sealed any further, and nobody but its owner and root can open it again: who holds it
    /// with `O_PATH`, which the kernel does not count, gets nothing from it.
    pub(crate) fn adopt(
        file: OwnedFd,
        bytes: usize,
        pages: Pages,
        nodes: &Nodes,
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
        let granule = if pages == Pages::Thp { mw_sys::page_bytes() } else { granule(pages)? };
        let align = alignment(bytes);
        let region = Region::reserve(bytes, granule, align)?;
        region.map_file(0..bytes, file.as_fd(), 0)?;
        match pages {
            Pages::Thp => region.choose(Huge::Wanted)?,
            // A kernel without transparent huge pages has nothing to decline.
            Pages::Base => drop(region.choose(Huge::Declined)),
            Pages::Huge2M | Pages::Huge1G => {}
        }
        match nodes {
            Nodes::Local => {}
            Nodes::Bind(nodes) => region.place(0..bytes, RangePolicy::Bind(nodes))?,
            Nodes::Interleave(nodes) => region.place(0..bytes, RangePolicy::Interleave(nodes))?,
        }
        Ok(Self { file, region, pages, locked: AtomicBool::new(pages.is_hugetlb()) })
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
    pub(crate) fn verdict(&self, proves: bool) -> Verdict {
        let asked = || mw_sys::is_only_open(self.another()?.as_fd());
        match proves.then(asked) {
            Some(Ok(true)) => Verdict::Free,
            Some(Ok(false)) => Verdict::Held,
            Some(Err(_)) | None => Verdict::Unknown,
        }
    }

    /// Gives its pages back to the kernel, where nobody else has it mapped or open: who holds it with
    /// `O_PATH`, which is not counted, keeps an empty file.
    pub(crate) fn empty(&self) {
        if self.verdict(true) == Verdict::Free {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let _ = fallocate(&self.file, flags, 0, self.region.bytes() as u64);
        }
    }

    /// Makes a part of it zero, and as it was before holes were punched into it.
    fn scrub_part(&self, range: Range<usize>) -> io::Result<()> {
        // Where the kernel cannot say what is absent (before 6.7), all is populated again.
        if self.region.absent_bytes(range.clone()).unwrap_or(1) > 0 {
            self.region.populate(range.clone())?;
        }
        match self.region.zero_uncached(range.clone()) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => self.region.zero(range),
            other => other,
        }
    }

    /// Whether it has the pages that it had: holes are filled with small ones.
    fn is_as_before(&self) -> bool {
        let huge = || self.region.huge_bytes(self.all());
        self.pages != Pages::Thp || huge().is_ok_and(|huge| huge == self.region.bytes())
    }

    fn all(&self) -> Range<usize> {
        0..self.region.bytes()
    }
}

/// Makes stripes of the same size zero, and as they were before holes were punched into them: all
/// at once, since helpers are made for each operation. Nobody else has them.
pub(crate) fn scrub(stripes: &[Arc<Memory>]) -> Vec<io::Result<()>> {
    let Some(first) = stripes.first() else { return Vec::new() };
    let bytes = first.region.bytes();
    let failures: Mutex<BTreeMap<usize, io::Error>> = Mutex::default();
    let failed = || failures.lock().unwrap_or_else(PoisonError::into_inner);
    let work = |range: Range<usize>| {
        let (number, start) = (range.start / bytes, range.start % bytes);
        let Some(stripe) = stripes.get(number) else { return Ok(()) };
        if let Err(error) = stripe.scrub_part(start..start + range.len()) {
            failed().entry(number).or_insert(error);
        }
        Ok(())
    };
    let chunk = CHUNK_BYTES.max(granule(first.pages).unwrap_or(CHUNK_BYTES));
    let all = 0..bytes * stripes.len();
    let ran = Existing::with_threads().each_chunk(Phase::Create, all, chunk, &work);
    let mut result = |(number, stripe): (usize, &Arc<Memory>)| match failed().remove(&number) {
        Some(error) => Err(error),
        None if ran.is_err() => Err(io::Error::other("it was not zeroed")),
        None if stripe.is_as_before() => Ok(()),
        None => Err(io::Error::other("its huge pages were taken apart")),
    };
    stripes.iter().enumerate().map(&mut result).collect()
}

fn granule(pages: Pages) -> io::Result<usize> {
    usize::try_from(pages.granule_bytes()).map_err(io::Error::other)
}

/// Opens a file once more.
fn another(file: &OwnedFd) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(open(path.as_str(), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
}

/// Whether the kernel's word on who has a file can be relied on, tried with one: it must see
/// another description that can read and write, one that can only read, and a mapping, and must see
/// nobody once they are gone. Kernels from 7.0 on have leases only where a file system offers them.
pub(crate) fn proves(pages: Pages) -> bool {
    try_proof(pages).unwrap_or(false)
}

fn try_proof(pages: Pages) -> io::Result<bool> {
    let size = match pages {
        Pages::Base | Pages::Thp => MemfdFlags::empty(),
        Pages::Huge2M => MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB,
        Pages::Huge1G => MemfdFlags::HUGETLB | MemfdFlags::HUGE_1GB,
    };
    let file = memfd_create("memwright-proof", MemfdFlags::CLOEXEC | size)?;
    ftruncate(&file, pages.granule_bytes())?;
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
        Memory::adopt(file, BYTES, Pages::Base, &Nodes::Local).unwrap()
    }

    #[test]
    fn what_is_scrubbed_is_zero_and_whole() {
        let memory = Arc::new(memory());
        let other = memory.another().unwrap();
        pwrite(&other, &[7; 10_000], 4_190_000).unwrap();
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&other, hole, 1 << 20, 1 << 20).unwrap();
        let results = scrub(&[Arc::new(self::memory()), memory]);
        assert!(results.len() == 2 && results.iter().all(Result::is_ok));
        let mut seen = vec![1; 10_000];
        pread(&other, &mut seen, 4_190_000).unwrap();
        assert!(seen.iter().all(|byte| *byte == 0));
        assert_eq!(fstat(&other).unwrap().st_blocks * 512, BYTES as i64);
    }

    #[test]
    fn the_kernel_says_who_has_it() {
        if !proves(Pages::Base) {
            return;
        }
        let memory = memory();
        assert_eq!(memory.verdict(true), Verdict::Free);
        let other = memory.another().unwrap();
        assert_eq!(memory.verdict(true), Verdict::Held);
        drop(other);
        assert_eq!(memory.verdict(true), Verdict::Free);
        assert_eq!(memory.verdict(false), Verdict::Unknown);
    }

    #[test]
    fn nobody_makes_it_useless() {
        let other = memory().another().unwrap();
        assert!(fcntl_add_seals(&other, SealFlags::WRITE).is_err());
        assert!(ftruncate(&other, 0).is_err());
        assert!(ftruncate(&other, 2 * BYTES as u64).is_err());
    }
}
