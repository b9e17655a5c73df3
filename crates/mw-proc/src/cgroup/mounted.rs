//! Mounts of cgroup hierarchies, and where below them this process's own group is.
//!
//! /proc/self/cgroup names the process's group relative to the root of its cgroup namespace, and a
//! mount shows the hierarchy from some group on, which /proc/self/mountinfo names relative to that
//! same root. Neither need be the root of the hierarchy: a container has its own group mounted, or
//! is in a namespace of its own, or both. Above the namespace's root both say `..` and no names.

use super::Membership;
use crate::mountinfo::{MountInfo, MountTree};
use crate::mounts;

/// The most groups that are searched for our own where the kernel does not report its path.
const MAX_SEARCHED: usize = 512;

/// A cgroup hierarchy where it is mounted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MountedHierarchy {
    pub is_v1: bool,
    /// `MAJOR:MINOR` of the hierarchy.
    pub device: String,
    /// The group at the mount point, relative to the root of the reader's cgroup namespace.
    pub root: String,
    pub target: String,
    /// Options of the mount; of version 1 its controllers are among them.
    pub options: Vec<String>,
}

impl MountedHierarchy {
    /// Those that no other mount covers.
    #[must_use]
    pub fn visible(mounts: &[MountInfo]) -> Vec<Self> {
        let tree = MountTree::new(mounts);
        let visible = mounts.iter().filter(|mount| tree.is_visible(mount));
        let hierarchies = visible.filter_map(|mount| {
            let MountInfo { device, root, target, super_options, .. } = mount.clone();
            let is_v1 = is_v1(&mount.fstype)?;
            Some(Self { is_v1, device, root, target, options: super_options })
        });
        hierarchies.collect()
    }

    /// Those of a captured tree, each of which shows its hierarchy from the root on.
    #[must_use]
    pub fn of_tree(mounts: Vec<mounts::Mount>) -> Vec<Self> {
        let hierarchies = mounts.into_iter().filter_map(|mount| {
            let (is_v1, root) = (is_v1(&mount.fstype)?, "/".to_owned());
            let mounts::Mount { target, options, .. } = mount;
            Some(Self { is_v1, device: String::new(), root, target, options })
        });
        hierarchies.collect()
    }

    /// True if a hierarchy of version 1 has the controller. Version 2 tells in a file.
    #[must_use]
    pub fn has_v1(&self, controller: &str) -> bool {
        self.is_v1 && self.options.iter().any(|option| option == controller)
    }
}

fn is_v1(fstype: &str) -> Option<bool> {
    match fstype {
        "cgroup" => Some(true),
        "cgroup2" => Some(false),
        _ => None,
    }
}

/// A mount of the hierarchy that has a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupMount {
    pub is_v1: bool,
    pub target: String,
    /// Path of our own group below it.
    pub own: PathFromMount,
}

impl CgroupMount {
    /// The mounts of the hierarchy of `controller`, first the one that shows most of the groups above our own. A
    /// hierarchy of version 1 comes first, since a controller is in one hierarchy only. Empty where the process is in
    /// no such hierarchy.
    #[must_use]
    pub fn find(
        hierarchies: &[MountedHierarchy],
        memberships: &[Membership],
        controller: &str,
    ) -> Vec<Self> {
        let own = |is_v1: bool| {
            let is_own = |m: &&Membership| {
                if is_v1 { m.has_controller(controller) } else { m.is_unified() }
            };
            memberships.iter().find(is_own)
        };
        let with_it = hierarchies.iter().filter(|found| !found.is_v1 || found.has_v1(controller));
        let found = with_it.filter_map(|hierarchy| {
            let own = PathFromMount::new(&hierarchy.root, &own(hierarchy.is_v1)?.path);
            Some(Self { is_v1: hierarchy.is_v1, target: hierarchy.target.clone(), own })
        });
        let mut found: Vec<Self> = found.collect();
        found.sort_by_key(|mount| std::cmp::Reverse((mount.is_v1, mount.own.groups())));
        found
    }
}

/// The path from the group at a mount point to another group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathFromMount {
    /// Below the mount point, empty for the group at the mount point itself.
    Named(String),
    /// This many groups whose names the kernel does not report, then this path.
    Unnamed(usize, String),
    /// The mount shows another part of the hierarchy.
    None,
}

impl PathFromMount {
    /// From a mount of the group `root` (/proc/self/mountinfo) to the group `path`
    /// (/proc/self/cgroup).
    #[must_use]
    pub fn new(root: &str, path: &str) -> Self {
        let ((root_up, root), (up, path)) = (split(root), split(path));
        let path = match path.strip_prefix(root.as_str()) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => rest.to_owned(),
            _ => return Self::None,
        };
        match root_up.checked_sub(up) {
            Some(0) => Self::Named(path),
            Some(levels) if root.is_empty() => Self::Unnamed(levels, path),
            _ => Self::None,
        }
    }

    /// The path below the mount point, of which `children` lists the groups below one, and `has_us` tells whether a
    /// group is our own; both by their paths from the mount point. None where the mount does not show it.
    #[must_use]
    pub fn search(
        self,
        mut children: impl FnMut(&str) -> Vec<String>,
        mut has_us: impl FnMut(&str) -> bool,
    ) -> Option<String> {
        let (levels, path) = match self {
            Self::Named(path) => return Some(path),
            Self::Unnamed(levels, path) => (levels, path),
            Self::None => return None,
        };
        let mut groups = vec![String::new()];
        let mut left = MAX_SEARCHED;
        for _ in 0..levels {
            let mut below = Vec::new();
            for group in groups {
                let names = children(&group).into_iter().take(left);
                below.extend(names.map(|name| format!("{group}/{name}")));
                left = MAX_SEARCHED.saturating_sub(below.len());
            }
            groups = below;
        }
        groups.into_iter().map(|group| group + &path).find(|group| has_us(group))
    }

    /// Number of groups of the path that the mount shows, the last one included.
    #[must_use]
    pub fn groups(&self) -> usize {
        let named = |path: &str| path.matches('/').count().saturating_add(1);
        match self {
            Self::Named(path) => named(path),
            Self::Unnamed(levels, path) => named(path).saturating_add(*levels),
            Self::None => 0,
        }
    }
}

/// Number of levels that a path goes up first, and the path from there: `/a/b`, or nothing.
fn split(path: &str) -> (usize, String) {
    let parts = || path.split('/').filter(|part| !part.is_empty());
    let up = parts().take_while(|part| *part == "..").count();
    (up, parts().skip(up).map(|part| format!("/{part}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(path: &str) -> PathFromMount {
        PathFromMount::Named(path.to_owned())
    }

    #[test]
    fn to_our_own_group() {
        // A machine; a container that has its own group mounted; one in a namespace of its own.
        assert_eq!(PathFromMount::new("/", "/a/b"), named("/a/b"));
        assert_eq!(PathFromMount::new("/docker/1", "/docker/1"), named(""));
        assert_eq!(PathFromMount::new("/", "/"), named(""));
        // Moved out of the namespace's root, with a mount of what is above.
        assert_eq!(PathFromMount::new("/..", "/../other"), named("/other"));
        // A new namespace over the machine's own mount.
        assert_eq!(PathFromMount::new("/../..", "/"), PathFromMount::Unnamed(2, String::new()));
        assert_eq!(PathFromMount::new("/../..", "/x"), PathFromMount::Unnamed(2, "/x".to_owned()));
        assert_eq!(
            PathFromMount::new("/../..", "/../x"),
            PathFromMount::Unnamed(1, "/x".to_owned())
        );
    }

    #[test]
    fn a_mount_that_does_not_show_our_own_group() {
        assert_eq!(PathFromMount::new("/docker/1", "/docker/2"), PathFromMount::None);
        assert_eq!(PathFromMount::new("/docker/1", "/docker/12"), PathFromMount::None);
        assert_eq!(PathFromMount::new("/", "/../other"), PathFromMount::None);
        assert_eq!(PathFromMount::new("/../other", "/"), PathFromMount::None);
        assert_eq!(PathFromMount::new("/a", "/"), PathFromMount::None);
    }

    const MOUNTS: &str = "\
29 1 254:0 / / rw - ext4 /dev/vda rw
31 29 0:21 / /cg rw - tmpfs tmpfs rw
32 31 0:22 / /cg/memory rw - cgroup cgroup rw,memory
33 32 0:22 /a/in /cg/memory rw - cgroup cgroup rw,memory
34 31 0:23 / /cg/cpu rw - cgroup cgroup rw,cpu
35 31 0:24 /a /cg/part rw - cgroup2 cgroup2 rw
36 31 0:24 / /cg/all rw - cgroup2 cgroup2 rw
";

    fn found(mounts: &str, controller: &str) -> Vec<(bool, String, PathFromMount)> {
        let mounts = crate::mountinfo::parse(mounts.as_bytes()).unwrap();
        let own = b"4:memory:/a/in/b\n3:cpu:/\n0::/a/x\n";
        let memberships = super::super::parse_self(own).unwrap();
        let hierarchies = MountedHierarchy::visible(&mounts);
        let found = CgroupMount::find(&hierarchies, &memberships, controller);
        found.into_iter().map(|mount| (mount.is_v1, mount.target, mount.own)).collect()
    }

    #[test]
    fn mounts_that_are_covered_do_not_count_and_the_most_complete_comes_first() {
        let unified = [
            (false, "/cg/all".to_owned(), named("/a/x")),
            (false, "/cg/part".to_owned(), named("/x")),
        ];
        assert_eq!(found(MOUNTS, "io"), unified);
        let memory = found(MOUNTS, "memory");
        assert_eq!(memory[0], (true, "/cg/memory".to_owned(), named("/b")));
        assert_eq!(memory[1..], unified);
        let covered = format!("{MOUNTS}37 31 0:25 / /cg rw - tmpfs tmpfs rw\n");
        assert_eq!(found(&covered, "memory"), []);
    }

    #[test]
    fn a_group_without_a_name_is_searched_for() {
        let children = |group: &str| match group {
            "" => vec!["a".to_owned(), "b".to_owned()],
            _ => vec!["c".to_owned()],
        };
        let search = |levels| {
            let path = PathFromMount::Unnamed(levels, "/x".to_owned());
            path.search(children, |group| group == "/b/c/x")
        };
        assert_eq!((search(2), search(1)), (Some("/b/c/x".to_owned()), None));
        assert_eq!(named("/y").search(children, |_| false), Some("/y".to_owned()));
    }

    #[test]
    fn the_more_groups_it_shows_the_better() {
        let groups = |root, path| PathFromMount::new(root, path).groups();
        assert_eq!([groups("/", "/a/b"), groups("/a", "/a/b"), groups("/c", "/a/b")], [3, 2, 0]);
        assert_eq!(groups("/../..", "/"), 3);
    }
}
