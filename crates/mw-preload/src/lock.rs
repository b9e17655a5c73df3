//! mlock(2), mlock2(2) and mlockall(2): what is done before the system call.
//!
//! The kernel first marks all mappings of the range as locked, up to a hole, and then populates them, up
//! to the first page that cannot be allocated. The library marks them as locked on fault
//! (`MLOCK_ONFAULT`), which succeeds and fails for the same reasons, and populates them in parallel. The
//! system call then changes the mark, populates what is left, and returns the result.

use crate::helper_thread::on_helper_thread;
use crate::kernel;
use crate::populate;
use crate::stats::CountedCall;
use mw_segment::Workers;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// The largest number of mappings for which mlockall(2) is prepared: the kernel's default limit
/// (vm.max_map_count).
const MAX_MAPPINGS: usize = 1 << 16;

/// Smaller mappings are left to mlockall(2).
const SMALL_BYTES: usize = 2 << 20;

/// True if the program has set `MCL_FUTURE`.
static IS_FUTURE_LOCKED: AtomicBool = AtomicBool::new(false);

/// True if the program has had future mappings locked by mlockall(2): then mmap(2) populates them, or with
/// `MCL_ONFAULT` the first access does.
pub(crate) fn is_future_locked() -> bool {
    IS_FUTURE_LOCKED.load(Ordering::Relaxed)
}

/// Before mlock(2).
///
/// The range is marked before any stack or other memory of the library could be mapped into a hole of it.
/// The program's own mlock(2), which follows in any case, clears `MLOCK_ONFAULT`.
#[cold]
pub(crate) fn populate_before_mlock(at: *const c_void, bytes: usize) {
    let _errno = kernel::ErrnoGuard::new();
    let Some(addresses) = kernel::page_range(at, bytes) else { return };
    // SAFETY: locking changes no content (mlock2(2)).
    #[allow(unsafe_code, reason = "a system call")]
    let marked = unsafe { kernel::mlock2(at, bytes, libc::MLOCK_ONFAULT as c_int) } == 0;
    if marked {
        on_helper_thread(&|workers| populate_in_parallel(workers, &addresses));
    }
}

fn populate_in_parallel(workers: &Workers<'_>, addresses: &Range<usize>) -> Option<()> {
    let parts = populate::populatable_prefix(addresses)?;
    if !populate::is_worthwhile(&parts) {
        return None;
    }
    populate::populate(workers, CountedCall::Lock, &parts).ok()
}

/// Before mlockall(2), which ignores what cannot be populated.
#[cold]
pub(crate) fn populate_before_mlockall(flags: c_int) {
    if flags & libc::MCL_CURRENT == 0 || flags & libc::MCL_ONFAULT != 0 {
        return;
    }
    on_helper_thread(&|workers| {
        let mut parts = populate::mapped_parts(&(0..usize::MAX), MAX_MAPPINGS)?;
        parts.retain(|part| part.bytes() >= SMALL_BYTES && populate::can_populate(part));
        if !populate::is_worthwhile(&parts) {
            return None;
        }
        // SAFETY: as in `populate_before_mlock`; the program's own mlockall(2) follows in any case.
        #[allow(unsafe_code, reason = "a system call")]
        let locked = unsafe { kernel::mlockall(flags | libc::MCL_ONFAULT) };
        if locked != 0 {
            return None;
        }
        for part in parts {
            let _ = populate::populate(workers, CountedCall::Lock, &[part]);
        }
        Some(())
    });
}

/// After a successful mlockall(2).
pub(crate) fn note_mlockall(flags: c_int) {
    if flags & libc::MCL_FUTURE != 0 {
        IS_FUTURE_LOCKED.store(true, Ordering::Relaxed);
    }
}
