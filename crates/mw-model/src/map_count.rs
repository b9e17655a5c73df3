//! How many mappings processes have, which `vm.max_map_count` limits.

use crate::Missing;

/// The setting with the limit.
pub const MAX_MAP_COUNT: &str = "vm.max_map_count";

/// From this share of the limit on a process is close to it.
const NEAR_LIMIT_PERCENT: u64 = 90;

/// The processes whose mappings were counted: only those that may be close to the limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MapCounts {
    pub list: Vec<MapCount>,
    /// The reason why some processes that may be close to the limit were not counted.
    pub unseen: Option<Missing>,
}

/// One process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapCount {
    pub pid: u32,
    pub mappings: u64,
    /// True if these are all; otherwise there may be more.
    pub is_whole: bool,
}

/// The fewest mappings that are close to the limit.
pub fn near_limit(limit: u64) -> u64 {
    (u128::from(limit) * u128::from(NEAR_LIMIT_PERCENT)).div_ceil(100) as u64
}
