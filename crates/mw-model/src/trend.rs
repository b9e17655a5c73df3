//! What grows steadily in a recording and when memory or a limit is full, and when huge pages run out.

use crate::SizedHolder;
use serde::{Deserialize, Serialize};

/// The version of the JSON form of [`Trends`]; it goes up when a consumer could break.
pub const TRENDS_SCHEMA: u32 = 1;

/// A steady growth.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Trends {
    /// [`TRENDS_SCHEMA`].
    pub schema: u32,
    /// The version of memwright that made it.
    pub memwright: String,
    /// The file that was read.
    pub recording: String,
    /// The first and the last sample, in milliseconds since 1970.
    pub since_unix_ms: u64,
    pub until_unix_ms: u64,
    pub samples: u64,
    /// Number of processes, cgroups, slab caches and mounts that were judged.
    pub holders: u64,
    /// The answer in one sentence.
    pub summary: String,
    /// Trends, the first to be full first. Empty where a request was judged.
    pub trends: Vec<Trend>,
    /// Supplies that run out, the first first.
    pub exhaustion: Vec<Exhaustion>,
}

/// Pages that run out.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Exhaustion {
    pub supply: Supply,
    /// None for base pages.
    pub page_bytes: Option<u64>,
    /// None for the machine.
    pub node: Option<u32>,
    /// They run out when there is less than this; 0 without a request.
    pub request_bytes: u64,
    /// Size at the last sample.
    pub bytes: u64,
    /// In words: what runs out, and when.
    pub forecast: String,
    /// In words: how fast, and how much is left.
    pub decline: String,
    /// Since when it has declined steadily, in milliseconds since 1970.
    pub since_unix_ms: u64,
    /// By how much it declines.
    pub bytes_per_hour: Estimate,
    /// Hours from the last sample until there is never as much again.
    pub hours_left: Estimate,
}

/// Source of the memory for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Supply {
    /// Base pages: memory that is available without swap.
    Memory,
    /// Free pages of a hugetlb pool that are not reserved.
    Pool,
    /// Memory that can certainly become whole pages: free blocks, and those that reclaim and compaction empty.
    Contiguous,
    /// Pages of the pool, and what it can certainly be grown by.
    HugePages,
}

/// Size of a supply, and its decline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SupplyTrend {
    pub supply: Supply,
    /// None for base pages.
    pub page_bytes: Option<u64>,
    /// None for the machine.
    pub node: Option<u32>,
    /// At the last sample.
    pub bytes: u64,
    /// Of the last sample, in milliseconds since 1970.
    pub until_unix_ms: u64,
    /// In bytes; none where it does not decline along a line.
    pub line: Option<Decline>,
    /// Of the natural logarithm of the bytes; none where it does not lose the same share in equal times, as where
    /// pages that cannot be moved fall into whole blocks at random.
    pub decay: Option<Decline>,
    /// True if memory in use grows as fast: then nothing but that takes the pages.
    pub is_memory_in_use: bool,
}

/// A steady decline.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Decline {
    pub since_unix_ms: u64,
    /// Value of the line through the highs at the last sample.
    pub high: f64,
    pub per_s: f64,
    pub least_per_s: f64,
    pub most_per_s: f64,
}

/// A holder that grows steadily until the last sample.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Trend {
    pub holder: SizedHolder,
    /// In words: who grows, and how fast.
    pub growth: String,
    /// In words: what is full, and when.
    pub forecast: String,
    /// Its size at the last sample.
    pub bytes: u64,
    /// Since when it has grown steadily, in milliseconds since 1970.
    pub since_unix_ms: u64,
    pub bytes_per_hour: Estimate,
    pub full: FullKind,
    /// Its size then.
    pub full_bytes: u64,
    /// Hours from the last sample until then.
    pub hours_left: Estimate,
}

/// The limit, or the memory, that is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FullKind {
    /// No memory of the machine is available without swap.
    Memory,
    /// The holder's own limit is reached: of a cgroup, or the size of a tmpfs.
    OwnLimit,
}

/// A number with the range that holds the true one in nine of ten cases.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Estimate {
    pub expected: f64,
    pub least: f64,
    /// None where there is no upper bound: growth that may be none never fills anything.
    pub most: Option<f64>,
}
