//! Stripes and chunks: pure arithmetic.

use std::ops::Range;

/// A segment of stripes of the same size, the last one smaller, each of chunks of the same size,
/// the last one smaller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChunkLayout {
    bytes: usize,
    stripe_bytes: usize,
    chunk_bytes: usize,
}

impl ChunkLayout {
    /// `stripe_bytes` is rounded up to whole chunks.
    pub(crate) fn new(bytes: usize, stripe_bytes: usize, chunk_bytes: usize) -> Self {
        let chunk_bytes = chunk_bytes.max(1);
        let stripe_bytes = stripe_bytes.max(1).div_ceil(chunk_bytes).saturating_mul(chunk_bytes);
        Self { bytes, stripe_bytes, chunk_bytes }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn stripes(&self) -> usize {
        self.bytes.div_ceil(self.stripe_bytes)
    }

    /// The range of a stripe in the segment.
    pub(crate) fn stripe(&self, number: usize) -> Range<usize> {
        let start = number.saturating_mul(self.stripe_bytes).min(self.bytes);
        start..start.saturating_add(self.stripe_bytes).min(self.bytes)
    }

    /// The stripe of an offset, and the offset in it.
    pub(crate) fn locate(&self, offset: usize) -> (usize, usize) {
        (offset / self.stripe_bytes, offset % self.stripe_bytes)
    }

    /// The number of chunks.
    pub(crate) fn chunks(&self) -> usize {
        let rows = self.stripe_bytes.min(self.bytes).div_ceil(self.chunk_bytes);
        rows * self.stripes()
    }

    /// The range of a chunk. Consecutive numbers are in different stripes, so that workers that take
    /// them do not contend for one inode's lock. Empty where the last stripe has no such chunk.
    pub(crate) fn chunk(&self, number: usize) -> Range<usize> {
        let stripes = self.stripes().max(1);
        let stripe = self.stripe(number % stripes);
        let start =
            (number / stripes).saturating_mul(self.chunk_bytes).saturating_add(stripe.start);
        let start = start.min(stripe.end);
        start..start.saturating_add(self.chunk_bytes).min(stripe.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_everything_once() {
        for (bytes, stripe, chunk) in [(100, 30, 7), (64, 64, 64), (65, 16, 4), (5, 100, 10)] {
            let layout = ChunkLayout::new(bytes, stripe, chunk);
            let mut seen = vec![0; bytes];
            for number in 0..layout.chunks() {
                let range = layout.chunk(number);
                assert!(range.len() <= chunk);
                let stripe = layout.stripe(layout.locate(range.start.min(bytes - 1)).0);
                assert!(range.is_empty() || range.end <= stripe.end);
                seen[range].iter_mut().for_each(|count| *count += 1);
            }
            assert!(seen.iter().all(|count| *count == 1), "{bytes} {stripe} {chunk}");
        }
    }

    #[test]
    fn consecutive_chunks_are_in_different_stripes() {
        let layout = ChunkLayout::new(1 << 20, 1 << 18, 1 << 14);
        assert_eq!(layout.stripes(), 4);
        let of = |number| layout.locate(layout.chunk(number).start).0;
        assert_eq!([of(0), of(1), of(2), of(3), of(4)], [0, 1, 2, 3, 0]);
    }
}
