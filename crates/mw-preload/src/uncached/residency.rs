//! How much of a file is in the page cache, as the kernel says.
//!
//! cachestat(2) says it by descriptor. On overlayfs a descriptor has no pages: those belong to the
//! file of the upper or lower filesystem, and cachestat(2) says "nothing" of whatever is cached
//! there. A mapping of such a file is one of the file that has the pages, so that mincore(2) says it.
//!
//! A mapping needs a descriptor that can read. Where the program's cannot, the file is opened once
//! more for a moment, by a thread that has descriptors of its own (`on_helper_thread`): closing that
//! one takes no lock (fcntl(2)) from the program.
//!
//! mincore(2) reports every page as resident if the user neither owns the file nor may write it, however
//! it was opened: a program may have opened it as root and have dropped its privileges since. So one page
//! far beyond the end of any file is mapped behind each range. If that one is reported as resident, the
//! report says nothing about the others.
//!
//! Files are mapped over one window of addresses that is kept for it: a mapping elsewhere could be
//! replaced by one of another thread (`MAP_FIXED`), whose memory would be unmapped in its place.

#![allow(unsafe_code, reason = "system calls")]

use super::files::{BLIND, Entry, REOPENED, STACKED};
use super::system;
use crate::anew::anew;
use crate::helper_thread::on_helper_thread;
use crate::kernel;
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The largest range that can be asked about where files are mapped for it.
pub(super) const RANGE_MAX_BYTES: u64 = 4 << 20;

/// The smallest page that the kernel has on any processor.
const PAGE_MIN_BYTES: usize = 4096;

/// Such a range, the page in which it begins, and the page beyond the end of the file.
const PAGES_MAX: usize = RANGE_MAX_BYTES as usize / PAGE_MIN_BYTES + 2;

/// The offset of that page: near the largest that mmap(2) takes (`MAX_LFS_FILESIZE`), and a multiple of
/// every page size. No file has a page there.
const BEYOND_END: i64 = i64::MAX & !((1 << 20) - 1);

static WINDOW: Window =
    Window { at: AtomicPtr::new(null_mut()), resident: UnsafeCell::new([0; PAGES_MAX]) };

/// Addresses over which files are mapped.
struct Window {
    at: AtomicPtr<c_void>,
    /// What mincore(2) says of each page; a signal handler's stack may not have the room.
    resident: UnsafeCell<[u8; PAGES_MAX]>,
}

// SAFETY: the bytes are used by who holds the window.
unsafe impl Sync for Window {}

/// Why nobody says what is resident.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unsaid {
    /// The window is in use.
    Busy,
    /// The kernel refuses it, and would again.
    Refused,
}

/// How many bytes of a range are in the page cache; none where nobody says.
pub(super) fn of(fd: c_int, entry: &Entry, from: u64, bytes: u64) -> Option<u64> {
    let pages = if entry.is(BLIND) {
        return None;
    } else if entry.is(STACKED) {
        let said = if entry.is(REOPENED) {
            reopened(fd, from, bytes)
        } else {
            WINDOW.resident_pages(fd, from, bytes)
        };
        entry.set(BLIND, said == Err(Unsaid::Refused));
        said.ok()?
    } else {
        system::cached_pages(fd, from, bytes)?
    };
    Some(pages.saturating_mul(mw_sys::page_bytes() as u64).min(bytes))
}

/// What is known of a file of overlayfs, by how it was opened.
pub(super) fn flags(open: c_int) -> u32 {
    if open & libc::O_ACCMODE == libc::O_WRONLY { STACKED | REOPENED } else { STACKED }
}

/// The same by a descriptor of our own, which can read. To open the file once more would break a lease
/// that the program has of it; nobody else can have one of a file that is written.
fn reopened(fd: c_int, from: u64, bytes: u64) -> Result<u64, Unsaid> {
    let stat = system::stat(fd).filter(|_| system::has_no_lease(fd));
    let stat = stat.ok_or(Unsaid::Refused)?;
    let look = || {
        let own = system::open_again(fd)?;
        let is_same = system::stat(own)
            .is_some_and(|again| (again.st_dev, again.st_ino) == (stat.st_dev, stat.st_ino));
        let pages = is_same.then(|| WINDOW.resident_pages(own, from, bytes));
        system::close(own);
        pages
    };
    on_helper_thread(&|_| look()).unwrap_or(Err(Unsaid::Refused))
}

/// Asks all of it once: a filter of system calls may end the process.
pub(super) fn try_everything(fd: c_int) {
    let _ = WINDOW.resident_pages(fd, 0, 1);
    let mut resident = 0;
    // SAFETY: the kernel writes one byte at most; a range that is not mapped is an error (mincore(2)).
    unsafe { kernel::mincore(null_mut(), 1, &raw mut resident) };
    system::has_no_lease(fd);
    if let Some(own) = system::open_again(fd) {
        system::close(own);
    }
}

impl Window {
    fn resident_pages(&self, fd: c_int, from: u64, bytes: u64) -> Result<u64, Unsaid> {
        // Whoever finds it held goes on without: it may be held below a signal handler.
        let held = &anew().ok_or(Unsaid::Busy)?.window;
        if held.swap(true, Acquire) {
            return Err(Unsaid::Busy);
        }
        // SAFETY: who holds the window is alone with the bytes.
        let resident = unsafe { &mut *self.resident.get() };
        let at = Some(self.at.load(Relaxed)).filter(|at| !at.is_null());
        let at = at.or_else(|| reserve(null_mut(), 0));
        let pages = at.and_then(|at| count(at, resident, fd, from, bytes));
        // Where it failed it is not certain that the addresses are still kept: not used again.
        let kept = pages.and(at).unwrap_or(null_mut());
        self.at.store(kept, Relaxed);
        held.store(false, Release);
        pages.ok_or(Unsaid::Refused)
    }
}

fn length() -> usize {
    PAGES_MAX * mw_sys::page_bytes()
}

/// Keeps the addresses of a window for it, those that are given or any.
fn reserve(at: *mut c_void, fixed: c_int) -> Option<*mut c_void> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | fixed;
    // SAFETY: addresses that the kernel chooses, or the window's own (mmap(2)).
    let new = unsafe { kernel::mmap(at, length(), libc::PROT_NONE, flags, -1, 0) };
    (new != libc::MAP_FAILED).then_some(new)
}

/// Maps a range over the window and counts its resident pages; none where that cannot be said.
fn count(
    at: *mut c_void,
    resident: &mut [u8; PAGES_MAX],
    fd: c_int,
    from: u64,
    bytes: u64,
) -> Option<u64> {
    let page = mw_sys::page_bytes() as u64;
    let start = from - from % page;
    let length = usize::try_from((from - start).saturating_add(bytes)).ok()?;
    let length = length.next_multiple_of(page as usize);
    let resident = resident.get_mut(..length / page as usize + 1)?;
    let mapped = map(at, length, fd, start.cast_signed())
        && map(at.wrapping_byte_add(length), page as usize, fd, BEYOND_END);
    // SAFETY: `resident` has a byte for each page (mincore(2)).
    let is_reported = mapped
        && unsafe { kernel::mincore(at, length + page as usize, resident.as_mut_ptr()) } == 0;
    reserve(at, libc::MAP_FIXED)?;
    let (beyond_end, resident) = resident.split_last()?;
    let is_true = is_reported && beyond_end & 1 == 0;
    is_true.then(|| resident.iter().map(|page| u64::from(page & 1)).sum())
}

/// Maps a part of a file over a part of the window.
fn map(at: *mut c_void, bytes: usize, fd: c_int, offset: i64) -> bool {
    let flags = libc::MAP_SHARED | libc::MAP_FIXED;
    // SAFETY: the window's own addresses, which nobody touches (mmap(2)).
    let mapped = unsafe { kernel::mmap(at, bytes, libc::PROT_NONE, flags, fd, offset) };
    mapped != libc::MAP_FAILED
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::uncached::behind::WINDOW_BYTES;
    use std::fs::File;
    use std::io::{Seek, Write};
    use std::os::fd::AsRawFd;

    #[test]
    fn resident_pages_are_counted_by_a_mapping() {
        assert!(crate::anew::begin());
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 3 * PAGE_MIN_BYTES]).unwrap();
        file.seek(std::io::SeekFrom::Start(100 * PAGE_MIN_BYTES as u64)).unwrap();
        file.write_all(b"x").unwrap();
        let fd = file.as_raw_fd();
        for _ in 0..2 {
            assert_eq!(WINDOW.resident_pages(fd, 0, WINDOW_BYTES), Ok(4));
            assert_eq!(WINDOW.resident_pages(fd, 4096 + 5, WINDOW_BYTES), Ok(3));
        }
        let unreadable = File::options().write(true).open("/dev/null").unwrap();
        assert_eq!(WINDOW.resident_pages(unreadable.as_raw_fd(), 0, 4096), Err(Unsaid::Refused));
        assert_eq!(WINDOW.resident_pages(fd, 0, WINDOW_BYTES), Ok(4));
    }
}
