//! Limits of number that the processes of a service are at: open files, tasks of their cgroups, and the space and inodes
//! of file systems.
//!
//! Of the file systems that nothing can be written to, those are told of that a process of the service has files on: others
//! are somebody else's to fill. Where no process is left, or one is in a mount namespace of its own, all are.

use super::processes::{memberships, named, paths};
use crate::collector::{mounts, open_files};
use crate::source::Source;
use mw_model::{ReachedLimit, ReachedLimitKind};
use mw_proc::cgroup::{CgroupMount, MountedHierarchy, PathFromMount};
use mw_proc::mountinfo::{self, MountInfo, MountTree};
use mw_sys::namespace_number;
use std::collections::BTreeSet;
use std::time::Instant;

/// The most processes that are looked at: the first of them.
const MAX_PROCESSES: usize = 64;
/// The most cgroups of them, those above included.
const MAX_GROUPS: usize = 64;
/// The most file systems that are looked at.
const MAX_FILESYSTEMS: usize = 64;
/// The most files of a process whose file systems are looked at.
const MAX_FILES: usize = 256;
/// The most limits that are told of.
const MAX_REACHED: usize = 16;

/// File systems on disks of this machine: asking one of a server's or a program's may block.
const LOCAL: &[&str] = &["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "jfs", "reiserfs"];

/// Reads the limits that `processes` are at, until the deadline.
pub fn reached_limits(processes: &[u32], deadline: Instant) -> Vec<ReachedLimit> {
    let Ok(source) = Source::live() else { return Vec::new() };
    let mounts = source.parse("/proc/self/mountinfo", mountinfo::parse).unwrap_or_default();
    let hierarchies = MountedHierarchy::visible(&mounts);
    let (mut reached, mut groups) = (Vec::new(), BTreeSet::new());
    for pid in processes.iter().copied().take(MAX_PROCESSES) {
        if Instant::now() >= deadline {
            break;
        }
        if let Some((used, limit)) = open_files::at_limit(&source, pid) {
            let name = named(pid).map_or_else(String::new, |process| process.name);
            reached.push(ReachedLimit {
                kind: ReachedLimitKind::OpenFiles,
                holder: format!("{name} ({pid})"),
                used,
                limit,
            });
        }
        for group in groups_of(&hierarchies, pid) {
            if groups.len() < MAX_GROUPS && groups.insert(group.clone()) {
                reached.extend(tasks(&source, &group));
            }
        }
    }
    let local = mounts.iter().filter(|mount| is_local(mount)).take(MAX_FILESYSTEMS);
    let mut full: Vec<(&MountInfo, ReachedLimit)> =
        local.filter_map(|mount| Some((mount, space(mount)?))).collect();
    if !full.is_empty()
        && let Some(used) = devices_of(processes, &mounts, deadline)
    {
        full.retain(|(mount, _)| used.contains(&mount.device));
    }
    reached.extend(full.into_iter().map(|(_, limit)| limit));
    reached.truncate(MAX_REACHED);
    reached
}

/// The devices of the file systems that processes have files on; `None` where that is not known.
fn devices_of(
    processes: &[u32],
    mounts: &[MountInfo],
    deadline: Instant,
) -> Option<BTreeSet<String>> {
    let own = namespace_number("self", "mnt").ok()?;
    let tree = MountTree::new(mounts);
    let mut devices = BTreeSet::new();
    for pid in processes.iter().take(MAX_PROCESSES).take_while(|_| Instant::now() < deadline) {
        match namespace_number(&pid.to_string(), "mnt") {
            Ok(namespace) if namespace != own => return None,
            Ok(_) => {}
            Err(_) => continue,
        }
        let found = paths(*pid, MAX_FILES).into_iter().filter_map(|path| tree.at(&path));
        devices.extend(found.map(|mount| mount.device.clone()));
    }
    (!devices.is_empty()).then_some(devices)
}

/// Directory of a cgroup, and its path below the mount.
type GroupPath = (String, String);

/// The cgroups that limit the tasks of a process, its own and those above.
fn groups_of(hierarchies: &[MountedHierarchy], pid: u32) -> Vec<GroupPath> {
    let mounts = CgroupMount::find(hierarchies, &memberships(pid), "pids");
    let Some(CgroupMount { target, own: PathFromMount::Named(path), .. }) =
        mounts.into_iter().next()
    else {
        return Vec::new();
    };
    let mut groups = Vec::new();
    let mut path = path.as_str();
    while !path.is_empty() {
        groups.push((format!("{target}{path}"), path.to_owned()));
        path = path.rsplit_once('/').map_or("", |(above, _)| above);
    }
    groups
}

fn tasks(source: &Source, (directory, path): &GroupPath) -> Option<ReachedLimit> {
    let number = |file: &str| source.number(&format!("{directory}/{file}")).ok();
    let (used, limit) = (number("pids.current")?, number("pids.max")?);
    let reached = ReachedLimit { kind: ReachedLimitKind::Tasks, holder: path.clone(), used, limit };
    (used >= limit).then_some(reached)
}

fn is_local(mount: &MountInfo) -> bool {
    let is_read_only = mount.super_options.iter().any(|option| option == "ro");
    !is_read_only && LOCAL.contains(&mount.fstype.as_str())
}

/// A file system without space or without inodes.
fn space(mount: &MountInfo) -> Option<ReachedLimit> {
    let usage = mounts::usage(mount).ok()?;
    let full = |kind, all: u64, free: u64, available: u64, unit: u64| {
        let used = all.saturating_sub(free).saturating_mul(unit);
        let limit = used.saturating_add(available.saturating_mul(unit));
        let holder = mount.target.clone();
        (all > 0 && available == 0).then_some(ReachedLimit { kind, holder, used, limit })
    };
    full(ReachedLimitKind::DiskSpace, usage.f_blocks, usage.f_bfree, usage.f_bavail, usage.f_frsize)
        .or_else(|| full(ReachedLimitKind::Inodes, usage.f_files, usage.f_ffree, usage.f_favail, 1))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Promise (The recorder): A process that may open no more files is named with its limit.
    #[test]
    fn a_process_at_its_limit_of_open_files_is_found() {
        let script = "ulimit -n 64; exec perl -e '$| = 1; while (open(my $f, \"<\", \"/dev/null\")) \
                      { push @f, $f } print \"\\n\"; <STDIN>'";
        let mut child = std::process::Command::new("sh")
            .args(["-c", script])
            .stderr(std::process::Stdio::null())
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0];
        let mut output = child.stdout.take().unwrap();
        std::io::Read::read_exact(&mut output, &mut said).unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        let reached = reached_limits(&[child.id()], deadline);
        child.kill().unwrap();
        child.wait().unwrap();
        let files = reached.iter().find(|one| one.kind == ReachedLimitKind::OpenFiles).unwrap();
        // It may have inherited one beyond the limit.
        assert!(files.used >= 64 && files.limit == 64, "{files:?}");
        assert_eq!(files.holder, format!("perl ({})", child.id()));
    }

    #[test]
    fn a_process_with_room_reaches_nothing() {
        let deadline = Instant::now() + Duration::from_secs(5);
        let reached = reached_limits(&[std::process::id()], deadline);
        assert!(!reached.iter().any(|one| one.kind == ReachedLimitKind::OpenFiles), "{reached:?}");
    }
}
