//! What the OOM killer did, and who held the memory.

use crate::{ServiceProcess, is_cgroup_within};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kills of the OOM killer from one time to another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OomKills {
    /// Number of kills, by the kernel's counter or by its log, whichever is more.
    pub count: u64,
    /// In milliseconds since 1970.
    pub first_unix_ms: u64,
    pub last_unix_ms: u64,
    /// Victims, as far as the kernel's log names them: by name, group and limit, the first first.
    pub victims: Vec<OomVictim>,
    /// Holders of most memory at the first kill, the largest first.
    pub holders: Vec<MemoryHolder>,
    /// Source of the holders.
    pub holders_source: String,
    /// State of the probed services that lost a process.
    pub services: Vec<ServiceFate>,
    /// The reason why victims or holders are not known, where they are not.
    pub unseen: Option<String>,
}

/// Processes of one name that were killed for the same shortage.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OomVictim {
    /// The last of them. The number is 0 where the kernel's log counts in another PID namespace.
    pub process: ServiceProcess,
    pub count: u64,
    pub first_unix_ms: u64,
    pub last_unix_ms: u64,
    pub shortage: OomShortage,
    /// The limit that was met, where it was a cgroup's.
    pub limit_bytes: Option<u64>,
    /// The cgroup that the process was in.
    pub cgroup: Option<String>,
    /// The cgroup whose allocation failed.
    pub invoked_by: Option<String>,
    /// Resident memory of the last of them.
    pub resident_bytes: Option<u64>,
    /// The cgroup of the processes, if the kernel names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<u32>,
}

/// The latest kills, apart from one another: those of a cgroup at its limit are as many as its owner likes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OomHistory {
    /// Caused by a shortage of the machine, or of the nodes that a cpuset or a policy allows.
    pub of_machine: Option<OomVictim>,
    pub of_cgroup: Option<OomVictim>,
}

impl OomHistory {
    /// Takes a kill that came after those before.
    pub fn add(&mut self, victim: OomVictim) {
        let last = match victim.shortage {
            OomShortage::Cgroup(_) => &mut self.of_cgroup,
            _ => &mut self.of_machine,
        };
        *last = Some(victim);
    }

    /// The last one of all.
    #[must_use]
    pub fn last(&self) -> Option<&OomVictim> {
        [&self.of_machine, &self.of_cgroup]
            .into_iter()
            .flatten()
            .max_by_key(|victim| victim.last_unix_ms)
    }
}

/// The domain that had no memory left.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum OomShortage {
    Machine,
    /// The nodes that a cpuset allows.
    Cpuset,
    /// The nodes that a memory policy allows.
    MemoryPolicy,
    /// A cgroup at its limit; `None` where the kernel does not say which.
    Cgroup(Option<String>),
    #[default]
    Unknown,
}

/// A process and the memory that it held.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryHolder {
    pub process: ServiceProcess,
    /// Resident memory.
    pub resident_bytes: u64,
    pub swapped_bytes: u64,
    /// True if it had ended when the incident was seen, where the kernel's log does not say who was killed.
    #[serde(skip_serializing_if = "is_false")]
    pub has_ended: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(value: &bool) -> bool {
    !value
}

/// State of a probed service of which the OOM killer killed a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceFate {
    pub probe: String,
    /// The process from which those of the service come, as it was before.
    pub former: ServiceProcess,
    /// True if that process still runs.
    pub still_runs: bool,
    /// True if a socket listens at the probe's address; `None` for a probe without one.
    pub listens: Option<bool>,
    /// The process that listens there, if that is visible.
    pub listener: Option<ServiceProcess>,
    /// True if the last request that was sent since was answered; `None` where none has ended.
    pub answers: Option<bool>,
}

/// Page cache that was dropped by hand (/proc/sys/vm/drop_caches).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheDrop {
    /// Time at which the kernel logged it, in milliseconds since 1970.
    pub at_unix_ms: u64,
    /// The value that was written: 1 drops page cache, 2 kernel objects, 3 both.
    pub value: u32,
    /// The writer. The number is 0 if the kernel's log counts in another PID namespace.
    pub writer: WriterProcess,
}

/// A process that wrote to a file of the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WriterProcess {
    pub process: ServiceProcess,
    /// Its parent, where it still ran when it was looked at.
    pub parent: Option<ServiceProcess>,
    pub cgroup: Option<String>,
    pub unit: Option<String>,
}

impl OomKills {
    /// True if a process of a cgroup, or of one below it, was killed or the limit of one above it was met.
    pub fn concerns(&self, cgroup: &str) -> bool {
        self.victims.iter().any(|victim| {
            let own = victim.cgroup.as_deref();
            let of_limit = match &victim.shortage {
                OomShortage::Cgroup(limit) => limit.as_deref(),
                _ => None,
            };
            own.is_some_and(|own| is_cgroup_within(own, cgroup))
                || of_limit.is_some_and(|limit| is_cgroup_within(cgroup, limit))
        })
    }

    /// True if each kill is known to have been for the limit of a cgroup.
    pub fn are_of_cgroups(&self) -> bool {
        let known = self.victims.iter().map(|victim| victim.count).fold(0, u64::saturating_add);
        let of_cgroup =
            |victim: &OomVictim| matches!(victim.shortage, OomShortage::Cgroup(Some(_)));
        known >= self.count && self.victims.iter().all(of_cgroup)
    }
}
