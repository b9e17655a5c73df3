//! The service that a probe monitors, and what cgroups did during a stall.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

/// The connection of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Connection {
    Tcp {
        /// The probe's own end; `None` while it connects, or when it was refused.
        local: Option<SocketAddr>,
        peer: SocketAddr,
    },
    Unix {
        path: PathBuf,
        /// The probe's own socket.
        inode: Option<u64>,
        /// The process that listened when it connected, by `SO_PEERCRED`.
        listener: Option<u32>,
    },
}

/// A probed service, found by its socket or configured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Service {
    /// Its processes, those that listen or hold the probe's connection first.
    pub processes: Vec<ServiceProcess>,
    /// The systemd unit, where there is one.
    pub unit: Option<String>,
    /// The cgroup of the first process, below the hierarchy's root.
    pub cgroup: Option<String>,
    /// Evidence for it: `peer of the probe's connection`, `listens on 127.0.0.1:5432`, `configured`.
    pub found_by: String,
    /// The queue of the socket that listens at its address, when the stall was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen_queue: Option<ListenQueue>,
}

/// A process of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServiceProcess {
    pub pid: u32,
    pub name: String,
}

/// State of the address of a service that failed, and of the service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Outage {
    /// `127.0.0.1:5432`, or the path of a Unix socket.
    pub address: String,
    /// True if a socket listens there.
    pub listens: bool,
    /// The process that has that socket, if it is visible.
    pub listener: Option<ServiceProcess>,
    /// The first process of the service as it was known before.
    pub former: Option<ServiceProcess>,
    /// The process of the service that ended.
    pub ended: Option<ProcessEnd>,
    /// All of it in one line: `nothing listens on 127.0.0.1:5432; postgres (pid 812) was killed by the OOM
    /// killer 1.2 s before`.
    pub text: String,
}

/// End of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessEnd {
    pub process: ServiceProcess,
    pub how: EndKind,
    pub signal: Option<u32>,
    pub exit_code: Option<u32>,
    /// In milliseconds since 1970, where the kernel's log says.
    pub at_unix_ms: Option<u64>,
    /// The cgroup whose memory limit the OOM killer enforced; `None` where the machine's memory was short.
    pub limit_of: Option<String>,
    /// The kernel's words: `segfault at 0 ip …`.
    pub detail: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndKind {
    Exited,
    /// By a signal that another process or its own fault sent.
    Signalled,
    OomKilled,
    /// The kernel (before 6.15) does not tell.
    #[default]
    Unknown,
}

/// Connections that wait to be accepted by a listening socket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListenQueue {
    pub waiting: u32,
    /// Its backlog.
    pub limit: u32,
}

impl ListenQueue {
    /// State of further connections: they wait or are dropped. The kernel accepts one more than the backlog says.
    pub fn is_full(self) -> bool {
        self.waiting > self.limit
    }
}

/// Delivery of the segments that a probe sent over TCP for one request (tcp(7), `TCP_INFO`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SegmentDelivery {
    /// The other end of its connection.
    pub peer: Option<SocketAddr>,
    /// Segments that the kernel sent again.
    pub retransmitted: u32,
    /// Time that the probe waited in waits during which a segment was sent again.
    pub retransmitting_ms: u64,
    /// Segments that the peer had not acknowledged when the request was seen last.
    pub unacknowledged: u32,
    /// Smoothed round-trip time; 0 where the peer acknowledged nothing.
    pub round_trip_us: u64,
}

/// Use and waits of a cgroup between two samples. `None` where the kernel does not report it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupUse {
    /// Below the hierarchy's root; `/` for the root.
    pub path: String,
    /// True if the probed service is in it or in a group below it; never set for the root.
    pub of_service: bool,
    /// Time between the samples.
    pub over_ms: u64,
    /// Pages of files that were read again soon after reclaim (memory.stat `workingset_refault_file`).
    pub refaults_file: Option<u64>,
    /// Anonymous pages that were swapped in soon after reclaim.
    pub refaults_anon: Option<u64>,
    /// Pages that were scanned by reclaim inside the group (memory.stat `pgscan`).
    pub pgscan: Option<u64>,
    /// Increases of memory.events.local: how often it reached its own limits. In version 1 `max` is memory.failcnt.
    pub high_events: Option<u64>,
    pub max_events: Option<u64>,
    /// Increase of memory.swap.events `high`: how often its tasks were throttled for memory.swap.high.
    pub swap_high_events: Option<u64>,
    /// Increase of memory.events: processes killed in it and in the groups below.
    pub oom_kills: Option<u64>,
    /// CPU time used, and time throttled by cpu.max (cpu.stat), in microseconds; throttling is added over
    /// the CPUs and does not include the groups below.
    pub cpu_us: Option<u64>,
    pub throttled_us: Option<u64>,
    pub throttled_periods: Option<u64>,
    /// Time that some task waited, by the pressure stall information of the group, in microseconds.
    pub cpu_pressure_us: Option<u64>,
    pub io_pressure_us: Option<u64>,
    pub memory_pressure_us: Option<u64>,
    /// Bytes by device (io.stat).
    pub io: Vec<GroupIo>,
    /// Limits at the second sample.
    pub memory_max_bytes: Option<u64>,
    pub memory_high_bytes: Option<u64>,
    pub memory_swap_high_bytes: Option<u64>,
    pub memory_current_bytes: Option<u64>,
    /// Growth of its anonymous memory and page cache (memory.stat `anon` and `file`); 0 where they shrank.
    pub memory_growth_bytes: Option<u64>,
    /// Page cache of it that is dirty or under writeback at the second sample.
    pub memory_dirty_bytes: Option<u64>,
    /// cpu.max: quota in each period, in microseconds.
    pub cpu_quota_us: Option<u64>,
    pub cpu_period_us: Option<u64>,
    /// Its limits by device, in the words of io.max: `sda rbps=2097152 wiops=120`.
    pub io_limits: Vec<String>,
    /// Frozen (cgroup.events) at either sample.
    pub frozen: bool,
}

impl GroupUse {
    /// The period of cpu.max where it was not read: the kernel's default.
    const USUAL_PERIOD_US: u64 = 100_000;

    /// The longest period that the kernel allows (kernel/sched/core.c, `max_cfs_quota_period`): a quota that was lifted since
    /// may have had it.
    const LONGEST_PERIOD_US: u64 = 1_000_000;

    /// Longest time on the clock that a task of the group can have been throttled. The kernel adds up the throttled time
    /// of each CPU (kernel/sched/fair.c, `unthrottle_cfs_rq()`), and no throttling outlasts its period.
    pub fn throttled_wall_us(&self) -> u64 {
        let added = self.throttled_us.unwrap_or(0);
        let period_us = match (self.cpu_quota_us, self.cpu_period_us) {
            (None, Some(_)) => Self::LONGEST_PERIOD_US,
            (_, period_us) => period_us.unwrap_or(Self::USUAL_PERIOD_US),
        };
        self.throttled_periods.map_or(added, |periods| added.min(periods.saturating_mul(period_us)))
    }

    /// Takes over limits that were read earlier in the stall and have been lifted since.
    pub fn keep_limits(&mut self, earlier: &Self) {
        self.memory_max_bytes = self.memory_max_bytes.or(earlier.memory_max_bytes);
        self.memory_high_bytes = self.memory_high_bytes.or(earlier.memory_high_bytes);
        self.memory_swap_high_bytes =
            self.memory_swap_high_bytes.or(earlier.memory_swap_high_bytes);
        if self.cpu_quota_us.is_none() && earlier.cpu_quota_us.is_some() {
            (self.cpu_quota_us, self.cpu_period_us) = (earlier.cpu_quota_us, earlier.cpu_period_us);
        }
        if self.io_limits.is_empty() {
            self.io_limits.clone_from(&earlier.io_limits);
        }
    }
}

/// Bytes that a cgroup read from and wrote to a device; none of either where it used the device only before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupIo {
    /// Its name: `sda`, `loop0`.
    pub device: String,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_was_lifted_is_kept_and_one_that_holds_stays() {
        let earlier = GroupUse {
            memory_max_bytes: Some(1),
            cpu_quota_us: Some(2),
            cpu_period_us: Some(3),
            io_limits: vec!["sda wbps=4".to_owned()],
            ..GroupUse::default()
        };
        let mut lifted = GroupUse { cpu_period_us: Some(100_000), ..GroupUse::default() };
        lifted.keep_limits(&earlier);
        assert_eq!(lifted, earlier);
        let mut other = GroupUse { memory_max_bytes: Some(9), ..GroupUse::default() };
        other.keep_limits(&earlier);
        assert_eq!((other.memory_max_bytes, other.cpu_quota_us), (Some(9), Some(2)));
    }
}
