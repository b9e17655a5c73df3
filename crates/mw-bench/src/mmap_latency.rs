//! The latency of mmap(2) in another thread of the process while a segment is created.

use crate::baseline::{BaselineSegment, Split};
use mw_model::Latency;
use mw_segment::{Options, PageSize, SegmentKind};
use mw_sys::Region;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The sleep between two calls of the other thread.
const INTERVAL: Duration = Duration::from_micros(200);

/// Measures memwright and an equal share for each thread, on base pages.
pub(crate) fn measure(kind: SegmentKind, bytes: u64) -> Vec<Latency> {
    let Ok(bytes) = usize::try_from(bytes) else { return Vec::new() };
    let (kind, page) =
        (if kind == SegmentKind::Hugetlb { SegmentKind::Memfd } else { kind }, PageSize::Base);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.min(mw_segment::MAX_WORKERS);
    let split = Split::EqualShare;
    let shares = BaselineSegment { split, kind, page, threads, slowed: 1, policies: Vec::new() };
    let ours = Options::new(bytes).kind(kind).page_size(page).locked(true);
    let ours = measure_one("memwright", || ours.create().is_ok());
    let shares = measure_one("equal shares", || shares.measure(bytes).is_ok());
    ours.into_iter().chain(shares).collect()
}

/// None if the segment cannot be created.
fn measure_one(variant: &'static str, create: impl FnOnce() -> bool) -> Option<Latency> {
    let is_over = AtomicBool::new(false);
    let times = std::thread::scope(|scope| {
        let other = scope.spawn(|| calls(&is_over));
        let created = create();
        is_over.store(true, Ordering::Relaxed);
        let times = other.join().ok();
        times.filter(|_| created)
    })?;
    let at = |share: f64| times.get(((times.len() - 1) as f64 * share).round() as usize).copied();
    Some(Latency {
        variant,
        calls: times.len(),
        median_ms: at(0.5)?,
        p99_9_ms: at(0.999)?,
        max_ms: at(1.0)?,
    })
}

/// Milliseconds of each call, sorted; at least one.
fn calls(is_over: &AtomicBool) -> Vec<f64> {
    let page = mw_sys::page_bytes();
    let mut times = Vec::new();
    loop {
        let start = Instant::now();
        // One mmap(2).
        let mapped = Region::reserve(page, page, page);
        times.push(start.elapsed().as_secs_f64() * 1000.0);
        drop(mapped);
        if is_over.load(Ordering::Relaxed) {
            times.sort_by(f64::total_cmp);
            return times;
        }
        std::thread::sleep(INTERVAL);
    }
}
