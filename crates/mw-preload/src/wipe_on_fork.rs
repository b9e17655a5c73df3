//! State that a fork(2) resets. Another thread may hold a lock or be counted at the moment of the fork;
//! the child does not have that thread, and nothing would release it.
//!
//! The state is one page, which the child finds filled with zeros (`MADV_WIPEONFORK`). A vfork(2) child
//! shares its parent's page.

use crate::active_threads::ActiveThreads;
use crate::kernel;
use crate::locked_ranges::LockedRanges;
use crate::populate_queue::PopulateQueue;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// All bits zero is the initial value of each field.
pub(crate) struct WipedOnFork {
    pub(crate) active_threads: ActiveThreads,
    /// The lock of the settings table (`uncached::control`).
    pub(crate) is_table_locked: AtomicBool,
    /// True if a thread is reading the settings table again.
    pub(crate) is_table_being_read: AtomicBool,
    /// The lock of the address range over which files are mapped (`uncached::residency`).
    pub(crate) is_window_locked: AtomicBool,
    /// Ranges that the program has locked: a child inherits no memory locks (mlock(2)).
    pub(crate) program_locks: LockedRanges,
    /// Ranges that are populated in the background: a child has no such thread.
    pub(crate) populate_queue: PopulateQueue,
}

/// The smallest page size of any architecture.
const _: () = assert!(size_of::<WipedOnFork>() <= 4096 && align_of::<WipedOnFork>() <= 4096);

static PAGE: AtomicPtr<WipedOnFork> = AtomicPtr::new(null_mut());

/// None before the library is loaded, and if it is inactive.
#[inline]
pub(crate) fn state() -> Option<&'static WipedOnFork> {
    // SAFETY: the page stays mapped, and all bits zero is a valid value.
    #[allow(unsafe_code, reason = "memory of our own")]
    unsafe {
        PAGE.load(Ordering::Relaxed).as_ref()
    }
}

/// Maps the page, when the library is loaded; returns whether it is mapped.
pub(crate) fn map() -> bool {
    if state().is_some() {
        return true;
    }
    let (page, prot) = (mw_sys::page_bytes(), libc::PROT_READ | libc::PROT_WRITE);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: new memory at addresses that the kernel chooses (mmap(2)).
    #[allow(unsafe_code, reason = "a system call")]
    let new = unsafe { kernel::mmap(null_mut(), page, prot, flags, -1, 0) };
    if new == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: the new page, which is still empty (madvise(2)).
    #[allow(unsafe_code, reason = "a system call")]
    unsafe {
        kernel::madvise(new, page, libc::MADV_WIPEONFORK)
    };
    PAGE.store(new.cast(), Ordering::Relaxed);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(unsafe_code, reason = "a fork")]
    fn a_child_finds_no_lock_held() {
        assert!(map());
        let state = state().expect("it was mapped above");
        state.is_table_locked.store(true, Ordering::Relaxed);
        state.is_window_locked.store(true, Ordering::Relaxed);
        let is_locked = || state.is_table_locked.load(Ordering::Relaxed);
        // SAFETY: the child reads its memory and exits (fork(2)).
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_reset = !is_locked() && !state.is_window_locked.load(Ordering::Relaxed);
            // SAFETY: runs no cleanup of the parent's (_exit(2)).
            unsafe { libc::_exit(if is_reset { 0 } else { 1 }) };
        }
        let mut status = -1;
        // SAFETY: that child (waitpid(2)).
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        assert!(is_locked());
        state.is_table_locked.store(false, Ordering::Relaxed);
        state.is_window_locked.store(false, Ordering::Relaxed);
    }
}
