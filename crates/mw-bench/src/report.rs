//! The measurements, and the ratios between them.

use crate::sample::SegmentTimes;
use crate::settings::BenchSettings;
use crate::variant::{BenchVariant, Method, SLOWED};
use crate::zeroing_bandwidth::ZeroingBandwidth;
use mw_model::{
    BENCH_SCHEMA, BenchRatio, BenchReport, BenchSpread, Latency, MissingVariant, VariantResult,
};
use mw_segment::PageSize;

/// A variant and its samples so far.
#[derive(Debug)]
pub(crate) struct BenchRow {
    pub(crate) variant: BenchVariant,
    samples: Vec<SegmentTimes>,
    /// The reason that it cannot be measured on this machine.
    pub(crate) missing: Option<String>,
}

impl BenchRow {
    pub(crate) fn new(variant: BenchVariant) -> Self {
        Self { variant, samples: Vec::new(), missing: None }
    }

    pub(crate) fn add(&mut self, sample: SegmentTimes) {
        self.samples.push(sample);
    }

    fn spread(&self, of: impl Fn(&SegmentTimes) -> f64) -> Option<BenchSpread> {
        BenchSpread::from_samples(&self.samples.iter().map(of).collect::<Vec<_>>())
    }

    fn result(&self, plain: Option<&Self>) -> Option<VariantResult> {
        Some(VariantResult {
            is_memwright: self.variant.method == Method::Memwright,
            variant: self.variant.name(),
            page: self.variant.page.name(),
            threads: self.samples.iter().map(|sample| sample.threads).max()?,
            slowed: self.variant.slowed,
            create_ms_per_gib: self.spread(|sample| sample.create)?,
            lock_ms_per_gib: self.spread(|sample| sample.lock)?,
            destroy_ms_per_gib: self.spread(|sample| sample.destroy)?,
            total_ms_per_gib: self.spread(SegmentTimes::total)?,
            speedup: plain.and_then(|plain| speedup(plain, self)),
            node_shares: self.samples.last()?.nodes.clone(),
            page_shares: self.samples.last()?.page_shares.clone(),
            no_folios: self.samples.last()?.no_folios.clone(),
        })
    }
}

/// Speed of `row`, as a multiple, all steps together; medians of the same rounds.
fn speedup(plain: &BenchRow, row: &BenchRow) -> Option<f64> {
    Some(plain.spread(SegmentTimes::total)?.median / row.spread(SegmentTimes::total)?.median)
}

/// The report of a run, without what else kept the CPUs busy.
pub(crate) fn report(
    bytes: u64,
    settings: &BenchSettings<'_>,
    rows: Vec<BenchRow>,
    zeroing: ZeroingBandwidth,
    mmap_latency: Vec<Latency>,
) -> BenchReport {
    let plain = rows.iter().find(|row| row.variant.method == Method::PlainCalls);
    let absent = |row: &BenchRow| {
        let reason = row.missing.clone()?;
        Some(MissingVariant { variant: row.variant.name(), reason })
    };
    let kernel =
        mw_sys::kernel_file::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let zeroing_ms_per_gib = zeroing.spread();
    BenchReport {
        schema: BENCH_SCHEMA,
        kind: settings.kind.name(),
        size_bytes: bytes,
        rounds: settings.rounds,
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        nodes: nodes(),
        kernel: kernel.trim().to_owned(),
        hypervisor: mw_sys::under_hypervisor(),
        other_cpus: None,
        figures: figures(&rows, zeroing_ms_per_gib),
        absent: absent_once(rows.iter().filter_map(absent)),
        rows: rows.iter().filter_map(|row| row.result(plain)).collect(),
        zeroing_ms_per_gib,
        zeroing_uncached_ms_per_gib: zeroing.uncached(),
        mmap_latency,
    }
}

fn nodes() -> usize {
    let online = mw_sys::kernel_file::read("/sys/devices/system/node/online").unwrap_or_default();
    mw_proc::cpulist::parse(&online).map_or(1, |nodes| nodes.len().max(1))
}

/// Each variant once, whatever its number of threads.
fn absent_once(all: impl Iterator<Item = MissingVariant>) -> Vec<MissingVariant> {
    let mut once: Vec<MissingVariant> = Vec::new();
    for absent in all {
        if once.iter().all(|known| known.variant != absent.variant) {
            once.push(absent);
        }
    }
    once
}

/// The ratios to plain system calls and to the methods of other programs.
fn figures(rows: &[BenchRow], zeroing: Option<BenchSpread>) -> Vec<BenchRatio> {
    // With the largest number of threads, which comes last.
    let find = |method, page: Option<PageSize>, slowed| {
        let mut found = rows.iter().filter(|row| {
            let same = row.variant.method == method
                && row.variant.slowed == slowed
                && !row.samples.is_empty();
            same && page.is_none_or(|page| row.variant.page == page)
        });
        found.next_back()
    };
    let plain = find(Method::PlainCalls, None, 1);
    let equal = find(Method::EqualShare, None, 1);
    let slow_equal = find(Method::EqualShare, None, SLOWED);
    let slow_ours = find(Method::Memwright, None, SLOWED);
    let ours = |page| find(Method::Memwright, Some(page), 1);
    let peer = equal.and_then(|equal| ours(equal.variant.page));
    let ratio = |a: Option<&BenchRow>, b: Option<&BenchRow>| speedup(a?, b?);
    let destroy = |row: Option<&BenchRow>| Some(row?.spread(|sample| sample.destroy)?.median);
    let median =
        |row: Option<&BenchRow>, of: fn(&SegmentTimes) -> f64| Some(row?.spread(of)?.median);
    let create_ratio = |a: Option<&BenchRow>, b: Option<&BenchRow>| {
        Some(median(a, |sample| sample.create)? / median(b, |sample| sample.create)?)
    };
    let huge = ours(PageSize::HUGE_2M).or_else(|| ours(PageSize::Thp));
    let base_destroy = destroy(plain).zip(destroy(ours(PageSize::Base))).map(|(a, b)| a / b);
    // Segments that are locked as a whole have no such phase.
    let confirm = median(ours(PageSize::Base), |sample| sample.lock).filter(|ms| *ms > 0.0);
    let share = zeroing
        .zip(median(huge, |sample| sample.create))
        .map(|(zeroing, create)| 100.0 * zeroing.median / create);
    [
        ("all steps on huge pages, against plain calls", ratio(plain, huge), "x"),
        ("all steps on 4k pages, against plain calls", ratio(plain, ours(PageSize::Base)), "x"),
        ("destroying 4k pages, against plain calls", base_destroy, "x"),
        ("creating, against an equal share each", create_ratio(equal, peer), "x"),
        ("the same with one worker slowed four times", create_ratio(slow_equal, slow_ours), "x"),
        ("confirming the lock of 4k pages", confirm, " ms/GiB"),
        ("creating huge pages, of the zeroing bandwidth", share, "%"),
    ]
    .into_iter()
    .filter_map(|(name, value, unit)| Some(BenchRatio { name, value: value?, unit }))
    .collect()
}
