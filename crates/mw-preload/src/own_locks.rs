//! What the program has locked itself, while `--lock` has everything locked: the rest behaves as
//! memory that nobody has locked.
//!
//! The kernel refuses to drop locked pages (madvise(2): `EINVAL`) and to invalidate them (msync(2):
//! `EBUSY`). A program that never locked them expects neither, so that they are unlocked for the call.
//!
//! The program's own locks are seen where it makes them and where it moves them (mremap(2)), by the C
//! library's functions or by number. What the C library moves by itself is not: realloc(3) of a large
//! piece that the program has locked.

use crate::anew::anew;
use crate::kernel;
use crate::seccomp;
use crate::settings;
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Who locks more pieces than this has everything taken for its own.
const RANGES: usize = 64;

/// How many turns another thread is waited for, which has a few dozen numbers to look at.
const TURNS: u32 = 1 << 20;

/// `MADV_GUARD_INSTALL` (linux/mman.h, kernel 6.13).
const GUARD_INSTALL: c_int = 102;

/// What the kernel refuses for locked memory.
const REFUSED: [c_int; 6] = [
    libc::MADV_DONTNEED,
    libc::MADV_FREE,
    libc::MADV_REMOVE,
    libc::MADV_COLD,
    libc::MADV_PAGEOUT,
    GUARD_INSTALL,
];

/// All zeros where nothing was locked.
pub(crate) struct Own {
    held: AtomicBool,
    /// Whether there ever was a range.
    any: AtomicBool,
    /// More than the ranges say may be locked.
    everything: AtomicBool,
    ranges: UnsafeCell<Ranges>,
}

// SAFETY: the ranges are used by who holds them.
#[allow(unsafe_code, reason = "one thread at a time")]
unsafe impl Sync for Own {}

impl Own {
    /// None where somebody else holds it; everything is then taken for locked.
    fn hold<T>(&self, work: impl FnOnce(&mut Ranges) -> Option<T>) -> Option<T> {
        let mut turns = 0;
        // It may be held below a signal handler on this very thread, so that the wait has an end.
        while self.held.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
            turns += 1;
            if turns > TURNS {
                self.everything.store(true, Ordering::Relaxed);
                return None;
            }
        }
        // SAFETY: who holds them is alone with them.
        #[allow(unsafe_code, reason = "one thread at a time")]
        let done = work(unsafe { &mut *self.ranges.get() });
        self.held.store(false, Ordering::Release);
        if done.is_none() {
            self.everything.store(true, Ordering::Relaxed);
        }
        done
    }
}

/// Ranges apart from each other; empty ones are free places.
struct Ranges([Range<usize>; RANGES]);

impl Ranges {
    /// None where there is no place for it.
    fn add(&mut self, new: Range<usize>) -> Option<()> {
        self.remove(&new)?;
        *self.0.iter_mut().find(|range| Range::is_empty(range))? = new;
        Some(())
    }

    /// None where what is left has no place.
    fn remove(&mut self, gone: &Range<usize>) -> Option<()> {
        let mut behind = 0..0;
        for range in &mut self.0 {
            if range.end <= gone.start || range.start >= gone.end {
                continue;
            }
            if range.start < gone.start && range.end > gone.end {
                behind = gone.end..range.end;
            }
            *range = if range.start < gone.start {
                range.start..gone.start
            } else {
                gone.end.min(range.end)..range.end
            };
        }
        if !behind.is_empty() {
            *self.0.iter_mut().find(|range| Range::is_empty(range))? = behind;
        }
        Some(())
    }

    /// Where the first of them begins in a range, or the range ends.
    fn until(&self, asked: &Range<usize>) -> usize {
        let meet = |range: &&Range<usize>| range.start < asked.end && asked.start < range.end;
        let met = self.0.iter().filter(|range| !Range::is_empty(range)).filter(meet);
        met.map(|range| range.start.max(asked.start)).min().unwrap_or(asked.end)
    }
}

/// After the program has locked a range, with success.
#[inline]
pub(crate) fn locked(at: *const c_void, bytes: usize) {
    if settings::lock()
        && let Some(own) = known()
        && let Some(range) = kernel::pages(at, bytes)
    {
        own.any.store(true, Ordering::Relaxed);
        own.hold(|ranges| ranges.add(range));
    }
}

/// After the program has locked everything.
pub(crate) fn locked_all() {
    if let Some(anew) = anew() {
        anew.locks.everything.store(true, Ordering::Relaxed);
    }
}

/// After mmap(2), with success.
#[inline]
pub(crate) fn mapped(at: *const c_void, bytes: usize, flags: c_int) {
    if flags & libc::MAP_LOCKED != 0 {
        locked(at, bytes);
    } else {
        renewed(at, bytes);
    }
}

/// After mremap(2), with success: what the program has locked stays so where it is then. Where it was,
/// it counts as locked until something else is mapped.
pub(crate) fn moved(from: *const c_void, before: usize, to: *const c_void, bytes: usize) {
    if !is_any() {
        return;
    }
    // No bytes stand for a second mapping of what is there.
    if kernel::pages(from, before.max(1)).is_some_and(|range| is_ours(&range)) {
        renewed(to, bytes);
    } else {
        locked(to, bytes);
    }
}

/// After something was mapped or unmapped there.
#[inline]
pub(crate) fn renewed(at: *const c_void, bytes: usize) {
    if is_any()
        && let Some(own) = known()
        && let Some(range) = kernel::pages(at, bytes)
    {
        own.hold(|ranges| ranges.remove(&range));
    }
}

/// What the program has locked; none where that may be everything.
fn known() -> Option<&'static Own> {
    let own = &anew()?.locks;
    (!own.everything.load(Ordering::Relaxed)).then_some(own)
}

/// Whether the program may have locked a range.
#[inline]
fn is_any() -> bool {
    settings::lock() && anew().is_some_and(|anew| anew.locks.any.load(Ordering::Relaxed))
}

/// Whether memory is locked by `--lock` alone.
pub(crate) fn is_ours(addresses: &Range<usize>) -> bool {
    ours(addresses) == *addresses
}

/// The beginning of a range, as far as `--lock` alone has locked it.
fn ours(addresses: &Range<usize>) -> Range<usize> {
    let own = known().filter(|_| settings::lock());
    let end = own.and_then(|own| own.hold(|ranges| Some(ranges.until(addresses))));
    addresses.start..end.unwrap_or(addresses.start)
}

/// madvise(2), whose caller answers for it.
pub(crate) fn advise(at: *mut c_void, bytes: usize, advice: c_int) -> c_int {
    // SAFETY: the program's own request (madvise(2)).
    #[allow(unsafe_code, reason = "a system call")]
    let call = |at, bytes| unsafe { kernel::madvise(at, bytes, advice) };
    if settings::lock() && REFUSED.contains(&advice) {
        unless_refused(at, bytes, libc::EINVAL, call, call)
    } else {
        call(at, bytes)
    }
}

/// Makes a call that the kernel refuses with `refusal` for locked memory: then again with that unlocked
/// which `--lock` alone has locked, up to where the program has locked something. What is touched
/// meanwhile is locked as well.
pub(crate) fn unless_refused(
    at: *mut c_void,
    bytes: usize,
    refusal: c_int,
    call: impl FnOnce(*mut c_void, usize) -> c_int,
    again: impl Fn(*mut c_void, usize) -> c_int,
) -> c_int {
    let before = kernel::errno();
    let done = call(at, bytes);
    if done >= 0 || kernel::errno() != refusal || seccomp::is_confined() {
        return done;
    }
    let Some(asked) = kernel::pages(at, bytes).filter(|range| range.start == at.addr()) else {
        return done;
    };
    let ours = ours(&asked);
    if ours.is_empty() {
        return done;
    }
    kernel::set_errno(before);
    let done = unlocked(&ours, &again);
    let rest = ours.end..asked.end;
    if done < 0 || rest.is_empty() { done } else { again(kernel::pointer(rest.start), rest.len()) }
}

fn unlocked(ours: &Range<usize>, call: &impl Fn(*mut c_void, usize) -> c_int) -> c_int {
    let (at, bytes) = (kernel::pointer(ours.start), ours.len());
    let kept = kernel::Errno::kept();
    // SAFETY: locking and unlocking change no content (munlock(2)).
    #[allow(unsafe_code, reason = "a system call")]
    unsafe {
        kernel::munlock(at, bytes)
    };
    drop(kept);
    let done = call(at, bytes);
    let _errno = kernel::Errno::kept();
    // SAFETY: as above (mlock2(2)).
    #[allow(unsafe_code, reason = "a system call")]
    unsafe {
        kernel::mlock2(at, bytes, libc::MLOCK_ONFAULT as c_int)
    };
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_added_cut_and_met() {
        let mut ranges = Ranges([const { 0..0 }; RANGES]);
        assert!(ranges.add(10..20).is_some() && ranges.add(15..30).is_some());
        assert_eq!([10..11, 29..40, 30..40].map(|range| ranges.until(&range)), [10, 29, 40]);
        assert!(ranges.remove(&(12..14)).is_some());
        assert_eq!([0..12, 12..14, 13..15].map(|range| ranges.until(&range)), [10, 14, 14]);
        assert!(ranges.remove(&(0..100)).is_some());
        assert_eq!(ranges.until(&(0..100)), 100);
        let all = (0..RANGES).map(|number| ranges.add(number * 10..number * 10 + 3));
        assert!(all.collect::<Option<Vec<()>>>().is_some());
        assert!(ranges.add(5..7).is_none() && ranges.remove(&(1..2)).is_none());
    }
}
