//! mlock(2), mlock2(2) and mlockall(2): what is done before the kernel's own call.
//!
//! The kernel first marks all mappings of the range as locked, up to a hole, and then populates
//! them, up to the first page that cannot be had. Marked to be locked as they are populated
//! (`MLOCK_ONFAULT`), which the kernel grants and refuses for the same reasons, they are populated
//! in parallel; its own call then marks them as asked for, populates what is left, and answers.

use crate::helper_thread::on_helper_thread;
use crate::large::{self, can_be_populated};
use crate::stats::Call;
use crate::{kernel, settings};
use mw_segment::Workers;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most mappings of a process that mlockall(2) is prepared for: the kernel's default limit.
const MAX_MAPPINGS: usize = 1 << 16;

/// Smaller mappings are left to mlockall(2).
const SMALL_BYTES: usize = 2 << 20;

/// Whether the program has the kernel lock what is mapped from now on.
static FUTURE: AtomicBool = AtomicBool::new(false);

/// Whether mmap(2) populates what it maps, or leaves even that to the first touch, by the
/// program's own mlockall(2).
pub(crate) fn is_future_locked() -> bool {
    FUTURE.load(Ordering::Relaxed)
}

/// Before mlock(2).
///
/// It is marked here, before there is a stack or anything else of ours that could lie in a hole of
/// the range. The kernel's own mlock(2), which follows in any case, takes `MLOCK_ONFAULT` back.
#[cold]
pub(crate) fn prepare(at: *const c_void, bytes: usize) {
    let _errno = kernel::Errno::kept();
    let Some(addresses) = kernel::pages(at, bytes) else { return };
    // SAFETY: locking changes no content (mlock2(2)).
    #[allow(unsafe_code, reason = "a system call")]
    let marked = unsafe { kernel::mlock2(at, bytes, libc::MLOCK_ONFAULT as c_int) } == 0;
    if marked {
        on_helper_thread(&|workers| in_parallel(workers, &addresses));
    }
}

fn in_parallel(workers: &Workers<'_>, addresses: &Range<usize>) -> Option<()> {
    let parts = large::beginning(addresses)?;
    if !large::is_worth_it(&parts) {
        return None;
    }
    large::populate(workers, Call::Lock, &parts).ok()
}

/// Before mlockall(2), which ignores what cannot be populated.
#[cold]
pub(crate) fn prepare_all(flags: c_int) {
    if flags & libc::MCL_CURRENT == 0 || flags & libc::MCL_ONFAULT != 0 {
        return;
    }
    on_helper_thread(&|workers| {
        let mut parts = large::parts(&(0..usize::MAX), MAX_MAPPINGS)?;
        parts.retain(|part| part.bytes() >= SMALL_BYTES && can_be_populated(part));
        if !large::is_worth_it(&parts) {
            return None;
        }
        // SAFETY: as in `prepare`; the kernel's own mlockall(2) follows in any case.
        #[allow(unsafe_code, reason = "a system call")]
        let locked = unsafe { kernel::mlockall(flags | libc::MCL_ONFAULT) };
        if locked != 0 {
            return None;
        }
        for part in parts {
            let _ = large::populate(workers, Call::Lock, &[part]);
        }
        Some(())
    });
}

/// After mlockall(2) with these flags.
pub(crate) fn note_all(flags: c_int) {
    if settings::locks_the_future(flags) {
        FUTURE.store(true, Ordering::Relaxed);
    }
}
