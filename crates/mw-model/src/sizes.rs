//! How much memory each holder has, and how much is left of huge pages, at one moment and over time.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A size that is recorded: of a holder of memory, or of the huge pages that are left.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum SizedHolder {
    /// All memory that is not available: MemTotal less MemAvailable.
    Machine,
    /// Shmem of /proc/meminfo: tmpfs, memfd, System V segments and shared anonymous memory.
    SharedMemory,
    /// PageTables of /proc/meminfo.
    PageTables,
    /// SUnreclaim of /proc/meminfo.
    UnreclaimableSlab,
    /// Anonymous memory of a process, swapped memory included.
    Process {
        pid: u32,
        /// In ticks since boot: with the number it tells a process from a later one.
        started_ticks: u64,
        name: String,
    },
    /// Memory that a memory cgroup and those below it hold and no reclaim frees without swap: anonymous and shared
    /// memory, kernel objects, page tables.
    Cgroup { path: String },
    /// A cache of kernel objects that the kernel cannot reclaim.
    SlabCache { name: String },
    /// The files of a tmpfs.
    Tmpfs { target: String },
    /// Pages of a hugetlb pool that are free and not reserved. `node` is none for the machine.
    PoolPages { page_bytes: u64, node: Option<u32> },
    /// Memory that can certainly become whole pages of this size: free blocks, and those that reclaim and compaction
    /// empty. `node` is none for the machine.
    Contiguous { page_bytes: u64, node: Option<u32> },
}

/// The size of a holder at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HolderSize {
    pub holder: SizedHolder,
    pub bytes: u64,
    /// Its own size limit.
    pub limit_bytes: Option<u64>,
}

/// Sizes of holders over time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SizeHistory {
    /// Time at which sizes were recorded, in milliseconds since 1970.
    pub at_unix_ms: Vec<u64>,
    pub series: Vec<SizeSeries>,
}

/// The size of one holder over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeSeries {
    pub holder: SizedHolder,
    /// Its last limit.
    pub limit_bytes: Option<u64>,
    /// Milliseconds since 1970, and bytes. A small holder is not always recorded.
    pub sizes: Vec<(u64, u64)>,
}

impl SizedHolder {
    /// The holder with this name; `None` for one of a later version.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let (kind, rest) = name.split_once('.').unwrap_or((name, ""));
        Some(match kind {
            "machine" => Self::Machine,
            "shared-memory" => Self::SharedMemory,
            "page-tables" => Self::PageTables,
            "unreclaimable-slab" => Self::UnreclaimableSlab,
            "process" => {
                let (pid, rest) = rest.split_once('.')?;
                let (started, name) = rest.split_once('.')?;
                Self::Process {
                    pid: pid.parse().ok()?,
                    started_ticks: started.parse().ok()?,
                    name: name.to_owned(),
                }
            }
            "cgroup" => Self::Cgroup { path: rest.to_owned() },
            "slab" => Self::SlabCache { name: rest.to_owned() },
            "tmpfs" => Self::Tmpfs { target: rest.to_owned() },
            "pool-pages" => {
                let (page_bytes, node) = pages(rest)?;
                Self::PoolPages { page_bytes, node }
            }
            "contiguous" => {
                let (page_bytes, node) = pages(rest)?;
                Self::Contiguous { page_bytes, node }
            }
            _ => return None,
        })
    }
}

/// `2097152` of the machine, `2097152.0` of its node 0.
fn pages(text: &str) -> Option<(u64, Option<u32>)> {
    match text.split_once('.') {
        Some((bytes, node)) => Some((bytes.parse().ok()?, Some(node.parse().ok()?))),
        None => Some((text.parse().ok()?, None)),
    }
}

/// The name in a recording, for [`SizedHolder::from_name`].
impl fmt::Display for SizedHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine => f.write_str("machine"),
            Self::SharedMemory => f.write_str("shared-memory"),
            Self::PageTables => f.write_str("page-tables"),
            Self::UnreclaimableSlab => f.write_str("unreclaimable-slab"),
            Self::Process { pid, started_ticks, name } => {
                write!(f, "process.{pid}.{started_ticks}.{name}")
            }
            Self::Cgroup { path } => write!(f, "cgroup.{path}"),
            Self::SlabCache { name } => write!(f, "slab.{name}"),
            Self::Tmpfs { target } => write!(f, "tmpfs.{target}"),
            Self::PoolPages { page_bytes, node } => {
                write!(f, "pool-pages.{page_bytes}")?;
                node.map_or(Ok(()), |node| write!(f, ".{node}"))
            }
            Self::Contiguous { page_bytes, node } => {
                write!(f, "contiguous.{page_bytes}")?;
                node.map_or(Ok(()), |node| write!(f, ".{node}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let name = "a.b (c)".to_owned();
        for holder in [
            SizedHolder::Machine,
            SizedHolder::SharedMemory,
            SizedHolder::PageTables,
            SizedHolder::UnreclaimableSlab,
            SizedHolder::Process { pid: 7, started_ticks: 123, name: name.clone() },
            SizedHolder::Cgroup { path: "/app.slice/x".to_owned() },
            SizedHolder::SlabCache { name },
            SizedHolder::Tmpfs { target: "/dev/shm".to_owned() },
            SizedHolder::PoolPages { page_bytes: 1 << 30, node: None },
            SizedHolder::Contiguous { page_bytes: 2 << 20, node: Some(3) },
        ] {
            assert_eq!(SizedHolder::from_name(&holder.to_string()), Some(holder));
        }
        for other in ["", "gpu.0", "process.x.1.a", "process.1", "contiguous.x", "pool-pages.1.x"] {
            assert_eq!(SizedHolder::from_name(other), None, "{other}");
        }
    }
}
