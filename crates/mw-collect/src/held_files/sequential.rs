//! Files that are read or written once, from the beginning to the end: copies, backups, dumps.
//!
//! A descriptor's position moves with read(2) and write(2) only. Pages behind the position of a descriptor that
//! is either read or written are rarely needed again. Databases open their files for both, or read them at
//! offsets (pread(2)) or through mappings; a file that anybody has open in such a way is left out, whoever
//! else copies it.

use super::mount_table::{MountTable, has_pages};
use crate::collector::processes::kernel_threads;
use crate::source::Source;
use mw_model::Missing;
use mw_sys::{HelperThread, cached_pages_before};
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, fstat, statx};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const WHAT: &str = "files read sequentially";
/// How long all processes may take.
const BUDGET: Duration = Duration::from_millis(200);
/// How long one process may take.
const PATIENCE: Duration = Duration::from_millis(500);
/// Processes between two checks of the time.
const BATCH: usize = 16;
/// The most processes, and descriptors of one, that are read.
const MAX_PROCESSES: usize = 4096;
const MAX_DESCRIPTORS: usize = 65_536;
/// The most files that are remembered, and the most that are returned.
const MAX_FILES: usize = 65_536;
const MAX_RETURNED: usize = 256;
/// What is smaller is not worth a call.
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

/// Device and inode.
type FileId = (u32, u32, u64);
type Seen = Arc<Mutex<BTreeMap<FileId, Use>>>;

/// How a file is used, by all descriptors that were seen.
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
    let seen = Seen::default();
    let theirs = Arc::clone(&seen);
    let call = move |pid, (): &()| read(&theirs, pid, until);
    let mut helper = HelperThread::new(PATIENCE, call)
        .map_err(|error| Missing::failed(WHAT, error.to_string()))?;
    let kernel = kernel_threads(source);
    let numbers = source.list("/proc")?.into_iter().filter_map(|name| name.parse().ok());
    let others = numbers.filter(|pid| !kernel.contains(pid) && *pid != std::process::id());
    let requests: Vec<(u32, ())> = others.map(|pid| (pid, ())).collect();
    let mut complete = requests.len() <= MAX_PROCESSES;
    for batch in requests.get(..MAX_PROCESSES).unwrap_or(&requests).chunks(BATCH) {
        complete &=
            Instant::now() < until && helper.run(batch).into_iter().all(|all| all == Some(true));
    }
    // A process that was not read may use any of them.
    if !complete {
        return Ok((Vec::new(), false));
    }
    let seen = std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
    let mut files = Vec::new();
    for (id, file) in seen {
        files.extend(open(id, file)?);
    }
    files.sort_by_key(|file| std::cmp::Reverse(file.clean_bytes));
    files.truncate(MAX_RETURNED);
    Ok((files, true))
}

/// Takes note of the descriptors of a process; whether all were read.
fn read(seen: &Seen, pid: u32, until: Instant) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return true };
    let Some(table) = MountTable::of(&pid.to_string()) else { return true };
    for (count, entry) in entries.enumerate() {
        if count >= MAX_DESCRIPTORS || Instant::now() >= until {
            return false;
        }
        let Ok(entry) = entry else { continue };
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let (Some(number), Ok(target)) = (number, fs::read_link(entry.path())) else { continue };
        let target = target.to_string_lossy();
        if target.starts_with('/')
            && let Some((id, used)) = descriptor(&table, pid, number, &target)
        {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            if seen.len() >= MAX_FILES && !seen.contains_key(&id) {
                return false;
            }
            let before = seen.remove(&id);
            seen.insert(id, before.map_or_else(|| used.clone(), |before| before.with(&used)));
        }
    }
    true
}

/// What a descriptor of a regular file on a disk says of the file's use.
fn descriptor(table: &MountTable, pid: u32, number: i32, path: &str) -> Option<(FileId, Use)> {
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).ok()?;
    let field =
        |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let mount = table.mount(field("mnt_id")?.trim().parse().ok()?)?;
    if !has_pages(mount) || mount.fstype == "tmpfs" {
        return None;
    }
    let file = format!("/proc/{pid}/fd/{number}");
    let wanted = StatxFlags::TYPE | StatxFlags::INO;
    let stat = statx(CWD, file, AtFlags::STATX_DONT_SYNC, wanted).ok()?;
    if FileType::from_raw_mode(u32::from(stat.stx_mode)) != FileType::RegularFile {
        return None;
    }
    let id = (stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino);
    let position: u64 = field("pos")?.trim().parse().ok()?;
    let flags = u64::from_str_radix(field("flags")?.trim(), 8).ok()?;
    let is_for_both = flags & 0o3 == 0o2;
    let used = if is_for_both || position < LEAST_BYTES {
        Use::Other
    } else {
        Use::Sequential { pid, number, path: path.to_owned(), position }
    };
    Some((id, used))
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
    let process = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
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
    let process = pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()?;
    let file = pidfd_getfd(process, number, PidfdGetfdFlags::empty()).ok()?;
    let stat = fstat(&file).ok()?;
    let now = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev), stat.st_ino);
    (now == id).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_test::Killed;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    /// A program that has read this file from its start, and goes on when its input ends.
    fn reader(path: &std::path::Path, mode: &str) -> Killed {
        let script =
            format!("exec 3{mode}{}; head -c 16777216 <&3 >/dev/null; echo; cat", path.display());
        let mut child = Command::new("sh");
        child.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        Killed(child)
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
