//! What is searched, and what was found so far.

use super::mount_table::{MountTable, MountTables};
use mw_model::{HeldFile, Missing};
use mw_sys::{CachedPages, cached_pages};
use rustix::fs::{MemfdFlags, Statx, fstat, memfd_create};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The most files that are kept.
const MAX_FILES: usize = 16_384;

/// Device and inode.
pub(super) type FileId = (u32, u32, u64);

/// The search, and its results so far.
pub(super) struct FileSearch {
    deadline: Instant,
    /// The kernel's own mount that memfds are on.
    pub(super) memfd_device: (u32, u32),
    page_bytes: u64,
    pub(super) tables: MountTables,
    found: Mutex<SearchResult>,
}

#[derive(Default)]
pub(super) struct SearchResult {
    pub(super) files: Vec<HeldFile>,
    pub(super) pipe_bytes: u64,
    pub(super) pipes: BTreeSet<String>,
    inodes: BTreeSet<FileId>,
    /// Paths by mount namespace: most files of many processes are the same few.
    pub(super) paths: BTreeSet<(u64, String)>,
    /// The file systems whose files are counted with their mount.
    pub(super) tmpfs_devices: BTreeSet<String>,
}

impl FileSearch {
    pub(super) fn new(deadline: Instant) -> Result<Self, Missing> {
        const WHAT: &str = "page cache by file";
        let failed = |errno: Errno| Missing::failed(WHAT, errno.to_string());
        let memfd = memfd_create("memwright", MemfdFlags::CLOEXEC).map_err(failed)?;
        if let Err(error) = cached_pages(memfd.as_fd()) {
            let missing = match error.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::NOSYS) => Missing::absent(WHAT, "it needs cachestat(2), Linux 6.5"),
                _ => Missing::skipped(WHAT, format!("cachestat(2): {error}")),
            };
            return Err(missing);
        }
        let device = fstat(&memfd).map_err(failed)?.st_dev;
        let memfd_device = (rustix::fs::major(device), rustix::fs::minor(device));
        let tmpfs_devices = MountTable::of("self").map(|table| table.tmpfs_devices());
        let found = SearchResult {
            tmpfs_devices: tmpfs_devices.unwrap_or_default(),
            ..SearchResult::default()
        };
        Ok(Self {
            deadline,
            memfd_device,
            page_bytes: rustix::param::page_size() as u64,
            tables: MountTables::default(),
            found: Mutex::new(found),
        })
    }

    /// Held for no system call: a thread that waits for ever must not keep it.
    pub(super) fn found(&self) -> MutexGuard<'_, SearchResult> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// True if nobody has asked this file yet, and there is room for it.
    pub(super) fn is_new(&self, id: FileId) -> bool {
        let mut found = self.found();
        found.files.len() < MAX_FILES && found.inodes.insert(id)
    }

    fn add(&self, holder: &Holder, path: String, kind: FileKind, pages: CachedPages) {
        if pages.cached == 0 {
            return;
        }
        let unwritten = pages.dirty.saturating_add(pages.writeback);
        self.found().files.push(HeldFile {
            path,
            pid: holder.pid,
            process: holder.name.clone(),
            is_shared_memory: kind != FileKind::OnDisk,
            is_on_tmpfs: kind == FileKind::OnTmpfs,
            cached_bytes: pages.cached.saturating_mul(self.page_bytes),
            unwritten_bytes: unwritten.saturating_mul(self.page_bytes),
        });
    }

    /// Counts an open file; what is no file of pages has none.
    pub(super) fn count(
        &self,
        holder: &Holder,
        path: String,
        kind: FileKind,
        file: BorrowedFd<'_>,
    ) -> bool {
        let counted = cached_pages(file);
        if let Ok(pages) = counted {
            self.add(holder, path, kind, pages);
        }
        counted.is_ok()
    }
}

/// A process that has files.
pub(super) struct Holder {
    pub(super) pid: u32,
    pub(super) name: String,
}

/// The account of a file's pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    OnDisk,
    /// Shared memory without a mount that is visible here.
    Memfd,
    /// Shared memory that counts with its mount.
    OnTmpfs,
}

pub(super) fn file_id(stat: &Statx) -> FileId {
    (stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino)
}
