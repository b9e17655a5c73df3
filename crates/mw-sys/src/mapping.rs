//! Anonymous memory that is owned, populated, locked and given back.

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MlockFlags, ProtFlags};
use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU8, Ordering};

/// Which pages a mapping is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// Base pages alone: transparent huge pages are declined (`MADV_NOHUGEPAGE`).
    Base,
    /// Transparent huge pages of this size in bytes where the kernel has them
    /// (`MADV_HUGEPAGE`); the mapping starts at a multiple of it.
    Transparent(usize),
    /// Pages of the hugetlb pool of this size in bytes (`MAP_HUGETLB`).
    Hugetlb(usize),
}

/// Who sees what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// This process; a fork gets a copy.
    Private,
    /// This process and its forks.
    Shared,
}

/// Anonymous memory, unmapped when it is dropped.
///
/// It lends no references: what it is for is to cost time and to hold pages.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<c_void>,
    bytes: usize,
    /// What a range must be a multiple of.
    granule: usize,
    hugetlb: bool,
}

// SAFETY: the mapping is owned and lends no references, and the kernel serialises the calls that
// are made on it (madvise(2), mlock(2)), from whichever thread they come.
#[allow(unsafe_code, reason = "a raw pointer to memory that this type owns")]
unsafe impl Send for Mapping {}

// SAFETY: as for Send; the one access from user space, `touch`, is atomic.
#[allow(unsafe_code, reason = "a raw pointer to memory that this type owns")]
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps at least `bytes`, rounded up to whole pages. Nothing is populated.
    ///
    /// # Errors
    /// `InvalidInput` for zero bytes or a page size that is no power of two, else mmap(2)'s:
    /// `ENOMEM` without address space, commit or free pages of the pool.
    pub fn anonymous(bytes: usize, pages: Pages, sharing: Sharing) -> io::Result<Self> {
        let base = rustix::param::page_size();
        let granule = match pages {
            Pages::Base | Pages::Transparent(_) => base,
            Pages::Hugetlb(size) => size,
        };
        let align = match pages {
            Pages::Base => base,
            Pages::Transparent(size) | Pages::Hugetlb(size) => size,
        };
        let bytes = round_up(bytes, granule).filter(|b| *b > 0).ok_or_else(invalid)?;
        if !align.is_power_of_two() || align < base {
            return Err(invalid());
        }
        let flags = flags(pages, sharing);
        let hugetlb = matches!(pages, Pages::Hugetlb(_));
        let mapping = match pages {
            Pages::Transparent(_) => Self::aligned(bytes, align, granule, flags)?,
            _ => Self { start: map(bytes, flags)?, bytes, granule, hugetlb },
        };
        mapping.choose(pages)?;
        Ok(mapping)
    }

    /// mmap(2) aligns to base pages only: map more, and give back what lies outside.
    fn aligned(bytes: usize, align: usize, granule: usize, flags: MapFlags) -> io::Result<Self> {
        let more = bytes.checked_add(align).ok_or_else(invalid)?;
        let whole = map(more, flags)?;
        let skip = whole.as_ptr().align_offset(align).min(align);
        let start = whole.as_ptr().wrapping_byte_add(skip);
        let behind = start.wrapping_byte_add(bytes);
        unmap(whole.as_ptr(), skip);
        unmap(behind, align - skip);
        let start = NonNull::new(start).ok_or_else(invalid)?;
        Ok(Self { start, bytes, granule, hugetlb: false })
    }

    fn choose(&self, pages: Pages) -> io::Result<()> {
        let advice = match pages {
            Pages::Base => Advice::LinuxNoHugepage,
            Pages::Transparent(_) => Advice::LinuxHugepage,
            Pages::Hugetlb(_) => return Ok(()),
        };
        match self.advise(0..self.bytes, advice) {
            // A kernel without transparent huge pages has nothing to decline.
            Err(error) if pages == Pages::Base && is(&error, Errno::INVAL) => Ok(()),
            other => other,
        }
    }

    /// How many bytes are mapped.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Populates pages in `range` for writing, with `MADV_POPULATE_WRITE` where the kernel has it
    /// (5.14) and by touching every page elsewhere.
    ///
    /// # Errors
    /// `InvalidInput` for a range outside the mapping or not of whole pages; `Unsupported` for
    /// hugetlb pages on a kernel without `MADV_POPULATE_WRITE`, where touching could end in
    /// SIGBUS; else madvise(2)'s: `ENOMEM`, `EFAULT`, `EHWPOISON`.
    pub fn populate(&self, range: Range<usize>) -> io::Result<()> {
        match self.advise(range.clone(), Advice::LinuxPopulateWrite) {
            Err(error) if is(&error, Errno::INVAL) => self.touch(range),
            other => other,
        }
    }

    /// Writes to every page without changing it: a plain store would lose what another thread
    /// stores at that moment.
    fn touch(&self, range: Range<usize>) -> io::Result<()> {
        if self.hugetlb {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "populating hugetlb pages safely needs MADV_POPULATE_WRITE (kernel 5.14)",
            ));
        }
        let (start, bytes) = self.part(&range)?;
        for offset in (0..bytes).step_by(rustix::param::page_size()) {
            let byte = start.cast::<AtomicU8>().wrapping_byte_add(offset);
            // SAFETY: `part` checked that the byte lies within this mapping, which is readable,
            // writable and alive as long as `self` (mmap(2)); AtomicU8 has no alignment and every
            // bit pattern is valid. Anonymous memory outside hugetlb does not end in SIGBUS.
            #[allow(unsafe_code, reason = "touches a byte of memory that this type owns")]
            unsafe { &*byte }.fetch_or(0, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Locks pages in `range`, populating what is not (mlock(2)).
    ///
    /// # Errors
    /// `InvalidInput` for a bad range; `EPERM` or `ENOMEM` beyond `RLIMIT_MEMLOCK`; `ENOMEM` or
    /// `EAGAIN` when pages cannot be had.
    pub fn lock(&self, range: Range<usize>) -> io::Result<()> {
        let (start, bytes) = self.part(&range)?;
        // SAFETY: the range lies within this mapping; locking it changes no content (mlock(2)).
        #[allow(unsafe_code, reason = "locks memory that this type owns")]
        let done = unsafe { rustix::mm::mlock(start.cast(), bytes) };
        Ok(done?)
    }

    /// Has pages in `range` locked as they are populated (mlock2(2), kernel 4.4).
    ///
    /// # Errors
    /// As [`Mapping::lock`]; `ENOSYS` on older kernels.
    pub fn lock_on_fault(&self, range: Range<usize>) -> io::Result<()> {
        let (start, bytes) = self.part(&range)?;
        // SAFETY: as in `lock` (mlock2(2)).
        #[allow(unsafe_code, reason = "locks memory that this type owns")]
        let done = unsafe { rustix::mm::mlock_with(start.cast(), bytes, MlockFlags::ONFAULT) };
        Ok(done?)
    }

    /// Takes the lock away again (munlock(2)).
    ///
    /// # Errors
    /// `InvalidInput` for a bad range, else munlock(2)'s.
    pub fn unlock(&self, range: Range<usize>) -> io::Result<()> {
        let (start, bytes) = self.part(&range)?;
        // SAFETY: the range lies within this mapping; unlocking changes no content (munlock(2)).
        #[allow(unsafe_code, reason = "unlocks memory that this type owns")]
        let done = unsafe { rustix::mm::munlock(start.cast(), bytes) };
        Ok(done?)
    }

    /// Gives the pages in `range` back to the kernel; the mapping stays (`MADV_DONTNEED`).
    ///
    /// # Errors
    /// `InvalidInput` for a bad range; `EINVAL` for locked pages.
    pub fn discard(&self, range: Range<usize>) -> io::Result<()> {
        self.advise(range, Advice::LinuxDontNeed)
    }

    /// Has pages that are populated from now on come from `node` alone (mbind(2)).
    ///
    /// # Errors
    /// `EINVAL` for a node that does not exist, `ENOSYS` on a kernel without NUMA.
    pub fn bind(&self, node: u32) -> io::Result<()> {
        crate::policy::bind_range(self.start.as_ptr(), self.bytes, node)
    }

    fn advise(&self, range: Range<usize>, advice: Advice) -> io::Result<()> {
        let (start, bytes) = self.part(&range)?;
        // SAFETY: the range lies within this mapping. Advice that discards content is sound since
        // the mapping lends no references and what is read afterwards is zero (madvise(2)).
        #[allow(unsafe_code, reason = "advises on memory that this type owns")]
        let done = unsafe { rustix::mm::madvise(start.cast(), bytes, advice) };
        Ok(done?)
    }

    /// The range's address and length, when it lies within the mapping and is of whole pages.
    fn part(&self, range: &Range<usize>) -> io::Result<(*mut u8, usize)> {
        let whole =
            range.start.is_multiple_of(self.granule) && range.end.is_multiple_of(self.granule);
        if !whole || range.start >= range.end || range.end > self.bytes {
            return Err(invalid());
        }
        let start = self.start.as_ptr().cast::<u8>().wrapping_add(range.start);
        Ok((start, range.end - range.start))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        unmap(self.start.as_ptr(), self.bytes);
    }
}

/// Whether this kernel has `MADV_POPULATE_WRITE` (5.14).
pub fn populate_is_native() -> bool {
    let bytes = rustix::param::page_size();
    Mapping::anonymous(bytes, Pages::Base, Sharing::Private)
        .and_then(|mapping| mapping.advise(0..bytes, Advice::LinuxPopulateWrite))
        .is_ok()
}

fn flags(pages: Pages, sharing: Sharing) -> MapFlags {
    let shared = match sharing {
        Sharing::Private => MapFlags::PRIVATE,
        Sharing::Shared => MapFlags::SHARED,
    };
    match pages {
        Pages::Base | Pages::Transparent(_) => shared,
        // mmap(2): the base-2 logarithm of the size, in the six bits from MAP_HUGE_SHIFT (26) on.
        Pages::Hugetlb(size) => {
            shared | MapFlags::HUGETLB | MapFlags::from_bits_retain(size.trailing_zeros() << 26)
        }
    }
}

fn map(bytes: usize, flags: MapFlags) -> io::Result<NonNull<c_void>> {
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: without MAP_FIXED the kernel chooses addresses that nothing uses (mmap(2)).
    #[allow(unsafe_code, reason = "maps new memory")]
    let start = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), bytes, prot, flags) }?;
    NonNull::new(start).ok_or_else(invalid)
}

/// Unmapping what was mapped fails only when it would exceed the number of mappings by splitting
/// one; there is nothing to do about it, and no content is lost.
fn unmap(start: *mut c_void, bytes: usize) {
    if bytes > 0 {
        // SAFETY: every caller owns the range and uses it no more (munmap(2)).
        #[allow(unsafe_code, reason = "unmaps memory that the caller owns")]
        let _ = unsafe { rustix::mm::munmap(start, bytes) };
    }
}

fn round_up(bytes: usize, granule: usize) -> Option<usize> {
    bytes.checked_next_multiple_of(granule)
}

fn invalid() -> io::Error {
    Errno::INVAL.into()
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    const MIB: usize = 1 << 20;

    /// Tests that populate private memory take turns with those that count it for the process.
    pub(crate) fn alone() -> MutexGuard<'static, ()> {
        static TURN: Mutex<()> = Mutex::new(());
        TURN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn base(bytes: usize) -> Mapping {
        Mapping::anonymous(bytes, Pages::Base, Sharing::Private).unwrap()
    }

    fn resident_kib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("RssAnon")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    #[test]
    fn memory_is_populated_locked_and_given_back() {
        let _alone = alone();
        let mapping = base(16 * MIB);
        let before = resident_kib();
        mapping.populate(0..16 * MIB).unwrap();
        assert!(resident_kib() >= before + 15 * 1024);
        mapping.lock(0..MIB / 64).unwrap();
        mapping.unlock(0..MIB / 64).unwrap();
        mapping.discard(0..16 * MIB).unwrap();
        assert!(resident_kib() < before + 8 * 1024);
    }

    #[test]
    fn touching_populates_as_well() {
        let _alone = alone();
        let mapping = base(4 * MIB);
        let before = resident_kib();
        mapping.touch(0..4 * MIB).unwrap();
        assert!(resident_kib() >= before + 3 * 1024);
    }

    #[test]
    fn a_transparent_mapping_is_aligned() {
        let _alone = alone();
        let mapping =
            Mapping::anonymous(3 * MIB, Pages::Transparent(2 * MIB), Sharing::Private).unwrap();
        assert_eq!(mapping.start.as_ptr().align_offset(2 * MIB), 0);
        assert_eq!(mapping.bytes(), 3 * MIB);
        mapping.populate(0..3 * MIB).unwrap();
    }

    #[test]
    fn bad_ranges_are_refused() {
        let mapping = base(MIB);
        for range in [0..0, 1..4096, 0..MIB + 4096, 0..100, MIB..MIB] {
            assert_eq!(mapping.populate(range).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        assert!(mapping.bind(9_999).is_err());
    }

    #[test]
    fn impossible_mappings_are_refused() {
        for (bytes, pages) in [
            (0, Pages::Base),
            (usize::MAX, Pages::Base),
            (MIB, Pages::Transparent(3)),
            (MIB, Pages::Hugetlb(1 << 40)),
        ] {
            assert!(Mapping::anonymous(bytes, pages, Sharing::Private).is_err(), "{bytes}");
        }
    }

    #[test]
    fn more_huge_pages_than_there_are_is_an_error_and_no_signal() {
        let request = Mapping::anonymous(1 << 40, Pages::Hugetlb(2 * MIB), Sharing::Shared);
        assert!(request.is_err());
    }
}
