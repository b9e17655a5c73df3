//! What of a file is in the page cache.

use crate::policy::check;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The number of cachestat(2), the same on every architecture that has the common table; libc does not have it
/// everywhere.
const CACHESTAT: libc::c_long = 451;

/// struct cachestat_range (linux/mman.h).
#[repr(C)]
struct CachestatRange {
    offset: u64,
    /// 0 is up to the end.
    bytes: u64,
}

/// struct cachestat (linux/mman.h), in pages.
#[repr(C)]
#[derive(Default)]
struct Cachestat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Pages of a file that are in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CachedPages {
    pub cached: u64,
    /// The part of them to be written.
    pub dirty: u64,
    /// The part of them being written.
    pub writeback: u64,
}

/// Counts the pages of an open file that are in memory (cachestat(2)), without any access to the file.
///
/// # Errors
/// `ENOSYS` before Linux 6.5, `EBADF` for what is no file of pages, `EOPNOTSUPP` for hugetlbfs, `EPERM` for a
/// file that neither is this user's nor may be written.
pub fn cached_pages(file: BorrowedFd<'_>) -> io::Result<CachedPages> {
    cached_pages_before(file, 0)
}

/// Counts those before an offset; 0 is the end of the file.
///
/// # Errors
/// As [`cached_pages`].
pub fn cached_pages_before(file: BorrowedFd<'_>, end: u64) -> io::Result<CachedPages> {
    let range = CachestatRange { offset: 0, bytes: end };
    let mut stat = Cachestat::default();
    // SAFETY: the kernel reads `range` and writes `stat`, which have its types and live over the call
    // (cachestat(2)); both consist of integers alone.
    #[allow(unsafe_code, reason = "neither libc nor rustix wraps it")]
    let counted = unsafe {
        libc::syscall(CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut stat, 0_u32)
    };
    check(counted)?;
    Ok(CachedPages { cached: stat.cached, dirty: stat.dirty, writeback: stat.writeback })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, memfd_create};
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn pages_of_a_file_in_memory_are_counted() {
        let mut file = File::from(memfd_create("cached", MemfdFlags::CLOEXEC).unwrap());
        file.set_len(1 << 20).unwrap();
        file.write_all(&vec![1; 3 * rustix::param::page_size()]).unwrap();
        match cached_pages(file.as_fd()) {
            Ok(pages) => {
                assert_eq!((pages.cached, pages.writeback), (3, 0));
                let page = rustix::param::page_size() as u64;
                assert_eq!(cached_pages_before(file.as_fd(), 2 * page).unwrap().cached, 2);
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
                mw_test::skip("needs cachestat(2) (6.5)");
            }
            Err(error) => panic!("{error}"),
        }
        let (pipe, _) = std::io::pipe().unwrap();
        let nothing = cached_pages(pipe.as_fd());
        assert!(!nothing.is_ok_and(|pages| pages.cached > 0));
    }
}
