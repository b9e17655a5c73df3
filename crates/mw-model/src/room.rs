//! Room for large memory: what `make-room` would do or has done, for every output format.

use crate::{Answer, Missing, Request, Share, format_bytes, format_duration_ms};
use serde::Serialize;
use std::fmt;

/// The version of the JSON form of [`RoomReport`]; it goes up when a consumer could break.
pub const ROOM_SCHEMA: u32 = 1;

/// Steps that `make-room` would take or has taken.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct RoomReport {
    /// [`ROOM_SCHEMA`].
    pub schema: u32,
    /// The answer in one line.
    pub summary: String,
    pub request: Request,
    /// True if nothing was done.
    pub dry_run: bool,
    /// Result: the memory is available; of a dry run, it would be.
    pub answer: Answer,
    /// Provided size of the request, in bytes.
    pub available_bytes: u64,
    /// The steps in order; those of one kind that follow each other are one.
    pub steps: Vec<RoomStep>,
    /// Its cost; absent of a dry run.
    pub cost: Option<RoomCost>,
    /// Changes in the journal that are still in force, for `memwright undo`.
    pub changes: Vec<u64>,
    /// Memory that no step could free, by holder, where the request was not met.
    pub unreclaimable: Vec<Share>,
    /// Evidence that could not be read or used, with the reason.
    pub unseen: Vec<Missing>,
}

/// A step on the way to the requested memory.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct RoomStep {
    pub kind: RoomStepKind,
    /// The node that it is done on.
    pub node: u32,
    /// Size that it is to provide, in bytes.
    pub bytes: u64,
    /// Size that it provided, in bytes; absent of a dry run.
    pub gained_bytes: Option<u64>,
    /// Duration; absent of a dry run.
    pub took_ms: Option<f64>,
}

/// The kinds of steps, the cheapest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RoomStepKind {
    /// Pages are added to the hugetlb pool from free blocks.
    GrowPool,
    /// Cached pages behind the position of sequential readers and writers are dropped.
    DropRead,
    /// Clean page cache is reclaimed, the least recently used first.
    Reclaim,
    /// Anonymous memory is moved to another node.
    Migrate,
    /// Anonymous memory is swapped out.
    Swap,
    /// Pages are moved together, so that whole blocks become free.
    Compact,
    /// Pages are added to the pool while the kernel compacts and reclaims for each.
    ForcePool,
}

impl fmt::Display for RoomStepKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::GrowPool => "grow the pool from free blocks",
            Self::DropRead => "drop cache behind sequential readers",
            Self::Reclaim => "reclaim page cache",
            Self::Migrate => "move memory to other nodes",
            Self::Swap => "swap out",
            Self::Compact => "compact",
            Self::ForcePool => "grow the pool with kernel compaction and reclaim",
        })
    }
}

/// The cost of making room. Counters of the whole machine include others' work of that time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct RoomCost {
    /// Page cache that was dropped or reclaimed.
    pub dropped_bytes: u64,
    /// Memory that was swapped out.
    pub swapped_bytes: u64,
    /// Memory that was moved.
    pub migrated_bytes: u64,
    /// Page cache that was read again after it had been reclaimed.
    pub refaulted_bytes: u64,
    pub took_ms: f64,
    /// The part of that in which it waited, because others stalled.
    pub paused_ms: f64,
    /// For how long others stalled for memory, as estimated from PSI; absent without PSI.
    pub stall_ms: Option<f64>,
}

impl fmt::Display for RoomCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_duration_ms(self.took_ms))?;
        for (bytes, what) in [
            (self.dropped_bytes, "of cache dropped"),
            (self.refaulted_bytes, "read again"),
            (self.swapped_bytes, "swapped out"),
            (self.migrated_bytes, "moved"),
        ] {
            if bytes > 0 {
                write!(f, ", {} {what}", format_bytes(bytes))?;
            }
        }
        if self.paused_ms > 0.0 {
            write!(f, ", paused for {}", format_duration_ms(self.paused_ms))?;
        }
        match self.stall_ms {
            Some(ms) => write!(f, ", others stalled for about {ms:.0} ms"),
            None => f.write_str(", stalls of others not known (no PSI)"),
        }
    }
}
