//! Whether a file is open elsewhere, by the kernel's count.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// True if the kernel counts no other open description of the file: none in a descriptor table, under a
/// mapping, in a message in flight, or held by io_uring.
///
/// Takes a write lease and releases it at once (fcntl(2), `F_SETLEASE`): fs/locks.c,
/// `check_conflicting_open`, grants one only if the inode's counts of readers and writers are the
/// caller's own. `fd` must have been opened by open(2): the description that memfd_create(2) itself
/// returns is in neither count, and neither are those opened with `O_PATH`, which can do nothing but
/// be opened again. An open(2) of the file by another process meanwhile sends this process SIGIO, which
/// the caller must ignore or handle.
///
/// # Errors
/// `EINVAL` where the file system or the sysctl fs.leases-enable has no leases, `EACCES` unless
/// the file is the caller's.
pub fn is_only_open(fd: BorrowedFd<'_>) -> io::Result<bool> {
    match set_lease(fd, libc::F_WRLCK) {
        Ok(()) => set_lease(fd, libc::F_UNLCK).map(|()| true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY)) => Ok(false),
        Err(error) => Err(error),
    }
}

fn set_lease(fd: BorrowedFd<'_>, kind: libc::c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open for the borrow's time; the call takes a number and touches no
    // memory of the caller's (fcntl(2)).
    #[allow(unsafe_code, reason = "rustix does not wrap it")]
    let set = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETLEASE, kind) };
    if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, Mode, OFlags, ftruncate, memfd_create, open};
    use std::os::fd::{AsFd, OwnedFd};

    fn another(file: &OwnedFd, flags: OFlags) -> OwnedFd {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        open(path.as_str(), flags | OFlags::CLOEXEC, Mode::empty()).unwrap()
    }

    #[test]
    fn other_descriptions_and_mappings_are_counted() {
        let file = memfd_create("mw-sys-test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 8192).unwrap();
        let probe = another(&file, OFlags::RDWR);
        let alone = match is_only_open(probe.as_fd()) {
            Ok(alone) => alone,
            Err(error) => return mw_test::skip(format!("no leases on memfds: {error}")),
        };
        assert!(alone);
        for flags in [OFlags::RDWR, OFlags::RDONLY, OFlags::WRONLY] {
            let other = another(&file, flags);
            assert!(!is_only_open(probe.as_fd()).unwrap());
            drop(other);
            assert!(is_only_open(probe.as_fd()).unwrap());
        }
        let other = another(&file, OFlags::RDWR);
        let region = crate::Region::reserve(8192, 4096, 4096).unwrap();
        region.map_file(0..8192, other.as_fd(), 0).unwrap();
        drop(other);
        assert!(!is_only_open(probe.as_fd()).unwrap());
        drop(region);
        assert!(is_only_open(probe.as_fd()).unwrap());
    }
}
