//! How much of a file is in the page cache.
//!
//! cachestat(2) reports it for a descriptor. On overlayfs a descriptor has no pages: they belong to the
//! file of the upper or lower filesystem, and cachestat(2) reports 0. A mapping of such a file maps the
//! file that has the pages, so that mincore(2) reports them.
//!
//! A mapping needs a readable descriptor. If the program's is not, the file is opened again briefly by a
//! helper thread with a descriptor table of its own (`on_helper_thread`), so that closing it releases none
//! of the program's record locks (fcntl(2)).
//!
//! mincore(2) reports every page as resident if the user neither owns the file nor may write it, however
//! it was opened: a program may have opened it as root and have dropped its privileges since. So one page
//! far beyond the end of any file is mapped behind each range. If that one is reported as resident, the
//! report says nothing about the others.
//!
//! Files are mapped over one reserved window of addresses. At any other address another thread could
//! replace the mapping by its own (`MAP_FIXED`), which would then be unmapped instead.

#![allow(unsafe_code, reason = "system calls")]

use super::file_calls;
use super::file_table::{FileEntry, IS_OVERLAY, IS_RESIDENCY_UNKNOWN, NEEDS_REOPEN};
use crate::helper_thread::on_helper_thread;
use crate::kernel;
use crate::wipe_on_fork;
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The largest range that a mapping can be checked for.
pub(super) const MAX_RANGE_BYTES: u64 = 4 << 20;

/// The smallest page size of any architecture.
const MIN_PAGE_BYTES: usize = 4096;

/// The pages of such a range, one more if it is not aligned, and the page beyond the end of the file.
const MAX_PAGES: usize = MAX_RANGE_BYTES as usize / MIN_PAGE_BYTES + 2;

/// The offset of that page: near the largest that mmap(2) takes (`MAX_LFS_FILESIZE`), and a multiple of
/// every page size. No file has a page there.
const BEYOND_END: i64 = i64::MAX & !((1 << 20) - 1);

static WINDOW: ResidencyWindow =
    ResidencyWindow { at: AtomicPtr::new(null_mut()), resident: UnsafeCell::new([0; MAX_PAGES]) };

/// The addresses over which files are mapped.
struct ResidencyWindow {
    at: AtomicPtr<c_void>,
    /// The result of mincore(2), not on the stack, which may be a small one of a signal handler.
    resident: UnsafeCell<[u8; MAX_PAGES]>,
}

// SAFETY: the bytes are accessed only by the holder of the lock (`WipedOnFork::is_window_locked`).
unsafe impl Sync for ResidencyWindow {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResidencyError {
    /// The window is in use.
    Busy,
    /// The kernel does not report it for this file.
    Unsupported,
}

/// Bytes of a range that are in the page cache; none if that is unknown.
pub(super) fn resident_bytes(fd: c_int, entry: &FileEntry, from: u64, bytes: u64) -> Option<u64> {
    let pages = if entry.has(IS_RESIDENCY_UNKNOWN) {
        return None;
    } else if entry.has(IS_OVERLAY) {
        let pages = if entry.has(NEEDS_REOPEN) {
            resident_pages_reopened(fd, from, bytes)
        } else {
            WINDOW.resident_pages(fd, from, bytes)
        };
        entry.set(IS_RESIDENCY_UNKNOWN, pages == Err(ResidencyError::Unsupported));
        pages.ok()?
    } else {
        file_calls::cached_pages(fd, from, bytes)?
    };
    Some(pages.saturating_mul(mw_sys::page_bytes() as u64).min(bytes))
}

/// The flags of an entry for a file on overlayfs, by the flags with which it was opened.
pub(super) fn overlay_flags(open: c_int) -> u32 {
    if open & libc::O_ACCMODE == libc::O_WRONLY { IS_OVERLAY | NEEDS_REOPEN } else { IS_OVERLAY }
}

/// As [`ResidencyWindow::resident_pages`], with a readable descriptor of our own. Opening the file again would
/// break a lease of the program (`F_SETLEASE`); no other process can have one of a file that is open for
/// writing.
fn resident_pages_reopened(fd: c_int, from: u64, bytes: u64) -> Result<u64, ResidencyError> {
    let stat = file_calls::stat(fd).filter(|_| file_calls::has_no_lease(fd));
    let stat = stat.ok_or(ResidencyError::Unsupported)?;
    let reopen_and_count = || {
        let own = file_calls::reopen(fd)?;
        let is_same = file_calls::stat(own)
            .is_some_and(|again| (again.st_dev, again.st_ino) == (stat.st_dev, stat.st_ino));
        let pages = is_same.then(|| WINDOW.resident_pages(own, from, bytes));
        file_calls::close(own);
        pages
    };
    on_helper_thread(&|_| reopen_and_count()).unwrap_or(Err(ResidencyError::Unsupported))
}

/// Makes each system call of this module once.
pub(super) fn make_all_calls(fd: c_int) {
    let _ = WINDOW.resident_pages(fd, 0, 1);
    let mut resident = 0;
    // SAFETY: the kernel writes at most one byte; an unmapped range is an error (mincore(2)).
    unsafe { kernel::mincore(null_mut(), 1, &raw mut resident) };
    file_calls::has_no_lease(fd);
    if let Some(own) = file_calls::reopen(fd) {
        file_calls::close(own);
    }
}

impl ResidencyWindow {
    fn resident_pages(&self, fd: c_int, from: u64, bytes: u64) -> Result<u64, ResidencyError> {
        // Not waited for: this thread may hold the lock itself, below a signal handler.
        let is_locked = &wipe_on_fork::state().ok_or(ResidencyError::Busy)?.is_window_locked;
        if is_locked.swap(true, Acquire) {
            return Err(ResidencyError::Busy);
        }
        // SAFETY: the lock is held.
        let resident = unsafe { &mut *self.resident.get() };
        let at = Some(self.at.load(Relaxed)).filter(|at| !at.is_null());
        let at = at.or_else(|| reserve(null_mut(), 0));
        let pages = at.and_then(|at| count_resident(at, resident, fd, from, bytes));
        // After a failure the addresses may no longer be reserved, and are not used again.
        let reserved = pages.and(at).unwrap_or(null_mut());
        self.at.store(reserved, Relaxed);
        is_locked.store(false, Release);
        pages.ok_or(ResidencyError::Unsupported)
    }
}

fn length() -> usize {
    MAX_PAGES * mw_sys::page_bytes()
}

/// Reserves the addresses of the window: with `MAP_FIXED` those at `at`, otherwise any.
fn reserve(at: *mut c_void, fixed: c_int) -> Option<*mut c_void> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | fixed;
    // SAFETY: addresses that the kernel chooses, or those of the window (mmap(2)).
    let new = unsafe { kernel::mmap(at, length(), libc::PROT_NONE, flags, -1, 0) };
    (new != libc::MAP_FAILED).then_some(new)
}

/// Maps a range over the window and counts its resident pages; none if the result is not reliable.
fn count_resident(
    at: *mut c_void,
    resident: &mut [u8; MAX_PAGES],
    fd: c_int,
    from: u64,
    bytes: u64,
) -> Option<u64> {
    let page = mw_sys::page_bytes() as u64;
    let start = from - from % page;
    let length = usize::try_from((from - start).saturating_add(bytes)).ok()?;
    let length = length.next_multiple_of(page as usize);
    let resident = resident.get_mut(..length / page as usize + 1)?;
    let mapped = map_over(at, length, fd, start.cast_signed())
        && map_over(at.wrapping_byte_add(length), page as usize, fd, BEYOND_END);
    // SAFETY: `resident` has a byte for each page (mincore(2)).
    let is_reported = mapped
        && unsafe { kernel::mincore(at, length + page as usize, resident.as_mut_ptr()) } == 0;
    reserve(at, libc::MAP_FIXED)?;
    let (beyond_end, resident) = resident.split_last()?;
    let is_reliable = is_reported && beyond_end & 1 == 0;
    is_reliable.then(|| resident.iter().map(|page| u64::from(page & 1)).sum())
}

/// Maps a part of a file over a part of the window.
fn map_over(at: *mut c_void, bytes: usize, fd: c_int, offset: i64) -> bool {
    let flags = libc::MAP_SHARED | libc::MAP_FIXED;
    // SAFETY: addresses of the window, which nothing accesses (mmap(2)).
    let mapped = unsafe { kernel::mmap(at, bytes, libc::PROT_NONE, flags, fd, offset) };
    mapped != libc::MAP_FAILED
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Seek, Write};
    use std::os::fd::AsRawFd;

    /// Other tests of the program use the window, too.
    fn counted(fd: c_int, from: u64, bytes: u64) -> Result<u64, ResidencyError> {
        loop {
            match WINDOW.resident_pages(fd, from, bytes) {
                Err(ResidencyError::Busy) => std::thread::yield_now(),
                result => return result,
            }
        }
    }

    #[test]
    fn resident_pages_are_counted_by_a_mapping() {
        const RANGE_BYTES: u64 = 1 << 20;
        assert!(wipe_on_fork::map());
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 3 * MIN_PAGE_BYTES]).unwrap();
        file.seek(std::io::SeekFrom::Start(100 * MIN_PAGE_BYTES as u64)).unwrap();
        file.write_all(b"x").unwrap();
        let fd = file.as_raw_fd();
        for _ in 0..2 {
            assert_eq!(counted(fd, 0, RANGE_BYTES), Ok(4));
            assert_eq!(counted(fd, 4096 + 5, RANGE_BYTES), Ok(3));
        }
        let unreadable = File::options().write(true).open("/dev/null").unwrap();
        assert_eq!(counted(unreadable.as_raw_fd(), 0, 4096), Err(ResidencyError::Unsupported));
        assert_eq!(counted(fd, 0, RANGE_BYTES), Ok(4));
    }
}
