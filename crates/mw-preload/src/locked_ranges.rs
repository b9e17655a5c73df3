//! A table of locked address ranges behind a spin lock.

use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// If the program locks more ranges than this, everything counts as locked by it.
const MAX_RANGES: usize = 64;

/// How often the lock is polled; its holder goes through a few dozen numbers.
const POLLS: u32 = 1 << 20;

/// All bits zero: nothing is locked.
pub(crate) struct LockedRanges {
    is_held: AtomicBool,
    /// Whether there has ever been a range.
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

/// Disjoint ranges; empty ones are free slots.
struct RangeTable([Range<usize>; MAX_RANGES]);

impl RangeTable {
    /// None if there is no free slot.
    fn add(&mut self, new: Range<usize>) -> Option<()> {
        self.remove(&new)?;
        *self.0.iter_mut().find(|range| Range::is_empty(range))? = new;
        Some(())
    }

    /// None if a range is split and there is no free slot for its second part.
    fn remove(&mut self, removed: &Range<usize>) -> Option<()> {
        let mut second = 0..0;
        for range in &mut self.0 {
            if range.end <= removed.start || range.start >= removed.end {
                continue;
            }
            if range.start < removed.start && range.end > removed.end {
                second = removed.end..range.end;
            }
            *range = if range.start < removed.start {
                range.start..removed.start
            } else {
                removed.end.min(range.end)..range.end
            };
        }
        if !second.is_empty() {
            *self.0.iter_mut().find(|range| Range::is_empty(range))? = second;
        }
        Some(())
    }

    fn first_in(&self, within: &Range<usize>) -> usize {
        let overlaps = |range: &&Range<usize>| range.start < within.end && within.start < range.end;
        let found = self.0.iter().filter(|range| !Range::is_empty(range)).filter(overlaps);
        found.map(|range| range.start.max(within.start)).min().unwrap_or(within.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_added_split_and_found() {
        let mut ranges = RangeTable([const { 0..0 }; MAX_RANGES]);
        assert!(ranges.add(10..20).is_some() && ranges.add(15..30).is_some());
        assert_eq!([10..11, 29..40, 30..40].map(|range| ranges.first_in(&range)), [10, 29, 40]);
        assert!(ranges.remove(&(12..14)).is_some());
        assert_eq!([0..12, 12..14, 13..15].map(|range| ranges.first_in(&range)), [10, 14, 14]);
        assert!(ranges.remove(&(0..100)).is_some());
        assert_eq!(ranges.first_in(&(0..100)), 100);
        let all = (0..MAX_RANGES).map(|number| ranges.add(number * 10..number * 10 + 3));
        assert!(all.collect::<Option<Vec<()>>>().is_some());
        assert!(ranges.add(5..7).is_none() && ranges.remove(&(1..2)).is_none());
    }
}
