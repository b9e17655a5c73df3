//! A helper thread, which directs an operation and has a file descriptor table of its own.

use crate::confinement::OperationGuard;
use crate::{kernel, mapping_limit};
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

/// Spawns workers by clone(2), unknown to the C library.
struct CloneThreads;

impl ThreadSpawner for CloneThreads {
    fn run(
        &self,
        wanted: usize,
        worker: &(dyn Fn(usize, usize) + Sync),
        own: &mut dyn FnMut(usize),
    ) {
        // SAFETY: while they run, the workers and the helper thread only make direct system calls
        // and use atomics and locks, none of which changes thread-local storage.
        #[allow(unsafe_code, reason = "as described")]
        unsafe {
            mw_sys::run_bare_threads(wanted, worker, own);
        }
    }
}

/// Runs `work` on a helper thread while this thread waits; none if no thread can or may be created, or if its stack would
/// count towards a limit of the program.
/// `errno` does not change.
///
/// The helper thread has a descriptor table of its own, so that it can read /proc: what it opens takes no
/// number from the program, and the program cannot close it. Signal handlers of this thread are
/// delayed, as in a system call: a handler that never returns would remove the stack under the work.
pub(crate) fn on_helper_thread<T: Send>(
    work: &(dyn Fn(&Workers<'_>) -> Option<T> + Sync),
) -> Option<T> {
    let _errno = kernel::ErrnoGuard::new();
    let _guard = OperationGuard::enter().filter(|_| !mapping_limit::is_set())?;
    let result = Mutex::new(None);
    let direct = |_: usize, _: usize| {
        // SAFETY: closes only descriptors of this thread's new table (close_range(2)).
        #[allow(unsafe_code, reason = "a system call")]
        let is_unshared = unsafe { kernel::close_range(0, u32::MAX, UNSHARE) } == 0;
        if is_unshared {
            let done = work(&Workers::new(&CloneThreads));
            *result.lock().unwrap_or_else(PoisonError::into_inner) = done;
        }
    };
    let _blocked = SignalHandlersBlocked::new();
    let _uncancelled = CancellationDisabled::new();
    // SAFETY: this thread waits while the helper works, so that only one of them at a time uses the
    // thread-local storage.
    #[allow(unsafe_code, reason = "as described")]
    unsafe {
        mw_sys::run_bare_threads(2, &direct, &mut |_| ());
    }
    result.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Disables pthread_cancel(3) until it is dropped: the C library would act on a request to this thread in
/// the helper thread, which shares its thread-local storage.
struct CancellationDisabled(c_int);

impl CancellationDisabled {
    fn new() -> Self {
        let mut before = 0;
        // SAFETY: the pointer is to a live int (pthread_setcancelstate(3)).
        #[allow(unsafe_code, reason = "no safe wrapper exists")]
        unsafe {
            pthread_setcancelstate(CANCEL_DISABLE, &raw mut before)
        };
        Self(before)
    }
}

impl Drop for CancellationDisabled {
    fn drop(&mut self) {
        let mut disabled = 0;
        // SAFETY: as above.
        #[allow(unsafe_code, reason = "no safe wrapper exists")]
        unsafe {
            pthread_setcancelstate(self.0, &raw mut disabled)
        };
    }
}
