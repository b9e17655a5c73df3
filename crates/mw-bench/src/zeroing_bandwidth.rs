//! Zeroing bandwidth: how fast resident memory is zeroed in parallel. It is the upper bound for creating
//! pages, because the kernel zeroes them with the same instructions.

use crate::sample::ms_per_gib;
use mw_model::BenchSpread;
use mw_sys::{Region, ThpAdvice};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Much larger than the CPU caches.
const MAX_BYTES: usize = 1 << 30;
/// The unit of work of a thread.
const CHUNK_BYTES: usize = 2 << 20;

#[derive(Debug)]
pub(crate) struct ZeroingBandwidth {
    threads: usize,
    samples: Vec<f64>,
    uncached: Vec<f64>,
}

impl ZeroingBandwidth {
    pub(crate) fn new(threads: usize) -> Self {
        Self { threads, samples: Vec::new(), uncached: Vec::new() }
    }

    /// Adds a sample, if there is enough memory for it.
    pub(crate) fn measure(&mut self, bytes: u64) {
        let bytes = usize::try_from(bytes).unwrap_or(MAX_BYTES).min(MAX_BYTES);
        let Ok(region) = resident(bytes) else { return };
        self.samples.extend(zero(&region, self.threads, Region::zero).ok());
        self.uncached.extend(zero(&region, self.threads, Region::zero_uncached).ok());
    }

    pub(crate) fn uncached(&self) -> Option<BenchSpread> {
        BenchSpread::from_samples(&self.uncached)
    }

    pub(crate) fn spread(&self) -> Option<BenchSpread> {
        BenchSpread::from_samples(&self.samples)
    }
}

fn resident(bytes: usize) -> io::Result<Region> {
    let region = Region::reserve(bytes, mw_sys::page_bytes(), CHUNK_BYTES)?;
    region.map_anonymous(0..bytes, false)?;
    let _ = region.advise_thp(ThpAdvice::Enable);
    region.populate(0..bytes)?;
    Ok(region)
}

type Zero = fn(&Region, Range<usize>) -> io::Result<()>;

/// Zeroes the region; returns milliseconds for each GiB.
fn zero(region: &Region, threads: usize, zero: Zero) -> io::Result<f64> {
    let bytes = region.bytes();
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let start = next.fetch_add(CHUNK_BYTES, Ordering::Relaxed);
            if start >= bytes {
                return Ok(());
            }
            zero(region, start..(start + CHUNK_BYTES).min(bytes))?;
        }
    };
    let start = Instant::now();
    std::thread::scope(|scope| -> io::Result<()> {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work()
    })?;
    Ok(ms_per_gib(start.elapsed(), bytes))
}
