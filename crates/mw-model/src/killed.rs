//! Processes that were sent a fatal signal: the sender, and the reason.

mod words;

use crate::fair::cgroup_tree;
use crate::{OomShortage, ServiceProcess};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Version of the JSON of [`KillList`].
pub const KILLS_SCHEMA: u32 = 1;

/// A process that was sent a fatal signal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProcessKill {
    /// In milliseconds since 1970.
    pub unix_ms: u64,
    pub signal: FatalSignal,
    pub victim: KillParty,
    pub killer: Killer,
    pub reason: KillReason,
    /// The task that sent the signal, as far as it could be read before it ended. For a signal of the kernel, the task
    /// in whose context it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<KillParty>,
    /// The line of a log that gives the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// Evidence that it was a kill.
    pub source: KillSource,
    /// Further kills about that time, which were too many to be told apart.
    #[serde(skip_serializing_if = "is_zero")]
    pub more: u64,
    /// What could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// A process at one end of a signal. The number is 0 where it is not known, the name is empty where it could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KillParty {
    pub process: ServiceProcess,
    /// Its user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The systemd unit, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<ServiceProcess>,
}

/// Signals that end a process and that somebody may have sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FatalSignal {
    #[default]
    Kill,
    Term,
    Abort,
}

/// Evidence of a kill.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KillSource {
    /// The kernel's tracepoint `signal:signal_generate`, as the recorder saw it.
    #[default]
    Signal,
    KernelLog,
    Journal,
}

/// The program or the part of the kernel that killed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Killer {
    /// The kernel's OOM killer.
    OomKiller,
    /// A daemon that kills because of memory: systemd-oomd, earlyoom, nohang.
    OomDaemon(String),
    Kubelet,
    /// A container runtime, for the caller of its interface.
    ContainerRuntime(String),
    /// A service manager of systemd: that of the system, or of a user.
    Systemd,
    /// Any other process.
    Process,
    /// The kernel for another reason than memory.
    Kernel,
    /// The sender could not be read, or only the end of the process is known.
    #[default]
    Unknown,
}

/// The reason of a kill, as far as there is evidence of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KillReason {
    /// The OOM killer's: who had no memory left.
    OutOfMemory(OomShortage),
    /// Memory pressure of this cgroup was above a limit of systemd-oomd.
    MemoryPressure(String),
    /// Swap and memory of the machine were used beyond a limit of systemd-oomd.
    SwapUse,
    /// Available memory was below a limit of a daemon.
    LowMemory,
    /// The kubelet evicted the pod, because the node was short of this resource.
    Eviction(String),
    /// systemd ended the unit, because the OOM killer had killed a process of it.
    OomPolicy(String),
    /// The unit did not stop in time.
    StopTimeout(String),
    /// The unit did not start in time.
    StartTimeout(String),
    /// The unit did not report to systemd's watchdog in time.
    Watchdog(String),
    /// The unit ran for as long as it may.
    RuntimeLimit(String),
    /// systemd ended the rest of the unit.
    UnitEnded(String),
    /// Somebody asked systemd for the signal.
    ClientRequest(String),
    /// The container did not stop in time.
    ContainerStopTimeout,
    /// Somebody asked the container runtime for the signal.
    ContainerRequest,
    /// The process used as much CPU time as it may, in seconds.
    CpuTimeLimit(u64),
    /// The first process of the PID namespace had ended.
    NamespaceEnded,
    #[default]
    Unknown,
}

/// Kills of a recording, of the journal and of the kernel's log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KillList {
    /// Version of this format.
    pub schema: u32,
    /// Version of memwright.
    pub memwright: String,
    /// The answer in one line: the last kill.
    pub summary: String,
    /// In milliseconds since 1970: earlier kills are not listed.
    pub since_unix_ms: u64,
    /// Kills, the earliest first.
    pub kills: Vec<ProcessKill>,
    /// Sources that could not be read, and limits of what was read.
    pub notes: Vec<String>,
}

impl FatalSignal {
    pub fn from_number(number: i64) -> Option<Self> {
        match number {
            9 => Some(Self::Kill),
            15 => Some(Self::Term),
            6 => Some(Self::Abort),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Kill => "SIGKILL",
            Self::Term => "SIGTERM",
            Self::Abort => "SIGABRT",
        }
    }
}

impl KillReason {
    /// True if memory was the reason; the sender does not matter.
    #[must_use]
    pub fn is_of_memory(&self) -> bool {
        use KillReason::{Eviction, LowMemory, MemoryPressure, OomPolicy, OutOfMemory, SwapUse};
        match self {
            OutOfMemory(_) | MemoryPressure(_) | SwapUse | LowMemory | OomPolicy(_) => true,
            Eviction(resource) => resource == "memory",
            _ => false,
        }
    }
}

impl ProcessKill {
    /// Source of the kill, for [`crate::fair::place_to_free`]: the user, service or container whose process it was.
    #[must_use]
    pub fn source_name(&self) -> String {
        let tree = self.victim.cgroup.as_deref().map(cgroup_tree).filter(|tree| !tree.is_empty());
        let user = || self.victim.uid.map_or(String::new(), |uid| format!("user {uid}"));
        tree.unwrap_or_else(user)
    }

    /// True if memory was the reason, or the killer is a program that kills for no other.
    #[must_use]
    pub fn is_of_memory(&self) -> bool {
        self.reason.is_of_memory()
            || matches!(self.killer, Killer::OomKiller | Killer::OomDaemon(_))
    }
}

/// `postgres (pid 812)`; foreign text is as it was read.
impl fmt::Display for KillParty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ServiceProcess { pid, name } = &self.process;
        match (name.as_str(), pid) {
            ("", 0) => f.write_str("a process"),
            ("", pid) => write!(f, "pid {pid}"),
            (name, 0) => f.write_str(name),
            (name, pid) => write!(f, "{name} (pid {pid})"),
        }
    }
}
