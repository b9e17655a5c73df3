//! How many mappings processes have, of those that may be close to vm.max_map_count.
//!
//! The kernel keeps the number and shows it nowhere. Its only trace is /proc/PID/maps, a line a mapping,
//! which takes the process's mmap lock for each 4 KiB that are read (since 6.17 the lock of each mapping)
//! and 0.3 µs a line. So it is read only where the number may be large:
//!
//! - The slab cache `vm_area_struct` has an object for each mapping of all processes. On most machines
//!   that is too few for any process to be close to the limit, and nothing is read at all.
//! - A mapping is at least a page: a process with a smaller address space is not close to the limit.
//! - Of the others, one process of each program is read first: the processes of one program are usually
//!   alike. A usual program has some hundreds of mappings, which is a few reads.
//! - Reading ends as soon as the mappings that were not counted are too few, or after a number of lines.

use crate::source::Source;
use mw_model::map_count::{MAX_MAP_COUNT, near_limit};
use mw_model::{
    Absence, MapCount, MapCounts, Missing, Process, Processes, Reading, Sysctl, format_count,
};
use mw_proc::slabinfo::Slab;
use mw_sys::HelperThread;
use rustix::io::Errno;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The cache with one object for each mapping.
const CACHE: &str = "vm_area_struct";

/// File of the counts in a captured tree: `pid mappings [all]`, a line a process, and `unseen REASON`.
pub(crate) const MAP_COUNTS: &str = "/memwright/map_counts";

const MAPS: &str = "/proc/PID/maps";

/// Lines that are read of all processes: about 5 ms. A bound in time would be up before anything was counted
/// where others use the CPU.
const MAX_LINES: u64 = 16_384;

/// The same as soon as one process has [`MANY`] mappings: about 40 ms, and twice the usual limit of 65,530.
const MAX_LINES_OF_MANY: u64 = 131_072;

/// More mappings than usual programs have.
const MANY: u64 = 8192;

/// To open the file of a process costs as much as so many lines.
const LINES_OF_OPENING: u64 = 64;

/// Time limit of the helper thread for one process, or for its lock.
const PATIENCE: Duration = Duration::from_millis(200);

/// Processes that are read between two looks at what remains: waking the helper thread costs as much
/// as a small process.
const BATCH: usize = 8;

/// The kernel returns at most this much at a time.
const READ_BYTES: usize = 4096;

/// Counts that were collected before.
pub(crate) struct CollectedCounts<'a> {
    pub(crate) sysctl: &'a Sysctl,
    pub(crate) slabs: Option<&'a [Slab]>,
    pub(crate) processes: &'a Reading<Processes>,
    pub(crate) page_bytes: u64,
}

pub(crate) fn collect(source: &Source, known: &CollectedCounts<'_>) -> Result<MapCounts, Missing> {
    let is_tree = !source.is_running();
    let captured = is_tree.then(|| source.read(MAP_COUNTS).ok()).flatten();
    if let Some(text) = captured {
        return Ok(parse(&String::from_utf8_lossy(&text)));
    }
    let near = near_limit(known.sysctl.number(MAX_MAP_COUNT)?);
    let all = mappings_of_all(known.slabs);
    if all < near {
        return Ok(MapCounts::default());
    }
    let processes = known.processes.required()?;
    let pids = candidates(&processes.list, near.saturating_mul(known.page_bytes));
    let not_listed = processes.whole().err();
    if pids.is_empty() {
        return Ok(MapCounts { list: Vec::new(), unseen: not_listed });
    }
    if is_tree {
        return Err(Missing::absent(MAPS, "not in this tree"));
    }
    let mut counts = count_all(source, &pids, all - near)?;
    counts.unseen = counts.unseen.or(not_listed);
    Ok(counts)
}

/// The kernel counts objects on the lists of CPUs as in use, so that there are not more.
fn mappings_of_all(slabs: Option<&[Slab]>) -> u64 {
    let cache = slabs.and_then(|slabs| slabs.iter().find(|slab| slab.name == CACHE));
    cache.map_or(u64::MAX, |cache| cache.active_objects)
}

/// The processes with so large an address space: the largest of each program, then all others.
fn candidates(processes: &[Process], fewest_bytes: u64) -> Vec<u32> {
    let size = |process: &Process| process.status.vm_size_bytes.unwrap_or(0);
    let mut large: Vec<&Process> =
        processes.iter().filter(|process| size(process) >= fewest_bytes).collect();
    large.sort_by_key(|process| Reverse(size(process)));
    let mut programs = BTreeSet::new();
    let (first, others): (Vec<&Process>, Vec<&Process>) =
        large.into_iter().partition(|process| programs.insert(process.status.name.as_str()));
    first.into_iter().chain(others).filter_map(|process| process.status.pid).collect()
}

/// Counts until `enough` mappings were seen, with which no process that was not seen can have many.
fn count_all(source: &Source, pids: &[u32], enough: u64) -> Result<MapCounts, Missing> {
    let failed = |error: std::io::Error| Missing::failed(MAPS, error.to_string());
    let theirs = source.again().map_err(failed)?;
    let read = AtomicU64::new(0);
    let mut helper =
        HelperThread::new(PATIENCE, move |pid, ()| count(&theirs, pid, &read)).map_err(failed)?;
    let mut counts = MapCounts::default();
    let (mut seen, mut uncounted, mut is_over) = (0_u64, pids.len(), false);
    for batch in pids.chunks(BATCH) {
        let questions: Vec<_> = batch.iter().map(|pid| (*pid, ())).collect();
        for answer in helper.run(&questions).into_iter().flatten() {
            match answer {
                CountOutcome::Counted(count) => {
                    seen = seen.saturating_add(count.mappings);
                    is_over |= !count.is_whole;
                    counts.list.push(count);
                }
                CountOutcome::Gone => {}
                CountOutcome::Failed(missing) => counts.unseen = Some(missing),
                CountOutcome::OverBound => {
                    is_over = true;
                    continue;
                }
            }
            uncounted -= 1;
        }
        if seen > enough {
            return Ok(MapCounts { unseen: None, ..counts });
        }
        if is_over {
            break;
        }
    }
    if uncounted > 0 {
        let uncounted = format_count(uncounted, "process");
        let why = format!("mappings not counted of {uncounted} with a large address space");
        counts.unseen = Some(Missing::skipped(MAPS, why));
    }
    Ok(counts)
}

enum CountOutcome {
    Counted(MapCount),
    /// It has ended, or has no memory any more.
    Gone,
    Failed(Missing),
    /// Too much was read before.
    OverBound,
}

/// Counts the lines, and adds what is read to `read`.
fn count(source: &Source, pid: u32, read: &AtomicU64) -> CountOutcome {
    if read.fetch_add(LINES_OF_OPENING, Relaxed) >= MAX_LINES {
        return CountOutcome::OverBound;
    }
    let path = format!("/proc/{pid}/maps");
    let file = match source.open(&path) {
        Ok(file) => file,
        Err(missing) if missing.absence == Absence::Absent => return CountOutcome::Gone,
        Err(missing) => return CountOutcome::Failed(missing),
    };
    let mut buffer = [0_u8; READ_BYTES];
    let mut mappings = 0_u64;
    loop {
        let more = match rustix::io::read(&file, &mut buffer) {
            Ok(0) => return CountOutcome::Counted(MapCount { pid, mappings, is_whole: true }),
            Ok(bytes) => lines(buffer.get(..bytes).unwrap_or_default()),
            Err(Errno::INTR) => 0,
            Err(Errno::SRCH) => return CountOutcome::Gone,
            Err(errno) => return CountOutcome::Failed(Missing::failed(path, errno.to_string())),
        };
        mappings += more;
        let most = if mappings < MANY { MAX_LINES } else { MAX_LINES_OF_MANY };
        if read.fetch_add(more, Relaxed) + more >= most {
            return CountOutcome::Counted(MapCount { pid, mappings, is_whole: false });
        }
    }
}

fn lines(text: &[u8]) -> u64 {
    text.iter().filter(|byte| **byte == b'\n').count() as u64
}

fn parse(text: &str) -> MapCounts {
    let mut counts = MapCounts::default();
    for (key, value) in text.lines().filter_map(|line| line.split_once(' ')) {
        let (number, rest) = value.split_once(' ').unwrap_or((value, ""));
        match (key.parse(), number.parse()) {
            (Ok(pid), Ok(mappings)) => {
                counts.list.push(MapCount { pid, mappings, is_whole: rest == "all" });
            }
            _ if key == "unseen" => counts.unseen = Some(Missing::skipped(MAPS, value)),
            _ => {}
        }
    }
    counts
}

/// Writes what [`parse`] reads.
pub(crate) fn write(counts: &MapCounts) -> String {
    let mut text = String::new();
    for MapCount { pid, mappings, is_whole } in &counts.list {
        let all = if *is_whole { " all" } else { "" };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{pid} {mappings}{all}");
    }
    if let Some(missing) = &counts.unseen {
        let _ = writeln!(text, "unseen {}", missing.why);
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod tests {
    use super::*;
    use mw_proc::status::Status;

    fn process(pid: u32, name: &str, size_pages: u64) -> Process {
        let status = Status {
            pid: Some(pid),
            name: name.to_owned(),
            vm_size_bytes: Some(size_pages << 12),
            ..Status::default()
        };
        Process { status, ..Process::default() }
    }

    /// Count of a process that has ended, with a limit of 1,000 and `all` mappings.
    fn collected(
        list: Vec<Process>,
        unseen: usize,
        all: Option<u64>,
    ) -> Result<MapCounts, Missing> {
        let sysctl = Sysctl { values: [(MAX_MAP_COUNT.to_owned(), Ok("1000".to_owned()))].into() };
        let slab = |n| vec![Slab { name: CACHE.to_owned(), active_objects: n, ..Slab::default() }];
        let slabs = all.map(slab);
        let processes = Reading::Value(Processes { present: list.len() + unseen, unseen, list });
        let slabs = slabs.as_deref();
        let known =
            CollectedCounts { sysctl: &sysctl, slabs, processes: &processes, page_bytes: 4096 };
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir(tree.path().join("proc")).unwrap();
        collect(&Source::tree(tree.path()).unwrap(), &known)
    }

    /// Promise (Findings): Mappings are counted only of processes that may be close to vm.max_map_count; one that was
    /// not counted to the end has not passed.
    #[test]
    fn few_mappings_of_all_processes_exclude_each() {
        let large = || vec![process(1, "a", 1 << 20)];
        assert_eq!(collected(large(), 1, Some(899)), Ok(MapCounts::default()));
        assert!(collected(large(), 0, Some(900)).is_err(), "its maps are not in the tree");
        assert!(collected(large(), 0, None).is_err(), "slabinfo is not readable");
    }

    #[test]
    fn a_small_address_space_has_few_mappings() {
        let small = || vec![process(1, "a", 899)];
        assert_eq!(collected(small(), 0, None), Ok(MapCounts::default()));
        assert!(collected(small(), 1, None).unwrap().unseen.is_some(), "one was not listed");
    }

    #[test]
    fn the_largest_process_of_each_program_comes_first() {
        let list = [
            process(1, "postgres", 5000),
            process(2, "postgres", 9000),
            process(3, "java", 8000),
            process(4, "cron", 10),
            process(5, "java", 7000),
        ];
        assert_eq!(candidates(&list, 900 << 12), [2, 3, 5, 1]);
    }

    #[test]
    fn its_own_mappings_are_counted() {
        let source = Source::live().unwrap();
        let pid = std::process::id();
        let CountOutcome::Counted(counted) = count(&source, pid, &AtomicU64::new(0)) else {
            panic!("not counted")
        };
        let lines = std::fs::read_to_string("/proc/self/maps").unwrap().lines().count() as u64;
        // Other tests map and unmap meanwhile.
        assert!(counted.is_whole && counted.mappings.abs_diff(lines) < 50, "{counted:?} {lines}");
    }

    #[test]
    fn so_many_lines_are_read_and_no_more() {
        let source = Source::live().unwrap();
        let pid = std::process::id();
        assert!(matches!(count(&source, pid, &AtomicU64::new(MAX_LINES)), CountOutcome::OverBound));
        let almost = AtomicU64::new(MAX_LINES - LINES_OF_OPENING - 1);
        let CountOutcome::Counted(counted) = count(&source, pid, &almost) else {
            panic!("not counted")
        };
        assert!(!counted.is_whole && counted.mappings > 0, "{counted:?}");
    }

    #[test]
    fn counting_ends_when_the_others_are_too_few() {
        let source = Source::live().unwrap();
        let pids: Vec<u32> = std::iter::repeat_n(std::process::id(), 3 * BATCH).collect();
        let all = count_all(&source, &pids, u64::MAX).unwrap();
        assert_eq!((all.list.len(), all.unseen), (3 * BATCH, None));
        let some = count_all(&source, &pids, 20).unwrap();
        assert_eq!((some.list.len(), some.unseen), (BATCH, None));
    }

    #[test]
    fn what_is_written_is_read() {
        let counts = MapCounts {
            list: vec![
                MapCount { pid: 7, mappings: 65_530, is_whole: true },
                MapCount { pid: 8, mappings: 9000, is_whole: false },
            ],
            unseen: Some(Missing::skipped(MAPS, "2 processes could not be counted")),
        };
        assert_eq!(parse(&write(&counts)), counts);
        assert_eq!(parse("x y\n1\n\n"), MapCounts::default());
    }
}
