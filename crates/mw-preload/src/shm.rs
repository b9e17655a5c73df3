//! shmctl(2), without interposition.

use crate::kernel;
use libc::shmid_ds;
use std::ffi::c_int;

/// The status of a segment; none if it does not exist or this process may not read it.
pub(crate) fn status(id: c_int) -> Option<shmid_ds> {
    let _errno = kernel::ErrnoGuard::new();
    // SAFETY: plain numbers, for which all bits zero is a valid value.
    #[allow(unsafe_code, reason = "a structure of C")]
    let mut status: shmid_ds = unsafe { std::mem::zeroed() };
    (control(id, libc::IPC_STAT, &raw mut status) == 0).then_some(status)
}

pub(crate) fn control(id: c_int, command: c_int, buffer: *mut shmid_ds) -> c_int {
    // SAFETY: the caller passes the buffer that the command requires (shmctl(2)).
    #[allow(unsafe_code, reason = "a system call")]
    unsafe {
        kernel::shmctl(id, command, buffer)
    }
}
