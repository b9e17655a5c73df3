//! The times of one segment.

use std::collections::BTreeMap;
use std::time::Duration;

/// The times of one segment, in milliseconds for each GiB.
#[derive(Debug, Clone)]
pub(crate) struct SegmentTimes {
    pub(crate) create: f64,
    pub(crate) lock: f64,
    pub(crate) destroy: f64,
    /// The number of worker threads.
    pub(crate) threads: usize,
    /// The share of each node in its memory, if the kernel reports it.
    pub(crate) nodes: Option<BTreeMap<u32, f64>>,
    /// The share of each page size in bytes, of a segment of folios.
    pub(crate) page_shares: Option<BTreeMap<usize, f64>>,
    /// The reason why a segment of folios has none.
    pub(crate) no_folios: Option<String>,
}

impl SegmentTimes {
    pub(crate) fn total(&self) -> f64 {
        self.create + self.lock + self.destroy
    }
}

const GIB: f64 = (1_u64 << 30) as f64;

pub(crate) fn ms_per_gib(time: Duration, bytes: usize) -> f64 {
    time.as_secs_f64() * 1000.0 * GIB / bytes as f64
}
