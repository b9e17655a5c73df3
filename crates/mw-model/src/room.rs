//! Room for large memory: what `make-room` would do or has done, for every output format.

use crate::{Answer, Missing, Request, Share};
use serde::Serialize;

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

/// What making room did, or would do, before mw-render puts it in words ([`RoomReport`]).
#[derive(Debug, Clone, PartialEq)]
pub struct RoomOutcome {
    pub request: Request,
    /// True if nothing was to be done.
    pub dry_run: bool,
    pub answer: Answer,
    /// Provided size of the request, in bytes.
    pub available_bytes: u64,
    pub end: RoomEnd,
    pub steps: Vec<RoomStep>,
    /// Changes in the journal that are still in force.
    pub changes: Vec<u64>,
    /// Memory that no step could free, by holder.
    pub unreclaimable: Vec<Share>,
    /// Evidence that could not be read or used.
    pub unseen: Vec<Missing>,
}

/// The end of making room, with its cost where something was done.
#[derive(Debug, Clone, PartialEq)]
pub enum RoomEnd {
    /// Nothing was done.
    Planned {
        /// Part of the request that is possible at most.
        possible_bytes: u64,
    },
    Provided(RoomCost),
    Stopped(RoomStop, RoomCost),
}

/// The reason that making room ended before the memory was available.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RoomStop {
    NoStepRemains,
    /// Others stalled for longer than they may.
    StallLimit {
        stalled_ms: f64,
        limit_ms: f64,
    },
    TimeLimit {
        limit_s: f64,
    },
    /// No more page cache may be dropped.
    DropLimit,
    /// A signal came that ends a program.
    Interrupted,
}
