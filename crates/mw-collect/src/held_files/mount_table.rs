//! The mounts of a process's namespace, by number.

use mw_proc::mountinfo::{self, MountInfo};
use mw_sys::kernel_file;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Of file systems without a disk, those whose files have pages of their own.
const WITH_PAGES: [&str; 3] = ["btrfs", "tmpfs", "zfs"];

pub(super) struct MountTable {
    by_id: BTreeMap<u32, MountInfo>,
}

impl MountTable {
    /// `process` is a number or `self`; none where it has ended or may not be read.
    pub(super) fn of(process: &str) -> Option<Self> {
        let text = kernel_file::read(format!("/proc/{process}/mountinfo")).ok()?;
        let mounts = mountinfo::parse(&text).ok()?;
        Some(Self { by_id: mounts.into_iter().map(|mount| (mount.id, mount)).collect() })
    }

    pub(super) fn mount(&self, id: u32) -> Option<&MountInfo> {
        self.by_id.get(&id)
    }

    pub(super) fn tmpfs_devices(&self) -> BTreeSet<String> {
        let tmpfs = self.by_id.values().filter(|mount| mount.fstype == "tmpfs");
        tmpfs.map(|mount| mount.device.clone()).collect()
    }

    /// True if a device is that of a file system whose files can be asked.
    pub(super) fn has_local(&self, device: &str) -> bool {
        let mut its = self.by_id.values().filter(|mount| mount.device == device).peekable();
        its.peek().is_some() && its.all(has_pages)
    }
}

/// The tables of mount namespaces, each of which is read once.
#[derive(Default)]
pub(super) struct MountTables(Mutex<BTreeMap<u64, Arc<MountTable>>>);

impl MountTables {
    /// The mounts of a process; none where it has ended or may not be read.
    pub(super) fn of(&self, pid: u32) -> Option<Arc<MountTable>> {
        let namespace = fs::metadata(format!("/proc/{pid}/ns/mnt")).ok()?.ino();
        self.of_namespace(namespace, pid)
    }

    /// The mounts of a namespace that this process is in.
    pub(super) fn of_namespace(&self, namespace: u64, pid: u32) -> Option<Arc<MountTable>> {
        if let Some(table) = self.known().get(&namespace) {
            return Some(Arc::clone(table));
        }
        let table = Arc::new(MountTable::of(&pid.to_string())?);
        self.known().insert(namespace, Arc::clone(&table));
        Some(table)
    }

    /// Held for no system call: a thread that waits for ever must not keep it.
    fn known(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<MountTable>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// True if files of a mount have pages of their own, and asking for them waits for nobody.
pub(super) fn has_pages(mount: &MountInfo) -> bool {
    let on_disk = !mount.device.starts_with("0:");
    mount.is_local() && (on_disk || WITH_PAGES.contains(&mount.fstype.as_str()))
}
