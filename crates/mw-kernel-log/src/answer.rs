//! The answer that a log gives, for people and programs.

use crate::cause::{CgroupLimitKind, LogCause};
use crate::gfp::GfpMask;
use crate::holders::{LogShare, TaskShare};
use crate::zones::ZoneVerdict;
use schemars::JsonSchema;
use serde::Serialize;

/// Version of the JSON of [`KernelLogAnswer`].
pub const KERNEL_LOG_SCHEMA: u32 = 1;

/// What a kernel log says about memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct KernelLogAnswer {
    /// Version of this format.
    pub schema: u32,
    /// Version of memwright.
    pub memwright: String,
    /// The answer in one line.
    pub summary: String,
    /// Reports of one kind and cause together, the most telling first.
    pub groups: Vec<ReportGroup>,
    /// Kills of daemons, words that mislead, and limits of what was read.
    pub notes: Vec<String>,
}

/// Reports of one kind and cause.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ReportGroup {
    pub kind: GroupKind,
    /// None for what a daemon did.
    pub cause: Option<LogCause>,
    /// The group in one line.
    pub summary: String,
    pub count: u64,
    /// Time of the first and of the last as the log has it.
    pub first: Option<String>,
    pub last: Option<String>,
    /// The page, as labelled paragraphs.
    pub rows: Vec<AnswerRow>,
    pub request: Option<LogRequest>,
    pub cgroup: Option<CgroupFacts>,
    pub zones: Vec<ZoneVerdict>,
    /// Parts of the machine's memory, the largest first.
    pub held: Vec<LogShare>,
    /// Tasks by name, the largest first.
    pub tasks: Vec<TaskShare>,
    pub victims: Vec<VictimFacts>,
}

/// Kinds of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GroupKind {
    OomKill,
    DaemonKill,
    AllocationFailure,
    AllocationStall,
    HungTask,
    Lockup,
}

/// A labelled paragraph of the page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AnswerRow {
    pub label: String,
    pub text: String,
}

/// A request for memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LogRequest {
    pub by: Option<String>,
    pub pid: Option<u32>,
    pub order: Option<i32>,
    pub bytes: Option<u64>,
    pub flags: Option<GfpMask>,
}

/// A cgroup at its limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CgroupFacts {
    /// The cgroup whose limit was met.
    pub limit_of: Option<String>,
    /// The cgroup of the task.
    pub task_in: Option<String>,
    pub limit: CgroupLimitKind,
    pub limit_bytes: Option<u64>,
    pub usage_bytes: Option<u64>,
    /// The file of the limit.
    pub file: String,
}

/// A process that was killed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct VictimFacts {
    pub name: String,
    /// In the kernel's first PID namespace.
    pub pid: u32,
    pub resident_bytes: Option<u64>,
}
