//! Which memory the program has locked itself, while `--lock` has everything locked: all other memory
//! must behave as if it were not locked.
//!
//! The kernel refuses to discard locked pages (madvise(2): `EINVAL`) and to invalidate them (msync(2):
//! `EBUSY`). A program that never locked them expects neither error, so that they are unlocked for the
//! duration of the call.
//!
//! The program's locks are recorded where it sets and moves them (mremap(2)), by the C library's
//! functions or by syscall(2). Not recorded is what the C library moves internally: realloc(3) of a large
//! block that the program has locked.

use crate::confinement;
use crate::kernel;
use crate::locked_ranges::LockedRanges;
use crate::settings;
use crate::wipe_on_fork;
use std::ffi::{c_int, c_void};
use std::ops::Range;

/// `MADV_GUARD_INSTALL` (linux/mman.h, kernel 6.13).
const GUARD_INSTALL: c_int = 102;

/// The advice that the kernel refuses for locked memory.
const REFUSED_ADVICE: [c_int; 6] = [
    libc::MADV_DONTNEED,
    libc::MADV_FREE,
    libc::MADV_REMOVE,
    libc::MADV_COLD,
    libc::MADV_PAGEOUT,
    GUARD_INSTALL,
];

/// After the program has locked a range.
#[inline]
pub(crate) fn note_locked(at: *const c_void, bytes: usize) {
    if settings::lock()
        && let Some(locks) = complete_table()
        && let Some(range) = kernel::page_range(at, bytes)
    {
        locks.add(range);
    }
}

/// After the program has locked everything.
pub(crate) fn note_all_locked() {
    if let Some(state) = wipe_on_fork::state() {
        state.program_locks.set_incomplete();
    }
}

/// After a successful mmap(2).
#[inline]
pub(crate) fn note_mapped(at: *const c_void, bytes: usize, flags: c_int) {
    if flags & libc::MAP_LOCKED != 0 {
        note_locked(at, bytes);
    } else {
        note_replaced(at, bytes);
    }
}

/// After a successful mremap(2): memory that the program has locked is locked at its new address. The old
/// addresses count as locked until something else is mapped there.
pub(crate) fn note_moved(from: *const c_void, before: usize, to: *const c_void, bytes: usize) {
    if !is_used() {
        return;
    }
    // A size of 0 maps the same memory a second time.
    let is_unlocked = |range| is_locked_only_by_setting(&range);
    if kernel::page_range(from, before.max(1)).is_some_and(is_unlocked) {
        note_replaced(to, bytes);
    } else {
        note_locked(to, bytes);
    }
}

/// After a range was mapped anew or unmapped.
#[inline]
pub(crate) fn note_replaced(at: *const c_void, bytes: usize) {
    if is_used()
        && let Some(locks) = complete_table()
        && let Some(range) = kernel::page_range(at, bytes)
    {
        locks.remove(&range);
    }
}

/// The program's locks; none if it may have locked everything.
fn complete_table() -> Option<&'static LockedRanges> {
    let locks = &wipe_on_fork::state()?.program_locks;
    (!locks.is_incomplete()).then_some(locks)
}

/// True if the program may have locked a range.
#[inline]
fn is_used() -> bool {
    settings::lock() && wipe_on_fork::state().is_some_and(|state| state.program_locks.is_used())
}

/// True if memory is locked only by `--lock`.
pub(crate) fn is_locked_only_by_setting(addresses: &Range<usize>) -> bool {
    locked_only_by_setting(addresses) == *addresses
}

/// The beginning of a range, as far as it is locked only by `--lock`.
fn locked_only_by_setting(addresses: &Range<usize>) -> Range<usize> {
    let locks = complete_table().filter(|_| settings::lock());
    let end = locks.and_then(|locks| locks.first_in(addresses));
    addresses.start..end.unwrap_or(addresses.start)
}

/// madvise(2); the caller is responsible for the request.
pub(crate) fn advise(at: *mut c_void, bytes: usize, advice: c_int) -> c_int {
    // SAFETY: the program's own request (madvise(2)).
    #[allow(unsafe_code, reason = "a system call")]
    let call = |at, bytes| unsafe { kernel::madvise(at, bytes, advice) };
    if settings::lock() && REFUSED_ADVICE.contains(&advice) {
        retry_unlocked(at, bytes, libc::EINVAL, call, call)
    } else {
        call(at, bytes)
    }
}

/// Makes a call that fails with `refusal` for locked memory. If it does, makes it again with the memory
/// unlocked that is locked only by `--lock`, up to the first range that the program has locked. Pages
/// that other threads touch in the meantime are locked again with the rest.
pub(crate) fn retry_unlocked(
    at: *mut c_void,
    bytes: usize,
    refusal: c_int,
    call: impl FnOnce(*mut c_void, usize) -> c_int,
    again: impl Fn(*mut c_void, usize) -> c_int,
) -> c_int {
    let before = kernel::errno();
    let done = call(at, bytes);
    if done >= 0 || kernel::errno() != refusal || confinement::is_confined() {
        return done;
    }
    let Some(range) = kernel::page_range(at, bytes).filter(|range| range.start == at.addr()) else {
        return done;
    };
    let unlockable = locked_only_by_setting(&range);
    if unlockable.is_empty() {
        return done;
    }
    kernel::set_errno(before);
    let done = with_unlocked(&unlockable, &again);
    let rest = unlockable.end..range.end;
    if done < 0 || rest.is_empty() { done } else { again(kernel::pointer(rest.start), rest.len()) }
}

fn with_unlocked(range: &Range<usize>, call: &impl Fn(*mut c_void, usize) -> c_int) -> c_int {
    let (at, bytes) = (kernel::pointer(range.start), range.len());
    let errno = kernel::ErrnoGuard::new();
    // SAFETY: locking and unlocking change no content (munlock(2)).
    #[allow(unsafe_code, reason = "a system call")]
    unsafe {
        kernel::munlock(at, bytes)
    };
    drop(errno);
    let done = call(at, bytes);
    let _errno = kernel::ErrnoGuard::new();
    // SAFETY: as above (mlock2(2)).
    #[allow(unsafe_code, reason = "a system call")]
    unsafe {
        kernel::mlock2(at, bytes, libc::MLOCK_ONFAULT as c_int)
    };
    done
}
