//! /proc/PID/fd: open files, memfds and pipes.

use super::mount_table::{MountTable, has_pages};
use super::search::{FileKind, Holder, Search, file_id};
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};
use rustix::io::ioctl_fionread;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

/// The most descriptors of one process that are read.
const MAX_DESCRIPTORS: usize = 65_536;

/// Whether all descriptors were read; those on file systems that may not respond never are.
pub(super) fn read(search: &Search, holder: &Holder) -> bool {
    let Some(process) = Process::open(holder.pid) else { return true };
    let dir = format!("/proc/{}/fd", holder.pid);
    let Ok(entries) = fs::read_dir(&dir) else { return false };
    let mut complete = true;
    for (count, entry) in entries.enumerate() {
        if count >= MAX_DESCRIPTORS || search.is_late() {
            return false;
        }
        let Ok(entry) = entry else { continue };
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let (Some(number), Ok(target)) = (number, fs::read_link(entry.path())) else { continue };
        complete &= process.descriptor(search, holder, number, &target.to_string_lossy());
    }
    complete
}

struct Process {
    pid: u32,
    pidfd: OwnedFd,
    /// The inode of its mount namespace.
    namespace: u64,
}

impl Process {
    /// None for one that has ended.
    fn open(pid: u32) -> Option<Self> {
        let number = Pid::from_raw(i32::try_from(pid).ok()?)?;
        let pidfd = pidfd_open(number, PidfdFlags::empty()).ok()?;
        let namespace = fs::metadata(format!("/proc/{pid}/ns/mnt")).map_or(0, |ns| ns.ino());
        Some(Self { pid, pidfd, namespace })
    }

    fn descriptor(&self, search: &Search, holder: &Holder, number: i32, target: &str) -> bool {
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

    fn is_new_path(&self, search: &Search, target: &str) -> bool {
        search.found().paths.insert((self.namespace, target.to_owned()))
    }

    fn duplicate(&self, number: i32) -> Option<OwnedFd> {
        pidfd_getfd(&self.pidfd, number, PidfdGetfdFlags::empty()).ok()
    }

    fn pipe(&self, search: &Search, number: i32, target: &str) -> bool {
        if !search.found().pipes.insert(target.to_owned()) {
            return true;
        }
        let bytes = self.duplicate(number).and_then(|pipe| ioctl_fionread(&pipe).ok());
        let mut found = search.found();
        found.pipe_bytes = found.pipe_bytes.saturating_add(bytes.unwrap_or(0));
        bytes.is_some()
    }

    /// Device and inode without asking another machine for them.
    fn stat(&self, number: i32) -> Option<rustix::fs::Statx> {
        let path = format!("/proc/{}/fd/{number}", self.pid);
        let wanted = StatxFlags::TYPE | StatxFlags::INO;
        statx(CWD, path, AtFlags::STATX_DONT_SYNC, wanted).ok()
    }

    fn memfd(&self, search: &Search, holder: &Holder, number: i32, target: &str) -> bool {
        let Some(id) = self.stat(number).map(|stat| file_id(&stat)) else { return true };
        let is_memfd = (id.0, id.1) == search.memfd_device;
        if !is_memfd || !search.is_new(id) {
            return true;
        }
        let name = target.strip_prefix('/').unwrap_or(target).trim_end_matches(" (deleted)");
        self.duplicate(number).is_some_and(|file| {
            search.count(holder, name.to_owned(), FileKind::Memfd, file.as_fd())
        })
    }

    fn file(&self, search: &Search, holder: &Holder, number: i32, target: &str) -> bool {
        let Some(mount) = self.mount_id(number) else { return true };
        let Some(table) = self.table(search) else { return false };
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
        let Some(stat) = self.stat(number) else { return true };
        let is_file = FileType::from_raw_mode(u32::from(stat.stx_mode)) == FileType::RegularFile;
        if !is_file || !search.is_new(file_id(&stat)) {
            return true;
        }
        let counted = |file: OwnedFd| search.count(holder, target.to_owned(), kind, file.as_fd());
        self.duplicate(number).is_some_and(counted)
    }

    fn mount_id(&self, number: i32) -> Option<u32> {
        let text = fs::read_to_string(format!("/proc/{}/fdinfo/{number}", self.pid)).ok()?;
        text.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok())
    }

    /// The mounts of the process's namespace, read once for each.
    fn table(&self, search: &Search) -> Option<Arc<MountTable>> {
        table(search, self.pid, self.namespace)
    }
}

fn table(search: &Search, pid: u32, namespace: u64) -> Option<Arc<MountTable>> {
    if let Some(table) = search.found().tables.get(&namespace) {
        return Some(Arc::clone(table));
    }
    let table = Arc::new(MountTable::of(&pid.to_string())?);
    search.found().tables.insert(namespace, Arc::clone(&table));
    Some(table)
}

/// The mounts of a process.
pub(super) fn mounts_of(search: &Search, pid: u32) -> Option<Arc<MountTable>> {
    let namespace = fs::metadata(format!("/proc/{pid}/ns/mnt")).ok()?.ino();
    table(search, pid, namespace)
}
