//! Which hierarchy has the memory controller, and where in it this process is.
//!
//! /proc/self/cgroup names the process's group relative to the root of its cgroup namespace, and a
//! mount shows the hierarchy from some group on, which /proc/self/mountinfo names relative to that
//! same root. Neither need be the root of the hierarchy: a container has its own group mounted, or
//! is in a namespace of its own, or both. Above the namespace's root both say `..` and no names.

use crate::source::Source;
use mw_model::{CgroupVersion, Missing, OriginKind};
use mw_proc::cgroup::{self, Membership, PathFromMount};
use mw_proc::mountinfo::{self, Mount, MountTree};
use mw_proc::mounts;
use std::time::{Duration, Instant};

/// Time limit of the search for our own group where its path has no name.
const SEARCH_BUDGET: Duration = Duration::from_millis(200);
/// The most groups that this search looks at.
const MAX_SEARCHED: usize = 512;

/// The hierarchy that has the memory controller.
pub(super) struct Hierarchy {
    pub(super) version: CgroupVersion,
    pub(super) mount: String,
    /// The path of our own group below the mount, empty for the group at the mount point; or why it
    /// cannot be told.
    pub(super) own: Result<String, Missing>,
}

/// A place where the hierarchy is mounted.
struct Candidate {
    version: CgroupVersion,
    mount: String,
    /// The group at the mount point, relative to the root of our cgroup namespace.
    root: String,
}

/// Finds the hierarchy; of several mounts, the one that shows our group and most of those above it.
pub(super) fn find(source: &Source) -> Result<Hierarchy, Missing> {
    find_with(source, MEMORY)
}

const MEMORY: &str = "memory";

/// The same for another controller.
pub(super) fn find_with(source: &Source, controller: &str) -> Result<Hierarchy, Missing> {
    let memberships = source.parse("/proc/self/cgroup", cgroup::parse_self);
    let candidates = candidates(source, controller)?;
    let Some(version) = version(source, &candidates, controller)? else {
        return Err(without_hierarchy(source, memberships));
    };
    let memberships = memberships?;
    let path = own_path(&memberships, version, controller)
        .ok_or_else(|| Missing::absent("/proc/self/cgroup", "no memory group in it"))?;
    let mut ways: Vec<(Candidate, PathFromMount)> = candidates
        .into_iter()
        .filter(|candidate| candidate.version == version)
        .map(|candidate| {
            let way = PathFromMount::new(&candidate.root, path);
            (candidate, way)
        })
        .collect();
    ways.sort_by_key(|(_, way)| std::cmp::Reverse(way.groups()));
    let (candidate, way) = ways.into_iter().next().ok_or_else(|| no_mount(path))?;
    let own = walk(source, &candidate.mount, path, way);
    Ok(Hierarchy { version, mount: candidate.mount, own })
}

/// Mounts of cgroup hierarchies that may have the controller. In a captured tree every
/// mount shows its hierarchy from the root on, as the capture wrote it.
fn candidates(source: &Source, controller: &str) -> Result<Vec<Candidate>, Missing> {
    let version = |fstype: &str, has_it: bool| match fstype {
        "cgroup" if has_it => Some(CgroupVersion::V1),
        "cgroup2" => Some(CgroupVersion::V2),
        _ => None,
    };
    if source.kind() == OriginKind::Live
        && let Ok(mounts) = source.parse("/proc/self/mountinfo", mountinfo::parse)
    {
        let candidate = |mount: &Mount| {
            let has_it = mount.super_options.iter().any(|option| option == controller);
            let version = version(&mount.fstype, has_it)?;
            Some(Candidate { version, mount: mount.target.clone(), root: mount.root.clone() })
        };
        let tree = MountTree::new(&mounts);
        return Ok(mounts
            .iter()
            .filter(|mount| tree.is_visible(mount))
            .filter_map(candidate)
            .collect());
    }
    let mounts = source.parse("/proc/mounts", mounts::parse)?;
    let candidate = |mount: mounts::Mount| {
        let version = version(&mount.fstype, mount.has_option(controller))?;
        Some(Candidate { version, mount: mount.target, root: "/".to_owned() })
    };
    Ok(mounts.into_iter().filter_map(candidate).collect())
}

/// The version that has the controller; none where no mount shows that one has it.
fn version(
    source: &Source,
    candidates: &[Candidate],
    wanted: &str,
) -> Result<Option<CgroupVersion>, Missing> {
    if candidates.iter().any(|candidate| candidate.version == CgroupVersion::V1) {
        return Ok(Some(CgroupVersion::V1));
    }
    let mut failed = None;
    for candidate in candidates {
        match source.read(&format!("{}/cgroup.controllers", candidate.mount)) {
            Ok(bytes) => {
                let controllers = String::from_utf8_lossy(&bytes).into_owned();
                if controllers.split_whitespace().any(|controller| controller == wanted) {
                    return Ok(Some(CgroupVersion::V2));
                }
            }
            Err(missing) => failed = Some(missing),
        }
    }
    failed.map_or(Ok(None), Err)
}

/// The path of our own group as /proc/self/cgroup has it.
fn own_path<'a>(
    memberships: &'a [Membership],
    version: CgroupVersion,
    controller: &str,
) -> Option<&'a str> {
    let is_ours = |m: &&Membership| match version {
        CgroupVersion::V1 => m.has_controller(controller),
        CgroupVersion::V2 => m.is_unified(),
    };
    memberships.iter().find(is_ours).map(|membership| membership.path.as_str())
}

/// The reason that there is no hierarchy: absent where the process certainly has no memory group,
/// skipped where it may have one with a limit.
fn without_hierarchy(source: &Source, memberships: Result<Vec<Membership>, Missing>) -> Missing {
    let memberships = match memberships {
        Ok(memberships) => memberships,
        Err(missing) => return missing,
    };
    let none = "no hierarchy with the memory controller is mounted";
    let path = own_path(&memberships, CgroupVersion::V1, MEMORY)
        .or_else(|| own_path(&memberships, CgroupVersion::V2, MEMORY));
    let is_root = path.is_none_or(|path| path == "/") && source.in_first_cgroup_namespace();
    if is_root || source.kind() == OriginKind::Tree {
        Missing::absent("/sys/fs/cgroup", none)
    } else {
        no_mount(path.unwrap_or("/"))
    }
}

fn no_mount(path: &str) -> Missing {
    let why = format!(
        "the memory limit of this process's cgroup ({path}) could not be determined: no \
         mount of its hierarchy is visible here"
    );
    Missing::skipped("/sys/fs/cgroup", why)
}

/// `/a/b` gives `/a/b`, `/a`, `/`: the group and what stands above it.
pub(super) fn ancestry(path: &str) -> Vec<String> {
    let path = path.trim_end_matches('/');
    let mut paths: Vec<String> =
        path.match_indices('/').skip(1).map(|(end, _)| path[..end].to_owned()).collect();
    paths.insert(0, "/".to_owned());
    if !path.is_empty() {
        paths.push(path.to_owned());
    }
    paths.reverse();
    paths
}

/// The path of our own group below the mount point.
fn walk(source: &Source, mount: &str, path: &str, way: PathFromMount) -> Result<String, Missing> {
    match way {
        PathFromMount::Named(path) => Ok(path),
        PathFromMount::Unnamed(levels, suffix) => {
            let mut search = Search::new(source, suffix);
            search.descend(mount, "", levels).ok_or_else(|| not_shown(mount, path))
        }
        PathFromMount::None => Err(not_shown(mount, path)),
    }
}

fn not_shown(mount: &str, path: &str) -> Missing {
    let why = format!(
        "the memory limit of this process's cgroup ({path}) could not be determined: the mount does \
         not show it"
    );
    Missing::skipped(mount, why)
}

/// The search for the cgroup of this process below a mount point, and how many cgroups it may visit.
struct Search<'a> {
    source: &'a Source,
    /// The names of the last groups on the way.
    suffix: String,
    own: String,
    deadline: Instant,
    left: usize,
}

impl<'a> Search<'a> {
    fn new(source: &'a Source, suffix: String) -> Self {
        Self {
            source,
            suffix,
            own: std::process::id().to_string(),
            deadline: Instant::now() + source.budget(SEARCH_BUDGET),
            left: MAX_SEARCHED,
        }
    }

    fn descend(&mut self, mount: &str, path: &str, levels: usize) -> Option<String> {
        if levels == 0 {
            let path = format!("{path}{}", self.suffix);
            let members = self.source.read(&format!("{mount}{path}/cgroup.procs")).ok()?;
            let members = String::from_utf8_lossy(&members);
            return members.lines().any(|pid| pid == self.own).then_some(path);
        }
        for name in self.source.directories(&format!("{mount}{path}")).ok()? {
            if self.left == 0 || Instant::now() > self.deadline {
                return None;
            }
            let child = format!("{path}/{name}");
            self.left -= 1;
            if let Some(found) = self.descend(mount, &child, levels - 1) {
                return Some(found);
            }
        }
        None
    }
}
