//! The passive collectors of the slower parts of a snapshot, each named after the kernel file that
//! it reads. What is one file and one parser needs no collector: [`crate::snapshot`] reads it itself. All of them read and none of them writes, waits or takes a lock that stalls others:
//! no smaps, numa_maps or pagetypeinfo.

pub(crate) mod block;
pub(crate) mod cgroup;
pub(crate) mod hugepages;
pub(crate) mod map_count;
pub(crate) mod memory_blocks;
pub(crate) mod mounts;
pub(crate) mod node;
pub(crate) mod open_files;
mod process_files;
pub(crate) mod processes;
pub(crate) mod sysctl;
pub(crate) mod sysvipc;
pub(crate) mod transparent_hugepage;
pub(crate) mod zram;
