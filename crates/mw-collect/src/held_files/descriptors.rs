//! /proc/PID/fd: open files, memfds and pipes.

use super::mount_table::has_pages;
use super::search::{FileKind, FileSearch, Holder, file_id};
use mw_sys::kernel_file;
use rustix::fs::{AtFlags, CWD, FileType, Statx, StatxFlags, statx};
use rustix::io::ioctl_fionread;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

/// The most descriptors of one process that are read.
const MAX_DESCRIPTORS: usize = 65_536;

/// True if all descriptors were read; those on file systems that may not respond never are.
pub(super) fn read(search: &FileSearch, holder: &Holder) -> bool {
    let Some(process) = OpenProcess::open(holder.pid) else { return true };
    let each = |number, target: &str| process.descriptor(search, holder, number, target);
    for_each(holder.pid, &|| search.is_late(), each).unwrap_or(false)
}

/// Calls `each` with the number and the target of each descriptor of a process, until it is late; whether all of them
/// were read. None where they cannot be listed.
pub(super) fn for_each(
    pid: u32,
    is_late: &dyn Fn() -> bool,
    mut each: impl FnMut(i32, &str) -> bool,
) -> Option<bool> {
    let mut complete = true;
    for (count, entry) in kernel_file::read_dir(format!("/proc/{pid}/fd")).ok()?.enumerate() {
        if count >= MAX_DESCRIPTORS || is_late() {
            return Some(false);
        }
        let Ok(entry) = entry else { continue };
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let (Some(number), Ok(target)) = (number, kernel_file::read_link(entry.path())) else {
            continue;
        };
        complete &= each(number, &target.to_string_lossy());
    }
    Some(complete)
}

/// Kind, device and inode of a descriptor's file, without asking another machine for them.
pub(super) fn stat(pid: u32, number: i32) -> Option<Statx> {
    let path = format!("/proc/{pid}/fd/{number}");
    let wanted = StatxFlags::TYPE | StatxFlags::INO;
    statx(CWD, path, AtFlags::STATX_DONT_SYNC, wanted).ok()
}

pub(super) fn is_regular(stat: &Statx) -> bool {
    FileType::from_raw_mode(u32::from(stat.stx_mode)) == FileType::RegularFile
}

/// Facts about a descriptor.
pub(super) struct Info(String);

impl Info {
    pub(super) fn of(pid: u32, number: i32) -> Option<Self> {
        kernel_file::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).ok().map(Self)
    }

    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.0.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    }

    /// The mount that the file is on.
    pub(super) fn mount(&self) -> Option<u32> {
        self.field("mnt_id")?.parse().ok()
    }
}

pub(super) struct OpenProcess {
    pid: u32,
    pidfd: OwnedFd,
    /// The inode of its mount namespace.
    namespace: u64,
}

impl OpenProcess {
    /// None for one that has ended.
    pub(super) fn open(pid: u32) -> Option<Self> {
        let number = Pid::from_raw(i32::try_from(pid).ok()?)?;
        let pidfd = pidfd_open(number, PidfdFlags::empty()).ok()?;
        let namespace = fs::metadata(format!("/proc/{pid}/ns/mnt")).map_or(0, |ns| ns.ino());
        Some(Self { pid, pidfd, namespace })
    }

    fn descriptor(&self, search: &FileSearch, holder: &Holder, number: i32, target: &str) -> bool {
        if target.starts_with("pipe:[") {
            return self.pipe(search, number, target);
        }
        if target.starts_with("/memfd:") {
            return self.memfd(search, holder, number, target);
        }
        if !target.starts_with('/') || !self.is_new_path(search, target) {
            return true;
        }
        self.file(search, holder, number, target)
    }

    fn is_new_path(&self, search: &FileSearch, target: &str) -> bool {
        search.found().paths.insert((self.namespace, target.to_owned()))
    }

    pub(super) fn duplicate(&self, number: i32) -> Option<OwnedFd> {
        pidfd_getfd(&self.pidfd, number, PidfdGetfdFlags::empty()).ok()
    }

    fn pipe(&self, search: &FileSearch, number: i32, target: &str) -> bool {
        if !search.found().pipes.insert(target.to_owned()) {
            return true;
        }
        let bytes = self.duplicate(number).and_then(|pipe| ioctl_fionread(&pipe).ok());
        let mut found = search.found();
        found.pipe_bytes = found.pipe_bytes.saturating_add(bytes.unwrap_or(0));
        bytes.is_some()
    }

    fn memfd(&self, search: &FileSearch, holder: &Holder, number: i32, target: &str) -> bool {
        let Some(id) = stat(self.pid, number).map(|stat| file_id(&stat)) else { return true };
        let is_memfd = (id.0, id.1) == search.memfd_device;
        if !is_memfd || !search.is_new(id) {
            return true;
        }
        let name = target.strip_prefix('/').unwrap_or(target).trim_end_matches(" (deleted)");
        self.duplicate(number).is_some_and(|file| {
            search.count(holder, name.to_owned(), FileKind::Memfd, file.as_fd())
        })
    }

    fn file(&self, search: &FileSearch, holder: &Holder, number: i32, target: &str) -> bool {
        let mount = Info::of(self.pid, number).and_then(|info| info.mount());
        let Some(mount) = mount else { return true };
        let table = search.tables.of_namespace(self.namespace, self.pid);
        let Some(table) = table else { return false };
        // A mount that the namespace does not have was detached: it may be of any kind.
        let Some(mount) = table.mount(mount) else { return false };
        if !has_pages(mount) {
            return mount.is_local();
        }
        let kind = match mount.fstype.as_str() {
            "tmpfs" if search.found().tmpfs_devices.contains(&mount.device) => FileKind::OnTmpfs,
            "tmpfs" => FileKind::Memfd,
            _ => FileKind::OnDisk,
        };
        let Some(stat) = stat(self.pid, number) else { return true };
        if !is_regular(&stat) || !search.is_new(file_id(&stat)) {
            return true;
        }
        let counted = |file: OwnedFd| search.count(holder, target.to_owned(), kind, file.as_fd());
        self.duplicate(number).is_some_and(counted)
    }
}
