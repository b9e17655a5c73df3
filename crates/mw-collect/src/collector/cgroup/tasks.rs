//! Cgroups by their limit of tasks: the pids controller, which in version 1 has a hierarchy of its own.

use super::GroupFile;
use super::hierarchy;
use crate::source::Source;
use mw_model::{GroupTasks, Missing};
use mw_sys::thread_time;
use std::cmp::Reverse;
use std::time::Duration;

/// Depth of the search: systemd puts an application of a user seventh.
const MAX_DEPTH: usize = 7;

/// The most groups that are looked at.
const MAX_GROUPS: usize = 1024;

/// The fullest groups that are kept.
const MAX_KEPT: usize = 16;

/// CPU time that the search may take: 10 to 20 µs a group.
const BUDGET: Duration = Duration::from_millis(5);

const LIMIT: &str = "pids.max";
const TASKS: &str = "pids.current";

/// Groups that have at least half of the tasks that their limit allows, the fullest first.
///
/// # Errors
/// No hierarchy with the controller is visible.
pub(crate) fn task_limits(source: &Source) -> Result<Vec<GroupTasks>, Missing> {
    let mount = hierarchy::find_with(source, "pids")?.mount;
    let deadline = thread_time() + source.budget(BUDGET);
    let mut walk = TaskWalk { source, mount, deadline, left: MAX_GROUPS, found: Vec::new() };
    walk.descend("", 0);
    walk.found.sort_by_key(|group| Reverse(group.tasks.saturating_mul(1000) / group.limit.max(1)));
    walk.found.truncate(MAX_KEPT);
    Ok(walk.found)
}

/// The files of these groups, for a capture.
pub(crate) fn task_files(source: &Source) -> Vec<GroupFile> {
    let Ok(mount) = hierarchy::find_with(source, "pids").map(|found| found.mount) else {
        return Vec::new();
    };
    let groups = task_limits(source).unwrap_or_default().into_iter();
    let of_group = |group: GroupTasks| {
        [LIMIT, TASKS].map(|name| GroupFile {
            mount: mount.clone(),
            group: group.path.clone(),
            name,
        })
    };
    groups.flat_map(of_group).collect()
}

struct TaskWalk<'a> {
    source: &'a Source,
    mount: String,
    /// The [`thread_time`] at which it ends.
    deadline: Duration,
    left: usize,
    found: Vec<GroupTasks>,
}

impl TaskWalk<'_> {
    fn descend(&mut self, path: &str, depth: usize) {
        if depth == MAX_DEPTH {
            return;
        }
        let dir = format!("{}{path}", self.mount);
        for name in self.source.directories(&dir).unwrap_or_default() {
            if self.left == 0 || thread_time() > self.deadline {
                return;
            }
            self.left -= 1;
            let child = format!("{path}/{name}");
            let file = format!("{}{child}/{LIMIT}", self.mount);
            // A group without a limit has `max` in it.
            if let Ok(limit) = self.source.number(&file)
                && let Ok(tasks) = self.source.number(&format!("{}{child}/{TASKS}", self.mount))
                && tasks >= limit / 2
            {
                self.found.push(GroupTasks { path: child.clone(), tasks, limit, file });
            }
            self.descend(&child, depth + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_tree::tree;
    use super::*;

    #[test]
    fn limits_of_both_versions_are_found_the_fullest_first() {
        let v1 = tree(&[
            ("proc/mounts", "cgroup /sys/fs/cgroup/pids cgroup rw,pids 0 0\n"),
            ("proc/self/cgroup", "4:pids:/user.slice\n3:memory:/other\n"),
            ("sys/fs/cgroup/pids/docker/a/pids.max", "100\n"),
            ("sys/fs/cgroup/pids/docker/a/pids.current", "99\n"),
            ("sys/fs/cgroup/pids/docker/b/pids.max", "100\n"),
            ("sys/fs/cgroup/pids/docker/b/pids.current", "100\n"),
            ("sys/fs/cgroup/pids/docker/c/pids.max", "100\n"),
            ("sys/fs/cgroup/pids/docker/c/pids.current", "49\n"),
            ("sys/fs/cgroup/pids/docker/d/pids.max", "max\n"),
            ("sys/fs/cgroup/pids/docker/d/pids.current", "4000\n"),
        ]);
        let v2 = tree(&[
            ("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"),
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/cgroup.controllers", "memory pids\n"),
            ("sys/fs/cgroup/docker/b/pids.max", "100\n"),
            ("sys/fs/cgroup/docker/b/pids.current", "98\n"),
        ]);
        let found = |root: &tempfile::TempDir| {
            let found = task_limits(&Source::tree(root.path()).unwrap()).unwrap();
            found.into_iter().map(|group| (group.path, group.tasks)).collect::<Vec<_>>()
        };
        assert_eq!(found(&v1), [("/docker/b".to_owned(), 100), ("/docker/a".to_owned(), 99)]);
        assert_eq!(found(&v2), [("/docker/b".to_owned(), 98)]);
        let files = task_files(&Source::tree(v1.path()).unwrap());
        let first = files.first().map(|file| (file.mount.as_str(), file.group.as_str(), file.name));
        assert_eq!(first, Some(("/sys/fs/cgroup/pids", "/docker/b", LIMIT)));
        let none = tree(&[("proc/mounts", ""), ("proc/self/cgroup", "0::/\n")]);
        assert!(task_limits(&Source::tree(none.path()).unwrap()).is_err());
    }
}
