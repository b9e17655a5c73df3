//! /proc/mounts: the filesystems whose files are memory, with what they hold. How full they are is
//! no file: it comes from statfs on a live machine, from `memwright/statfs` in a captured tree, and
//! from sosreport's copy of `df`.

use crate::source::Source;
use mw_model::{MemoryFilesystem, Missing, OriginKind};
use mw_proc::mounts::{self, Mount};
use std::collections::BTreeSet;

/// Types of filesystem whose files are memory.
const MEMORY_TYPES: [&str; 4] = ["tmpfs", "ramfs", "devtmpfs", "hugetlbfs"];

/// The most filesystems that are asked for their usage: a host of many containers has hundreds.
const MAX_FILESYSTEMS: usize = 1024;

/// Where a captured tree keeps what statfs said: a line a filesystem,
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
        OriginKind::Live => measured_live(filesystems),
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

/// Asks each filesystem once, however often it is mounted.
fn measured_live(filesystems: impl Iterator<Item = MemoryFilesystem>) -> Vec<MemoryFilesystem> {
    let mut devices = BTreeSet::new();
    let mut measured = Vec::new();
    for mut filesystem in filesystems {
        let Ok(stat) = rustix::fs::stat(filesystem.target.as_str()) else { continue };
        if !devices.insert(stat.st_dev) {
            continue;
        }
        if let Ok(usage) = rustix::fs::statvfs(filesystem.target.as_str()) {
            let unit = usage.f_frsize;
            let some = |total: u64, value: u64| (total > 0).then_some(value);
            let used = usage.f_blocks.saturating_sub(usage.f_bfree);
            filesystem.size_bytes = some(usage.f_blocks, usage.f_blocks.saturating_mul(unit));
            filesystem.used_bytes = some(usage.f_blocks, used.saturating_mul(unit));
            filesystem.inodes = some(usage.f_files, usage.f_files);
            filesystem.inodes_used =
                some(usage.f_files, usage.f_files.saturating_sub(usage.f_ffree));
        }
        measured.push(filesystem);
    }
    measured
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
