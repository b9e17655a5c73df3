//! Memory of /proc/meminfo that reclaim can free, and the part of it that is to be written first.

use mw_proc::meminfo::Meminfo;

/// Memory that the kernel counts as reclaimable among its own objects, objects in use included.
#[must_use]
pub fn kernel_reclaimable_bytes(meminfo: &Meminfo) -> u64 {
    meminfo.kreclaimable_bytes.or(meminfo.sreclaimable_bytes).unwrap_or(0)
}

/// The page cache of files, without shared memory and tmpfs.
#[must_use]
pub fn file_cache_bytes(meminfo: &Meminfo) -> u64 {
    match (meminfo.active_file_bytes, meminfo.inactive_file_bytes) {
        // No list of files before 2.6.28.
        (None, None) => {
            let buffers = meminfo.buffers_bytes.unwrap_or(0);
            let cached = meminfo.cached_bytes.map(|cached| cached.saturating_add(buffers));
            let files = cached.or(meminfo.file_pages_bytes).unwrap_or(0);
            files.saturating_sub(meminfo.shmem_bytes.unwrap_or(0))
        }
        (active, inactive) => sum([active, inactive].into_iter().flatten()),
    }
}

/// Memory that is dirty, under writeback, or written but not yet committed by an NFS server.
#[must_use]
pub fn unwritten_bytes(meminfo: &Meminfo) -> u64 {
    let parts = [meminfo.dirty_bytes, meminfo.writeback_bytes, meminfo.nfs_unstable_bytes];
    sum(parts.into_iter().flatten())
}

/// Saturating: the numbers of a damaged file must not overflow.
fn sum(parts: impl IntoIterator<Item = u64>) -> u64 {
    parts.into_iter().fold(0, u64::saturating_add)
}
