//! What was measured, and what follows from it.

use super::ceiling::Ceiling;
use super::latency::Latency;
use super::ways::{How, Sample, Way};
use crate::args::BenchArgs;
use mw_segment::PageSize;
use serde::Serialize;
use std::collections::BTreeMap;

/// The version of what `--json` prints.
pub(crate) const SCHEMA: u32 = 1;

/// The middle and the ends of some measurements.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    pub(crate) fn from_samples(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let upper = *sorted.get(sorted.len() / 2)?;
        let lower = *sorted.get((sorted.len() - 1) / 2)?;
        Some(Self { median: f64::midpoint(lower, upper), min, max })
    }
}

/// A way, while it is measured.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) way: Way,
    samples: Vec<Sample>,
    /// Why it cannot be done here.
    pub(crate) missing: Option<String>,
}

impl Row {
    pub(crate) fn new(way: Way) -> Self {
        Self { way, samples: Vec::new(), missing: None }
    }

    pub(crate) fn add(&mut self, sample: Sample) {
        self.samples.push(sample);
    }

    fn spread(&self, of: impl Fn(&Sample) -> f64) -> Option<Spread> {
        Spread::from_samples(&self.samples.iter().map(of).collect::<Vec<_>>())
    }

    fn result(&self, before: Option<&Self>) -> Option<Measured> {
        Some(Measured {
            way: self.way.name(),
            page: self.way.page.name(),
            threads: self.samples.iter().map(|sample| sample.threads).max()?,
            slowed: self.way.slowed,
            create_ms_per_gib: self.spread(|sample| sample.create)?,
            lock_ms_per_gib: self.spread(|sample| sample.lock)?,
            destroy_ms_per_gib: self.spread(|sample| sample.destroy)?,
            total_ms_per_gib: self.spread(Sample::total)?,
            speedup: before.and_then(|before| speedup(before, self)),
            node_shares: self.samples.last()?.nodes.clone(),
        })
    }
}

/// How many times as fast `row` is, all steps together; medians of the same rounds.
fn speedup(before: &Row, row: &Row) -> Option<f64> {
    Some(before.spread(Sample::total)?.median / row.spread(Sample::total)?.median)
}

/// A way, measured.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Measured {
    pub(crate) way: String,
    pub(crate) page: String,
    pub(crate) threads: usize,
    pub(crate) slowed: u32,
    pub(crate) create_ms_per_gib: Spread,
    pub(crate) lock_ms_per_gib: Spread,
    pub(crate) destroy_ms_per_gib: Spread,
    pub(crate) total_ms_per_gib: Spread,
    pub(crate) speedup: Option<f64>,
    /// The share of each node in the last round's memory.
    pub(crate) node_shares: Option<BTreeMap<u32, f64>>,
}

/// A way that this machine cannot do.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Absent {
    pub(crate) way: String,
    pub(crate) why: String,
}

/// A ratio that is worth knowing.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
}

/// All of it.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Report {
    /// The version of this format.
    pub(crate) schema: u32,
    pub(crate) kind: &'static str,
    pub(crate) size_bytes: u64,
    pub(crate) rounds: usize,
    pub(crate) processors: usize,
    /// NUMA nodes that are online.
    pub(crate) nodes: usize,
    pub(crate) kernel: String,
    pub(crate) hypervisor: Option<bool>,
    /// CPUs that other programs kept busy meanwhile, on average.
    pub(crate) others_processors: Option<f64>,
    pub(crate) rows: Vec<Measured>,
    pub(crate) absent: Vec<Absent>,
    /// Zeroing memory that is there already, with as many threads as the fastest of ours.
    pub(crate) ceiling_ms_per_gib: Option<Spread>,
    /// The same with stores that bypass the caches, which the kernel does not clear pages with.
    pub(crate) ceiling_uncached_ms_per_gib: Option<Spread>,
    pub(crate) figures: Vec<Figure>,
    pub(crate) mmap_beside: Vec<Latency>,
}

impl Report {
    pub(crate) fn new(
        bytes: u64,
        args: &BenchArgs,
        rows: Vec<Row>,
        ceiling: Ceiling,
        mmap_beside: Vec<Latency>,
    ) -> Self {
        let before = rows.iter().find(|row| row.way.how == How::Before);
        let absent = |row: &Row| {
            let why = row.missing.clone()?;
            Some(Absent { way: row.way.name(), why })
        };
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let ceiling_ms_per_gib = ceiling.spread();
        Self {
            schema: SCHEMA,
            kind: args.kind.name(),
            size_bytes: bytes,
            rounds: args.rounds,
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            nodes: nodes(),
            kernel: kernel.trim().to_owned(),
            hypervisor: mw_sys::under_hypervisor(),
            others_processors: None,
            figures: figures(&rows, ceiling_ms_per_gib),
            absent: absent_once(rows.iter().filter_map(absent)),
            rows: rows.iter().filter_map(|row| row.result(before)).collect(),
            ceiling_ms_per_gib,
            ceiling_uncached_ms_per_gib: ceiling.uncached(),
            mmap_beside,
        }
    }

    /// The fastest of ours.
    pub(crate) fn best(&self) -> Option<&Measured> {
        let ours = self.rows.iter().filter(|row| row.way.starts_with("memwright"));
        ours.filter(|row| row.speedup.is_some())
            .max_by(|a, b| f64::total_cmp(&a.speedup.unwrap_or(0.0), &b.speedup.unwrap_or(0.0)))
    }
}

fn nodes() -> usize {
    let online = std::fs::read("/sys/devices/system/node/online").unwrap_or_default();
    mw_proc::cpulist::parse(&online).map_or(1, |nodes| nodes.len().max(1))
}

/// Each way once, however many threads it was to be tried with.
fn absent_once(all: impl Iterator<Item = Absent>) -> Vec<Absent> {
    let mut once: Vec<Absent> = Vec::new();
    for absent in all {
        if once.iter().all(|known| known.way != absent.way) {
            once.push(absent);
        }
    }
    once
}

/// The ratios that the tale and the peers are compared by.
fn figures(rows: &[Row], ceiling: Option<Spread>) -> Vec<Figure> {
    // Of the most threads, which come last.
    let find = |how, page: Option<PageSize>, slowed| {
        let mut found = rows.iter().filter(|row| {
            let same = row.way.how == how && row.way.slowed == slowed && !row.samples.is_empty();
            same && page.is_none_or(|page| row.way.page == page)
        });
        found.next_back()
    };
    let before = find(How::Before, None, 1);
    let equal = find(How::EqualShare, None, 1);
    let slow_equal = find(How::EqualShare, None, super::ways::SLOWED);
    let slow_ours = find(How::Ours, None, super::ways::SLOWED);
    let ours = |page| find(How::Ours, Some(page), 1);
    let peer = equal.and_then(|equal| ours(equal.way.page));
    let ratio = |a: Option<&Row>, b: Option<&Row>| speedup(a?, b?);
    let destroy = |row: Option<&Row>| Some(row?.spread(|sample| sample.destroy)?.median);
    let median = |row: Option<&Row>, of: fn(&Sample) -> f64| Some(row?.spread(of)?.median);
    let create_ratio = |a: Option<&Row>, b: Option<&Row>| {
        Some(median(a, |sample| sample.create)? / median(b, |sample| sample.create)?)
    };
    let huge = ours(PageSize::HUGE_2M).or_else(|| ours(PageSize::Thp));
    let base_destroy = destroy(before).zip(destroy(ours(PageSize::Base))).map(|(a, b)| a / b);
    // What is locked as a whole needs no confirming.
    let confirm = median(ours(PageSize::Base), |sample| sample.lock).filter(|ms| *ms > 0.0);
    let share = ceiling
        .zip(median(huge, |sample| sample.create))
        .map(|(ceiling, create)| 100.0 * ceiling.median / create);
    [
        ("all steps on huge pages, against plain calls", ratio(before, huge), "x"),
        ("all steps on 4k pages, against plain calls", ratio(before, ours(PageSize::Base)), "x"),
        ("destroying 4k pages, against plain calls", base_destroy, "x"),
        ("creating, against an equal share each", create_ratio(equal, peer), "x"),
        ("the same with one helper slowed four times", create_ratio(slow_equal, slow_ours), "x"),
        ("confirming the lock of 4k pages", confirm, " ms/GiB"),
        ("creating huge pages, of the ceiling", share, "%"),
    ]
    .into_iter()
    .filter_map(|(name, value, unit)| Some(Figure { name, value: value?, unit }))
    .collect()
}
