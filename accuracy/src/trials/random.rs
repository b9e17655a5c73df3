//! Random numbers from a seed: SplitMix64, the same on every machine.

use std::ops::RangeInclusive;

pub(super) struct TrialRandom(u64);

impl TrialRandom {
    /// `parts` name what is drawn; other parts give independent numbers.
    pub(super) fn new(parts: &[u64]) -> Self {
        let mut random = Self(0);
        for part in parts {
            random.0 ^= *part;
            random.0 = random.next();
        }
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        let count = (range.end() - range.start()).saturating_add(1);
        range.start() + self.next() % count
    }

    /// True in so many of 100 cases.
    pub(super) fn percent(&mut self, percent: u64) -> bool {
        self.within(0..=99) < percent
    }

    pub(super) fn one_of<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.within(0..=of.len() as u64 - 1) as usize]
    }
}
