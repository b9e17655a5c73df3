//! Programs that confine themselves (seccomp(2)): a filter may end the program at a system call that
//! it does not expect, and cannot be asked beforehand.
//!
//! Whoever installs a filter after the start is left alone from then on. That is seen by prctl(2),
//! which whoever is not root needs before (`PR_SET_NO_NEW_PRIVS`), and else by the thread's mode. A
//! filter that was there at the start, as containers have, is left alone as well, unless `memwright
//! run`, which runs under the same, has tried what this library does.

use crate::{kernel, settings};
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

static CONFINED: AtomicBool = AtomicBool::new(false);

/// Looks at what prctl(2) is asked.
pub(crate) fn look(option: c_int) {
    if matches!(option, libc::PR_SET_SECCOMP | libc::PR_SET_NO_NEW_PRIVS) {
        CONFINED.store(true, Ordering::Relaxed);
    }
}

/// Whether system calls can be made that the program would not make.
pub(crate) fn allows() -> bool {
    if CONFINED.load(Ordering::Relaxed) {
        return false;
    }
    // SAFETY: nothing is set (PR_GET_SECCOMP(2const)).
    #[allow(unsafe_code, reason = "a system call")]
    let mode = unsafe { kernel::prctl(libc::PR_GET_SECCOMP, 0, 0, 0, 0) };
    // -1: a kernel without seccomp.
    mode <= 0 || settings::filter_tried()
}
