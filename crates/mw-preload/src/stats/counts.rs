//! The counters of `--stats`.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// The kinds of calls that are counted separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountedCall {
    Lock,
    Map,
    Pool,
    Unmap,
    Advise,
}

pub(super) const CALLS: [(CountedCall, &str); 5] = [
    (CountedCall::Lock, "locked"),
    (CountedCall::Map, "mapped"),
    (CountedCall::Pool, "from the pool"),
    (CountedCall::Unmap, "unmapped"),
    (CountedCall::Advise, "advised"),
];

/// The counters of one kind of call.
pub(super) struct CallCounts {
    pub(super) calls: AtomicU64,
    pub(super) bytes: AtomicU64,
}

/// All counters. All bits zero is a valid value.
#[repr(C)]
pub(super) struct Counts {
    pub(super) by_call: [CallCounts; CALLS.len()],
    pub(super) nanoseconds: AtomicU64,
    pub(super) saved_nanoseconds: AtomicI64,
    /// Bytes of files that were verified to have left the page cache.
    pub(super) uncached_bytes: AtomicU64,
    /// Bytes that the kernel was asked to drop from the page cache, and that are not verified yet.
    pub(super) unverified_bytes: AtomicU64,
    pub(super) background: BackgroundCounts,
    pub(super) pages: PageCounts,
}

/// Sizes of pages up to 1 GiB, as powers of two of a base page.
pub(super) const PAGE_ORDERS: usize = 19;

/// Bytes that were populated by page faults, of which each populates one page of any size.
pub(super) struct PageCounts {
    /// Bytes by order: of chunks that took as many faults as they have pages of that size.
    pub(super) by_order: [AtomicU64; PAGE_ORDERS],
    /// Bytes of the other chunks, and their faults.
    pub(super) mixed_bytes: AtomicU64,
    pub(super) mixed_faults: AtomicU64,
}

/// Mappings that are populated in the background.
pub(super) struct BackgroundCounts {
    pub(super) mappings: AtomicU64,
    pub(super) mapped_bytes: AtomicU64,
    /// Not what the program touched itself.
    pub(super) populated_bytes: AtomicU64,
    /// The number of a `StopReason`; 0: none.
    pub(super) stop_reason: AtomicU64,
}

impl Counts {
    pub(super) const fn zero() -> Self {
        Self {
            by_call: [const { CallCounts { calls: AtomicU64::new(0), bytes: AtomicU64::new(0) } };
                CALLS.len()],
            nanoseconds: AtomicU64::new(0),
            saved_nanoseconds: AtomicI64::new(0),
            uncached_bytes: AtomicU64::new(0),
            unverified_bytes: AtomicU64::new(0),
            background: BackgroundCounts {
                mappings: AtomicU64::new(0),
                mapped_bytes: AtomicU64::new(0),
                populated_bytes: AtomicU64::new(0),
                stop_reason: AtomicU64::new(0),
            },
            pages: PageCounts {
                by_order: [const { AtomicU64::new(0) }; PAGE_ORDERS],
                mixed_bytes: AtomicU64::new(0),
                mixed_faults: AtomicU64::new(0),
            },
        }
    }

    /// The counts so far; resets them to zero.
    pub(super) fn take(&self) -> Self {
        let take = |number: &AtomicU64| AtomicU64::new(number.swap(0, Ordering::Relaxed));
        Self {
            by_call: std::array::from_fn(|call| {
                let counts = &self.by_call[call];
                CallCounts { calls: take(&counts.calls), bytes: take(&counts.bytes) }
            }),
            nanoseconds: take(&self.nanoseconds),
            saved_nanoseconds: AtomicI64::new(self.saved_nanoseconds.swap(0, Ordering::Relaxed)),
            uncached_bytes: take(&self.uncached_bytes),
            unverified_bytes: take(&self.unverified_bytes),
            background: BackgroundCounts {
                mappings: take(&self.background.mappings),
                mapped_bytes: take(&self.background.mapped_bytes),
                populated_bytes: take(&self.background.populated_bytes),
                stop_reason: take(&self.background.stop_reason),
            },
            pages: PageCounts {
                by_order: std::array::from_fn(|order| take(&self.pages.by_order[order])),
                mixed_bytes: take(&self.pages.mixed_bytes),
                mixed_faults: take(&self.pages.mixed_faults),
            },
        }
    }

    pub(super) fn calls(&self) -> u64 {
        self.by_call.iter().map(|counts| counts.calls.load(Ordering::Relaxed)).sum()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.by_call.iter().map(|counts| counts.bytes.load(Ordering::Relaxed)).sum()
    }
}
