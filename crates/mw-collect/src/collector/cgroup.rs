//! Memory cgroups, version 1, 2 and hybrid: our own and its ancestors, and a bounded number of
//! groups with a limit.

use crate::source::Source;
use mw_model::{Cgroup, CgroupVersion, Cgroups, Missing};
use mw_proc::cgroup::{self, Membership, MemoryEvents, MemoryStat};
use mw_proc::mounts;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How deep the search for groups with a limit goes: kubernetes puts a container's group fourth.
const MAX_DEPTH: usize = 5;

/// The most groups that are looked at.
const MAX_GROUPS: usize = 512;

/// How long the search may take.
const BUDGET: Duration = Duration::from_millis(5);

/// The hierarchy that has the memory controller.
struct Hierarchy {
    version: CgroupVersion,
    /// Where it is mounted.
    mount: String,
}

pub(crate) fn collect(source: &Source) -> Result<Cgroups, Missing> {
    let hierarchy = find(source)?;
    let own_path = own_path(source, hierarchy.version)?;
    let own = ancestry(&own_path).iter().filter_map(|p| hierarchy.group(source, p)).collect();
    let mut walk = Walk {
        source,
        hierarchy: &hierarchy,
        deadline: Instant::now() + source.budget(BUDGET),
        left: MAX_GROUPS,
        limited: Vec::new(),
    };
    let complete = walk.descend("", 0);
    let limited = walk.limited;
    let Hierarchy { version, mount } = hierarchy;
    Ok(Cgroups { version, mount, own, limited, truncated: !complete })
}

fn find(source: &Source) -> Result<Hierarchy, Missing> {
    let mounts = source.parse("/proc/mounts", mounts::parse)?;
    let v1 = mounts.iter().find(|m| m.fstype == "cgroup" && m.has_option("memory"));
    if let Some(mount) = v1 {
        return Ok(Hierarchy { version: CgroupVersion::V1, mount: mount.target.clone() });
    }
    let v2 = mounts.iter().find(|m| m.fstype == "cgroup2" && has_memory(source, &m.target));
    v2.map(|mount| Hierarchy { version: CgroupVersion::V2, mount: mount.target.clone() })
        .ok_or_else(|| {
            Missing::absent("/sys/fs/cgroup", "no hierarchy with the memory controller is mounted")
        })
}

fn has_memory(source: &Source, mount: &str) -> bool {
    let path = format!("{mount}/cgroup.controllers");
    source.read(&path).is_ok_and(|bytes| {
        String::from_utf8_lossy(&bytes).split_whitespace().any(|c| c == "memory")
    })
}

fn own_path(source: &Source, version: CgroupVersion) -> Result<String, Missing> {
    let memberships = source.parse("/proc/self/cgroup", cgroup::parse_self)?;
    let is_ours = |m: &&Membership| match version {
        CgroupVersion::V1 => m.controllers.iter().any(|c| c == "memory"),
        CgroupVersion::V2 => m.hierarchy == 0,
    };
    let path = memberships.iter().find(is_ours).map(|m| m.path.clone());
    path.ok_or_else(|| Missing::absent("/proc/self/cgroup", "no memory group in it"))
}

/// A file of a group.
pub(crate) struct GroupFile {
    /// Where the hierarchy is mounted.
    pub(crate) mount: String,
    /// The group's path, empty for the root.
    pub(crate) group: String,
    /// The file's name.
    pub(crate) name: &'static str,
}

const FILES_V1: &[&str] = &[
    "memory.usage_in_bytes",
    "memory.limit_in_bytes",
    "memory.failcnt",
    "memory.oom_control",
    "memory.stat",
];
const FILES_V2: &[&str] = &[
    "memory.current",
    "memory.max",
    "memory.high",
    "memory.events",
    "memory.stat",
    "cgroup.controllers",
];

/// The files of the groups that [`collect`] looks at, for a capture.
pub(crate) fn files(source: &Source) -> Result<Vec<GroupFile>, Missing> {
    let mount = find(source)?.mount;
    let cgroups = collect(source)?;
    let names = match cgroups.version {
        CgroupVersion::V1 => FILES_V1,
        CgroupVersion::V2 => FILES_V2,
    };
    let groups: BTreeSet<&str> = (cgroups.own.iter().chain(&cgroups.limited))
        .map(|group| group.path.trim_end_matches('/'))
        .chain([""])
        .collect();
    let of_group = |group: &str| {
        let file =
            |name: &&'static str| GroupFile { mount: mount.clone(), group: group.to_owned(), name };
        names.iter().map(file).collect::<Vec<_>>()
    };
    Ok(groups.into_iter().flat_map(of_group).collect())
}

/// `/a/b` gives `/a/b`, `/a`, `/`: the group and what stands above it.
fn ancestry(path: &str) -> Vec<String> {
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

impl Hierarchy {
    /// Reads one group; `None` when it is not there (a container sees its own group as the root).
    fn group(&self, source: &Source, path: &str) -> Option<Cgroup> {
        let dir = format!("{}{}", self.mount, path.trim_end_matches('/'));
        let limit = |file: &str| source.parse(&format!("{dir}/{file}"), cgroup::parse_limit);
        let number = |file: &str| source.number(&format!("{dir}/{file}")).ok();
        let stat = source.parse(&format!("{dir}/memory.stat"), MemoryStat::parse).ok()?;
        let path = path.to_owned();
        Some(match self.version {
            CgroupVersion::V1 => Cgroup {
                path,
                current_bytes: number("memory.usage_in_bytes"),
                max_bytes: limit("memory.limit_in_bytes").ok().flatten(),
                high_bytes: None,
                stat,
                events: MemoryEvents {
                    max: number("memory.failcnt"),
                    oom_kill: source
                        .parse(&format!("{dir}/memory.oom_control"), cgroup::parse_oom_control)
                        .ok()
                        .and_then(|control| control.oom_kill),
                    ..MemoryEvents::default()
                },
            },
            CgroupVersion::V2 => Cgroup {
                path,
                current_bytes: number("memory.current"),
                max_bytes: limit("memory.max").ok().flatten(),
                high_bytes: limit("memory.high").ok().flatten(),
                stat,
                events: source
                    .parse(&format!("{dir}/memory.events"), MemoryEvents::parse)
                    .unwrap_or_default(),
            },
        })
    }

    fn has_limit(&self, source: &Source, path: &str) -> bool {
        let files: &[&str] = match self.version {
            CgroupVersion::V1 => &["memory.limit_in_bytes"],
            CgroupVersion::V2 => &["memory.max", "memory.high"],
        };
        files.iter().any(|file| {
            let file = format!("{}{path}/{file}", self.mount);
            source.parse(&file, cgroup::parse_limit).is_ok_and(|limit| limit.is_some())
        })
    }
}

/// The search for groups with a limit.
struct Walk<'a> {
    source: &'a Source,
    hierarchy: &'a Hierarchy,
    deadline: Instant,
    left: usize,
    limited: Vec<Cgroup>,
}

impl Walk<'_> {
    /// Looks at the groups below `path`; whether all of them were looked at.
    fn descend(&mut self, path: &str, depth: usize) -> bool {
        if depth == MAX_DEPTH {
            return true;
        }
        let dir = format!("{}{path}", self.hierarchy.mount);
        for name in self.source.list(&dir).unwrap_or_default() {
            // Files of the controllers have a dot and no directory below them.
            let child = format!("{path}/{name}");
            if name.starts_with("memory.") || name.starts_with("cgroup.") {
                continue;
            }
            if self.source.list(&format!("{dir}/{name}")).is_err() {
                continue;
            }
            if self.left == 0 || Instant::now() > self.deadline {
                return false;
            }
            self.left -= 1;
            if self.hierarchy.has_limit(self.source, &child) {
                self.limited.extend(self.hierarchy.group(self.source, &child));
            }
            if !self.descend(&child, depth + 1) {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_stands_below_its_ancestors() {
        assert_eq!(ancestry("/a.slice/b.scope"), ["/a.slice/b.scope", "/a.slice", "/"]);
        assert_eq!(ancestry("/"), ["/"]);
        assert_eq!(ancestry(""), ["/"]);
    }
}
