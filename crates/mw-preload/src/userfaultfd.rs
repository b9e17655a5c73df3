//! Programs that handle their own page faults (userfaultfd(2)): a handler waits for the faults that
//! populating beforehand would take from it, and hears of each piece of what is emptied or moved.
//!
//! Which memory it is about cannot be asked without reading all of /proc/self/smaps, and another process
//! may register it. So a process that has made such a descriptor has its memory left to the kernel from
//! then on. It makes one by number, or by an ioctl(2) of /dev/userfaultfd; both lead through here.
//! Memory that `--prefault` has populated before that stays populated, as with `MAP_POPULATE`.

use libc::c_long;
use std::ffi::c_ulong;
use std::sync::atomic::{AtomicBool, Ordering};

/// `USERFAULTFD_IOC_NEW` and `UFFDIO_API`, without which no descriptor is of use
/// (linux/userfaultfd.h).
const NEW: c_ulong = 0xaa00;
const API: c_ulong = 0xc018_aa3f;

static MADE: AtomicBool = AtomicBool::new(false);

/// Whether this process, or who it was forked from, has made one.
#[inline]
pub(crate) fn is_used() -> bool {
    MADE.load(Ordering::Relaxed)
}

/// Notes one, where the call that makes it has succeeded.
pub(crate) fn made(result: c_long) -> c_long {
    if result >= 0 {
        MADE.store(true, Ordering::Relaxed);
    }
    result
}

/// Whether a request of ioctl(2) is about one.
#[inline]
pub(crate) fn is_about(request: c_ulong) -> bool {
    matches!(request, NEW | API)
}
