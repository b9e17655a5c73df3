//! Which hierarchy has the memory controller, and where in it this process is.
//!
//! /proc/self/cgroup names the process's group relative to the root of its cgroup namespace, and a
//! mount shows the hierarchy from some group on, which /proc/self/mountinfo names relative to that
//! same root. Neither need be the root of the hierarchy: a container has its own group mounted, or
//! is in a namespace of its own, or both. Above the namespace's root both say `..` and no names.

use crate::source::Source;
use mw_model::{CgroupVersion, Missing, OriginKind};
use mw_proc::cgroup::{self, CgroupMount, Membership, MountedHierarchy, PathFromMount};
use mw_proc::mountinfo;
use mw_proc::mounts;
use std::time::{Duration, Instant};

/// Time limit of the search for our own group where its path has no name.
const SEARCH_BUDGET: Duration = Duration::from_millis(200);

/// The hierarchy that has the memory controller.
pub(super) struct Hierarchy {
    pub(super) version: CgroupVersion,
    pub(super) mount: String,
    /// The path of our own group below the mount, empty for the group at the mount point; or why it
    /// cannot be told.
    pub(super) own: Result<String, Missing>,
}

/// Finds the hierarchy; of several mounts, the one that shows our group and most of those above it.
pub(super) fn find(source: &Source) -> Result<Hierarchy, Missing> {
    find_with(source, MEMORY)
}

const MEMORY: &str = "memory";

/// The same for another controller.
pub(super) fn find_with(source: &Source, controller: &str) -> Result<Hierarchy, Missing> {
    let memberships = source.parse("/proc/self/cgroup", cgroup::parse_self);
    let hierarchies = mounted(source)?;
    let Some(version) = version(source, &hierarchies, controller)? else {
        return Err(without_hierarchy(source, memberships));
    };
    let memberships = memberships?;
    let path = own_path(&memberships, version, controller)
        .ok_or_else(|| Missing::absent("/proc/self/cgroup", "no memory group in it"))?;
    let mut mounts = CgroupMount::find(&hierarchies, &memberships, controller).into_iter();
    let is_v1 = version == CgroupVersion::V1;
    let mount = mounts.find(|mount| mount.is_v1 == is_v1).ok_or_else(|| no_mount(path))?;
    let own =
        own_group(source, &mount.target, mount.own).ok_or_else(|| not_shown(&mount.target, path));
    Ok(Hierarchy { version, mount: mount.target, own })
}

/// Mounts of cgroup hierarchies. In a captured tree every mount shows its hierarchy from the root on, as the capture
/// wrote it.
fn mounted(source: &Source) -> Result<Vec<MountedHierarchy>, Missing> {
    if source.kind() == OriginKind::Live
        && let Ok(mounts) = source.parse("/proc/self/mountinfo", mountinfo::parse)
    {
        return Ok(MountedHierarchy::visible(&mounts));
    }
    Ok(MountedHierarchy::of_tree(source.parse("/proc/mounts", mounts::parse)?))
}

/// The version that has the controller; none where no mount shows that one has it.
fn version(
    source: &Source,
    hierarchies: &[MountedHierarchy],
    wanted: &str,
) -> Result<Option<CgroupVersion>, Missing> {
    if hierarchies.iter().any(|hierarchy| hierarchy.has_v1(wanted)) {
        return Ok(Some(CgroupVersion::V1));
    }
    let mut failed = None;
    for hierarchy in hierarchies.iter().filter(|hierarchy| !hierarchy.is_v1) {
        match source.read(&format!("{}/cgroup.controllers", hierarchy.target)) {
            Ok(bytes) => {
                let controllers = String::from_utf8_lossy(&bytes).into_owned();
                if controllers.split_whitespace().any(|controller| controller == wanted) {
                    return Ok(Some(CgroupVersion::V2));
                }
            }
            Err(_) if shows(source, &hierarchy.target, wanted) => {
                return Ok(Some(CgroupVersion::V2));
            }
            Err(missing) => failed = Some(missing),
        }
    }
    failed.map_or(Ok(None), Err)
}

/// True for a copied tree without the list of controllers that has files of the controller: in its root group, in its own
/// group or in one below the root.
fn shows(source: &Source, mount: &str, controller: &str) -> bool {
    if source.kind() != OriginKind::Tree {
        return false;
    }
    let memberships = source.parse("/proc/self/cgroup", cgroup::parse_self).unwrap_or_default();
    let own = own_path(&memberships, CgroupVersion::V2, controller).unwrap_or("/");
    let is_there = |file: String| source.read(&file).is_ok();
    let has_use = |group: &str| is_there(format!("{mount}{group}/{controller}.current"));
    is_there(format!("{mount}/{controller}.stat"))
        || has_use(own.trim_end_matches('/'))
        || source
            .directories(mount)
            .is_ok_and(|names| names.iter().any(|name| has_use(&format!("/{name}"))))
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

fn not_shown(mount: &str, path: &str) -> Missing {
    let why = format!(
        "the memory limit of this process's cgroup ({path}) could not be determined: the mount does \
         not show it"
    );
    Missing::skipped(mount, why)
}

/// The path of our own group below the mount point; none where the mount does not show it.
fn own_group(source: &Source, mount: &str, own: PathFromMount) -> Option<String> {
    let pid = std::process::id().to_string();
    let deadline = Instant::now() + source.budget(SEARCH_BUDGET);
    let children = |group: &str| {
        let names =
            (Instant::now() <= deadline).then(|| source.directories(&format!("{mount}{group}")));
        names.and_then(Result::ok).unwrap_or_default()
    };
    let has_us = |group: &str| {
        let members = source.read(&format!("{mount}{group}/cgroup.procs")).unwrap_or_default();
        Instant::now() <= deadline
            && String::from_utf8_lossy(&members).lines().any(|line| line == pid)
    };
    own.search(children, has_us)
}
