//! The memory of a stripe: its file, and the server's mapping, which keeps its pages in memory.

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
use std::time::Duration;

/// Bytes that a worker thread zeroes at a time.
const CHUNK_BYTES: usize = 4 << 20;

/// The memory of a stripe.
///
/// Its file is the open file description that memfd_create(2) returned, which the kernel does not
/// count ([`mw_sys::is_only_open`]): neither the mapping here nor the service manager's descriptor
/// counts as an owner. Clients get descriptions of their own, which are counted.
#[derive(Debug)]
pub(crate) struct StripeMemory {
    file: OwnedFd,
    region: Region,
    pages: PageSize,
    nodes: NumaPolicy,
    locked: AtomicBool,
}

impl StripeMemory {
    /// Takes over a populated memfd, or one of an earlier server. It can then neither shrink nor grow,
    /// nor be sealed any further, and only its owner and root can open it again: an `O_PATH`
    /// descriptor, which the kernel does not count, gives no access.
    pub(crate) fn adopt(
        file: OwnedFd,
        bytes: usize,
        pages: PageSize,
        nodes: &NumaPolicy,
    ) -> io::Result<Self> {
        if fstat(&file)?.st_size.try_into() != Ok(bytes) {
            return Err(io::Error::other(format!("the stripe's size is not {bytes} bytes")));
        }
        fchmod(&file, Mode::RUSR | Mode::WUSR)?;
        match fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL) {
            // It has these seals already.
            Ok(()) | Err(rustix::io::Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
        let granule = if pages.is_hugetlb() { granule(pages)? } else { mw_sys::page_bytes() };
        let align = alignment(bytes);
        let region = Region::reserve(bytes, granule, align)?;
        region.map_file(0..bytes, file.as_fd(), 0)?;
        match pages {
            PageSize::Thp | PageSize::Folio(_) | PageSize::Best => {
                region.advise_thp(ThpAdvice::Enable)?
            }
            // Fails on a kernel without transparent huge pages, where nothing is to be declined.
            PageSize::Base => drop(region.advise_thp(ThpAdvice::Disable)),
            PageSize::Hugetlb(_) => {}
        }
        let nodes = nodes.clone();
        let locked = AtomicBool::new(pages.is_hugetlb());
        let memory = Self { file, region, pages, nodes, locked };
        if memory.nodes != NumaPolicy::Default {
            memory.set_policy()?;
        }
        Ok(memory)
    }

    /// Sets the pool's memory policy. Any process that maps the file can set another one, which the kernel
    /// keeps with the file (shmem's shared policy).
    fn set_policy(&self) -> io::Result<()> {
        // The kernel does nothing if this mapping has the policy already, whatever the file has by
        // now (mm/mempolicy.c, `mbind_range`): so it gets another one first.
        let changed = self.region.set_policy(self.all(), &NumaPolicy::Local);
        match changed.and_then(|()| self.region.set_policy(self.all(), &self.nodes)) {
            // Without NUMA there is no policy to reset.
            Err(error)
                if self.nodes == NumaPolicy::Default && error.kind() == ErrorKind::Unsupported =>
            {
                Ok(())
            }
            other => other,
        }
    }

    /// Checks that it can be zeroed in place. Pages that its user freed are not allocated here, where
    /// nothing checks that there is room for them.
    fn prepare(&self) -> io::Result<()> {
        self.set_policy()?;
        let allocated =
            u64::try_from(fstat(&self.file)?.st_blocks).unwrap_or(0).saturating_mul(512);
        if allocated < self.region.bytes() as u64 {
            return Err(io::Error::other("its user freed pages of it"));
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

    /// Locks its pages in memory, and maps them in this process's page tables, which clients may share.
    pub(crate) fn lock(&self) -> io::Result<()> {
        if self.is_hugetlb() {
            return self.region.populate(self.all());
        }
        self.region.lock(self.all())?;
        self.locked.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// A new open file description, for a client.
    pub(crate) fn reopen(&self) -> io::Result<OwnedFd> {
        reopen(&self.file)
    }

    /// Whether another process has it, if the kernel knows ([`kernel_knows_owners`]).
    pub(crate) fn ownership(&self) -> Ownership {
        match self.reopen().and_then(|file| mw_sys::is_only_open(file.as_fd())) {
            Ok(true) => Ownership::Free,
            Ok(false) => Ownership::InUse,
            Err(_) => Ownership::Unknown,
        }
    }

    /// Frees its pages if no other process has it mapped or open: an `O_PATH` descriptor, which is not
    /// counted, keeps an empty file.
    pub(crate) fn empty(&self) {
        if self.ownership() == Ownership::Free {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let _ = fallocate(&self.file, flags, 0, self.region.bytes() as u64);
        }
    }

    fn zero_part(&self, range: Range<usize>) -> io::Result<()> {
        // Maps absent pages; before Linux 6.7, which does not say what is absent, all of them.
        if self.region.absent_bytes(range.clone()).unwrap_or(1) > 0 {
            self.region.populate(range.clone())?;
        }
        match self.region.zero_uncached(range.clone()) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => self.region.zero(range),
            other => other,
        }
    }

    /// True if its pages are as they were: the kernel may have split huge ones. Before Linux 6.7, which
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

/// Zeroes stripes of one size that are not in use, in one operation, because each operation starts
/// worker threads. Fails for a stripe that is not as it was when it was leased.
pub(crate) fn zero_in_place(stripes: &[Arc<StripeMemory>]) -> Vec<io::Result<()>> {
    let Some(first) = stripes.first() else { return Vec::new() };
    let bytes = first.region.bytes();
    let unfit =
        |(number, stripe): (usize, &Arc<StripeMemory>)| Some((number, stripe.prepare().err()?));
    let unfit: BTreeMap<usize, io::Error> = stripes.iter().enumerate().filter_map(unfit).collect();
    let is_unfit: BTreeSet<usize> = unfit.keys().copied().collect();
    let failures = Mutex::new(unfit);
    let failed = || failures.lock().unwrap_or_else(PoisonError::into_inner);
    let work = |range: Range<usize>| {
        let (number, start) = (range.start / bytes, range.start % bytes);
        let Some(stripe) = stripes.get(number).filter(|_| !is_unfit.contains(&number)) else {
            return Ok(());
        };
        if let Err(error) = stripe.zero_part(start..start + range.len()) {
            failed().entry(number).or_insert(error);
        }
        Ok(())
    };
    let chunk = CHUNK_BYTES.max(granule(first.pages).unwrap_or(CHUNK_BYTES));
    let all = 0..bytes * stripes.len();
    let ran = Workers::with_threads().each_chunk(Phase::Create, all, chunk, &work);
    let mappings = OnceCell::new();
    let mut result = |(number, stripe): (usize, &Arc<StripeMemory>)| match failed().remove(&number)
    {
        Some(error) => Err(error),
        None if ran.is_err() => Err(io::Error::other("zeroing failed")),
        None if stripe.is_intact(&mappings) => Ok(()),
        None => Err(io::Error::other("its huge pages were split")),
    };
    stripes.iter().enumerate().map(&mut result).collect()
}

fn granule(pages: PageSize) -> io::Result<usize> {
    usize::try_from(pages.granule_bytes(mw_sys::page_bytes() as u64)).map_err(io::Error::other)
}

/// Opens a file again, with a description of its own.
fn reopen(file: &OwnedFd) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(open(path.as_str(), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
}

/// True if the kernel knows who has a file, tested with one: it must count another open file description
/// that can read and write, one that can only read, and a mapping, and none once they are gone. From
/// Linux 7.0 on a kernel has file leases only where the file system supports them.
pub(crate) fn kernel_knows_owners(pages: PageSize) -> bool {
    // A child of another thread has a descriptor until it executes its program: milliseconds on busy CPUs.
    const ATTEMPTS: u32 = 20;
    const PAUSE: Duration = Duration::from_millis(2);
    (0..ATTEMPTS).any(|attempt| {
        if attempt > 0 {
            std::thread::sleep(PAUSE);
        }
        try_ownership(pages).unwrap_or(false)
    })
}

fn try_ownership(pages: PageSize) -> io::Result<bool> {
    let size = mw_sys::memfd_page_flags(pages);
    let file = memfd_create("memwright-proof", MemfdFlags::CLOEXEC | size)?;
    ftruncate(&file, pages.granule_bytes(mw_sys::page_bytes() as u64))?;
    let alone = || mw_sys::is_only_open(reopen(&file)?.as_fd());
    let mut right = alone()?;
    for flags in [OFlags::RDWR, OFlags::RDONLY] {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let other = open(path.as_str(), flags | OFlags::CLOEXEC, Mode::empty())?;
        right &= !alone()?;
        drop(other);
        right &= alone()?;
    }
    // Mapping huge pages would allocate them; such a mapping counts as any other does.
    if !pages.is_hugetlb() {
        let bytes = granule(pages)?;
        let region = Region::reserve(bytes, mw_sys::page_bytes(), mw_sys::page_bytes())?;
        region.map_file(0..bytes, reopen(&file)?.as_fd(), 0)?;
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

    fn memory() -> StripeMemory {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("mw-pool-test", flags).unwrap();
        ftruncate(&file, BYTES as u64).unwrap();
        StripeMemory::adopt(file, BYTES, PageSize::Base, &NumaPolicy::Default).unwrap()
    }

    #[test]
    fn zeroing_in_place_clears_whole_stripes_and_rejects_those_with_holes() {
        let (whole, holed) = (Arc::new(memory()), Arc::new(memory()));
        for memory in [&whole, &holed] {
            let flags = FallocateFlags::empty();
            fallocate(memory.reopen().unwrap(), flags, 0, BYTES as u64).unwrap();
            pwrite(memory.reopen().unwrap(), &[7; 10_000], 4_190_000).unwrap();
        }
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(holed.reopen().unwrap(), hole, 1 << 20, 1 << 20).unwrap();
        let results = zero_in_place(&[Arc::clone(&holed), Arc::clone(&whole)]);
        assert!(results[0].is_err() && results[1].is_ok(), "{results:?}");
        let mut seen = vec![1; 10_000];
        pread(whole.reopen().unwrap(), &mut seen, 4_190_000).unwrap();
        assert!(seen.iter().all(|byte| *byte == 0));
        let allocated = fstat(&holed.file).unwrap().st_blocks * 512;
        assert!(allocated < BYTES as i64, "holes were filled without a check for room");
    }

    #[test]
    fn the_kernel_reports_whether_a_stripe_is_in_use() {
        if !kernel_knows_owners(PageSize::Base) {
            mw_test::skip("this kernel does not report who has a file");
            return;
        }
        let memory = memory();
        assert_eq!(memory.ownership(), Ownership::Free);
        let other = memory.reopen().unwrap();
        assert_eq!(memory.ownership(), Ownership::InUse);
        drop(other);
        assert_eq!(memory.ownership(), Ownership::Free);
    }

    #[test]
    fn a_client_cannot_seal_or_resize_a_stripe() {
        let other = memory().reopen().unwrap();
        assert!(fcntl_add_seals(&other, SealFlags::WRITE).is_err());
        assert!(ftruncate(&other, 0).is_err());
        assert!(ftruncate(&other, 2 * BYTES as u64).is_err());
    }
}
