//! Interposed functions that the library observes: seccomp filters, userfaultfd descriptors, and the end
//! of the process.

#![allow(unsafe_code, reason = "exported C functions")]

use crate::seccomp::ConfiningCall;
use crate::{kernel, original, settings, stats, userfaultfd};
use libc::{FILE, c_int, c_long};
use std::ffi::c_ulong;

/// ioctl(2), whose third argument is at most one word.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int {
    // SAFETY: the caller's own request.
    let done = unsafe { original::ioctl(fd, request, argument) };
    if userfaultfd::is_request(request) {
        userfaultfd::note_created(done.into());
    }
    done
}

/// prctl(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(option: c_int, a: c_long, b: c_long, c: c_long, d: c_long) -> c_int {
    // SAFETY: the caller's own request.
    let call = || unsafe { kernel::prctl(option, a, b, c, d) };
    match ConfiningCall::from_prctl(option, a as usize, b as usize) {
        Some(confining) => confining.make(|| call().into()) as c_int,
        None => call(),
    }
}

unsafe extern "C" {
    static stderr: *mut FILE;
}

/// fclose(3). GNU programs close standard error before they exit and the destructors of libraries run:
/// `--stats` reports before that.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fclose(stream: *mut FILE) -> c_int {
    // SAFETY: it is initialized with the C library; only the program changes it later.
    if settings::stats() && stream == unsafe { stderr } {
        stats::report_at_exit();
    }
    // SAFETY: the caller's own request.
    unsafe { original::fclose(stream) }
}

/// _exit(2), by which shells end: no destructor runs.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn _exit(status: c_int) -> c_int {
    stats::report_at_quick_exit();
    // SAFETY: the caller's own request.
    unsafe { original::_exit(status) }
}

/// _Exit(3), the name of _exit(2) in ISO C.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn _Exit(status: c_int) -> c_int {
    // SAFETY: the caller's own request.
    unsafe { _exit(status) }
}
