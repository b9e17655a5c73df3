//! A pool server and its pools, for every output format.

use serde::Serialize;

/// The version of the JSON form of [`PoolReport`]; it goes up when a consumer could break.
pub const POOL_SCHEMA: u32 = 1;

/// A server and its pools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct PoolReport {
    /// The version of this format.
    pub schema: u32,
    /// The server.
    pub server: ServerRow,
    /// The pools that the asker may use, by name.
    pub pools: Vec<PoolRow>,
    /// The asker's leases; all of them if root asks.
    pub leases: Vec<LeaseRow>,
}

/// A lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct LeaseRow {
    /// Its number.
    pub id: u64,
    /// The pool that it is of.
    pub pool: String,
    /// Owner, by number.
    pub user: u32,
    /// The process that asked for it; others may have it by now.
    pub process: u32,
    /// Size.
    pub bytes: u64,
    /// active, draining (it is over, and somebody still has the memory) or kept.
    pub phase: &'static str,
    /// The name under which its contents are kept.
    pub keep: Option<String>,
    /// The System V segment whose memory it is.
    pub segment: Option<u32>,
}

/// A server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ServerRow {
    /// The bytes that pools may have together.
    pub budget_bytes: u64,
    /// The bytes that they have.
    pub pools_bytes: u64,
    /// Leases that were given since it started.
    pub leases_total: u64,
    /// Requests that were answered.
    pub requests_total: u64,
    /// Requests that were refused.
    pub refused_total: u64,
    /// Messages that were none, too long or too many.
    pub bad_messages_total: u64,
    /// Messages with descriptors, dropped; Linux 6.16 and later refuse them, uncounted.
    pub stray_descriptors_total: u64,
    /// True if the kernel says who still has memory that was released.
    pub proves: bool,
    /// True if a service manager keeps the memory while the server is restarted.
    pub stored: bool,
    /// Its shortage, in words; empty if there is none.
    pub lacks: String,
}

/// A pool. Its bytes add up to its size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct PoolRow {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Its pages: 4k, thp, 2M or 1G.
    pub pages: String,
    /// Memory policy: local, a list of nodes, or interleave and a list.
    pub nodes: String,
    /// Users who may have memory of it, by number.
    pub users: Vec<u32>,
    /// Groups whose members may, by number.
    pub groups: Vec<u32>,
    /// True if memory goes from one user to another in place.
    pub trusting: bool,
    /// Size of its stripes.
    pub stripe_bytes: u64,
    /// Zeroed and nobody's.
    pub ready_bytes: u64,
    /// Handed out.
    pub leased_bytes: u64,
    /// Released, and somebody still has it.
    pub draining_bytes: u64,
    /// Being zeroed.
    pub scrubbing_bytes: u64,
    /// Released, contents kept.
    pub kept_bytes: u64,
    /// Not populated yet.
    pub missing_bytes: u64,
    /// Leases, those included that drain and are kept.
    pub leases: u32,
    /// Leases that there were.
    pub leases_total: u64,
    /// Bytes that were zeroed since the server started.
    pub scrubbed_bytes_total: u64,
    /// True if its pages stay in memory.
    pub locked: bool,
    /// The reason that it is not complete; empty if it is.
    pub trouble: String,
}
