//! Functions for tests of other crates that rustix offers only as unsafe.

use crate::Region;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// A ring of io_uring(7) without submissions.
///
/// # Errors
/// io_uring_setup(2)'s: `EPERM` where kernel.io_uring_disabled forbids it.
pub fn io_uring() -> io::Result<OwnedFd> {
    let mut params = [0_u8; 120];
    // SAFETY: the parameters are writable and as long as `struct io_uring_params`; without flags
    // the kernel only fills them in (io_uring_setup(2)).
    #[allow(unsafe_code, reason = "rustix has it as an unsafe function")]
    let made = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1_u32, params.as_mut_ptr()) };
    owned(made)
}

/// A userfaultfd(2) without a registered range, which an unprivileged user may have.
///
/// # Errors
/// userfaultfd(2)'s.
pub fn userfaultfd() -> io::Result<OwnedFd> {
    const UFFD_USER_MODE_ONLY: libc::c_int = 1;
    let flags = libc::O_CLOEXEC | UFFD_USER_MODE_ONLY;
    // SAFETY: the call takes a number alone; nothing is registered with what it returns.
    #[allow(unsafe_code, reason = "rustix has it as an unsafe function")]
    owned(unsafe { libc::syscall(libc::SYS_userfaultfd, flags) })
}

/// The mode of the policy by which memory at an offset of a region is allocated (get_mempolicy(2),
/// `MPOL_F_ADDR`): 0 is the default.
///
/// # Errors
/// get_mempolicy(2)'s: `ENOSYS` on a kernel without NUMA.
pub fn policy_mode(region: &Region, offset: usize) -> io::Result<i32> {
    const MPOL_F_ADDR: libc::c_long = 2;
    let mut mode = -1;
    let address = region.as_ptr().as_ptr().wrapping_add(offset);
    // SAFETY: `mode` is written; no mask is requested; an address without a mapping is EFAULT
    // (get_mempolicy(2)).
    #[allow(unsafe_code, reason = "neither libc nor rustix wraps it")]
    let got = unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            &raw mut mode,
            std::ptr::null_mut::<libc::c_ulong>(),
            0 as libc::c_ulong,
            address,
            MPOL_F_ADDR,
        )
    };
    if got < 0 { Err(io::Error::last_os_error()) } else { Ok(mode) }
}

fn owned(made: libc::c_long) -> io::Result<OwnedFd> {
    match RawFd::try_from(made) {
        // SAFETY: the kernel has just returned it, and nobody else knows of it.
        #[allow(unsafe_code, reason = "a descriptor that nobody owns yet")]
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
