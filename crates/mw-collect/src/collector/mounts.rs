//! /proc/mounts: the filesystems whose files are memory, with what they hold. How full they are is
//! no file: it comes from statfs on a live machine, from `memwright/statfs` in a captured tree, and
//! from sosreport's copy of `df`.

use crate::source::Source;
use mw_model::{MemoryFilesystem, Missing, OriginKind};
use mw_proc::mountinfo::{self, MountTree};
use mw_proc::mounts::{self, Mount};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, ResolveFlags, StatVfs, StatxFlags, fstatvfs, openat2, statx,
};
use rustix::io::Errno;
use std::collections::BTreeSet;

/// Types of filesystem whose files are memory.
const MEMORY_TYPES: [&str; 4] = ["tmpfs", "ramfs", "devtmpfs", "hugetlbfs"];

const MOUNTINFO: &str = "/proc/self/mountinfo";

/// The most filesystems whose usage is read: a host of many containers has hundreds.
const MAX_FILESYSTEMS: usize = 1024;

/// File of statfs results in a captured tree: a line a filesystem,
/// `target size_bytes used_bytes inodes inodes_used`.
pub(crate) const STATFS: &str = "/memwright/statfs";

const SOSREPORT_DF: [&str; 2] =
    ["/sos_commands/filesys/df_-al_-x_autofs", "/sos_commands/filesys/df_-al"];

pub(crate) fn collect(source: &Source) -> Result<Vec<MemoryFilesystem>, Missing> {
    let mounts = match source.parse("/proc/mounts", mounts::parse) {
        Ok(mounts) => mounts,
        Err(_) => source.parse("/proc/self/mounts", mounts::parse)?,
    };
    let filesystems = mounts
        .into_iter()
        .filter(|mount| MEMORY_TYPES.contains(&mount.fstype.as_str()))
        .take(MAX_FILESYSTEMS)
        .map(unmeasured);
    Ok(match source.kind() {
        OriginKind::Live => measured_live(source, filesystems),
        OriginKind::Tree => measured_in_tree(source, filesystems.collect()),
    })
}

fn unmeasured(mount: Mount) -> MemoryFilesystem {
    MemoryFilesystem {
        read_only: mount.has_option("ro"),
        target: mount.target,
        fstype: mount.fstype,
        options: mount.options,
        ..MemoryFilesystem::default()
    }
}

/// Asks each filesystem once, however often it is mounted, and none to which only a way leads that
/// may not answer: below a FUSE or network file system, or covered by one. Such a look would wait
/// for ever, beyond all signals; these stay without numbers.
fn measured_live(
    source: &Source,
    filesystems: impl Iterator<Item = MemoryFilesystem>,
) -> Vec<MemoryFilesystem> {
    let mounts = source.parse(MOUNTINFO, mountinfo::parse).unwrap_or_default();
    let tree = MountTree::new(&mounts);
    let mut devices = BTreeSet::new();
    let (mut measured, mut unmeasured) = (Vec::new(), Vec::new());
    for mut filesystem in filesystems {
        let mount = tree.at(&filesystem.target);
        match mount.filter(|mount| mount.fstype == filesystem.fstype) {
            Some(mount) if devices.insert(mount.device.as_str()) => {
                if let Ok(usage) = usage(mount) {
                    fill(&mut filesystem, &usage);
                }
                measured.push(filesystem);
            }
            Some(_) => {}
            None => unmeasured.push(filesystem),
        }
    }
    // One that is covered may be seen elsewhere.
    unmeasured.retain(|filesystem| {
        let is_it = |mount: &&mountinfo::MountInfo| mount.target == filesystem.target;
        let mut its = mounts.iter().filter(is_it);
        its.any(|mount| mount.fstype == filesystem.fstype && devices.insert(mount.device.as_str()))
    });
    measured.extend(unmeasured);
    measured
}

/// Tries where the kernel was renaming something meanwhile.
const TRIES: usize = 8;

/// Asks a mount. Another one may cover it in this moment, so the path is only walked where the
/// kernel need not ask for it (5.12), and the mount that was come to must be the one.
pub(crate) fn usage(mount: &mountinfo::MountInfo) -> rustix::io::Result<StatVfs> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let path = mount.target.as_str();
    let cached = || openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED);
    let opened = (0..TRIES).map(|_| cached()).find(|opened| !matches!(opened, Err(Errno::AGAIN)));
    let place = match opened.unwrap_or(Err(Errno::AGAIN)) {
        Err(Errno::NOSYS | Errno::INVAL | Errno::PERM) => {
            rustix::fs::open(path, flags, Mode::empty())
        }
        opened => opened,
    }?;
    let at = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let is_another = statx(&place, "", at, StatxFlags::MNT_ID).is_ok_and(|found| {
        let is_told = found.stx_mask & StatxFlags::MNT_ID.bits() != 0;
        is_told && found.stx_mnt_id != u64::from(mount.id)
    });
    if is_another { Err(Errno::STALE) } else { fstatvfs(&place) }
}

fn fill(filesystem: &mut MemoryFilesystem, usage: &StatVfs) {
    let unit = usage.f_frsize;
    let some = |total: u64, value: u64| (total > 0).then_some(value);
    let used = usage.f_blocks.saturating_sub(usage.f_bfree);
    filesystem.size_bytes = some(usage.f_blocks, usage.f_blocks.saturating_mul(unit));
    filesystem.used_bytes = some(usage.f_blocks, used.saturating_mul(unit));
    filesystem.inodes = some(usage.f_files, usage.f_files);
    filesystem.inodes_used = some(usage.f_files, usage.f_files.saturating_sub(usage.f_ffree));
}

fn measured_in_tree(
    source: &Source,
    mut filesystems: Vec<MemoryFilesystem>,
) -> Vec<MemoryFilesystem> {
    if let Ok(statfs) = source.read(STATFS) {
        let known = parse_statfs(&String::from_utf8_lossy(&statfs));
        let mut targets = BTreeSet::new();
        filesystems.retain_mut(|filesystem| {
            let usage = known.iter().find(|usage| usage.target == filesystem.target);
            if let Some(usage) = usage {
                filesystem.size_bytes = usage.size_bytes;
                filesystem.used_bytes = usage.used_bytes;
                filesystem.inodes = usage.inodes;
                filesystem.inodes_used = usage.inodes_used;
            }
            usage.is_some() && targets.insert(filesystem.target.clone())
        });
        return filesystems;
    }
    let df = SOSREPORT_DF.iter().find_map(|path| source.parse(path, mw_proc::df::parse).ok());
    for line in df.unwrap_or_default() {
        if let Some(filesystem) = filesystems.iter_mut().find(|f| f.target == line.target) {
            filesystem.size_bytes = line.size_bytes.filter(|size| *size > 0);
            filesystem.used_bytes = filesystem.size_bytes.and(line.used_bytes);
        }
    }
    filesystems
}

fn parse_statfs(text: &str) -> Vec<MemoryFilesystem> {
    text.lines()
        .filter_map(|line| {
            let mut fields = line.split(' ');
            let target = fields.next()?.replace("\\040", " ");
            let mut number = || fields.next().and_then(|field| field.parse::<u64>().ok());
            let (size, used, inodes, inodes_used) = (number()?, number()?, number()?, number()?);
            Some(MemoryFilesystem {
                target,
                size_bytes: Some(size).filter(|size| *size > 0),
                used_bytes: (size > 0).then_some(used),
                inodes: Some(inodes).filter(|inodes| *inodes > 0),
                inodes_used: (inodes > 0).then_some(inodes_used),
                ..MemoryFilesystem::default()
            })
        })
        .collect()
}

/// Writes what [`parse_statfs`] reads.
pub(crate) fn write_statfs(filesystems: &[MemoryFilesystem]) -> String {
    filesystems
        .iter()
        .map(|f| {
            format!(
                "{} {} {} {} {}\n",
                f.target.replace(' ', "\\040"),
                f.size_bytes.unwrap_or(0),
                f.used_bytes.unwrap_or(0),
                f.inodes.unwrap_or(0),
                f.inodes_used.unwrap_or(0)
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let filesystem = MemoryFilesystem {
            target: "/mnt/a b".to_owned(),
            size_bytes: Some(4096),
            used_bytes: Some(0),
            inodes: None,
            inodes_used: None,
            ..MemoryFilesystem::default()
        };
        assert_eq!(parse_statfs(&write_statfs(std::slice::from_ref(&filesystem))), [filesystem]);
    }

    #[test]
    fn a_cut_line_is_left_out() {
        assert_eq!(parse_statfs("/dev/shm 1 2 3\n/run 4 x 1 1\n\n"), []);
    }
}
