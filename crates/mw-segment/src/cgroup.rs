//! The memory cgroups that this process is charged to.

use mw_proc::cgroup::{self, MemoryStat};
use mw_proc::mounts;
use mw_sys::read_file;
use std::path::{Path, PathBuf};

/// The most ancestors that are looked at.
const MAX_DEPTH: usize = 32;

/// Names of a version's files: limit and usage.
type Files = (&'static str, &'static str);
const V1: Files = ("memory.limit_in_bytes", "memory.usage_in_bytes");
const V2: Files = ("memory.max", "memory.current");

/// A group with a limit.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    /// As the hierarchy names it.
    pub(crate) path: String,
    /// Where the limit is.
    pub(crate) limit_file: PathBuf,
    usage_file: PathBuf,
    stat_file: PathBuf,
}

/// The groups with a limit, our own and its ancestors; found once for an operation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Groups(Vec<Group>);

impl Groups {
    /// Those of this process; none where it cannot be seen.
    pub(crate) fn own() -> Self {
        Self(find().unwrap_or_default())
    }

    /// The group with the least room, in bytes, and that room: what is below the limit, and what
    /// the kernel would drop of files.
    pub(crate) fn tightest(&self) -> Option<(&Group, u64)> {
        let rooms = self.0.iter().filter_map(|group| Some((group, group.room()?)));
        rooms.min_by_key(|(_, room)| *room)
    }
}

impl Group {
    fn at(dir: &Path, path: &str, files: Files) -> Option<Self> {
        let group = Self {
            path: path.to_owned(),
            limit_file: dir.join(files.0),
            usage_file: dir.join(files.1),
            stat_file: dir.join("memory.stat"),
        };
        group.limit().map(|_| group)
    }

    fn limit(&self) -> Option<u64> {
        cgroup::parse_limit(&read_file(&self.limit_file).ok()?).ok()?
    }

    fn room(&self) -> Option<u64> {
        let usage = crate::machine::number(&self.usage_file)?;
        let stat = read_file(&self.stat_file).ok().and_then(|text| MemoryStat::parse(&text).ok());
        let files = stat.map_or(0, |stat| {
            stat.active_file_bytes.unwrap_or(0) + stat.inactive_file_bytes.unwrap_or(0)
        });
        Some(self.limit()?.saturating_sub(usage.saturating_sub(files)))
    }
}

fn find() -> Option<Vec<Group>> {
    let hierarchy = Hierarchy::of("memory")?;
    let files = if hierarchy.is_v1 { V1 } else { V2 };
    let group =
        |path: &Path| Group::at(&hierarchy.root.join(path), &format!("/{}", path.display()), files);
    Some(hierarchy.own.ancestors().take(MAX_DEPTH).filter_map(group).collect())
}

/// How many processors the quotas of this process's groups leave; none without a quota.
pub(crate) fn processors() -> Option<usize> {
    let hierarchy = Hierarchy::of("cpu")?;
    let quota = |path: &Path| {
        let dir = hierarchy.root.join(path);
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
    hierarchy.own.ancestors().take(MAX_DEPTH).filter_map(quota).min()
}

/// Where the groups of a controller are, and this process's own among them.
struct Hierarchy {
    root: PathBuf,
    own: PathBuf,
    is_v1: bool,
}

impl Hierarchy {
    fn of(controller: &str) -> Option<Self> {
        let mounts = mounts::parse(&read_file("/proc/mounts").ok()?).ok()?;
        let memberships = cgroup::parse_self(&read_file("/proc/self/cgroup").ok()?).ok()?;
        let v1 = mounts.iter().find(|m| m.fstype == "cgroup" && m.has_option(controller));
        let mount = v1.or_else(|| mounts.iter().find(|m| m.fstype == "cgroup2"))?;
        let own = memberships.iter().find(|m| match v1 {
            Some(_) => m.has_controller(controller),
            None => m.is_unified(),
        })?;
        // A container sees its own group as the root of the mount.
        let own = own.path.trim_start_matches('/').into();
        Some(Self { root: (&mount.target).into(), own, is_v1: v1.is_some() })
    }
}
