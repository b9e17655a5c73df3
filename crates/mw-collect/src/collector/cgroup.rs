//! Memory cgroups, version 1, 2 and hybrid: our own and its ancestors, and a bounded number of
//! groups with a limit or protection.

mod hierarchy;
mod hugetlb;
mod memories;
mod tasks;
#[cfg(test)]
mod test_tree;

use crate::source::Source;
use hierarchy::{Hierarchy, ancestry};
pub(crate) use memories::{memories, memories_within};
use mw_model::{Absence, Cgroup, CgroupVersion, Cgroups, Missing, OriginKind};
use mw_proc::cgroup::{self, MemoryEvents, MemoryStat};
use mw_proc::pressure::Pressure;
use mw_sys::thread_time;
use std::collections::BTreeSet;
use std::time::Duration;
pub(crate) use tasks::{task_files, task_limits};

/// Depth of the search for groups with a limit: kubernetes puts a container's group fourth, and eighth where its node is a
/// container itself.
const MAX_DEPTH: usize = 10;

/// The most groups that are looked at.
const MAX_GROUPS: usize = 512;

/// CPU time that the search may take: on a busy machine time passes without progress at
/// any group.
const BUDGET: Duration = Duration::from_millis(5);

/// `page_bytes`: the sizes of huge pages, whose limits are looked at.
pub(crate) fn collect(source: &Source, page_bytes: &[u64]) -> Result<Cgroups, Missing> {
    let hierarchy = hierarchy::find(source)?;
    let mut unseen = Vec::new();
    let own = own_groups(source, &hierarchy, &mut unseen);
    let limit_above_bytes = limit_above(&hierarchy, &own);
    let above_unseen = above_unseen(source, &hierarchy);
    let mut walk = LimitWalk {
        source,
        hierarchy: &hierarchy,
        deadline: thread_time() + source.budget(BUDGET),
        left: MAX_GROUPS,
        limited: Vec::new(),
    };
    let version_protects = hierarchy.version == CgroupVersion::V2;
    let truncated = !walk.descend("", 0, version_protects, None);
    let limited = walk.limited;
    let swappiness = swappiness(source, &hierarchy);
    let Hierarchy { version, mount, .. } = hierarchy;
    let hugetlb = hugetlb::limits(source, page_bytes);
    let dying = source.parse(&format!("{mount}/{STAT}"), cgroup::parse_dying).ok();
    Ok(Cgroups {
        version,
        mount,
        own,
        limited,
        truncated,
        hugetlb,
        dying,
        swappiness,
        limit_above_bytes,
        above_unseen,
        unseen,
    })
}

/// The file of a group of version 1 that says how much it swaps.
const SWAPPINESS: &str = "memory.swappiness";

/// The groups directly below the root of version 1, with their swappiness.
fn swappiness(source: &Source, hierarchy: &Hierarchy) -> Vec<(String, u64)> {
    const MAX_GROUPS: usize = 32;
    let names = match hierarchy.version {
        CgroupVersion::V1 => source.directories(&hierarchy.mount).unwrap_or_default(),
        CgroupVersion::V2 => Vec::new(),
    };
    let of = |name: String| {
        let file = format!("{}/{name}/{SWAPPINESS}", hierarchy.mount);
        Some((format!("/{name}"), source.number(&file).ok()?))
    };
    names.into_iter().take(MAX_GROUPS).filter_map(of).collect()
}

/// The limits of groups, in bytes; `None` for a group without one.
pub(crate) fn limits(source: &Source, paths: &[&str]) -> Vec<Option<u64>> {
    let Ok(hierarchy) = hierarchy::find(source) else { return vec![None; paths.len()] };
    let file = match hierarchy.version {
        CgroupVersion::V1 => "memory.limit_in_bytes",
        CgroupVersion::V2 => "memory.max",
    };
    let limit = |path: &&str| {
        let path = format!("{}{}/{file}", hierarchy.mount, path.trim_end_matches('/'));
        source.parse(&path, cgroup::parse_limit).ok().flatten()
    };
    paths.iter().map(limit).collect()
}

/// Our own group and those above it that the mount shows, with what of their limits could not be
/// read.
fn own_groups(source: &Source, hierarchy: &Hierarchy, unseen: &mut Vec<Missing>) -> Vec<Cgroup> {
    let path = match &hierarchy.own {
        Ok(path) => path,
        Err(missing) => {
            unseen.push(missing.clone());
            return Vec::new();
        }
    };
    let mut own = Vec::new();
    for path in ancestry(path) {
        match hierarchy.group(source, &path, unseen) {
            Some(group) => own.push(group),
            None => unseen.extend(hierarchy.hidden(source, &path)),
        }
    }
    own
}

/// Message where a limit may exist and was not seen.
const NOT_DETERMINED: &str = "the memory limit of this cgroup could not be determined";

/// The lowest limit of the groups above those that the mount shows, where it is lower than theirs.
/// Version 1 has it in every group; version 2 does not.
fn limit_above(hierarchy: &Hierarchy, own: &[Cgroup]) -> Option<u64> {
    if hierarchy.version == CgroupVersion::V2 {
        return None;
    }
    let visible = own.iter().filter_map(|group| group.max_bytes).min();
    let lowest = own.iter().filter_map(|group| group.stat.hierarchical_limit_bytes).min();
    lowest.filter(|lowest| visible.is_none_or(|visible| *lowest < visible))
}

/// The reason that limits of groups above those that the mount shows are not known, if there are such groups. Every
/// group has a type but the root of the hierarchy.
fn above_unseen(source: &Source, hierarchy: &Hierarchy) -> Option<Missing> {
    let is_below = hierarchy.version == CgroupVersion::V2
        && source.open(&format!("{}/cgroup.type", hierarchy.mount)).is_ok();
    let why = "limits of the groups above this container's could not be determined: its cgroup \
               namespace hides them";
    is_below.then(|| Missing::skipped(&hierarchy.mount, why))
}

/// A file of a group.
pub(crate) struct GroupFile {
    /// Mount point of the hierarchy.
    pub(crate) mount: String,
    /// The group's path, empty for the root.
    pub(crate) group: String,
    pub(crate) name: &'static str,
}

/// The file of every group of version 2 that counts the groups below it.
const STAT: &str = "cgroup.stat";

/// The file of a group of version 2 with the time that its tasks waited for memory.
const PRESSURE: &str = "memory.pressure";

/// The files of a group of version 2 with what reclaim leaves to it.
const MIN: &str = "memory.min";
const LOW: &str = "memory.low";

const FILES_V1: &[&str] = &[
    "memory.usage_in_bytes",
    "memory.limit_in_bytes",
    "memory.memsw.usage_in_bytes",
    "memory.memsw.limit_in_bytes",
    "memory.kmem.usage_in_bytes",
    "memory.kmem.limit_in_bytes",
    "memory.kmem.failcnt",
    "memory.failcnt",
    "memory.oom_control",
    "memory.stat",
];
const FILES_V2: &[&str] = &[
    "memory.current",
    "memory.max",
    "memory.high",
    MIN,
    LOW,
    "memory.swap.current",
    "memory.swap.high",
    "memory.swap.max",
    "memory.events",
    "memory.events.local",
    "memory.stat",
    PRESSURE,
    "cgroup.controllers",
    STAT,
];

/// The files of the groups that [`collect`] and [`memories`] look at, for a capture.
pub(crate) fn files(source: &Source) -> Result<Vec<GroupFile>, Missing> {
    let mount = hierarchy::find(source)?.mount;
    let cgroups = collect(source, &[])?;
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
    let mut files: Vec<GroupFile> = groups.iter().flat_map(|group| of_group(group)).collect();
    files.extend(cgroups.swappiness.into_iter().map(|(group, _)| GroupFile {
        mount: mount.clone(),
        group,
        name: SWAPPINESS,
    }));
    // Of the others, what they are charged for.
    for memory in memories(source).map(|memories| memories.list).unwrap_or_default() {
        let group = memory.path.trim_end_matches('/').to_owned();
        if !groups.contains(group.as_str()) {
            files.push(GroupFile { mount: mount.clone(), group, name: "memory.stat" });
        }
    }
    Ok(files)
}

/// /proc/self/cgroup for a capture: our own memory group as the mount shows it, whose files are
/// captured below the mount, in place of how the cgroup namespace names it.
pub(crate) fn as_mounted(source: &Source, text: &str) -> String {
    let Ok(Hierarchy { version, own: Ok(own), .. }) = hierarchy::find(source) else {
        return text.to_owned();
    };
    let own = if own.is_empty() { "/" } else { &own };
    let line = |line: &str| {
        let mut parts = line.splitn(3, ':');
        let (number, controllers) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        let is_ours = match version {
            CgroupVersion::V1 => controllers.split(',').any(|name| name == "memory"),
            CgroupVersion::V2 => number == "0" && controllers.is_empty(),
        };
        if is_ours { format!("{number}:{controllers}:{own}\n") } else { format!("{line}\n") }
    };
    text.lines().map(line).collect()
}

impl Hierarchy {
    /// Reads one group; `None` when it is not there or has no memory controller.
    fn group(&self, source: &Source, path: &str, unseen: &mut Vec<Missing>) -> Option<Cgroup> {
        let below = path.trim_end_matches('/');
        let dir = format!("{}{below}", self.mount);
        let number = |file: &str| source.number(&format!("{dir}/{file}")).ok();
        let stat = match source.parse(&format!("{dir}/memory.stat"), MemoryStat::parse) {
            Ok(stat) => stat,
            Err(missing) => {
                add_undetermined(missing, unseen);
                return None;
            }
        };
        let mut limit = |file: &str| {
            let limit = source.parse(&format!("{dir}/{file}"), cgroup::parse_limit);
            limit.map_err(|missing| add_undetermined(missing, unseen)).ok().flatten()
        };
        let path = path.to_owned();
        Some(match self.version {
            CgroupVersion::V1 => Cgroup {
                path,
                current_bytes: number("memory.usage_in_bytes"),
                max_bytes: limit("memory.limit_in_bytes"),
                high_bytes: None,
                min_bytes: 0,
                low_bytes: 0,
                is_leaf: false,
                swap_max_bytes: limit("memory.memsw.limit_in_bytes"),
                swap_high_bytes: None,
                swap_current_bytes: number("memory.memsw.usage_in_bytes"),
                kernel_bytes: number("memory.kmem.usage_in_bytes"),
                kernel_limit_bytes: source
                    .parse(&format!("{dir}/memory.kmem.limit_in_bytes"), cgroup::parse_limit)
                    .ok()
                    .flatten(),
                kernel_failures: number("memory.kmem.failcnt"),
                stat,
                pressure: None,
                events: MemoryEvents {
                    max: number("memory.failcnt"),
                    oom_kill: kills_v1(source, &dir),
                    ..MemoryEvents::default()
                },
            },
            CgroupVersion::V2 => {
                let (current_bytes, max_bytes) = (number("memory.current"), limit("memory.max"));
                Cgroup {
                    path,
                    current_bytes,
                    max_bytes,
                    high_bytes: limit("memory.high"),
                    min_bytes: self.protected_bytes(source, below, MIN),
                    low_bytes: self.protected_bytes(source, below, LOW),
                    is_leaf: false,
                    swap_max_bytes: limit("memory.swap.max"),
                    swap_high_bytes: limit("memory.swap.high"),
                    swap_current_bytes: number("memory.swap.current"),
                    kernel_bytes: None,
                    kernel_limit_bytes: None,
                    kernel_failures: None,
                    stat,
                    pressure: pressure_of_full(source, &dir, current_bytes, max_bytes),
                    events: events_v2(source, &dir),
                }
            }
        })
    }

    /// The reason that a group of ours is absent; none where it merely lacks the controller.
    fn hidden(&self, source: &Source, path: &str) -> Option<Missing> {
        let members = format!("{}{}/cgroup.procs", self.mount, path.trim_end_matches('/'));
        let missing = source.open(&members).err()?;
        let why = match missing.absence {
            // The kernel gave bytes that the path has replaced.
            Absence::Absent if path.contains(char::REPLACEMENT_CHARACTER) => {
                "its name is not UTF-8".to_owned()
            }
            Absence::Absent => "another mount hides it".to_owned(),
            Absence::Skipped | Absence::Failed | Absence::Masked => missing.why,
        };
        let why = format!("{NOT_DETERMINED}: {why}");
        (source.kind() == OriginKind::Live).then(|| Missing::skipped(members, why))
    }

    /// `memory.min` or `memory.low` of a group; `max` protects all of it.
    fn protected_bytes(&self, source: &Source, path: &str, file: &str) -> u64 {
        let file = format!("{}{path}/{file}", self.mount);
        source.parse(&file, cgroup::parse_limit).map_or(0, |bytes| bytes.unwrap_or(u64::MAX))
    }

    fn has_limit(&self, source: &Source, path: &str) -> bool {
        let files: &[&str] = match self.version {
            CgroupVersion::V1 => &["memory.limit_in_bytes", "memory.kmem.limit_in_bytes"],
            CgroupVersion::V2 => &["memory.max", "memory.high"],
        };
        files.iter().any(|file| {
            let file = format!("{}{path}/{file}", self.mount);
            source.parse(&file, cgroup::parse_limit).is_ok_and(|limit| limit.is_some())
        })
    }
}

/// A file that is not there is no limit: the root of version 2 has none, and so has a group without
/// the controller. One that cannot be read may be.
fn add_undetermined(missing: Missing, unseen: &mut Vec<Missing>) {
    if missing.absence != Absence::Absent {
        let why = format!("{NOT_DETERMINED}: {}", missing.why);
        unseen.push(Missing { why, ..missing });
    }
}

/// Pressure of a group whose memory has reached memory.max: reclaim leaves it a little below.
fn pressure_of_full(
    source: &Source,
    dir: &str,
    current_bytes: Option<u64>,
    max_bytes: Option<u64>,
) -> Option<Pressure> {
    const MOST_BELOW_BYTES: u64 = 16 << 20;
    let limit = max_bytes?;
    let below = limit.saturating_sub(current_bytes?);
    let is_full = below <= MOST_BELOW_BYTES.min(limit / 64);
    let read = || source.parse(&format!("{dir}/{PRESSURE}"), Pressure::parse).ok();
    is_full.then(read).flatten()
}

fn events_v2(source: &Source, dir: &str) -> MemoryEvents {
    let read = |name: &str| source.parse(&format!("{dir}/{name}"), MemoryEvents::parse).ok();
    let events = read("memory.events").unwrap_or_default();
    read("memory.events.local").map_or(events, |local| events.of_own_limits(local))
}

/// Processes of a group of version 1 that the OOM killer has killed. The kernel counts them where they were, and not in
/// the group whose limit was met (include/linux/memcontrol.h, `memcg_memory_event()`).
fn kills_v1(source: &Source, dir: &str) -> Option<u64> {
    let file = format!("{dir}/memory.oom_control");
    source.parse(&file, cgroup::parse_oom_control).ok()?.oom_kill
}

/// The search for groups with a limit.
struct LimitWalk<'a> {
    source: &'a Source,
    hierarchy: &'a Hierarchy,
    /// The [`thread_time`] at which it ends.
    deadline: Duration,
    left: usize,
    limited: Vec<Cgroup>,
}

impl LimitWalk<'_> {
    /// Looks at the groups below `path`; whether all of them were looked at. A group is protected only within what
    /// its parent is. `limited` is the place of the lowest group with a limit that they are in.
    fn descend(
        &mut self,
        path: &str,
        depth: usize,
        may_protect: bool,
        limited: Option<usize>,
    ) -> bool {
        if depth == MAX_DEPTH {
            return true;
        }
        let dir = format!("{}{path}", self.hierarchy.mount);
        for name in self.source.directories(&dir).unwrap_or_default() {
            let child = format!("{path}/{name}");
            if self.left == 0 || thread_time() > self.deadline {
                return false;
            }
            self.left -= 1;
            let protects = |file| self.hierarchy.protected_bytes(self.source, &child, file) > 0;
            let is_protected = may_protect && protects(MIN);
            let is_known = is_protected
                || self.hierarchy.has_limit(self.source, &child)
                || (may_protect && depth == 0 && protects(LOW));
            let mut limited = limited;
            if is_known {
                let group = self.hierarchy.group(self.source, &child, &mut Vec::new());
                let is_leaf = is_protected && self.is_leaf(&child);
                limited = group.as_ref().map(|_| self.limited.len()).or(limited);
                self.limited.extend(group.map(|group| Cgroup { is_leaf, ..group }));
            } else if let Some(at) = limited {
                self.add_kills(&child, at);
            }
            if !self.descend(&child, depth + 1, is_protected, limited) {
                return false;
            }
        }
        true
    }

    /// Adds the kills of a group without a limit to those of a group above it, where the kernel does not.
    fn add_kills(&mut self, path: &str, limited: usize) {
        if self.hierarchy.version != CgroupVersion::V1 {
            return;
        }
        let kills = kills_v1(self.source, &format!("{}{path}", self.hierarchy.mount));
        if let (Some(kills), Some(group)) = (kills, self.limited.get_mut(limited)) {
            let counted = group.events.oom_kill.unwrap_or(0);
            group.events.oom_kill = Some(counted.saturating_add(kills));
        }
    }

    fn is_leaf(&self, path: &str) -> bool {
        let dir = format!("{}{path}", self.hierarchy.mount);
        self.source.directories(&dir).is_ok_and(|names| names.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_file(root: &std::path::Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// A tree with groups of version 2, each with a limit, and a file that is none.
    fn tree(groups: &[String]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| write_file(root.path(), path, text);
        write("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n");
        write("proc/self/cgroup", "0::/\n");
        write("sys/fs/cgroup/cgroup.controllers", "memory\n");
        write("sys/fs/cgroup/memory.stat", "anon 4096\n");
        for group in groups {
            write(&format!("sys/fs/cgroup/{group}/memory.max"), "8192\n");
            write(&format!("sys/fs/cgroup/{group}/memory.stat"), "anon 4096\n");
        }
        root
    }

    fn limited(root: &tempfile::TempDir) -> (Vec<String>, bool) {
        let found = collect(&Source::tree(root.path()).unwrap(), &[]).unwrap();
        (found.limited.into_iter().map(|group| group.path).collect(), found.truncated)
    }

    #[test]
    fn groups_are_told_from_files_by_what_they_are() {
        let groups = ["cgroup.a", "memory.slice", "memory.slice/in"].map(str::to_owned);
        let expected = groups.iter().map(|group| format!("/{group}")).collect();
        assert_eq!(limited(&tree(&groups)), (expected, false));
    }

    #[test]
    fn what_was_found_before_the_bound_is_kept() {
        let root = tree(&["a", "b", "c"].map(str::to_owned));
        let source = Source::tree(root.path()).unwrap();
        let hierarchy = hierarchy::find(&source).unwrap();
        let deadline = thread_time() + source.budget(BUDGET);
        let mut walk = LimitWalk {
            source: &source,
            hierarchy: &hierarchy,
            deadline,
            left: 2,
            limited: Vec::new(),
        };
        assert!(!walk.descend("", 0, true, None));
        let found: Vec<_> = walk.limited.iter().map(|group| group.path.as_str()).collect();
        assert_eq!(found, ["/a", "/b"]);
    }

    #[test]
    fn a_group_stands_below_its_ancestors() {
        assert_eq!(ancestry("/a.slice/b.scope"), ["/a.slice/b.scope", "/a.slice", "/"]);
        assert_eq!(ancestry("/"), ["/"]);
        assert_eq!(ancestry(""), ["/"]);
    }

    /// Promise (Findings): A kill of version 1 counts at the limit that was met, wherever the killed process was.
    #[test]
    fn kills_below_a_limit_are_its_own() {
        const MOUNT: &str = "sys/fs/cgroup/memory";
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| write_file(root.path(), path, text);
        write("proc/mounts", "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n");
        write("proc/self/cgroup", "9:memory:/\n");
        let none = "9223372036854771712";
        let groups = [
            ("", none, 1),
            ("/a.slice", "8192", 0),
            ("/a.slice/b.service", none, 3),
            ("/a.slice/c.service", "4096", 2),
            ("/d.slice", none, 5),
        ];
        for (group, limit, kills) in groups {
            write(&format!("{MOUNT}{group}/memory.limit_in_bytes"), limit);
            write(&format!("{MOUNT}{group}/memory.stat"), "rss 4096\n");
            let control = format!("oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n");
            write(&format!("{MOUNT}{group}/memory.oom_control"), &control);
        }
        let found = collect(&Source::tree(root.path()).unwrap(), &[]).unwrap();
        let kills = |group: Cgroup| (group.path, group.events.oom_kill);
        let mut kills: Vec<_> = found.limited.into_iter().map(kills).collect();
        kills.sort();
        let expected = [("/a.slice", Some(3)), ("/a.slice/c.service", Some(2))];
        assert_eq!(kills, expected.map(|(path, kills)| (path.to_owned(), kills)));
    }
}
