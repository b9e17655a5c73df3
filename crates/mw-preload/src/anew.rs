//! What a fork(2) begins anew. Another thread may have held or counted something just then, which the
//! child does not have, and nobody would release it there.
//!
//! It is one page, in whose place the child finds zeros (`MADV_WIPEONFORK`); a vfork(2) child has the
//! parent's.

use crate::kernel;
use crate::own_locks::Own;
use crate::seccomp::Workers;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// Zeros are a value of each: nobody, and nothing.
pub(crate) struct Anew {
    /// The threads that work at the moment (`seccomp`).
    pub(crate) workers: Workers,
    /// Whether the table of settings is held (`uncached::control`).
    pub(crate) table: AtomicBool,
    /// Whether a thread is reading the table again: in a fork(2) nobody goes on with that.
    pub(crate) is_table_read: AtomicBool,
    /// Whether the window is held over which files are mapped (`uncached::residency`).
    pub(crate) window: AtomicBool,
    /// What the program has locked: a child inherits no lock (mlock(2)).
    pub(crate) locks: Own,
}

/// The smallest page that the kernel has on any processor.
const _: () = assert!(size_of::<Anew>() <= 4096 && align_of::<Anew>() <= 4096);

static PAGE: AtomicPtr<Anew> = AtomicPtr::new(null_mut());

/// None before the library is loaded, and where it does nothing.
#[inline]
pub(crate) fn anew() -> Option<&'static Anew> {
    // SAFETY: the page stays mapped, and zeros are a value.
    #[allow(unsafe_code, reason = "memory of our own")]
    unsafe {
        PAGE.load(Ordering::Relaxed).as_ref()
    }
}

/// When the library is loaded; whether there is such a page.
pub(crate) fn begin() -> bool {
    if anew().is_some() {
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
    // SAFETY: that page, which holds nothing yet (madvise(2)).
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
    fn a_child_finds_what_nobody_holds() {
        assert!(begin());
        let anew = anew().expect("it was mapped above");
        anew.table.store(true, Ordering::Relaxed);
        anew.window.store(true, Ordering::Relaxed);
        let is_held = || anew.table.load(Ordering::Relaxed);
        // SAFETY: the child looks at its memory and ends (fork(2)).
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_new = !is_held() && !anew.window.load(Ordering::Relaxed);
            // SAFETY: nothing of the parent's is undone (_exit(2)).
            unsafe { libc::_exit(if is_new { 0 } else { 1 }) };
        }
        let mut status = -1;
        // SAFETY: that child (waitpid(2)).
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        assert!(is_held());
        anew.table.store(false, Ordering::Relaxed);
        anew.window.store(false, Ordering::Relaxed);
    }
}
