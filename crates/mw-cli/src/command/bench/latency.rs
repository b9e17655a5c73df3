//! What another thread of the process feels while a segment is made: how long its mmap(2) takes.

use super::baseline::{Baseline, Split};
use mw_segment::{Kind, Options, PageSize};
use mw_sys::Region;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two calls of the other thread.
const PAUSE: Duration = Duration::from_micros(200);

/// How long a small mmap(2) took while a segment was created.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Latency {
    /// Who created it.
    pub(crate) way: &'static str,
    pub(crate) calls: usize,
    pub(crate) median_ms: f64,
    pub(crate) p99_9_ms: f64,
    pub(crate) max_ms: f64,
}

/// Measures memwright and an equal share for each thread, on base pages.
pub(crate) fn beside(kind: Kind, bytes: u64) -> Vec<Latency> {
    let Ok(bytes) = usize::try_from(bytes) else { return Vec::new() };
    let (kind, page) = (if kind == Kind::Hugetlb { Kind::Memfd } else { kind }, PageSize::Base);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.min(mw_segment::MAX_WORKERS);
    let split = Split::EqualShare;
    let shares = Baseline { split, kind, page, threads, slowed: 1, policies: Vec::new() };
    let ours = Options::new(bytes).kind(kind).page_size(page).locked(true);
    let ours = one("memwright", || ours.create().is_ok());
    let shares = one("equal shares", || shares.measure(bytes).is_ok());
    ours.into_iter().chain(shares).collect()
}

/// None where the segment cannot be created.
fn one(way: &'static str, create: impl FnOnce() -> bool) -> Option<Latency> {
    let over = AtomicBool::new(false);
    let times = std::thread::scope(|scope| {
        let other = scope.spawn(|| calls(&over));
        let created = create();
        over.store(true, Ordering::Relaxed);
        let times = other.join().ok();
        times.filter(|_| created)
    })?;
    let at = |share: f64| times.get(((times.len() - 1) as f64 * share).round() as usize).copied();
    Some(Latency {
        way,
        calls: times.len(),
        median_ms: at(0.5)?,
        p99_9_ms: at(0.999)?,
        max_ms: at(1.0)?,
    })
}

/// Milliseconds of each call, sorted; at least one.
fn calls(over: &AtomicBool) -> Vec<f64> {
    let page = mw_sys::page_bytes();
    let mut times = Vec::new();
    loop {
        let start = Instant::now();
        // One mmap(2).
        let mapped = Region::reserve(page, page, page);
        times.push(start.elapsed().as_secs_f64() * 1000.0);
        drop(mapped);
        if over.load(Ordering::Relaxed) {
            times.sort_by(f64::total_cmp);
            return times;
        }
        std::thread::sleep(PAUSE);
    }
}
