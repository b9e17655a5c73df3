//! A service that the configuration names: a systemd unit, or the path of a cgroup.

use super::processes::MAX_PROCESSES;
use crate::source::Source;
use mw_proc::mountinfo::{self, MountTree};
use mw_sys::{guarded, kernel_file};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The longest cgroup.procs, of some 100,000 processes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Depth of the search for units.
const MAX_DEPTH: usize = 8;

/// The group of a unit or of a path with its processes; the path as /proc/PID/cgroup has it.
pub(super) fn find(source: &Source, name: &str, deadline: Instant) -> Option<(String, Vec<u32>)> {
    for mount in mounts(source) {
        let group = if name.starts_with('/') {
            let relative = name.trim_matches('/');
            let leaves = relative.split('/').any(|part| part == "..");
            Some(mount.join(relative)).filter(|group| !leaves && group.is_dir())
        } else {
            search(&mount, name, MAX_DEPTH, deadline)
        };
        let Some(group) = group else { continue };
        let path = format!("/{}", group.strip_prefix(&mount).ok()?.to_str()?);
        let mut pids = Vec::new();
        members(&group, MAX_DEPTH, &mut pids, deadline);
        if !pids.is_empty() {
            return Some((path, pids));
        }
    }
    None
}

/// Mount points of the hierarchies of systemd and of controllers.
fn mounts(source: &Source) -> Vec<PathBuf> {
    let mounts = source.parse("/proc/self/mountinfo", mountinfo::parse).unwrap_or_default();
    let tree = MountTree::new(&mounts);
    let is_hierarchy = |fstype: &str| fstype == "cgroup2" || fstype == "cgroup";
    let mut found: Vec<_> = mounts
        .iter()
        .filter(|mount| is_hierarchy(&mount.fstype) && tree.is_visible(mount))
        .collect();
    found.sort_by_key(|mount| {
        let has = |name: &str| mount.super_options.iter().any(|option| option == name);
        !(has("name=systemd") || mount.fstype == "cgroup2")
    });
    found.iter().map(|mount| PathBuf::from(&mount.target)).collect()
}

/// The group of a unit: `postgresql` is short for `postgresql.service`.
fn search(dir: &Path, unit: &str, depth: usize, deadline: Instant) -> Option<PathBuf> {
    if depth == 0 || Instant::now() > deadline {
        return None;
    }
    let groups = groups(dir);
    let service = format!("{unit}.service");
    let is_it = |group: &&PathBuf| {
        let name = group.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name == unit || name == service)
    };
    groups
        .iter()
        .find(is_it)
        .cloned()
        .or_else(|| groups.iter().find_map(|group| search(group, unit, depth - 1, deadline)))
}

fn groups(dir: &Path) -> Vec<PathBuf> {
    let entries = kernel_file::read_dir(dir).into_iter().flatten().flatten();
    let is_group = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.filter(is_group).map(|entry| entry.path()).collect()
}

fn members(group: &Path, depth: usize, pids: &mut Vec<u32>, deadline: Instant) {
    if depth == 0 || pids.len() >= MAX_PROCESSES || Instant::now() > deadline {
        return;
    }
    let text =
        guarded::read_to_string(&group.join("cgroup.procs"), MAX_FILE_BYTES).unwrap_or_default();
    pids.extend(text.lines().filter_map(|pid| pid.parse::<u32>().ok()).filter(|pid| *pid > 0));
    for below in groups(group) {
        members(&below, depth - 1, pids, deadline);
    }
    pids.truncate(MAX_PROCESSES);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_unit_is_found_below_its_slice() {
        let folder = tempfile::tempdir().unwrap();
        let unit = folder.path().join("system.slice/system-db.slice/db@1.service");
        fs::create_dir_all(unit.join("inner")).unwrap();
        fs::write(unit.join("cgroup.procs"), "12\n0\n").unwrap();
        fs::write(unit.join("inner/cgroup.procs"), "13\n").unwrap();
        let soon = Instant::now() + Duration::from_secs(10);
        for name in ["db@1", "db@1.service"] {
            assert_eq!(search(folder.path(), name, MAX_DEPTH, soon).as_ref(), Some(&unit));
        }
        assert_eq!(search(folder.path(), "db", MAX_DEPTH, soon), None);
        let mut pids = Vec::new();
        members(&unit, MAX_DEPTH, &mut pids, soon);
        assert_eq!(pids, [12, 13]);
    }

    #[test]
    fn a_group_of_this_machine_is_found() {
        if !mw_test::is_root() {
            return;
        }
        let Ok(group) = mw_test::TestCgroup::new("pids") else {
            return mw_test::skip("no pids cgroup of version 1");
        };
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        fs::write(group.members(), child.id().to_string()).unwrap();
        let source = Source::live().unwrap();
        let name = group.path().file_name().unwrap().to_str().unwrap().to_owned();
        let soon = Instant::now() + Duration::from_secs(10);
        for wanted in [name.clone(), format!("/{name}")] {
            let found = find(&source, &wanted, soon);
            assert_eq!(found, Some((format!("/{name}"), vec![child.id()])));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(find(&source, "/../etc", soon), None);
    }
}
