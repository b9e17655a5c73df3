//! What hides the kernel's files: another file system mounted over /proc or /sys or over part of
//! them, as containers and sandboxes do it. It is distinguished from a kernel without the file by the type of
//! the file system on the way there; mountinfo may be hidden as well.

use mw_model::Missing;
use rustix::fs::{Access, StatFs, access, stat, statfs};
use std::path::Path;

const PROC_SUPER_MAGIC: u64 = 0x9fa0;
const SYSFS_MAGIC: u64 = 0x6265_6572;
const FUSE_SUPER_MAGIC: u64 = 0x6573_5546;
const OVERLAYFS_SUPER_MAGIC: u64 = 0x794c_7630;
const RAMFS_MAGIC: u64 = 0x8584_58f6;
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// Mount points of the kernel's other file systems.
const OTHERS: [&str; 3] = ["/sys/fs/cgroup", "/sys/kernel/debug", "/proc/sys/fs/binfmt_misc"];

/// The reason that the running machine's kernel cannot be seen at `path`, and the remedy; none where nothing
/// is mounted over it.
pub(crate) fn why(path: &str) -> Option<String> {
    let (top, magic) = match path {
        _ if is_below("/proc", path) => ("/proc", PROC_SUPER_MAGIC),
        _ if is_below("/sys", path) => ("/sys", SYSFS_MAGIC),
        _ => return None,
    };
    let ends = path.match_indices('/').map(|(end, _)| end).skip(1).chain([path.len()]);
    // systemd-nspawn has a tmpfs at /sys, and parts of the kernel's below it.
    let mut mask = None;
    for place in ends.filter_map(|end| path.get(..end)) {
        if OTHERS.contains(&place) {
            return None;
        }
        let Ok(found) = statfs(place) else {
            if place == top {
                return Some(not_mounted(top));
            }
            break;
        };
        if magic_of(&found) == magic {
            mask = None;
        } else if mask.is_none() {
            mask = Some(mounted_over(top, place, &found));
        }
    }
    if mask.is_some() {
        return mask;
    }
    let is_partial = top == "/proc" && access(UPTIME, Access::EXISTS).is_err();
    is_partial.then(|| {
        "procfs is mounted with subset=pid, which hides it: run outside of the container, or without \
         systemd's ProcSubset=pid"
            .to_owned()
    })
}

/// Counters for which others than the kernel may answer: lxcfs, or a copy of another machine's.
pub(crate) const COUNTERS: [&str; 5] =
    ["/proc/meminfo", "/proc/vmstat", "/proc/zoneinfo", "/proc/buddyinfo", "/proc/swaps"];

pub(crate) const ANSWERED_BY_FUSE: &str = "answered by FUSE (lxcfs), not the kernel";

/// Those for which others do answer, on the running machine. What lxcfs says is of the container,
/// and is used; what any other file says is nothing that this machine can be judged by.
pub(crate) fn replaced() -> Vec<Missing> {
    let replaced = |path: &&str| {
        let found = statfs(*path).ok().filter(|found| magic_of(found) != PROC_SUPER_MAGIC)?;
        Some(match magic_of(&found) {
            FUSE_SUPER_MAGIC => Missing::skipped(*path, ANSWERED_BY_FUSE),
            _ => Missing::masked(*path, mounted_over("/proc", path, &found)),
        })
    };
    COUNTERS.iter().filter_map(replaced).collect()
}

/// A file of every procfs that is not reduced to processes.
const UPTIME: &str = "/proc/uptime";

fn is_below(top: &str, path: &str) -> bool {
    path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn magic_of(found: &StatFs) -> u64 {
    // Of another width and sign on other machines.
    #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast, reason = "32 bits of it count")]
    let magic = found.f_type as u32;
    u64::from(magic)
}

fn mounted_over(top: &str, place: &str, found: &StatFs) -> String {
    let devices = stat("/").ok().zip(stat(place).ok());
    if place == top && devices.is_some_and(|(root, place)| root.st_dev == place.st_dev) {
        return not_mounted(top);
    }
    let way = match top {
        "/sys" => "with the host's /sys (docker and podman: -v /sys:/sys:ro)".to_owned(),
        _ => format!("unmount it (umount {place})"),
    };
    format!(
        "{} is mounted over {place} and hides it: run outside of the container, or {way}",
        kind(place, found)
    )
}

fn not_mounted(top: &str) -> String {
    let kind = if top == "/proc" { "proc" } else { "sysfs" };
    format!("{top} is not mounted: mount -t {kind} {kind} {top}, or run outside of the container")
}

fn kind(place: &str, found: &StatFs) -> &'static str {
    match magic_of(found) {
        _ if !Path::new(place).is_dir() => "another file",
        TMPFS_MAGIC => "a tmpfs",
        RAMFS_MAGIC => "a ramfs",
        FUSE_SUPER_MAGIC => "a FUSE file system",
        OVERLAYFS_SUPER_MAGIC => "an overlay",
        _ => "another file system",
    }
}
