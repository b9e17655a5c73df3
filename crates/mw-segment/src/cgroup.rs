//! The cgroups that limit this process.

use mw_proc::cgroup::{self, CgroupMount, MemoryStat, PathFromMount};
use mw_proc::mountinfo;
use mw_sys::{read_file, subdirectories};
use std::path::{Path, PathBuf};

/// The most groups above our own that are read.
const MAX_DEPTH: usize = 32;
/// The most groups that are searched for our own where the kernel does not report its path.
const MAX_SEARCHED: usize = 512;

/// The files of a version: limit and use.
type Files = (&'static str, &'static str);
const V1: Files = ("memory.limit_in_bytes", "memory.usage_in_bytes");
const V2: Files = ("memory.max", "memory.current");

/// A group with a limit.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    /// Below the mount of its hierarchy.
    pub(crate) path: String,
    pub(crate) limit_file: PathBuf,
    /// Beyond it each allocation is slowed; of version 2.
    high_file: Option<PathBuf>,
    usage_file: PathBuf,
    stat_file: PathBuf,
}

/// Our own group and those above it, as far as they have a limit; found once for an operation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Groups(Vec<Group>);

impl Groups {
    /// Those of this process; empty if they are not visible.
    pub(crate) fn own() -> Self {
        let Some(hierarchy) = Hierarchy::find("memory") else { return Self::default() };
        let files = if hierarchy.is_v1 { V1 } else { V2 };
        let group = |path: &Path| Group::new(&hierarchy.mount, path, files);
        Self(hierarchy.groups().filter_map(group).collect())
    }

    /// The bytes that each group has available below its limits, memory.high included.
    pub(crate) fn unslowed(&self) -> impl Iterator<Item = u64> {
        let below = |group: &Group| [group.limit(), group.high()].into_iter().flatten().min();
        self.0.iter().filter_map(move |group| group.available_bytes(below(group)?))
    }

    /// The group with the least available memory, in bytes, below the limit that kills.
    pub(crate) fn tightest(&self) -> Option<(&Group, u64)> {
        let available = self.0.iter();
        let available =
            available.filter_map(|group| Some((group, group.available_bytes(group.limit()?)?)));
        available.min_by_key(|(_, bytes)| *bytes)
    }
}

impl Group {
    fn new(mount: &Path, path: &Path, files: Files) -> Option<Self> {
        let dir = mount.join(path);
        let group = Self {
            path: format!("/{}", path.display()),
            limit_file: dir.join(files.0),
            high_file: (files == V2).then(|| dir.join("memory.high")),
            usage_file: dir.join(files.1),
            stat_file: dir.join("memory.stat"),
        };
        group.limit().or_else(|| group.high()).map(|_| group)
    }

    fn high(&self) -> Option<u64> {
        cgroup::parse_limit(&read_file(self.high_file.as_ref()?).ok()?).ok()?
    }

    fn limit(&self) -> Option<u64> {
        cgroup::parse_limit(&read_file(&self.limit_file).ok()?).ok()?
    }

    fn available_bytes(&self, limit: u64) -> Option<u64> {
        let usage = crate::machine::number(&self.usage_file)?;
        let stat = read_file(&self.stat_file).ok().and_then(|text| MemoryStat::parse(&text).ok());
        Some(mw_memory::cgroup_available_bytes(limit, usage, &stat.unwrap_or_default()))
    }
}

/// The directories of this process's own group and those above it, and the files of a limit and of the use
/// in them; empty if they are not visible.
pub(crate) fn own_memory_dirs() -> (Vec<PathBuf>, &'static [&'static str], &'static str) {
    let Some(hierarchy) = Hierarchy::find("memory") else { return (Vec::new(), &[], "") };
    let dirs = hierarchy.groups().map(|path| hierarchy.mount.join(path)).collect();
    // Beyond memory.high each allocation is slowed down.
    if hierarchy.is_v1 { (dirs, &[V1.0], V1.1) } else { (dirs, &[V2.0, "memory.high"], V2.1) }
}

/// Number of CPUs that the quotas of this process's groups allow; none without a quota.
pub(crate) fn cpu_quota() -> Option<usize> {
    let hierarchy = Hierarchy::find("cpu")?;
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
struct Hierarchy {
    is_v1: bool,
    mount: PathBuf,
    /// Below the mount; empty for the group at the mount point.
    own: PathBuf,
}

impl Hierarchy {
    fn find(controller: &str) -> Option<Self> {
        let mounts = mountinfo::parse(&read_file("/proc/self/mountinfo").ok()?).ok()?;
        let memberships = cgroup::parse_self(&read_file("/proc/self/cgroup").ok()?).ok()?;
        let found = CgroupMount::find(&mounts, &memberships, controller);
        found.into_iter().find_map(|mount| {
            let CgroupMount { is_v1, target, own } = mount;
            let own = match own {
                PathFromMount::Named(path) => path.trim_start_matches('/').into(),
                PathFromMount::Unnamed(levels, path) => {
                    search(&target, levels, path.trim_start_matches('/'))?
                }
                PathFromMount::None => return None,
            };
            Some(Self { is_v1, mount: target.into(), own })
        })
    }

    /// Our own group and those above it.
    fn groups(&self) -> impl Iterator<Item = &Path> {
        self.own.ancestors().take(MAX_DEPTH)
    }
}

/// The group that has this process, at `path` below a group that is `levels` below the mount.
fn search(mount: &str, levels: usize, path: &str) -> Option<PathBuf> {
    let pid = std::process::id().to_string();
    let has_us = |group: &Path| {
        let members = read_file(Path::new(mount).join(group).join("cgroup.procs"));
        members.is_ok_and(|all| all.split(|byte| *byte == b'\n').any(|line| line == pid.as_bytes()))
    };
    let mut groups = vec![PathBuf::new()];
    let mut searched = 0;
    for _ in 0..levels {
        let mut below = Vec::new();
        for group in groups {
            let left = MAX_SEARCHED.saturating_sub(searched);
            let names = subdirectories(Path::new(mount).join(&group), left).unwrap_or_default();
            searched += names.len();
            below.extend(names.into_iter().map(|name| group.join(name)));
        }
        groups = below;
    }
    groups.into_iter().map(|group| group.join(path)).find(|group| has_us(group))
}
