//! Where all memory is: a tree of parts that exclude each other and add up, for every output format; and
//! who holds memory, which only such an account needs to know.

use crate::{Missing, Reading};
use mw_proc::cgroup::MemoryStat;
use mw_proc::sockstat::Sockstat;
use serde::Serialize;

/// The version of the JSON form of [`MemoryAccount`]; it goes up when a consumer could break.
pub const ACCOUNT_SCHEMA: u32 = 1;

/// The account of all memory of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct MemoryAccount {
    /// [`ACCOUNT_SCHEMA`].
    pub schema: u32,
    /// The version of memwright that made it.
    pub memwright: String,
    /// `live`, or the tree that was read.
    pub root: String,
    /// The kernel's version, where it is known.
    pub kernel: Option<String>,
    /// Time at which the counters were read, in milliseconds since 1970.
    pub taken_unix_ms: Option<u64>,
    /// The answer in one sentence.
    pub summary: String,
    /// MemTotal. The parts add up to it and `overcounted_bytes`.
    pub total_bytes: u64,
    /// By how much the parts exceed the total, because the kernel updates its counters in batches and reads
    /// them one after the other.
    pub overcounted_bytes: u64,
    /// The parts, in a fixed order; those of no bytes are left out.
    pub parts: Vec<AccountEntry>,
    /// The processes with the most anonymous memory. Pages that processes share after fork(2) count in
    /// each of them, so that these add up to nothing.
    pub processes: Vec<ProcessUse>,
    /// Evidence that could not be read, and so is in no part of its own.
    pub unseen: Vec<Missing>,
}

/// A part of memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct AccountEntry {
    /// The name for programs, or empty for a holder such as a cgroup or a file.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub id: String,
    /// Name of the part, or its holder.
    pub name: String,
    pub bytes: u64,
    /// The files and lines that it is computed from.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub source: String,
    /// Further facts about it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub note: Option<String>,
    /// Its parts, which add up to it; none where it has no parts.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub parts: Vec<AccountEntry>,
}

/// Memory that a process has mapped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ProcessUse {
    pub pid: u32,
    pub name: String,
    /// RssAnon of /proc/PID/status.
    pub anon_bytes: u64,
    /// RssShmem of /proc/PID/status.
    pub shared_bytes: u64,
}

/// Holders of memory: they take longer to find than a snapshot may take.
#[derive(Debug, Clone, Default)]
pub struct Holders {
    /// Memory cgroups.
    pub groups: Reading<GroupMemories>,
    /// Files that processes have open or mapped.
    pub files: Reading<HeldFiles>,
    /// Buffers of sockets.
    pub sockets: Reading<Sockstat>,
}

/// Memory that is charged to memory cgroups.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GroupMemories {
    /// Each group with those below it, as the kernel counts.
    pub list: Vec<GroupMemory>,
    /// True if all groups were read.
    pub complete: bool,
}

/// Memory that is charged to a memory cgroup and those below it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GroupMemory {
    /// Its path below the hierarchy's root, `/` for the root itself.
    pub path: String,
    pub stat: MemoryStat,
}

/// Memory that open and mapped files hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HeldFiles {
    /// Each file once.
    pub files: Vec<HeldFile>,
    /// Data in pipes. Each write may begin a page, so that their buffers take at least this much.
    pub pipe_bytes: u64,
    /// True if all processes and files were read.
    pub complete: bool,
}

/// The page cache of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeldFile {
    /// Its path in its process's mount namespace.
    pub path: String,
    /// A process that has it open or mapped.
    pub pid: u32,
    /// The name of that process.
    pub process: String,
    /// True if it is shared memory: a memfd or a file of a tmpfs.
    pub is_shared_memory: bool,
    /// True if it is a file of a mounted tmpfs, which is counted with its mount.
    pub is_on_tmpfs: bool,
    /// The part of it that is in memory.
    pub cached_bytes: u64,
    /// The part of that which is dirty or under writeback.
    pub unwritten_bytes: u64,
}

impl HeldFile {
    /// The part of it that can be dropped.
    #[must_use]
    pub const fn clean_bytes(&self) -> u64 {
        self.cached_bytes.saturating_sub(self.unwritten_bytes)
    }
}
