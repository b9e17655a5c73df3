//! Programs that handle their own page faults (userfaultfd(2)). A handler waits for faults that
//! populating in advance would prevent, and receives an event for each chunk that is discarded or moved.
//!
//! Which memory is registered cannot be queried without reading all of /proc/self/smaps, and another
//! process may register it. The memory of a process that has created such a descriptor is therefore left
//! to the kernel from then on. It creates one by number or by an ioctl(2) of /dev/userfaultfd; this library
//! interposes both. Memory that `--prefault` has populated earlier stays populated, as with
//! `MAP_POPULATE`.

use crate::background;
use libc::c_long;
use std::ffi::c_ulong;
use std::sync::atomic::{AtomicBool, Ordering};

/// `USERFAULTFD_IOC_NEW`, and `UFFDIO_API`, which every user of a descriptor must call
/// (linux/userfaultfd.h).
const USERFAULTFD_IOC_NEW: c_ulong = 0xaa00;
const UFFDIO_API: c_ulong = 0xc018_aa3f;

static IS_IN_USE: AtomicBool = AtomicBool::new(false);

/// True if this process, or the process that it was forked from, has created a descriptor.
#[inline]
pub(crate) fn is_in_use() -> bool {
    IS_IN_USE.load(Ordering::Relaxed)
}

/// Records a descriptor, if the call that creates it succeeded; returns its result.
pub(crate) fn note_created(result: c_long) -> c_long {
    if result >= 0 {
        IS_IN_USE.store(true, Ordering::Relaxed);
        background::end();
    }
    result
}

/// True if a request of ioctl(2) concerns userfaultfd.
#[inline]
pub(crate) fn is_request(request: c_ulong) -> bool {
    matches!(request, USERFAULTFD_IOC_NEW | UFFDIO_API)
}
