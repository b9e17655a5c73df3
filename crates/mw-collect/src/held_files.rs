//! What open and mapped files hold in memory: /proc/PID/fd and map_files, with cachestat(2) (6.5).
//!
//! Each file is asked once, through a duplicate of a descriptor (pidfd_getfd(2)): opening it again would break
//! leases and may wait. Closing a duplicate flushes files of network and FUSE file systems, so that these are
//! left out; which they are is known from fdinfo and mountinfo alone. Files of an overlay have their pages in
//! the file below, which the descriptor does not lead to, and are left out unless they are mapped.
//!
//! Everything runs on a helper thread that can be abandoned, and what it has found until then is kept.

mod batches;
mod descriptors;
mod mapped;
mod mount_table;
mod search;
mod sequential;

use crate::collector::processes::other_programs;
use crate::source::Source;
use batches::{PATIENCE, read_all};
use mw_model::{HeldFiles, Missing, Process, Snapshot};
use mw_sys::HelperThread;
use search::{FileSearch, Holder};
pub use sequential::{SequentialFile, clean_bytes_before, sequential_files};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time limit of all processes.
const BUDGET: Duration = Duration::from_millis(80);

pub(crate) fn collect(source: &Source, snapshot: &Snapshot) -> Result<HeldFiles, Missing> {
    let search = Arc::new(FileSearch::new(Instant::now() + source.budget(BUDGET))?);
    let theirs = Arc::clone(&search);
    let mut helper = HelperThread::new(PATIENCE, move |pid, maps: &bool| read(&theirs, pid, *maps))
        .map_err(|error| Missing::failed("/proc/PID/fd", error.to_string()))?;
    let requests = processes(source, snapshot)?;
    let complete = read_all(&mut helper, &requests, || search.is_late());
    let found = std::mem::take(&mut *search.found());
    Ok(HeldFiles { files: found.files, pipe_bytes: found.pipe_bytes, complete })
}

/// From how much mapped page cache on a process's mappings are read.
const LEAST_MAPPED_BYTES: u64 = 8 << 20;

/// The processes to read, those with the most memory first, and whether to read their mappings.
fn processes(source: &Source, snapshot: &Snapshot) -> Result<Vec<(u32, bool)>, Missing> {
    let known = snapshot.processes.value().map_or(&[][..], |all| all.list.as_slice());
    let mut known: Vec<&Process> = known.iter().collect();
    known.sort_by_key(|process| std::cmp::Reverse(process.status.vm_rss_bytes));
    let maps = |process: &Process| {
        process.status.rss_file_bytes.is_some_and(|bytes| bytes >= LEAST_MAPPED_BYTES)
    };
    let of = |process: &Process| Some((process.status.pid?, maps(process)));
    let mut requests: Vec<(u32, bool)> =
        known.into_iter().filter_map(of).filter(|(pid, _)| *pid != std::process::id()).collect();
    let listed: BTreeSet<u32> = requests.iter().map(|(pid, _)| *pid).collect();
    let others = other_programs(source)?.into_iter().filter(|pid| !listed.contains(pid));
    requests.extend(others.map(|pid| (pid, false)));
    Ok(requests)
}

/// True if all files of a process were read.
fn read(search: &FileSearch, pid: u32, maps: bool) -> bool {
    let name = mw_sys::kernel_file::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let holder = Holder { pid, name: name.trim_end().to_owned() };
    let of_descriptors = descriptors::read(search, &holder);
    let of_mappings = !maps || mapped::read(search, &holder);
    of_descriptors && of_mappings
}
