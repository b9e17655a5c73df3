//! Limits of number that a service is at.

use serde::{Deserialize, Serialize};

/// A limit that a service was at during a stall, as the kernel's files said.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReachedLimit {
    pub kind: ReachedLimitKind,
    /// The process (`name (pid)`), the cgroup's path below its mount, or the mount point of the file system.
    pub holder: String,
    /// Descriptors, tasks, bytes or inodes.
    pub used: u64,
    pub limit: u64,
}

/// The object of a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReachedLimitKind {
    /// Open files of a process (`RLIMIT_NOFILE`).
    #[default]
    OpenFiles,
    /// Tasks of a cgroup (`pids.max`).
    Tasks,
    /// Space of a file system for users other than root.
    DiskSpace,
    /// Inodes of a file system.
    Inodes,
}
