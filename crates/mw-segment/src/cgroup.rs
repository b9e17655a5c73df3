//! The memory cgroups that this process is charged to.

use mw_proc::cgroup::{self, MemoryStat};
use mw_proc::mounts;
use std::fs;
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
        cgroup::parse_limit(&fs::read(&self.limit_file).ok()?).ok()?
    }

    fn room(&self) -> Option<u64> {
        let usage = crate::machine::number(&self.usage_file)?;
        let stat = fs::read(&self.stat_file).ok().and_then(|text| MemoryStat::parse(&text).ok());
        let files = stat.map_or(0, |stat| {
            stat.active_file_bytes.unwrap_or(0) + stat.inactive_file_bytes.unwrap_or(0)
        });
        Some(self.limit()?.saturating_sub(usage.saturating_sub(files)))
    }
}

fn find() -> Option<Vec<Group>> {
    let mounts = mounts::parse(&fs::read("/proc/mounts").ok()?).ok()?;
    let memberships = cgroup::parse_self(&fs::read("/proc/self/cgroup").ok()?).ok()?;
    let v1 = mounts.iter().find(|m| m.fstype == "cgroup" && m.has_option("memory"));
    let (mount, files) = match v1 {
        Some(mount) => (mount, V1),
        None => (mounts.iter().find(|m| m.fstype == "cgroup2")?, V2),
    };
    let own = memberships.iter().find(|m| match v1 {
        Some(_) => m.has_controller("memory"),
        None => m.is_unified(),
    })?;
    let root = Path::new(&mount.target);
    // A container sees its own group as the root of the mount.
    let own = Path::new(own.path.trim_start_matches('/'));
    let groups = own
        .ancestors()
        .take(MAX_DEPTH)
        .filter_map(|path| Group::at(&root.join(path), &format!("/{}", path.display()), files));
    Some(groups.collect())
}
