//! The cgroups that limit this process.

use mw_memory::{GroupCounters, GroupEffect, GroupLimit};
use mw_proc::cgroup::{self, CgroupMount, MemoryStat, MountedHierarchy, PathFromMount};
use mw_proc::mountinfo;
use mw_sys::{read_file, subdirectories};
use std::path::{Path, PathBuf};

/// The most groups above our own that are read.
const MAX_DEPTH: usize = 32;
/// The most groups of one level that are searched for our own.
const MAX_SEARCHED: usize = 512;

const V1_MAX: &str = "memory.limit_in_bytes";
const V1_USAGE: &str = "memory.usage_in_bytes";
const V2_MAX: &str = "memory.max";
const V2_HIGH: &str = "memory.high";
const V2_USAGE: &str = "memory.current";

/// A group with a limit.
#[derive(Debug, Clone)]
pub(crate) struct LimitedCgroup {
    /// Below the mount of its hierarchy.
    pub(crate) path: String,
    dir: PathBuf,
    is_v1: bool,
}

/// Our own group and those above it, as far as they have a limit; found once for an operation.
#[derive(Debug, Clone, Default)]
pub(crate) struct LimitedCgroups(Vec<LimitedCgroup>);

impl LimitedCgroups {
    /// Those of this process; empty if they are not visible.
    pub(crate) fn own() -> Self {
        let Some(hierarchy) = ControllerHierarchy::find("memory") else { return Self::default() };
        let group = |path: &Path| LimitedCgroup {
            path: format!("/{}", path.display()),
            dir: hierarchy.mount.join(path),
            is_v1: hierarchy.is_v1,
        };
        let groups = hierarchy.groups().map(group);
        Self(groups.filter(|group| !group.limits().is_empty()).collect())
    }

    /// The bytes that each group has available below its limits, memory.high included.
    pub(crate) fn unslowed(&self) -> impl Iterator<Item = u64> {
        self.0.iter().flat_map(LimitedCgroup::limits).map(|limit| limit.available_bytes)
    }

    /// The limit with the least available memory of those that kill.
    pub(crate) fn tightest(&self) -> Option<(&LimitedCgroup, GroupLimit)> {
        let of_group =
            |group| LimitedCgroup::limits(group).into_iter().map(move |limit| (group, limit));
        let limits = self.0.iter().flat_map(of_group);
        let killing = limits.filter(|(_, limit)| limit.effect != GroupEffect::Slows);
        killing.min_by_key(|(_, limit)| limit.available_bytes)
    }
}

impl LimitedCgroup {
    /// The file of a limit.
    pub(crate) fn file(&self, limit: &GroupLimit) -> PathBuf {
        self.dir.join(limit.file)
    }

    /// Its limits now; empty if its use is not visible.
    fn limits(&self) -> Vec<GroupLimit> {
        self.counters().map_or(Vec::new(), |counters| counters.limits())
    }

    fn counters(&self) -> Option<GroupCounters> {
        let number = |file: &str| crate::machine::number(self.dir.join(file));
        let limit = |file: &str| cgroup::parse_limit(&read_file(self.dir.join(file)).ok()?).ok()?;
        let stat = || MemoryStat::parse(&read_file(self.dir.join("memory.stat")).ok()?).ok();
        let (used, [max, high, with_swap]) = if self.is_v1 {
            (V1_USAGE, [limit(V1_MAX), None, limit("memory.memsw.limit_in_bytes")])
        } else {
            (V2_USAGE, [limit(V2_MAX), limit(V2_HIGH), None])
        };
        max.or(high).or(with_swap)?;
        Some(GroupCounters {
            is_v1: self.is_v1,
            max_bytes: max,
            high_bytes: high,
            swap_max_bytes: with_swap,
            used_bytes: number(used)?,
            swap_used_bytes: number("memory.memsw.usage_in_bytes").unwrap_or(0),
            kernel_bytes: None,
            stat: stat().unwrap_or_default(),
        })
    }
}

/// The directories of this process's own group and those above it, and the files of a limit and of the use
/// in them; empty if they are not visible.
pub(crate) fn own_memory_dirs() -> (Vec<PathBuf>, &'static [&'static str], &'static str) {
    let Some(hierarchy) = ControllerHierarchy::find("memory") else { return (Vec::new(), &[], "") };
    let dirs = hierarchy.groups().map(|path| hierarchy.mount.join(path)).collect();
    // Beyond memory.high each allocation is slowed down.
    if hierarchy.is_v1 { (dirs, &[V1_MAX], V1_USAGE) } else { (dirs, &[V2_MAX, V2_HIGH], V2_USAGE) }
}

/// Number of CPUs that the quotas of this process's groups allow; none without a quota.
pub(crate) fn cpu_quota() -> Option<usize> {
    let hierarchy = ControllerHierarchy::find("cpu")?;
    let quota = |path: &Path| {
        let dir = hierarchy.mount.join(path);
        let (quota, period) = if hierarchy.is_v1 {
            let number = |file| crate::machine::number(dir.join(file));
            (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
        } else {
            let text = String::from_utf8(read_file(dir.join("cpu.max")).ok()?).ok()?;
            let (quota, period) = text.trim().split_once(' ')?;
            (quota.parse().ok()?, period.parse().ok()?)
        };
        usize::try_from(quota.checked_div(period)?).ok()
    };
    hierarchy.groups().filter_map(quota).min()
}

/// The hierarchy of a controller, and our own group in it.
struct ControllerHierarchy {
    is_v1: bool,
    mount: PathBuf,
    /// Below the mount; empty for the group at the mount point.
    own: PathBuf,
}

impl ControllerHierarchy {
    fn find(controller: &str) -> Option<Self> {
        let mounts = mountinfo::parse(&read_file("/proc/self/mountinfo").ok()?).ok()?;
        let memberships = cgroup::parse_self(&read_file("/proc/self/cgroup").ok()?).ok()?;
        let hierarchies = MountedHierarchy::visible(&mounts);
        let found = CgroupMount::find(&hierarchies, &memberships, controller);
        found.into_iter().find_map(|CgroupMount { is_v1, target, own }| {
            let own = own_path(&target, own)?;
            Some(Self { is_v1, mount: target.into(), own: own.trim_start_matches('/').into() })
        })
    }

    /// Our own group and those above it.
    fn groups(&self) -> impl Iterator<Item = &Path> {
        self.own.ancestors().take(MAX_DEPTH)
    }
}

/// The path of our own group below the mount.
fn own_path(mount: &str, own: PathFromMount) -> Option<String> {
    let pid = std::process::id().to_string();
    let children = |group: &str| {
        let names = subdirectories(format!("{mount}{group}"), MAX_SEARCHED).unwrap_or_default();
        names.into_iter().filter_map(|name| name.into_string().ok()).collect()
    };
    let has_us = |group: &str| {
        let members = read_file(format!("{mount}{group}/cgroup.procs"));
        members.is_ok_and(|all| all.split(|byte| *byte == b'\n').any(|line| line == pid.as_bytes()))
    };
    own.search(children, has_us)
}
