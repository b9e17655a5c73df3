//! Measurements of creating, locking and destroying segments, for every output format.

use serde::Serialize;
use std::collections::BTreeMap;

/// The version of the JSON form of [`BenchReport`]; it goes up when a consumer could break.
pub const BENCH_SCHEMA: u32 = 1;

/// A variant that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct VariantResult {
    /// True if it is memwright's.
    #[serde(skip)]
    pub is_memwright: bool,
    #[serde(rename = "way")]
    pub variant: String,
    pub page: String,
    pub threads: usize,
    pub slowed: u32,
    pub create_ms_per_gib: BenchSpread,
    pub lock_ms_per_gib: BenchSpread,
    pub destroy_ms_per_gib: BenchSpread,
    pub total_ms_per_gib: BenchSpread,
    pub speedup: Option<f64>,
    /// The share of each node in the memory of the last round.
    pub node_shares: Option<BTreeMap<u32, f64>>,
    /// The share of each page size in bytes in the memory of the last round, of folios: of each size at
    /// least so much, and of the smallest at most.
    pub page_shares: Option<BTreeMap<usize, f64>>,
    /// The reason that it has no folios: the kernel's switch, and the value to write to it.
    pub no_folios: Option<String>,
}

/// A variant that cannot be measured on this machine.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct MissingVariant {
    #[serde(rename = "way")]
    pub variant: String,
    #[serde(rename = "why")]
    pub reason: String,
}

/// A ratio between variants.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct BenchRatio {
    pub name: &'static str,
    pub value: f64,
    pub unit: &'static str,
}

/// The report of a run.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct BenchReport {
    /// The version of this format.
    pub schema: u32,
    pub kind: &'static str,
    pub size_bytes: u64,
    pub rounds: usize,
    #[serde(rename = "processors")]
    pub cpus: usize,
    /// NUMA nodes that are online.
    pub nodes: usize,
    pub kernel: String,
    pub hypervisor: Option<bool>,
    /// CPUs that other programs kept busy during the measurement, on average.
    #[serde(rename = "others_processors")]
    pub other_cpus: Option<f64>,
    pub rows: Vec<VariantResult>,
    pub absent: Vec<MissingVariant>,
    /// Zeroing bandwidth: the time to zero resident memory with the largest number of threads.
    #[serde(rename = "ceiling_ms_per_gib")]
    pub zeroing_ms_per_gib: Option<BenchSpread>,
    /// The same with stores that bypass the caches, which the kernel does not use to clear pages.
    #[serde(rename = "ceiling_uncached_ms_per_gib")]
    pub zeroing_uncached_ms_per_gib: Option<BenchSpread>,
    pub figures: Vec<BenchRatio>,
    /// Latency of mmap(2) in another thread while a segment is created.
    #[serde(rename = "mmap_beside")]
    pub mmap_latency: Vec<Latency>,
}

/// The latency of small mmap(2) calls while a segment was created.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Latency {
    /// The method of creating it.
    #[serde(rename = "way")]
    pub variant: &'static str,
    pub calls: usize,
    pub median_ms: f64,
    pub p99_9_ms: f64,
    pub max_ms: f64,
}

/// The median and the extremes of some measurements.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct BenchSpread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl BenchReport {
    /// The fastest variant of memwright.
    pub fn best(&self) -> Option<&VariantResult> {
        let ours = self.rows.iter().filter(|row| row.is_memwright);
        ours.filter(|row| row.speedup.is_some())
            .max_by(|a, b| f64::total_cmp(&a.speedup.unwrap_or(0.0), &b.speedup.unwrap_or(0.0)))
    }
}

impl BenchSpread {
    /// `None` without samples.
    pub fn from_samples(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let upper = *sorted.get(sorted.len() / 2)?;
        let lower = *sorted.get(sorted.len().saturating_sub(1) / 2)?;
        Some(Self { median: f64::midpoint(lower, upper), min, max })
    }
}
