//! Files that are read or written once, from the beginning to the end: copies, backups, dumps.
//!
//! A descriptor's position moves with read(2) and write(2) only. Pages behind the position of a descriptor that
//! is either read or written are rarely needed again. Databases open their files for both, or read them at
//! offsets (pread(2)) or through mappings; a file that anybody has open in such a way is left out, even if
//! another program copies it.

use super::batches::{PATIENCE, read_all};
use super::descriptors::{Info, OpenProcess, for_each, is_regular, stat};
use super::mount_table::{MountTable, MountTables, has_pages};
use super::search::{FileId, file_id};
use crate::collector::processes::other_programs;
use crate::source::Source;
use mw_model::Missing;
use mw_sys::kernel_file;
use mw_sys::{HelperThread, cached_pages_before};
use rustix::fs::fstat;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const WHAT: &str = "files read sequentially";
/// Time limit of all processes.
const BUDGET: Duration = Duration::from_millis(200);
/// The most files that are remembered, and the most that are returned.
const MAX_FILES: usize = 65_536;
const MAX_RETURNED: usize = 256;
/// Smallest size that is worth a call.
const LEAST_BYTES: u64 = 8 << 20;

/// A file with cached pages behind the position of the program that reads or writes it.
#[derive(Debug)]
pub struct SequentialFile {
    pub path: String,
    pub process: String,
    pub pid: u32,
    /// Pages before this offset are behind the program.
    pub position: u64,
    /// Those of them that are cached and clean.
    pub clean_bytes: u64,
    /// A duplicate of the program's descriptor.
    pub file: OwnedFd,
}

/// Facts about the files that were seen so far.
#[derive(Default)]
struct FileUses {
    files: Mutex<BTreeMap<FileId, Use>>,
    tables: MountTables,
}

/// Use of a file, by all descriptors that were seen.
#[derive(Debug, Clone)]
enum Use {
    /// From the beginning on.
    Sequential {
        pid: u32,
        number: i32,
        path: String,
        position: u64,
    },
    Other,
}

impl Use {
    /// With another descriptor of the file: what is behind both counts.
    fn with(self, other: &Self) -> Self {
        match (&self, other) {
            (Self::Sequential { position, .. }, Self::Sequential { position: also, .. }) => {
                if position <= also {
                    self
                } else {
                    other.clone()
                }
            }
            _ => Self::Other,
        }
    }
}

/// The files of all processes, those with the most behind them first, and whether all processes were read.
///
/// # Errors
/// The kernel has no cachestat(2) (6.5), or /proc cannot be read.
pub fn sequential_files(source: &Source) -> Result<(Vec<SequentialFile>, bool), Missing> {
    let until = Instant::now() + BUDGET;
    let seen = Arc::new(FileUses::default());
    let theirs = Arc::clone(&seen);
    let call = move |pid, (): &()| read(&theirs, pid, until);
    let mut helper = HelperThread::new(PATIENCE, call)
        .map_err(|error| Missing::failed(WHAT, error.to_string()))?;
    let others = other_programs(source)?.into_iter();
    let requests: Vec<(u32, ())> = others.map(|pid| (pid, ())).collect();
    // A process that was not read may use any of them.
    if !read_all(&mut helper, &requests, || Instant::now() >= until) {
        return Ok((Vec::new(), false));
    }
    let found = std::mem::take(&mut *seen.files());
    let mut files = Vec::new();
    for (id, file) in found {
        files.extend(open(id, file)?);
    }
    files.sort_by_key(|file| std::cmp::Reverse(file.clean_bytes));
    files.truncate(MAX_RETURNED);
    Ok((files, true))
}

impl FileUses {
    /// Held for no system call: a thread that waits for ever must not keep it.
    fn files(&self) -> MutexGuard<'_, BTreeMap<FileId, Use>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a descriptor's use; whether there was room for it.
    fn note(&self, id: FileId, used: &Use) -> bool {
        let mut files = self.files();
        if files.len() >= MAX_FILES && !files.contains_key(&id) {
            return false;
        }
        let before = files.remove(&id);
        files.insert(id, before.map_or_else(|| used.clone(), |before| before.with(used)));
        true
    }
}

/// Takes note of the descriptors of a process; whether all were read.
fn read(seen: &FileUses, pid: u32, until: Instant) -> bool {
    let Some(table) = seen.tables.of(pid) else { return true };
    let each = |number, target: &str| match descriptor(&table, pid, number, target) {
        Some((id, used)) => seen.note(id, &used),
        None => true,
    };
    for_each(pid, &|| Instant::now() >= until, each).unwrap_or(true)
}

/// Use of a regular file on a disk, by a descriptor of it.
fn descriptor(table: &MountTable, pid: u32, number: i32, path: &str) -> Option<(FileId, Use)> {
    if !path.starts_with('/') {
        return None;
    }
    let info = Info::of(pid, number)?;
    let mount = table.mount(info.mount()?)?;
    if !has_pages(mount) || mount.fstype == "tmpfs" {
        return None;
    }
    let stat = stat(pid, number)?;
    if !is_regular(&stat) {
        return None;
    }
    let position: u64 = info.field("pos")?.parse().ok()?;
    let flags = u64::from_str_radix(info.field("flags")?, 8).ok()?;
    let is_for_both = flags & 0o3 == 0o2;
    let used = if is_for_both || position < LEAST_BYTES {
        Use::Other
    } else {
        Use::Sequential { pid, number, path: path.to_owned(), position }
    };
    Some((file_id(&stat), used))
}

/// The file with what is cached behind its position, where it is worth dropping.
fn open(id: FileId, file: Use) -> Result<Option<SequentialFile>, Missing> {
    let Use::Sequential { pid, number, path, position } = file else { return Ok(None) };
    let Some(file) = duplicate(pid, number, id) else { return Ok(None) };
    let clean_bytes = match clean_bytes_before(&file, position) {
        Ok(bytes) => bytes,
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOSYS.raw_os_error()) => {
            return Err(Missing::absent(WHAT, "it needs cachestat(2), Linux 6.5"));
        }
        Err(_) => return Ok(None),
    };
    if clean_bytes < LEAST_BYTES {
        return Ok(None);
    }
    let process = kernel_file::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let process = process.trim_end().to_owned();
    Ok(Some(SequentialFile { path, process, pid, position, clean_bytes, file }))
}

/// Clean cached pages of a file before an offset, in bytes.
///
/// # Errors
/// As cachestat(2): `ENOSYS` before Linux 6.5.
pub fn clean_bytes_before(file: &OwnedFd, end: u64) -> std::io::Result<u64> {
    let pages = cached_pages_before(file.as_fd(), end)?;
    let clean = pages.cached.saturating_sub(pages.dirty.saturating_add(pages.writeback));
    Ok(clean.saturating_mul(rustix::param::page_size() as u64))
}

/// The descriptor, if it is still of this file.
fn duplicate(pid: u32, number: i32, id: FileId) -> Option<OwnedFd> {
    let file = OpenProcess::open(pid)?.duplicate(number)?;
    let stat = fstat(&file).ok()?;
    let now = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev), stat.st_ino);
    (now == id).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_test::ChildGuard;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    /// A program that has read this file from its start, and goes on when its input ends.
    fn reader(path: &std::path::Path, mode: &str) -> ChildGuard {
        let script =
            format!("exec 3{mode}{}; head -c 16777216 <&3 >/dev/null; echo; cat", path.display());
        let mut child = Command::new("sh");
        child.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        ChildGuard(child)
    }

    fn found(path: &std::path::Path) -> Option<u64> {
        let (files, complete) = match sequential_files(&Source::live().unwrap()) {
            Ok(found) => found,
            Err(missing) => {
                mw_test::skip(missing);
                return None;
            }
        };
        assert!(complete);
        Some(
            files
                .iter()
                .find(|file| file.path == path.to_str().unwrap())
                .map_or(0, |f| f.clean_bytes),
        )
    }

    /// Promise (Fixing): `make-room` drops no cache of a file that a database has open.
    #[test]
    fn what_a_copy_has_read_is_found_and_what_a_database_has_open_is_not() {
        if !mw_test::is_root() {
            return;
        }
        // Not on a tmpfs.
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = dir.path().join("file");
        let mut file = File::create(&path).unwrap();
        file.write_all(&vec![1; 32 << 20]).unwrap();
        file.sync_all().unwrap();
        drop(file);
        let _copy = reader(&path, "<");
        let Some(behind) = found(&path) else { return };
        assert!((8 << 20..=17 << 20).contains(&behind), "{behind}");
        let _database = reader(&path, "<>");
        assert_eq!(found(&path), Some(0));
    }
}
