//! A table of locked address ranges behind a spin lock.

use crate::range_table::RangeTable;
use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of times that the lock is polled; its holder goes through a few dozen numbers.
const POLLS: u32 = 1 << 20;

/// All bits zero: nothing is locked.
pub(crate) struct LockedRanges {
    is_held: AtomicBool,
    /// True if there has ever been a range.
    is_used: AtomicBool,
    /// More may be locked than the table says.
    is_incomplete: AtomicBool,
    ranges: UnsafeCell<RangeTable>,
}

// SAFETY: the ranges are accessed only by the holder of the lock.
#[allow(unsafe_code, reason = "one thread at a time")]
unsafe impl Sync for LockedRanges {}

impl LockedRanges {
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    pub(crate) fn is_incomplete(&self) -> bool {
        self.is_incomplete.load(Ordering::Relaxed)
    }

    /// From now on everything counts as locked.
    pub(crate) fn set_incomplete(&self) {
        self.is_incomplete.store(true, Ordering::Relaxed);
    }

    pub(crate) fn add(&self, range: Range<usize>) {
        self.is_used.store(true, Ordering::Relaxed);
        self.with_ranges(|ranges| ranges.add(range));
    }

    pub(crate) fn remove(&self, range: &Range<usize>) {
        self.with_ranges(|ranges| ranges.remove(range));
    }

    /// The start of the first locked range in `within`, or the end of `within`; none if the table is
    /// unavailable.
    pub(crate) fn first_in(&self, within: &Range<usize>) -> Option<usize> {
        self.with_ranges(|ranges| Some(ranges.first_in(within)))
    }

    /// None if another thread holds the lock or `work` fails; then everything counts as locked.
    fn with_ranges<T>(&self, work: impl FnOnce(&mut RangeTable) -> Option<T>) -> Option<T> {
        let mut polls = 0;
        // Bounded, because a signal handler may run on the very thread that holds the lock.
        while self.is_held.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
            polls += 1;
            if polls > POLLS {
                self.set_incomplete();
                return None;
            }
        }
        // SAFETY: the lock is held.
        #[allow(unsafe_code, reason = "one thread at a time")]
        let done = work(unsafe { &mut *self.ranges.get() });
        self.is_held.store(false, Ordering::Release);
        if done.is_none() {
            self.set_incomplete();
        }
        done
    }
}
