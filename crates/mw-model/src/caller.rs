//! How much memory the calling process can get: what the machine has, or what the tightest
//! limit on that process leaves of it.
//!
//! Everything here is a pure function of a snapshot; what the machine has is handed in. A limit
//! that could not be read is reported as such and never taken for "unlimited".

use crate::{
    Absence, Cgroup, CgroupVersion, Cgroups, Missing, Origin, OriginKind, Snapshot, contradiction,
    derived, format_bytes,
};
use mw_memory::{Commit, CommitReserve, GroupCounters, enforced_data_bytes, resource_left_bytes};
pub use mw_memory::{GroupEffect, GroupLimit};
use mw_proc::meminfo::Meminfo;
use mw_proc::version::KernelVersion;
use serde::Serialize;
use std::fmt;

/// capabilities(7): the bit of each in `CapEff`.
const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_ADMIN: u32 = 21;

/// A limit on the calling process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct CallerLimit {
    /// The limit.
    #[serde(flatten)]
    pub kind: LimitKind,
    /// The limit itself, in bytes.
    pub limit_bytes: u64,
    /// Memory left below it without writing or swapping anything out, in bytes.
    pub available_bytes: u64,
}

/// The limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum LimitKind {
    /// `CommitLimit`, with vm.overcommit_memory 2.
    Commit,
    /// A memory cgroup, the process's own or one above it.
    Cgroup {
        /// Its path; absent where the group is outside of what is mounted.
        path: Option<String>,
        /// True if the process is in this very group.
        own: bool,
        /// The file that sets the limit, such as `memory.max`.
        file: String,
    },
    /// `RLIMIT_AS`.
    AddressSpace,
    /// `RLIMIT_DATA`.
    Data,
    /// The NUMA nodes that the process may allocate from.
    Nodes {
        /// Their numbers.
        nodes: Vec<u32>,
        /// True if the process's memory policy says so (set_mempolicy(2)), and not its cpuset alone.
        policy: bool,
    },
}

impl fmt::Display for CallerLimit {
    /// The whole that the limit allows: `this cgroup's 256 MiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = format_bytes(self.limit_bytes);
        match &self.kind {
            LimitKind::Commit => write!(f, "the {limit} commit limit"),
            LimitKind::Cgroup { own: true, .. } => write!(f, "this cgroup's {limit}"),
            LimitKind::Cgroup { path: Some(path), .. } => write!(f, "cgroup {path}'s {limit}"),
            LimitKind::Cgroup { path: None, .. } => write!(f, "a parent cgroup's {limit}"),
            LimitKind::AddressSpace => write!(f, "the {limit} address space limit (RLIMIT_AS)"),
            LimitKind::Data => write!(f, "the {limit} data limit (RLIMIT_DATA)"),
            LimitKind::Nodes { nodes, policy } => {
                let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
                let word = if nodes.len() == 1 { "node" } else { "nodes" };
                let by = if *policy { "memory policy" } else { "cpuset" };
                write!(f, "{limit} on {word} {} ({by})", nodes.join(","))
            }
        }
    }
}

/// Memory that is available to the calling process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Available {
    /// Size, in bytes.
    pub bytes: u64,
    /// The limit that makes it less than the machine has.
    pub limited_by: Option<CallerLimit>,
    /// Limits that could not be determined.
    pub unseen: Vec<Missing>,
}

/// The share that the calling process can get of `machine_bytes`, which the machine could give.
pub fn available(snapshot: &Snapshot, machine_bytes: u64) -> Available {
    let mut limits: Vec<CallerLimit> = nodes(snapshot, machine_bytes).into_iter().collect();
    let mut unseen = Vec::new();
    let single = |limit: Option<CallerLimit>| limit.into_iter().collect::<Vec<_>>();
    for looked in [
        commit(snapshot).map(single),
        cgroups(snapshot),
        address_space(snapshot).map(single),
        data(snapshot).map(single),
    ] {
        match looked {
            Ok(found) => limits.extend(found),
            Err(missing) => unseen.extend(undetermined(snapshot, missing)),
        }
    }
    let groups = snapshot.cgroups.value().into_iter();
    unseen.extend(
        groups.flat_map(|groups| groups.unseen.iter().chain(&groups.above_unseen).cloned()),
    );
    let limits = limits.into_iter().map(|limit| {
        let bytes = limit.available_bytes;
        (limit, bytes)
    });
    let (bytes, limited_by) = mw_memory::tightest(machine_bytes, limits);
    unseen.dedup();
    Available { bytes, limited_by, unseen }
}

/// A captured tree may lack the files of a limit, and a kernel without cgroups has no limit there;
/// everything else that was not seen may hide one.
pub fn undetermined(snapshot: &Snapshot, missing: Missing) -> Option<Missing> {
    let absent = missing.absence == Absence::Absent;
    let no_cgroups = snapshot.cgroups.missing() == Some(&missing);
    let none = absent && (snapshot.origin.kind == OriginKind::Tree || no_cgroups);
    (!none).then_some(missing)
}

/// True if the calling process has a capability over the whole machine, where that is known.
fn capable(snapshot: &Snapshot, capability: u32) -> Option<bool> {
    snapshot.origin.effective_capabilities.map(|set| set >> capability & 1 == 1)
}

/// True if `RLIMIT_MEMLOCK` does not bind the calling process, where that is known.
pub fn may_lock_all(snapshot: &Snapshot) -> Option<bool> {
    capable(snapshot, CAP_IPC_LOCK)
}

/// Memory of the nodes that the process may allocate from, where that is not all of them.
fn nodes(snapshot: &Snapshot, machine_bytes: u64) -> Option<CallerLimit> {
    if contradiction::nodes_are_of_another_machine(snapshot) {
        return None;
    }
    let Origin { memory_nodes, policy_nodes, .. } = &snapshot.origin;
    let is_allowed = |node: u32| {
        [memory_nodes, policy_nodes].into_iter().flatten().all(|nodes| nodes.contains(&node))
    };
    let seen: Vec<(u32, &Meminfo)> = (snapshot.sample.nodes.iter())
        .filter_map(|node| Some((node.node, node.meminfo.value()?)))
        .filter(|(_, meminfo)| meminfo.mem_total_bytes.is_some_and(|bytes| bytes > 0))
        .collect();
    let (reached, out_of_reach): (Vec<_>, Vec<_>) =
        seen.into_iter().partition(|(node, _)| is_allowed(*node));
    if reached.is_empty() || out_of_reach.is_empty() {
        return None;
    }
    // Each node's part of what the machine could give, so that the parts add up to the whole.
    let weight = |nodes: &[(u32, &Meminfo)]| {
        let could_give = |meminfo: &Meminfo| {
            let cache = derived::file_cache_bytes(meminfo);
            let clean = cache.saturating_sub(derived::unwritten_bytes(meminfo));
            meminfo.mem_free_bytes.unwrap_or(0).saturating_add(clean)
        };
        derived::total(nodes.iter().map(|(_, meminfo)| could_give(meminfo)))
    };
    let (inside, outside) = (weight(&reached), weight(&out_of_reach));
    let share = inside as f64 / inside.saturating_add(outside).max(1) as f64;
    let totals = reached.iter().filter_map(|(_, meminfo)| meminfo.mem_total_bytes);
    Some(CallerLimit {
        kind: LimitKind::Nodes {
            nodes: reached.iter().map(|(node, _)| *node).collect(),
            policy: policy_nodes.is_some(),
        },
        limit_bytes: derived::total(totals),
        available_bytes: (machine_bytes as f64 * share) as u64,
    })
}

/// Memory that the kernel still promises with vm.overcommit_memory 2 (`__vm_enough_memory`): the commit
/// limit less what was promised, less what is kept for an administrator (everybody else goes
/// without) and for the user to end the process with.
///
/// # Errors
/// The setting or a line of meminfo was not seen.
pub fn commit(snapshot: &Snapshot) -> Result<Option<CallerLimit>, Missing> {
    const STRICT: u64 = 2;
    let sysctl = &snapshot.sysctl;
    if sysctl.number("vm.overcommit_memory")? != STRICT {
        return Ok(None);
    }
    let meminfo = snapshot.sample.meminfo.required()?;
    for (value, name) in
        [(meminfo.commit_limit_bytes, "CommitLimit"), (meminfo.committed_as_bytes, "Committed_AS")]
    {
        if value.is_none() {
            let what = format!("/proc/meminfo {name}");
            return Err(Missing::failed(what, "the line is missing"));
        }
    }
    let kib = |name| sysctl.number(name).unwrap_or(0);
    let reserve = CommitReserve {
        admin_kib: kib("vm.admin_reserve_kbytes"),
        user_kib: kib("vm.user_reserve_kbytes"),
        is_admin: capable(snapshot, CAP_SYS_ADMIN) == Some(true),
        mapped_bytes: snapshot.origin.mapped_bytes.unwrap_or(0),
    };
    let commit = Commit::new(meminfo, reserve.bytes());
    Ok(commit.map(|Commit { limit_bytes, available_bytes }| CallerLimit {
        kind: LimitKind::Commit,
        limit_bytes,
        available_bytes,
    }))
}

/// The limits of our own memory cgroup and of those above it.
///
/// # Errors
/// No cgroup was seen.
fn cgroups(snapshot: &Snapshot) -> Result<Vec<CallerLimit>, Missing> {
    let cgroups = snapshot.cgroups.required()?;
    let limit = |path: Option<&str>, own: bool, limit: GroupLimit| CallerLimit {
        kind: LimitKind::Cgroup { path: path.map(str::to_owned), own, file: limit.file.to_owned() },
        limit_bytes: limit.limit_bytes,
        available_bytes: limit.ready_bytes,
    };
    let is_possible = |group: &Cgroup| {
        group.current_bytes.is_none_or(|bytes| contradiction::is_possible_use(snapshot, bytes))
    };
    let visible = cgroups.own.iter().enumerate().filter(|(_, group)| is_possible(group));
    let visible = visible.flat_map(|(index, group)| {
        let limits = group_limits(group, cgroups.version);
        limits.into_iter().map(move |found| limit(Some(&group.path), index == 0, found))
    });
    let above = limit_above(cgroups).map(|found| limit(None, false, found));
    Ok(visible.chain(above).collect())
}

/// The limits that one group sets.
pub fn group_limits(group: &Cgroup, version: CgroupVersion) -> Vec<GroupLimit> {
    counters(group, version).limits()
}

fn counters(group: &Cgroup, version: CgroupVersion) -> GroupCounters {
    GroupCounters {
        is_v1: version == CgroupVersion::V1,
        max_bytes: group.max_bytes,
        high_bytes: group.high_bytes,
        swap_max_bytes: group.swap_max_bytes,
        used_bytes: group.current_bytes.unwrap_or(0),
        swap_used_bytes: group.swap_current_bytes.unwrap_or(0),
        kernel_bytes: group.kernel_bytes,
        stat: group.stat,
    }
}

/// The lowest limit of the groups above those that are visible, as if it were that of the topmost
/// visible one. What others below that limit use cannot be seen: this is the most that may be left.
pub fn limit_above(cgroups: &Cgroups) -> Option<GroupLimit> {
    let (max_bytes, group) = (Some(cgroups.limit_above_bytes?), cgroups.own.last()?);
    let counters = counters(group, CgroupVersion::V1);
    let above = GroupCounters { max_bytes, high_bytes: None, swap_max_bytes: None, ..counters };
    above.limits().into_iter().next()
}

/// Memory left of `RLIMIT_AS` for a program like this one.
///
/// # Errors
/// The limits were not seen.
pub fn address_space(snapshot: &Snapshot) -> Result<Option<CallerLimit>, Missing> {
    let limit = snapshot.limits.required()?.address_space.and_then(|limit| limit.soft);
    Ok(resource(LimitKind::AddressSpace, limit, snapshot.origin.mapped_bytes))
}

/// Memory left of `RLIMIT_DATA` for a program like this one. Before 4.7 the limit is that of the
/// heap alone.
///
/// # Errors
/// The limits were not seen.
pub fn data(snapshot: &Snapshot) -> Result<Option<CallerLimit>, Missing> {
    const COUNTS_MAPPINGS: KernelVersion = KernelVersion::new(4, 7, 0);
    if snapshot.origin.kernel.is_some_and(|kernel| kernel < COUNTS_MAPPINGS) {
        return Ok(None);
    }
    let limit = snapshot.limits.required()?.data_size;
    let limit = limit.and_then(|limit| enforced_data_bytes(limit.soft, limit.hard));
    Ok(resource(LimitKind::Data, limit, snapshot.origin.data_bytes))
}

fn resource(kind: LimitKind, limit: Option<u64>, used: Option<u64>) -> Option<CallerLimit> {
    let limit_bytes = limit?;
    let available_bytes = resource_left_bytes(limit_bytes, used.unwrap_or(0));
    Some(CallerLimit { kind, limit_bytes, available_bytes })
}
