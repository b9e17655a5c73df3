//! The open files of processes that reach their limit (`RLIMIT_NOFILE`).
//!
//! - `FDSize` of /proc/PID/status is at least the number of open files (fs/proc/array.c, `task_state()`): a process with a
//!   small table of descriptors is at no limit that is judged, and nothing more is read of it.
//! - Since Linux 6.2 the size of the directory /proc/PID/fd is the number (fs/proc/fd.c, `proc_readfd_count()`), for every
//!   user and in 5 µs.
//! - Before, the entries are counted, 5 µs each, and only where the limit's last descriptor is open: the kernel assigns the
//!   lowest free one (fs/file.c, `alloc_fd()`).

use crate::collector::process_files::{limits, reader};
use crate::source::Source;
use mw_model::open_files::{LEAST_LIMIT, reaches_least_limit, reaches_limit};
use mw_model::{Missing, Process};
use mw_proc::limits::Rlimits;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// File of the counts in a captured tree: `pid open`, a line a process.
pub(crate) const OPEN_FILES: &str = "/memwright/open_files";

/// The most processes that are looked at: about 1 ms, and 3 ms where the limits of all are read.
const MAX_CANDIDATES: usize = 128;

/// The most entries of directories that are counted before Linux 6.2, of all processes together: about 10 ms.
const MAX_ENTRIES: usize = 2048;

/// Open files of a process that reaches its limit.
struct LimitedFiles {
    open: u64,
    limits: Rlimits,
}

/// Adds the number to the processes that reach their limit, and their limits.
pub(crate) fn add(source: &Source, list: &mut [Process]) -> Result<(), Missing> {
    let candidates = candidates(list);
    if candidates.is_empty() {
        return Ok(());
    }
    let found = if source.is_running() {
        let left = AtomicUsize::new(MAX_ENTRIES);
        let mut read = reader(source, move |source, pid| look(source, pid, &left))?;
        candidates
            .iter()
            .zip(read(&candidates))
            .map(|(pid, found)| (*pid, found.flatten()))
            .collect()
    } else {
        captured(source, &candidates)
    };
    for process in list {
        let found = process.status.pid.and_then(|pid| found.get(&pid)?.as_ref());
        if let Some(LimitedFiles { open, limits }) = found {
            process.open_files = Some(*open);
            process.limits = Some(*limits);
        }
    }
    Ok(())
}

/// The processes with a large enough table, the largest of each user before the second of any: one user's processes do not
/// hide those of others.
fn candidates(list: &[Process]) -> Vec<u32> {
    let slots = |process: &Process| u64::from(process.status.descriptor_slots.unwrap_or(0));
    let mut large: Vec<&Process> =
        list.iter().filter(|process| slots(process) >= LEAST_LIMIT).collect();
    large.sort_by_key(|process| Reverse(slots(process)));
    let mut of_user: BTreeMap<Option<u32>, usize> = BTreeMap::new();
    let mut ranked: Vec<(usize, u32)> = Vec::new();
    for status in large.iter().map(|process| &process.status) {
        let rank = of_user.entry(status.uid).or_default();
        ranked.extend(status.pid.map(|pid| (*rank, pid)));
        *rank += 1;
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, pid)| pid).take(MAX_CANDIDATES).collect()
}

/// The open files of a process and their limit, where none is left.
pub(crate) fn at_limit(source: &Source, pid: u32) -> Option<(u64, u64)> {
    let files = count(source, pid, &AtomicUsize::new(MAX_ENTRIES), |_| true)?;
    let limit = files.limits.open_files?.soft?;
    (files.open >= limit).then_some((files.open, limit))
}

fn look(source: &Source, pid: u32, entries_left: &AtomicUsize) -> Option<LimitedFiles> {
    let files = count(source, pid, entries_left, reaches_least_limit)?;
    reaches_limit(files.open, files.limits.open_files?.soft?).then_some(files)
}

/// The open files of a process. Where the kernel reports their number, the limits are read only if that is of interest.
fn count(
    source: &Source,
    pid: u32,
    entries_left: &AtomicUsize,
    is_of_interest: fn(u64) -> bool,
) -> Option<LimitedFiles> {
    let directory = format!("/proc/{pid}/fd");
    let size = source.directory_size(&directory)?;
    if size > 0 && !is_of_interest(size) {
        return None;
    }
    let limits = limits(source, pid)?;
    let limit = limits.open_files?.soft?;
    let open =
        if size > 0 { size } else { count_entries(source, &directory, limit, entries_left)? };
    Some(LimitedFiles { open, limits })
}

/// The entries of a directory whose size the kernel does not report.
fn count_entries(
    source: &Source,
    directory: &str,
    limit: u64,
    entries_left: &AtomicUsize,
) -> Option<u64> {
    let last = limit.checked_sub(1)?;
    let most = entries_left.load(Relaxed);
    if usize::try_from(limit).ok()? > most || source.leads_nowhere(&format!("{directory}/{last}")) {
        return None;
    }
    let entries = source.count_entries(directory, most)?;
    entries_left.fetch_sub(entries.min(most), Relaxed);
    Some(entries as u64)
}

/// The counts of a captured tree.
fn captured(source: &Source, candidates: &[u32]) -> BTreeMap<u32, Option<LimitedFiles>> {
    let text = source.read(OPEN_FILES).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let counts = text.lines().filter_map(|line| line.split_once(' '));
    let counts = counts.filter_map(|(pid, open)| Some((pid.parse().ok()?, open.parse().ok()?)));
    let of_candidates = counts.filter(|(pid, _)| candidates.contains(pid));
    let found = of_candidates
        .map(|(pid, open)| (pid, limits(source, pid).map(|limits| LimitedFiles { open, limits })));
    found.collect()
}

/// Writes what [`captured`] reads.
pub(crate) fn write(list: &[Process]) -> String {
    let mut text = String::new();
    for process in list {
        if let (Some(pid), Some(open)) = (process.status.pid, process.open_files) {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{pid} {open}");
        }
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use mw_proc::status::Status;

    fn process(pid: u32, uid: u32, slots: u32) -> Process {
        let status = Status {
            pid: Some(pid),
            uid: Some(uid),
            descriptor_slots: Some(slots),
            ..Status::default()
        };
        Process { status, ..Process::default() }
    }

    /// Promise (Findings): Open files are counted only of processes that may reach their limit, and one user's processes do
    /// not hide those of others.
    #[test]
    fn the_largest_of_each_user_come_first() {
        let list = [
            process(1, 1000, 1 << 20),
            process(2, 1000, 1 << 19),
            process(3, 33, 1024),
            process(4, 0, 256),
            process(5, 33, 512),
        ];
        assert_eq!(candidates(&list), [1, 3, 2, 5]);
        let many: Vec<Process> = (0..300).map(|pid| process(pid, 9, 512)).collect();
        assert_eq!(candidates(&many).len(), MAX_CANDIDATES);
    }

    /// The number of files that this process has open, of the kernel's own list.
    fn own_open_files() -> u64 {
        // One is the list itself.
        std::fs::read_dir("/proc/self/fd").unwrap().count() as u64 - 1
    }

    #[test]
    fn entries_are_those_of_the_directory() {
        let source = Source::live().unwrap();
        let directory = "/proc/self/fd";
        // Other tests open and close files meanwhile.
        let near = |count: Option<u64>| count.unwrap().abs_diff(own_open_files()) < 50;
        assert!(near(source.count_entries(directory, MAX_ENTRIES).map(|count| count as u64)));
        assert_eq!(source.count_entries(directory, 2), Some(3), "no more than needed");
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let kernel = mw_proc::version::KernelVersion::parse(kernel.as_bytes()).unwrap();
        let size = source.directory_size(directory);
        assert!(kernel < mw_proc::version::KernelVersion::new(6, 2, 0) || near(size), "{size:?}");
    }

    #[test]
    fn entries_are_not_counted_beyond_the_bound_nor_below_the_limit() {
        let source = Source::live().unwrap();
        let directory = format!("/proc/{}/fd", std::process::id());
        let left = AtomicUsize::new(MAX_ENTRIES);
        assert_eq!(count_entries(&source, &directory, MAX_ENTRIES as u64 + 1, &left), None);
        assert_eq!(count_entries(&source, &directory, 2000, &left), None, "the last is not open");
        assert_eq!(left.load(Relaxed), MAX_ENTRIES);
        // Standard input, output and error are open.
        assert!(count_entries(&source, &directory, 3, &left).unwrap() >= 3);
        assert!(left.load(Relaxed) < MAX_ENTRIES);
    }

    #[test]
    fn what_is_written_is_read_with_the_limits_of_the_tree() {
        let list =
            [Process { open_files: Some(1024), ..process(7, 33, 1024) }, process(8, 33, 1024)];
        assert_eq!(write(&list), "7 1024\n");
        let root = tempfile::tempdir().unwrap();
        for dir in ["memwright", "proc/7"] {
            std::fs::create_dir_all(root.path().join(dir)).unwrap();
        }
        std::fs::write(root.path().join(OPEN_FILES.trim_start_matches('/')), "x\n7 1024\n9 2\n")
            .unwrap();
        let limits = "Limit Soft Limit Hard Limit Units\nMax open files 1024 4096 files\n";
        std::fs::write(root.path().join("proc/7/limits"), limits).unwrap();
        let mut read = [process(7, 33, 1024), process(8, 33, 1024)];
        add(&Source::tree(root.path()).unwrap(), &mut read).unwrap();
        assert_eq!(read.map(|process| process.open_files), [Some(1024), None]);
    }
}
