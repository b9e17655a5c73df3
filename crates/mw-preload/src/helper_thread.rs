//! A thread that directs an operation, apart from the program: with file descriptors of its own.

use crate::kernel;
use crate::seccomp::Working;
use mw_segment::{ThreadSpawner, Workers};
use mw_sys::SignalHandlersBlocked;
use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

/// `CLOSE_RANGE_UNSHARE` (linux/close_range.h, kernel 5.9).
const UNSHARE: u32 = 1 << 1;
/// `PTHREAD_CANCEL_DISABLE` (pthread.h).
const CANCEL_DISABLE: c_int = 1;

#[allow(unsafe_code, reason = "libc does not declare it on every target")]
unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Helpers without the C library.
struct Bare;

impl ThreadSpawner for Bare {
    fn run(
        &self,
        wanted: usize,
        helper: &(dyn Fn(usize, usize) + Sync),
        own: &mut dyn FnMut(usize),
    ) {
        // SAFETY: a crew's helpers make system calls past the C library and look at atomics, and
        // so does who directs them while they run; what they do with locks leaves no trace in
        // thread-local storage.
        #[allow(unsafe_code, reason = "as described")]
        unsafe {
            mw_sys::run_bare_threads(wanted, helper, own);
        }
    }
}

/// What `work` returns, which is done by another thread while this one waits; none where no thread
/// is to be had or may be made. `errno` stays as it is.
///
/// That thread's descriptors are its own, so that it can look into /proc: what it opens takes no
/// number that the program expects, and is closed by nobody else. This thread's signal handlers
/// wait, as they would for the kernel: one that never returns would pull the stack from under the
/// work.
pub(crate) fn on_helper_thread<T: Send>(
    work: &(dyn Fn(&Workers<'_>) -> Option<T> + Sync),
) -> Option<T> {
    let _errno = kernel::Errno::kept();
    let _working = Working::begin()?;
    let result = Mutex::new(None);
    let direct = |_: usize, _: usize| {
        // SAFETY: closes the descriptors of this thread's own new table alone (close_range(2)).
        #[allow(unsafe_code, reason = "a system call")]
        let alone = unsafe { kernel::close_range(0, u32::MAX, UNSHARE) } == 0;
        if alone {
            let done = work(&Workers::new(&Bare));
            *result.lock().unwrap_or_else(PoisonError::into_inner) = done;
        }
    };
    let _held = SignalHandlersBlocked::new();
    let _whole = NotCancelled::new();
    // SAFETY: this thread waits while the other works, so that one of them uses its thread-local
    // storage at a time.
    #[allow(unsafe_code, reason = "as described")]
    unsafe {
        mw_sys::run_bare_threads(2, &direct, &mut |_| ());
    }
    result.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps pthread_cancel(3) off until dropped: the C library would look for this thread's request in
/// the one that works for it.
struct NotCancelled(c_int);

impl NotCancelled {
    fn new() -> Self {
        let mut before = 0;
        // SAFETY: the pointer is to a live int (pthread_setcancelstate(3)).
        #[allow(unsafe_code, reason = "no safe wrapper of it")]
        unsafe {
            pthread_setcancelstate(CANCEL_DISABLE, &raw mut before)
        };
        Self(before)
    }
}

impl Drop for NotCancelled {
    fn drop(&mut self) {
        let mut disabled = 0;
        // SAFETY: as above.
        #[allow(unsafe_code, reason = "no safe wrapper of it")]
        unsafe {
            pthread_setcancelstate(self.0, &raw mut disabled)
        };
    }
}
