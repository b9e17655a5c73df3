//! The machine's ceiling: zeroing memory that is there already, in parallel. Creating pages
//! includes zeroing them, which the kernel does with the same instructions, so that nothing creates
//! them faster.

use super::report::Spread;
use super::ways::ms_per_gib;
use mw_sys::{Region, ThpAdvice};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Enough to leave the caches behind.
const MOST_BYTES: usize = 1 << 30;
/// What a thread zeroes at a time.
const CHUNK_BYTES: usize = 2 << 20;

/// Measurements of the ceiling.
#[derive(Debug)]
pub(crate) struct Ceiling {
    threads: usize,
    samples: Vec<f64>,
    uncached: Vec<f64>,
}

impl Ceiling {
    pub(crate) fn new(threads: usize) -> Self {
        Self { threads, samples: Vec::new(), uncached: Vec::new() }
    }

    /// Measures once; a machine without memory for it has one sample less.
    pub(crate) fn measure(&mut self, bytes: u64) {
        let bytes = usize::try_from(bytes).unwrap_or(MOST_BYTES).min(MOST_BYTES);
        let Ok(region) = resident(bytes) else { return };
        self.samples.extend(zero(&region, self.threads, Region::zero).ok());
        self.uncached.extend(zero(&region, self.threads, Region::zero_uncached).ok());
    }

    pub(crate) fn uncached(&self) -> Option<Spread> {
        Spread::from_samples(&self.uncached)
    }

    pub(crate) fn spread(&self) -> Option<Spread> {
        Spread::from_samples(&self.samples)
    }
}

fn resident(bytes: usize) -> io::Result<Region> {
    let region = Region::reserve(bytes, mw_sys::page_bytes(), CHUNK_BYTES)?;
    region.map_anonymous(0..bytes, false)?;
    let _ = region.advise_thp(ThpAdvice::Enable);
    region.populate(0..bytes)?;
    Ok(region)
}

/// One way to zero a range.
type Zero = fn(&Region, Range<usize>) -> io::Result<()>;

/// Zeroes all of it; milliseconds for each GiB.
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
