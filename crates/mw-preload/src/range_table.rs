//! A table of disjoint address ranges.

use std::ops::Range;

/// The maximum number of ranges.
const MAX_RANGES: usize = 64;

/// Disjoint ranges; empty ones are free slots.
pub(crate) struct RangeTable([Range<usize>; MAX_RANGES]);

impl RangeTable {
    /// None if there is no free slot.
    pub(crate) fn add(&mut self, new: Range<usize>) -> Option<()> {
        self.remove(&new)?;
        *self.0.iter_mut().find(|range| Range::is_empty(range))? = new;
        Some(())
    }

    /// None if a range is split and there is no free slot for its second part.
    pub(crate) fn remove(&mut self, removed: &Range<usize>) -> Option<()> {
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

    /// The last chunk of all ranges; chunks start at multiples of `bytes`. None if there is no range.
    pub(crate) fn last(&self, bytes: usize) -> Option<Range<usize>> {
        let last =
            self.0.iter().filter(|range| !Range::is_empty(range)).max_by_key(|range| range.end)?;
        let start = (last.end - 1) / bytes * bytes;
        Some(start.max(last.start)..last.end)
    }

    /// Removes the range that ends at an address.
    pub(crate) fn remove_ending_at(&mut self, end: usize) {
        if let Some(range) = self.0.iter_mut().find(|range| range.end == end) {
            *range = 0..0;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.fill(0..0);
    }

    pub(crate) fn first_in(&self, within: &Range<usize>) -> usize {
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
        assert_eq!([4, 8, 100].map(|bytes| ranges.last(bytes)), [28..30, 24..30, 15..30].map(Some));
        assert!(ranges.remove(&(0..100)).is_some());
        assert_eq!(ranges.last(8), None);
        assert_eq!(ranges.first_in(&(0..100)), 100);
        let all = (0..MAX_RANGES).map(|number| ranges.add(number * 10..number * 10 + 3));
        assert!(all.collect::<Option<Vec<()>>>().is_some());
        assert!(ranges.add(5..7).is_none() && ranges.remove(&(1..2)).is_none());
    }
}
