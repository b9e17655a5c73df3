//! Where the next chunk is.

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

    /// The next number; none when all were taken.
    ///
    /// Relaxed: the number is all that is handed over, and each is somebody's alone by the
    /// atomicity of the addition. Nobody asks again after none, so that it overshoots by the
    /// number of helpers at most.
    pub(crate) fn take(&self) -> Option<usize> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.total).then_some(number)
    }

    /// Whether all were taken.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.next.load(Ordering::Relaxed) >= self.total
    }
}
