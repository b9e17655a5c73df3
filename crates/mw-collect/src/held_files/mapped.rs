//! /proc/PID/maps and map_files: files that a process has mapped, which it need not have open.

use super::search::{FileKind, FileSearch, Holder, file_id};
use mw_proc::maps::{self, Mapping};
use mw_sys::kernel_file;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, open, statx};
use std::collections::BTreeSet;
use std::os::fd::AsFd;

/// The largest file of mappings that is read: 30,000 mappings.
const MAX_MAPS_BYTES: u64 = 4 << 20;

/// True if all mapped files were read.
pub(super) fn read(search: &FileSearch, holder: &Holder) -> bool {
    let Ok(text) = mw_sys::read_file(format!("/proc/{}/maps", holder.pid)) else { return false };
    if text.len() as u64 > MAX_MAPS_BYTES {
        return false;
    }
    let Ok(mappings) = maps::parse(&text) else { return false };
    let Some(table) = search.tables.of(holder.pid) else { return false };
    let mut complete = true;
    let mut inodes = BTreeSet::new();
    for mapping in mappings.iter().filter(|mapping| mapping.inode > 0) {
        if search.is_late() {
            return false;
        }
        let (major, minor) = mapping.device;
        if inodes.insert((major, minor, mapping.inode)) && mapping.device != search.memfd_device {
            let is_local = table.has_local(&format!("{major}:{minor}"));
            complete &= is_local && file(search, holder, mapping);
        }
    }
    complete
}

fn file(search: &FileSearch, holder: &Holder, mapping: &Mapping) -> bool {
    let (major, minor) = mapping.device;
    if search.found().tmpfs_devices.contains(&format!("{major}:{minor}")) {
        return true;
    }
    let link = format!("/proc/{}/map_files/{:x}-{:x}", holder.pid, mapping.start, mapping.end);
    let Ok(path) = kernel_file::read_link(&link) else { return false };
    let wanted = StatxFlags::TYPE | StatxFlags::INO;
    let Ok(stat) = statx(CWD, &link, AtFlags::STATX_DONT_SYNC, wanted) else { return false };
    if !search.is_new(file_id(&stat)) {
        return true;
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let Ok(file) = open(&link, flags, Mode::empty()) else { return false };
    let path = path.to_string_lossy().into_owned();
    search.count(holder, path, FileKind::OnDisk, file.as_fd())
}
