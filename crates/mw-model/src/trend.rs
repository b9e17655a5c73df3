//! What grows steadily in a recording, and when memory or a limit is full.

use crate::SizedHolder;
use serde::Serialize;

/// The version of the JSON form of [`Trends`]; it goes up when a consumer could break.
pub const TRENDS_SCHEMA: u32 = 1;

/// What grows steadily.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// How many processes, cgroups, slab caches and mounts were judged.
    pub holders: u64,
    /// The answer in one sentence.
    pub summary: String,
    /// What is full first comes first.
    pub trends: Vec<Trend>,
}

/// A holder that grows steadily until the last sample.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// What it has grown to then.
    pub full_bytes: u64,
    /// Hours from the last sample until then.
    pub hours_left: Estimate,
}

/// What is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FullKind {
    /// No memory of the machine is available without swap.
    Memory,
    /// The holder's own limit is reached: of a cgroup, or the size of a tmpfs.
    OwnLimit,
}

/// A number with the range that holds the true one in nine of ten cases.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Estimate {
    pub expected: f64,
    pub least: f64,
    /// None where there is no upper bound: growth that may be none never fills anything.
    pub most: Option<f64>,
}
