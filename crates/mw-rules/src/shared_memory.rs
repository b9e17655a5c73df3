//! Who holds shared memory, as far as the kernel says by name.

use mw_model::{MemoryFilesystem, Snapshot};

/// Directory in which shm_open(3) creates its files.
pub(crate) const POSIX_MOUNT: &str = "/dev/shm";

/// The tmpfs of POSIX shared memory.
pub(crate) fn posix_mount(snapshot: &Snapshot) -> Option<&MemoryFilesystem> {
    let mounts = snapshot.filesystems.value()?;
    mounts.iter().rfind(|mount| mount.target == POSIX_MOUNT).filter(|mount| mount.fstype == "tmpfs")
}

/// Free space of [`posix_mount`], in bytes.
pub(crate) fn posix_room(snapshot: &Snapshot) -> Option<u64> {
    let mount = posix_mount(snapshot)?;
    Some(mount.size_bytes?.saturating_sub(mount.used_bytes?))
}

/// Memory of the files of each tmpfs, swapped out ones included.
pub(crate) fn mounts(snapshot: &Snapshot) -> Vec<(String, u64)> {
    let filesystems = snapshot.filesystems.value().map_or(&[][..], Vec::as_slice);
    let tmpfs = filesystems.iter().filter(|f| f.fstype == "tmpfs");
    tmpfs.map(|f| (format!("tmpfs {}", f.target), f.used_bytes.unwrap_or(0))).collect()
}

/// System V segments, but for those of huge pages: what is in memory where the kernel says it.
pub(crate) fn segments(snapshot: &Snapshot) -> Vec<(String, u64)> {
    let segments = snapshot.shm.value().map_or(&[][..], Vec::as_slice);
    let segments = segments.iter().filter(|segment| !segment.is_hugetlb());
    segments
        .map(|segment| {
            let held = segment.rss_bytes.unwrap_or(segment.size_bytes);
            (format!("SysV segment {}", segment.shmid), held)
        })
        .collect()
}
