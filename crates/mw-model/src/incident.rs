//! A stall with its evidence, as it is kept, shown and explained.

use crate::derived::USUAL_PAGE_BYTES;
use crate::{
    BlameShare, CacheDrop, Finding, GroupUse, HeartbeatReport, Missing, OomKills, Outage,
    ProcessKill, Profile, ReachedLimit, SegmentDelivery, Service, ServiceConnection, ServiceView,
    Shift, StoppedDevice, Subject, Table, WriterProcess,
};
use mw_critical_path::PathSummary;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Version of the form in which incidents are kept; a reader refuses a newer one.
pub const INCIDENT_SCHEMA: u32 = 2;

/// A stall with what was seen before, during and after it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Incident {
    /// [`INCIDENT_SCHEMA`] of the program that wrote it.
    pub schema: u32,
    /// Its number in the recording, from 1.
    pub id: u64,
    pub state: IncidentState,
    pub host: Host,
    /// The process that recorded it; 0 in recordings that do not say.
    pub recorder: u32,
    /// Trigger of the stall.
    pub trigger: Trigger,
    /// Time at which the measurement that passed its limit began, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Time at which the recorder detected that the limit had passed.
    pub seen_unix_ms: u64,
    /// Time at which measurements were below their limits again, or the evidence was closed.
    pub ended_unix_ms: u64,
    /// The answer in one line.
    pub verdict: String,
    /// Causes, the most likely first. Empty if the cause is unknown.
    pub causes: Vec<Cause>,
    /// Contributing causes, which explain less than half of the stall.
    pub contributed: Vec<Cause>,
    /// Causes that were ruled out, with the reason; reported if the cause is unknown.
    pub ruled_out: Vec<RuledOut>,
    /// The critical path of the slowest request.
    pub path: Option<PathSummary>,
    /// The service that was probed.
    pub service: Option<Service>,
    /// Delivery of the slowest request's segments, where its probe asks over TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<SegmentDelivery>,
    /// Connections on which processes of the service, those that it asked and the probe's command waited for the other
    /// end during the stall.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub connections: Vec<ServiceConnection>,
    /// Limits of number that the service was at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reached_limits: Vec<ReachedLimit>,
    /// Block devices that were held still.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stopped_devices: Vec<StoppedDevice>,
    /// State of the service, if its probe failed.
    pub outage: Option<Outage>,
    /// The signal that ended the service, with its sender, where the recorder saw it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kill: Option<ProcessKill>,
    /// Kills of the OOM killer during the stall, if there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom: Option<OomKills>,
    /// Page cache that was dropped by hand shortly before or meanwhile, as the kernel's log says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cache_drops: Vec<CacheDrop>,
    /// Late heartbeats that cluster software reported during the stall and shortly after: a reader adds them from logs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub heartbeats: Vec<HeartbeatReport>,
    /// Processes that forced memory work by a write to a file of the kernel, as the profile shows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub writers: Vec<WriterProcess>,
    /// The service's own view of its sessions during the stall.
    pub service_view: Option<ServiceView>,
    /// Use and waits of cgroups during the stall.
    pub groups: Vec<GroupUse>,
    /// CPU time of the stall, by use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuUse>,
    /// Fast counters, probes and canary, ten rows a second, from before the stall to after it; fewer before it was seen.
    pub table: Table,
    /// The rolling baseline that the stall is compared with.
    pub baseline: Option<Profile>,
    /// Kernel profile of the stall.
    pub profile: Option<Profile>,
    /// Kernel functions by how much their share of the CPUs changed, the largest growth
    /// first.
    pub difference: Vec<Shift>,
    /// Waits inside the kernel, by task, kind, order and node; the longest total first.
    pub waits: Vec<KernelWait>,
    /// Tasks that were found blocked (state D) or stopped (T, t), the most often seen first.
    pub blocked: Vec<BlockedTask>,
    /// Use of tasks from shortly before the stall to its end, the most CPU time first.
    pub tasks: Vec<TaskUse>,
    /// Tasks that brought pages into the page cache, the most first.
    pub flood: Vec<FloodShare>,
    /// The cgroups of processes and threads that are named here, by number, below the hierarchy's root; of
    /// those that were alive when the evidence was taken.
    pub cgroups: BTreeMap<u32, String>,
    /// Tasks that suffered, the worst first.
    pub suffering: Vec<Role>,
    /// Tasks that caused it, the most likely first.
    pub causing: Vec<Role>,
    /// Time that the victim lost to each culprit. Empty in recordings of before 0.3: a reader computes it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blame: Vec<BlameShare>,
    /// Records of the profile and of tracepoints that were lost.
    pub lost_records: u64,
    /// Evidence that could not be read, and its requirement.
    pub unseen: Vec<Missing>,
}

/// Completeness of an incident.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IncidentState {
    /// The stall is over.
    #[default]
    Closed,
    /// The stall lasts; the cause is provisional.
    Open,
    /// The recorder ended during the stall.
    Interrupted,
}

/// A cause that was ruled out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RuledOut {
    /// A kind of cause: `reclaim`, `CPU contention`.
    pub what: String,
    /// The measurement: `no task of the service waited in it`.
    pub why: String,
}

/// The row of an incident in a list.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IncidentRow {
    /// Its number in the recording, from 1.
    pub id: u64,
    pub state: IncidentState,
    /// Time at which the measurement that passed its limit began, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Of an open incident, when it was updated last.
    pub ended_unix_ms: u64,
    /// Kind of measurement that triggered it.
    pub trigger_kind: TriggerKind,
    /// The probe's name, or that of the kind.
    pub trigger_name: String,
    /// Highest value of that measurement, in milliseconds.
    pub worst_ms: f64,
    /// The answer in one line.
    pub verdict: String,
    /// The rule of the first cause.
    pub cause: Option<String>,
    /// Subject of that cause: `cgroup /db`, `node 0 zone Normal`.
    pub subject: Option<Subject>,
    /// Confidence of that cause, 0 to 100.
    pub confidence_percent: Option<u8>,
    /// Kind of the probe's failure, if it failed.
    pub failure_kind: Option<FailureKind>,
}

/// The machine that an incident is from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    pub name: String,
    pub kernel: String,
    /// Version of memwright that recorded.
    pub memwright: String,
    /// CPUs online.
    pub cpus: u32,
    /// Memory that the kernel manages.
    pub memory_bytes: u64,
    /// Size of a base page; 0 in recordings that do not say.
    pub page_bytes: u64,
}

impl Host {
    /// Size of a base page, and the usual one where the recording does not say.
    #[must_use]
    pub fn page_bytes_or_usual(&self) -> u64 {
        match self.page_bytes {
            0 => USUAL_PAGE_BYTES,
            bytes => bytes,
        }
    }
}

/// The trigger of a stall.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Trigger {
    /// Kind of measurement.
    pub kind: TriggerKind,
    /// The probe's name, `canary`, `pressure`, `heartbeat`, `oom_kill` or `requested`.
    pub name: String,
    /// Its limit, in milliseconds.
    pub limit_ms: f64,
    /// Its highest value, in milliseconds: the slowest reply, the longest wait.
    pub worst_ms: f64,
    /// Kind of its failure, if it failed: refused, timed out, a wrong reply.
    pub failure: Option<String>,
    /// The kind of that failure.
    pub failure_kind: Option<FailureKind>,
}

/// Kind of measurement that triggered a stall.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TriggerKind {
    /// A probe of a service.
    #[default]
    Probe,
    /// The recorder's own paired probe: the latency of its page faults exceeded the limit.
    Canary,
    /// A pressure stall trigger of the kernel.
    Pressure,
    /// The canary came late, measured against the heartbeat's token timeout.
    Heartbeat,
    /// The OOM killer killed a process.
    OomKill,
    /// Somebody asked for evidence: no limit was exceeded.
    Requested,
}

/// Kind of failure of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// Nothing listens at the address.
    Refused,
    /// The peer reset the connection.
    Reset,
    /// The peer closed the connection without an answer.
    Closed,
    /// No route, or the network is down.
    Unreachable,
    /// The name of the host could not be resolved.
    NameResolution,
    /// The service refused the login.
    Authentication,
    Tls,
    /// The service answered with an HTTP status that is an error.
    HttpStatus,
    /// The command of an `exec:` probe ended with an error.
    ExitCode,
    /// The command of an `exec:` probe was ended by SIGKILL, as the OOM killer ends a process.
    Killed,
    /// The service could not allocate memory, as its protocol or the kernel says.
    OutOfMemory,
    /// A file system of the service was full, as its protocol or the kernel says.
    NoSpace,
    /// The service answered with an error.
    ServiceError,
    /// The answer was not one of this protocol.
    Malformed,
    TimedOut,
    Other,
}

/// The cause of a stall.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// The finding, with evidence, impact and remedy; its rule names the cause.
    #[serde(flatten)]
    pub finding: Finding,
    /// True if its rule is one of what else than memory stalls a service.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_outside_memory: bool,
    /// Confidence, 0 to 100: of causes with this confidence, so many are right.
    pub confidence_percent: u8,
    /// Score of the evidence, 0 to 100: causes are ranked by it, and `confidence_percent` is calibrated
    /// from. Without it, `confidence_percent` is the score: it was not calibrated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_percent: Option<u8>,
    /// Share of the request's time that it explains, in percent, if the critical path shows it.
    #[serde(default)]
    pub explains_percent: Option<u8>,
}

/// Kind of wait of a task inside the kernel.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum WaitKind {
    /// It had to reclaim memory itself before it got some.
    #[default]
    DirectReclaim,
    /// It reclaimed within its node (zone_reclaim_mode).
    NodeReclaim,
    /// It reclaimed within its cgroup's limit.
    CgroupReclaim,
    /// It compacted memory to make a large free block.
    Compaction,
    /// It was throttled for the dirty pages that it wrote.
    DirtyThrottle,
    /// It was throttled by the reclaimer, to let writeback get ahead.
    ReclaimThrottle,
    /// A page was read for it, from swap or from a file. How long that took no event says: the
    /// length is 0.
    Swap,
    /// It was chosen, or waited while one was chosen, by the OOM killer.
    Oom,
}

impl fmt::Display for WaitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::DirectReclaim => "direct reclaim",
            Self::NodeReclaim => "node reclaim",
            Self::CgroupReclaim => "cgroup reclaim",
            Self::Compaction => "compaction",
            Self::DirtyThrottle => "dirty throttling",
            Self::ReclaimThrottle => "reclaim throttling",
            // The kernel's event is of every page that was read from a disk, of files too.
            Self::Swap => "major page faults",
            Self::Oom => "OOM",
        })
    }
}

/// Waits of one kind, of one task, for one order and node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelWait {
    /// The thread; 0 for one outside of the recorder's PID namespace.
    pub pid: u32,
    pub task: String,
    pub kind: WaitKind,
    /// The order of the block that it wanted, where the kernel says.
    pub order: Option<u32>,
    /// The node, where the kernel says.
    pub node: Option<u32>,
    pub count: u64,
    /// Total time, in microseconds.
    pub total_us: u64,
    /// The longest, in microseconds.
    pub max_us: u64,
}

impl KernelWait {
    /// Shorter than anybody notices; as it is printed, nothing.
    const LEAST_US: u64 = 50;

    /// True if it lasted, or is of a kind of which only the number is known.
    #[must_use]
    pub fn is_worth_telling(&self) -> bool {
        self.total_us >= Self::LEAST_US || matches!(self.kind, WaitKind::Oom | WaitKind::Swap)
    }
}

/// A task that did not run because it could not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BlockedTask {
    /// The thread.
    pub pid: u32,
    pub task: String,
    /// Its state as /proc/PID/stat says: D, T or t.
    pub state: char,
    /// Kernel functions, innermost first as /proc/PID/stack prints them; empty where it may not be
    /// read.
    pub stack: Vec<String>,
    /// In how many looks it was found so.
    pub seen: u32,
    /// Number of samples.
    pub looks: u32,
}

impl BlockedTask {
    /// Share of the samples that found it so, in percent.
    pub fn seen_percent(&self) -> f64 {
        f64::from(self.seen) * 100.0 / f64::from(self.looks.max(self.seen).max(1))
    }
}

/// Resources that a task used over the time of an incident.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskUse {
    /// The process.
    pub pid: u32,
    pub task: String,
    /// CPU time in user mode, in milliseconds.
    pub user_ms: u64,
    /// CPU time in the kernel, in milliseconds.
    pub system_ms: u64,
    /// Faults that did not need a device.
    pub minor_faults: u64,
    /// Faults that did.
    pub major_faults: u64,
    /// Resident memory at the end.
    pub resident_bytes: u64,
    /// Growth of that.
    pub resident_growth_bytes: i64,
    /// Time since the process began, at the end.
    pub age_ms: Option<u64>,
    /// Bytes that it caused to be written to devices, where /proc/PID/io may be read.
    pub written_bytes: Option<u64>,
    /// Delays that the kernel accounts (taskstats), where that is enabled.
    pub delays: Option<Delays>,
}

/// Time that all CPUs together spent from the alarm of a stall on, by use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuUse {
    /// In programs, in the kernel and in interrupts.
    pub busy_ms: u64,
    /// A CPU would have run, but the hypervisor ran something else.
    pub stolen_ms: u64,
}

/// Delays of a task, from taskstats, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Delays {
    /// For a CPU.
    pub cpu_us: u64,
    /// For block devices.
    pub block_io_us: u64,
    /// For pages from swap.
    pub swap_in_us: u64,
    /// In direct reclaim.
    pub free_pages_us: u64,
    /// For pages that had been reclaimed shortly before.
    pub thrashing_us: u64,
    /// In direct compaction.
    pub compact_us: u64,
    /// In copying on write.
    pub write_copy_us: u64,
}

/// Pages that one process brought into the page cache by one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FloodShare {
    /// The process; 0 for one outside of the recorder's PID namespace.
    pub pid: u32,
    pub task: String,
    /// The file as the process sees it; `block device vdb`; `inode 42 on /var` or `device:inode` where its
    /// path could not be found.
    pub path: String,
    /// The block device of its file system: `dm-0`; `major:minor` where that has no name.
    pub device: String,
    /// Estimated pages: samples times the sampling period.
    pub pages: u64,
}

/// A task's part in a stall.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Role {
    /// The process or thread.
    pub pid: u32,
    pub task: String,
    /// The reason, in one line: `waited 2.3 s in compaction, 14 times`.
    pub why: String,
}

impl Cause {
    /// A cause with a score that is not calibrated yet, of which the share of the request is not known.
    pub fn new(finding: Finding, confidence_percent: u8) -> Self {
        Self {
            finding,
            is_outside_memory: false,
            confidence_percent,
            score_percent: None,
            explains_percent: None,
        }
    }

    /// Score of the evidence, in percent, whether or not its confidence is calibrated.
    pub fn score(&self) -> u8 {
        self.score_percent.unwrap_or(self.confidence_percent)
    }

    /// It explains so much of the request's time, in percent.
    #[must_use]
    pub fn explaining(self, percent: f64) -> Self {
        Self { explains_percent: Some(percent.clamp(0.0, 100.0).round() as u8), ..self }
    }
}

impl Trigger {
    /// True if a probe's request failed before its limit passed: an error, not a slow answer. A login that is refused
    /// is an error however long it took.
    pub fn failed_at_once(&self) -> bool {
        let is_login = self.failure_kind == Some(FailureKind::Authentication);
        self.kind == TriggerKind::Probe && (self.worst_ms < self.limit_ms || is_login)
    }
}

impl IncidentRow {
    /// Duration, in milliseconds.
    pub fn duration_ms(&self) -> u64 {
        self.ended_unix_ms.saturating_sub(self.started_unix_ms)
    }

    /// The slowest answer, in milliseconds: while a probe failed there was none.
    pub fn slowest_ms(&self) -> f64 {
        let outage_ms = self.failure_kind.map_or(0.0, |_| self.duration_ms() as f64);
        self.worst_ms.max(outage_ms)
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Refused => "connection refused",
            Self::Reset => "connection reset",
            Self::Closed => "connection closed",
            Self::Unreachable => "host unreachable",
            Self::NameResolution => "name resolution failed",
            Self::Authentication => "login refused",
            Self::Tls => "TLS error",
            Self::HttpStatus => "HTTP error",
            Self::ExitCode => "command failed",
            Self::Killed => "command killed",
            Self::OutOfMemory => "out of memory",
            Self::NoSpace => "no space left",
            Self::ServiceError => "service error",
            Self::Malformed => "malformed reply",
            Self::TimedOut => "timed out",
            Self::Other => "failed",
        })
    }
}

impl Incident {
    /// Its row in a list.
    #[must_use]
    pub fn row(&self) -> IncidentRow {
        let (trigger, cause) = (&self.trigger, self.causes.first());
        let failure = trigger.failure.as_ref().map(|_| FailureKind::Other);
        IncidentRow {
            id: self.id,
            state: self.state,
            started_unix_ms: self.started_unix_ms,
            ended_unix_ms: self.ended_unix_ms,
            trigger_kind: trigger.kind,
            trigger_name: trigger.name.clone(),
            worst_ms: trigger.worst_ms,
            verdict: self.verdict.clone(),
            cause: cause.map(|cause| cause.finding.rule.clone()),
            subject: cause.map(|cause| cause.finding.subject.clone()),
            confidence_percent: cause.map(|cause| cause.confidence_percent),
            failure_kind: trigger.failure_kind.or(failure),
        }
    }

    /// Duration, in milliseconds.
    pub fn duration_ms(&self) -> u64 {
        self.ended_unix_ms.saturating_sub(self.started_unix_ms)
    }

    /// Total wait of a kind over all tasks, in microseconds.
    pub fn waited_us(&self, kind: WaitKind) -> u64 {
        self.waits.iter().filter(|wait| wait.kind == kind).map(|wait| wait.total_us).sum()
    }
}
