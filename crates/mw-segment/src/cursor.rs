//! Hands out chunk numbers.

use crate::sync::{AtomicUsize, Ordering};

/// Hands out the numbers below a total, each once, to any number of threads.
#[derive(Debug)]
pub(crate) struct Cursor {
    next: AtomicUsize,
    total: usize,
}

impl Cursor {
    pub(crate) fn new(total: usize) -> Self {
        Self { next: AtomicUsize::new(0), total }
    }

    /// The next number; none when all are taken.
    ///
    /// Relaxed: the number is the only data handed over, and the atomic addition makes each unique.
    /// A worker that got none does not call again, so the counter exceeds the total by the number of
    /// workers at most.
    pub(crate) fn take(&self) -> Option<usize> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.total).then_some(number)
    }

    /// True if all numbers are taken.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.next.load(Ordering::Relaxed) >= self.total
    }
}
