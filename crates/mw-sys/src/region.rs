//! A range of addresses that holds adjacent mappings of several kinds.

use crate::huge_mappings::HugeMappings;
use crate::policy::set_range_policy;
use crate::sysv::SysvSegment;
use mw_memory::NumaPolicy;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MlockFlags, ProtFlags};
use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};

/// `MADV_DONTNEED_LOCKED` (kernel 5.18), which rustix does not know.
const DONTNEED_LOCKED: i32 = 24;

/// Advice on transparent huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThpAdvice {
    /// `MADV_HUGEPAGE`.
    Enable,
    /// `MADV_NOHUGEPAGE`.
    Disable,
}

impl From<ThpAdvice> for Advice {
    fn from(advice: ThpAdvice) -> Self {
        match advice {
            ThpAdvice::Enable => Self::LinuxHugepage,
            ThpAdvice::Disable => Self::LinuxNoHugepage,
        }
    }
}

/// A range of addresses; dropping it unmaps all that is mapped in it.
///
/// Ranges are offsets in bytes from its start, in multiples of the granule. It lends no references.
#[derive(Debug)]
pub struct Region {
    start: NonNull<c_void>,
    bytes: usize,
    /// The unit of ranges: the page size.
    pub(crate) granule: usize,
}

// SAFETY: the region is owned and lends no references, and the kernel serialises the calls that
// are made on it (madvise(2), mlock(2)), from whichever thread they come.
#[allow(unsafe_code, reason = "a raw pointer to memory that this type owns")]
unsafe impl Send for Region {}

// SAFETY: as for Send; the accesses to its memory are the kernel's, or in assembly (`zero`).
#[allow(unsafe_code, reason = "a raw pointer to memory that this type owns")]
unsafe impl Sync for Region {}

impl Region {
    /// Reserves addresses, inaccessible until something is mapped there. `granule` is the page size,
    /// `align` the alignment of the start.
    ///
    /// # Errors
    /// `InvalidInput` unless the sizes are powers of two from the base page on and `bytes` is a
    /// multiple of the granule above 0; else mmap(2)'s: `ENOMEM` without address space.
    pub fn reserve(bytes: usize, granule: usize, align: usize) -> io::Result<Self> {
        let base = rustix::param::page_size();
        let sizes = [granule, align].iter().all(|size| size.is_power_of_two() && *size >= base);
        if !sizes || bytes == 0 || !bytes.is_multiple_of(granule) {
            return Err(invalid());
        }
        // mmap(2) aligns to base pages: for more than that, map more and unmap what lies
        // outside.
        let spare = if align > base { align } else { 0 };
        let more = bytes.checked_add(spare).ok_or_else(invalid)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: without MAP_FIXED the kernel chooses addresses that nothing uses (mmap(2)).
        #[allow(unsafe_code, reason = "reserves addresses")]
        let whole = unsafe {
            rustix::mm::mmap_anonymous(ptr::null_mut(), more, ProtFlags::empty(), flags)
        }?;
        let skip = whole.align_offset(align).min(spare);
        let start = whole.wrapping_byte_add(skip);
        unmap(whole, skip);
        unmap(start.wrapping_byte_add(bytes), spare - skip);
        Ok(Self { start: NonNull::new(start).ok_or_else(invalid)?, bytes, granule })
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its address. The caller is responsible for references made from it: they must not outlive the
    /// region, nor exist while their range is discarded or removed.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.start.cast()
    }

    /// Maps private anonymous memory; hugetlb pages of the region's granule if `hugetlb`.
    ///
    /// # Errors
    /// `InvalidInput` for a bad range; mmap(2)'s: `ENOMEM` without commit or free huge pages,
    /// `EAGAIN` beyond a limit of locked memory.
    pub fn map_anonymous(&self, range: Range<usize>, hugetlb: bool) -> io::Result<()> {
        let (start, bytes) = self.part(&range)?;
        let mut flags = MapFlags::PRIVATE | MapFlags::FIXED;
        if hugetlb {
            // mmap(2): the base-2 logarithm of the size, in the six bits from 26 on.
            let size = self.granule.trailing_zeros() << 26;
            flags |= MapFlags::HUGETLB | MapFlags::from_bits_retain(size);
        }
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the range is this region's, which lends no references, so that MAP_FIXED
        // replaces nothing that anybody uses (mmap(2)).
        #[allow(unsafe_code, reason = "maps into addresses that this type owns")]
        let mapped = unsafe { rustix::mm::mmap_anonymous(start.cast(), bytes, prot, flags) };
        mapped.map(drop).map_err(io::Error::from)
    }

    /// Maps a file from `offset` on, shared.
    ///
    /// # Errors
    /// `InvalidInput` for a bad range; mmap(2)'s: `ENOMEM` without free huge pages for a hugetlb
    /// file, `EACCES`, `ENODEV`.
    pub fn map_file(&self, range: Range<usize>, fd: BorrowedFd<'_>, offset: u64) -> io::Result<()> {
        let (start, bytes) = self.part(&range)?;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: as in `map_anonymous`; the file may change or shrink under the mapping, which no
        // reference of ours can see (mmap(2)).
        #[allow(unsafe_code, reason = "maps into addresses that this type owns")]
        let mapped = unsafe { rustix::mm::mmap(start.cast(), bytes, prot, flags, fd, offset) };
        mapped.map(drop).map_err(io::Error::from)
    }

    /// Attaches a System V segment at the start of the region, which must be large enough for it.
    ///
    /// # Errors
    /// `InvalidInput` for a segment larger than the region; shmat(2)'s: `EACCES`, `EIDRM`,
    /// `EINVAL`, `ENOMEM`.
    pub fn attach(&self, segment: SysvSegment) -> io::Result<()> {
        let bytes = segment.bytes()?.checked_next_multiple_of(self.granule);
        if bytes.is_none_or(|bytes| bytes > self.bytes) {
            return Err(invalid());
        }
        // SAFETY: SHM_REMAP replaces what is mapped from the start on for the segment's length,
        // which was checked to lie within this region, which lends no references (shmat(2)). A
        // segment's length never changes.
        #[allow(unsafe_code, reason = "maps into addresses that this type owns")]
        let at = unsafe { libc::shmat(segment.id(), self.start.as_ptr(), libc::SHM_REMAP) };
        if at.addr() == usize::MAX { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Advises on transparent huge pages in the whole region.
    ///
    /// # Errors
    /// madvise(2)'s: `EINVAL` on a kernel without them.
    pub fn advise_thp(&self, advice: ThpAdvice) -> io::Result<()> {
        self.advise_thp_in(0..self.bytes, advice)
    }

    /// Advises on transparent huge pages in `range`, which splits its mapping where the rest is advised
    /// otherwise.
    ///
    /// # Errors
    /// `InvalidInput` for a bad range; as [`Region::advise_thp`].
    pub fn advise_thp_in(&self, range: Range<usize>, advice: ThpAdvice) -> io::Result<()> {
        self.advise(range, advice.into())
    }

    /// Sets the memory policy of pages in `range` that are populated from now on (mbind(2)).
    ///
    /// # Errors
    /// `EINVAL` for nodes that do not exist or have no memory, `ENOSYS` without NUMA.
    pub fn set_policy(&self, range: Range<usize>, policy: &NumaPolicy) -> io::Result<()> {
        let (start, bytes) = self.part(&range)?;
        set_range_policy(start.cast(), bytes, policy)
    }

    /// Populates and locks `range` (mlock(2)).
    ///
    /// # Errors
    /// `InvalidInput` for a bad range; `EPERM` or `ENOMEM` beyond `RLIMIT_MEMLOCK`; `ENOMEM` or
    /// `EAGAIN` when memory is exhausted.
    pub fn lock(&self, range: Range<usize>) -> io::Result<()> {
        let (start, bytes) = self.part(&range)?;
        // SAFETY: the range lies within this region; locking it changes no content (mlock(2)).
        #[allow(unsafe_code, reason = "locks memory that this type owns")]
        let done = unsafe { rustix::mm::mlock(start.cast(), bytes) };
        Ok(done?)
    }

    /// Locks pages in `range` when they are populated (mlock2(2), kernel 4.4).
    ///
    /// # Errors
    /// As [`Region::lock`]; `ENOSYS` on older kernels.
    pub fn lock_on_fault(&self, range: Range<usize>) -> io::Result<()> {
        let (start, bytes) = self.part(&range)?;
        // SAFETY: as in `lock` (mlock2(2)).
        #[allow(unsafe_code, reason = "locks memory that this type owns")]
        let done = unsafe { rustix::mm::mlock_with(start.cast(), bytes, MlockFlags::ONFAULT) };
        Ok(done?)
    }

    /// Unmaps the pages in `range`, locked or not (`MADV_DONTNEED`, `MADV_DONTNEED_LOCKED` from 5.18
    /// on): private memory is freed, shared memory stays with its file.
    ///
    /// # Errors
    /// `InvalidInput` for a bad range; `EINVAL` for locked pages on an older kernel.
    pub fn discard(&self, range: Range<usize>) -> io::Result<()> {
        let (start, bytes) = self.part(&range)?;
        // SAFETY: the range lies within this region, which lends no references; what is read there
        // afterwards is zero or the file's (madvise(2)).
        #[allow(unsafe_code, reason = "rustix does not know this advice")]
        let done = unsafe { libc::madvise(start.cast(), bytes, DONTNEED_LOCKED) };
        if done == 0 { Ok(()) } else { self.advise(range, Advice::LinuxDontNeed) }
    }

    /// Bytes in `range` that are mapped by huge pages now, transparent or hugetlb.
    ///
    /// # Errors
    /// `InvalidInput` for a bad range; `ENOTTY` on kernels before 6.7.
    pub fn huge_bytes(&self, range: Range<usize>) -> io::Result<usize> {
        let (start, bytes) = self.part(&range)?;
        crate::pagemap::huge_bytes(start.addr(), bytes)
    }

    /// Bytes of it that are mapped by transparent huge pages, on any kernel.
    ///
    /// # Errors
    /// `Unsupported` if it shares a mapping with memory outside.
    pub fn huge_bytes_in(&self, mappings: &HugeMappings) -> io::Result<usize> {
        mappings.huge_bytes(self.start.addr().get(), self.bytes)
    }

    /// Bytes in `range` that have no page in the page tables now: not populated, swapped out, or
    /// being migrated.
    ///
    /// # Errors
    /// As [`Region::huge_bytes`].
    pub fn absent_bytes(&self, range: Range<usize>) -> io::Result<usize> {
        let (start, bytes) = self.part(&range)?;
        crate::pagemap::absent_bytes(start.addr(), bytes)
    }

    pub(crate) fn advise(&self, range: Range<usize>, advice: Advice) -> io::Result<()> {
        let (start, bytes) = self.part(&range)?;
        advise(start, bytes, advice)
    }

    /// The range's address and length, if it lies within the region and consists of whole granules.
    pub(crate) fn part(&self, range: &Range<usize>) -> io::Result<(*mut u8, usize)> {
        let whole =
            range.start.is_multiple_of(self.granule) && range.end.is_multiple_of(self.granule);
        if !whole || range.start >= range.end || range.end > self.bytes {
            return Err(invalid());
        }
        let start = self.start.as_ptr().cast::<u8>().wrapping_add(range.start);
        Ok((start, range.end - range.start))
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        unmap(self.start.as_ptr(), self.bytes);
    }
}

/// Advises on a range that lies within a region.
pub(crate) fn advise(start: *mut u8, bytes: usize, advice: Advice) -> io::Result<()> {
    // SAFETY: every caller owns the range. Advice that discards content is sound since a region
    // lends no references and what is read afterwards is zero (madvise(2)).
    #[allow(unsafe_code, reason = "advises on memory that the caller owns")]
    let done = unsafe { rustix::mm::madvise(start.cast(), bytes, advice) };
    Ok(done?)
}

/// munmap(2) fails only when splitting a mapping would exceed the maximum number of mappings; unmapping
/// a whole region splits none.
fn unmap(start: *mut c_void, bytes: usize) {
    if bytes > 0 {
        // SAFETY: every caller owns the range and uses it no more; a System V segment is detached
        // by it as by shmdt (munmap(2), shmdt(2)).
        #[allow(unsafe_code, reason = "unmaps memory that the caller owns")]
        let _ = unsafe { rustix::mm::munmap(start, bytes) };
    }
}

fn invalid() -> io::Error {
    Errno::INVAL.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use std::os::fd::AsFd;

    const MIB: usize = 1 << 20;

    fn region(mib: usize) -> Region {
        Region::reserve(mib * MIB, 4096, 2 * MIB).unwrap()
    }

    #[test]
    fn mappings_of_several_kinds_are_adjacent() {
        let _alone = crate::anonymous::tests::alone();
        let region = region(4);
        assert_eq!(region.as_ptr().as_ptr().align_offset(2 * MIB), 0);
        let fd = memfd_create("mw-sys-test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&fd, MIB as u64).unwrap();
        region.map_anonymous(0..MIB, false).unwrap();
        region.map_file(MIB..2 * MIB, fd.as_fd(), 0).unwrap();
        region.populate(0..2 * MIB).unwrap();
        region.zero(0..2 * MIB).unwrap();
        region.touch(0..2 * MIB).unwrap();
        region.lock_on_fault(0..8192).unwrap();
        region.lock(0..8192).unwrap();
        region.discard(0..2 * MIB).unwrap();
        assert!(region.populate(2 * MIB..3 * MIB).is_err(), "nothing is mapped there");
    }

    #[test]
    fn a_shrunken_file_is_an_error_and_no_signal() {
        let region = region(1);
        let fd = memfd_create("mw-sys-test", MemfdFlags::CLOEXEC).unwrap();
        region.map_file(0..MIB, fd.as_fd(), 0).unwrap();
        for populated in [region.populate(0..MIB), region.touch(0..MIB)] {
            assert_eq!(populated.unwrap_err().raw_os_error(), Some(libc::EFAULT));
        }
    }

    #[test]
    fn a_removed_segment_ends_with_its_region() {
        let segment = SysvSegment::create(0, MIB, None).unwrap();
        assert!(Region::reserve(4096, 4096, 4096).unwrap().attach(segment).is_err());
        let region = region(1);
        region.attach(segment).unwrap();
        segment.remove().unwrap();
        region.populate(0..MIB).unwrap();
        assert_eq!(segment.attached().unwrap(), 1);
        drop(region);
        assert!(segment.attached().is_err());
    }

    #[test]
    fn huge_pages_are_counted() {
        let _alone = crate::anonymous::tests::alone();
        let region = region(4);
        region.map_anonymous(0..4 * MIB, false).unwrap();
        region.advise_thp(ThpAdvice::Disable).unwrap();
        region.populate(0..2 * MIB).unwrap();
        match region.huge_bytes(0..4 * MIB) {
            Ok(bytes) => assert_eq!(bytes, 0),
            Err(error) => return mw_test::skip(format!("needs PAGEMAP_SCAN (6.7): {error}")),
        }
        region.advise_thp(ThpAdvice::Enable).unwrap();
        region.populate(2 * MIB..4 * MIB).unwrap();
        assert!([0, 2 * MIB].contains(&region.huge_bytes(0..4 * MIB).unwrap()));
    }

    #[test]
    fn absent_pages_are_counted() {
        let region = region(4);
        let fd = memfd_create("mw-sys-test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&fd, 4 * MIB as u64).unwrap();
        region.map_file(0..4 * MIB, fd.as_fd(), 0).unwrap();
        match region.absent_bytes(0..4 * MIB) {
            Ok(bytes) => assert_eq!(bytes, 4 * MIB),
            Err(error) => return mw_test::skip(format!("needs PAGEMAP_SCAN (6.7): {error}")),
        }
        region.populate(MIB..3 * MIB).unwrap();
        assert_eq!(region.absent_bytes(0..4 * MIB).unwrap(), 2 * MIB);
        assert_eq!(region.absent_bytes(MIB..3 * MIB).unwrap(), 0);
    }

    #[test]
    fn bad_sizes_and_ranges_are_invalid() {
        for (bytes, granule, align) in
            [(0, 4096, 4096), (MIB, 3, 4096), (MIB, 4096, 100), (4097, 4096, 4096)]
        {
            assert!(Region::reserve(bytes, granule, align).is_err());
        }
        let region = region(1);
        for range in [0..0, 1..4096, 0..MIB + 4096] {
            assert!(region.map_anonymous(range, false).is_err());
        }
    }
}
