//! The measurements, and the ratios between them.

use super::mmap_latency::Latency;
use super::sample::{BenchSpread, SegmentTimes};
use super::variant::{BenchVariant, Method};
use super::zeroing_bandwidth::ZeroingBandwidth;
use crate::args::BenchArgs;
use mw_segment::PageSize;
use serde::Serialize;
use std::collections::BTreeMap;

/// The version of the output of `--json`.
pub(crate) const SCHEMA: u32 = 1;

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
            method: self.variant.method,
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

/// A variant that was measured.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(crate) struct VariantResult {
    #[serde(skip)]
    method: Method,
    #[serde(rename = "way")]
    pub(crate) variant: String,
    pub(crate) page: String,
    pub(crate) threads: usize,
    pub(crate) slowed: u32,
    pub(crate) create_ms_per_gib: BenchSpread,
    pub(crate) lock_ms_per_gib: BenchSpread,
    pub(crate) destroy_ms_per_gib: BenchSpread,
    pub(crate) total_ms_per_gib: BenchSpread,
    pub(crate) speedup: Option<f64>,
    /// The share of each node in the memory of the last round.
    pub(crate) node_shares: Option<BTreeMap<u32, f64>>,
    /// The share of each page size in bytes in the memory of the last round, of folios: of each size at
    /// least so much, and of the smallest at most.
    pub(crate) page_shares: Option<BTreeMap<usize, f64>>,
    /// The reason that it has no folios: the kernel's switch, and the value to write to it.
    pub(crate) no_folios: Option<String>,
}

/// A variant that cannot be measured on this machine.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(crate) struct MissingVariant {
    #[serde(rename = "way")]
    pub(crate) variant: String,
    #[serde(rename = "why")]
    pub(crate) reason: String,
}

/// A ratio between variants.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(crate) struct BenchRatio {
    pub(crate) name: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
}

/// The report of a run.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(crate) struct BenchReport {
    /// The version of this format.
    pub(crate) schema: u32,
    pub(crate) kind: &'static str,
    pub(crate) size_bytes: u64,
    pub(crate) rounds: usize,
    #[serde(rename = "processors")]
    pub(crate) cpus: usize,
    /// NUMA nodes that are online.
    pub(crate) nodes: usize,
    pub(crate) kernel: String,
    pub(crate) hypervisor: Option<bool>,
    /// CPUs that other programs kept busy during the measurement, on average.
    #[serde(rename = "others_processors")]
    pub(crate) other_cpus: Option<f64>,
    pub(crate) rows: Vec<VariantResult>,
    pub(crate) absent: Vec<MissingVariant>,
    /// Zeroing bandwidth: the time to zero resident memory with the largest number of threads.
    #[serde(rename = "ceiling_ms_per_gib")]
    pub(crate) zeroing_ms_per_gib: Option<BenchSpread>,
    /// The same with stores that bypass the caches, which the kernel does not use to clear pages.
    #[serde(rename = "ceiling_uncached_ms_per_gib")]
    pub(crate) zeroing_uncached_ms_per_gib: Option<BenchSpread>,
    pub(crate) figures: Vec<BenchRatio>,
    /// Latency of mmap(2) in another thread while a segment is created.
    #[serde(rename = "mmap_beside")]
    pub(crate) mmap_latency: Vec<Latency>,
}

impl BenchReport {
    pub(crate) fn new(
        bytes: u64,
        args: &BenchArgs,
        rows: Vec<BenchRow>,
        zeroing: ZeroingBandwidth,
        mmap_latency: Vec<Latency>,
    ) -> Self {
        let plain = rows.iter().find(|row| row.variant.method == Method::PlainCalls);
        let absent = |row: &BenchRow| {
            let reason = row.missing.clone()?;
            Some(MissingVariant { variant: row.variant.name(), reason })
        };
        let kernel =
            mw_sys::kernel_file::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let zeroing_ms_per_gib = zeroing.spread();
        Self {
            schema: SCHEMA,
            kind: args.kind.name(),
            size_bytes: bytes,
            rounds: args.rounds,
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

    /// The fastest variant of memwright.
    pub(crate) fn best(&self) -> Option<&VariantResult> {
        let ours = self.rows.iter().filter(|row| row.method == Method::Memwright);
        ours.filter(|row| row.speedup.is_some())
            .max_by(|a, b| f64::total_cmp(&a.speedup.unwrap_or(0.0), &b.speedup.unwrap_or(0.0)))
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
    let slow_equal = find(Method::EqualShare, None, super::variant::SLOWED);
    let slow_ours = find(Method::Memwright, None, super::variant::SLOWED);
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
