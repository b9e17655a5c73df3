//! # map-count-limit
//!
//! A process has almost as many mappings as the kernel permits.
//!
//! ## What it finds
//! A process with at least 90% of `vm.max_map_count` mappings.
//!
//! The kernel shows the number of mappings nowhere but in /proc/PID/maps, a line a mapping. That file is read
//! only where the number may be large: not at all while the kernel's `vm_area_struct` objects of all processes
//! are fewer than that (/proc/slabinfo, readable by root), and otherwise only for processes whose address space
//! is large enough, one of each program first: 16,384 lines of all of them together (5 ms), and 131,072 (40 ms) where
//! one has more than 8,192 mappings. With the default limit that process is counted to the end, which takes about 20
//! ms. Where it is not enough, the rule could not be checked, and the report says which process has more.
//!
//! ## Why it hurts
//! At the limit `mmap`, `mprotect`, `munmap` of a part of a mapping and the creation of a thread fail with
//! ENOMEM, however much memory is free. malloc then fails, and most programs abort.
//!
//! ## What it looks like
//! "Cannot allocate memory", "Map failed" or a crash of the Java VM while `free` shows plenty. Usual causes are
//! files that are mapped in many pieces (search indexes, LMDB), allocators and garbage collectors that change
//! the protection of single pages or advise on them one by one, and tens of thousands of threads.
//!
//! ## How to fix it
//! `memwright fix map-count-limit` raises `vm.max_map_count` to 1,048,576, the default of Fedora since 39 and of
//! Ubuntu since 24.04, or doubles it where it is as high already. It does so only if you name the rule. The kernel spends about 200 bytes on a mapping
//! that exists, and nothing on the limit. A number that grows without end is a leak in the program: watch it with
//! `wc -l /proc/PID/maps`.
//!
//! ## Threshold
//! 90%: the number grows by one mapping at a time, so that this leaves time to act. With the default of 65,530 the
//! rest is 6,550 mappings, or 3,275 threads with their guard pages. It is never critical: only this process fails, and
//! any user's process can have that many mappings.
//!
//! ## References
//! Linux, Documentation/admin-guide/sysctl/vm.rst, max_map_count; mmap(2), ENOMEM; Elasticsearch documentation,
//! "Virtual memory".

use crate::share::percent;
use mw_model::map_count::{MAX_MAP_COUNT, near_limit};
use mw_model::{
    Finding, MapCount, MapCounts, Missing, Quantity, Remedy, Severity, Snapshot, Step, Subject,
    Sysctl, Window,
};
use std::cmp::Reverse;

/// Default of distributions.
const USUAL_LIMIT: u64 = 1 << 20;

/// The kernel keeps the setting in a C int.
const LARGEST_LIMIT: u64 = i32::MAX as u64;

/// Processes that are reported.
const MAX_SHOWN: usize = 5;

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    let limit = snapshot.sysctl.number(MAX_MAP_COUNT)?;
    let counts = snapshot.map_counts.required()?;
    let near = near_limit(limit);
    let mut close: Vec<&MapCount> =
        counts.list.iter().filter(|count| count.mappings >= near).collect();
    close.sort_by_key(|count| Reverse(count.mappings));
    if close.is_empty() {
        return unseen(snapshot, counts).map_or(Ok(Vec::new()), Err);
    }
    Ok(close.into_iter().take(MAX_SHOWN).map(|count| finding(snapshot, *count, limit)).collect())
}

/// The reason why some process may be close to the limit all the same.
fn unseen(snapshot: &Snapshot, counts: &MapCounts) -> Option<Missing> {
    let partly = counts.list.iter().filter(|count| !count.is_whole);
    let Some(MapCount { pid, mappings, .. }) = partly.max_by_key(|count| count.mappings) else {
        return counts.unseen.clone();
    };
    let why = format!(
        "{} (pid {pid}) has at least {mappings} mappings, too many to count here; `wc -l /proc/{pid}/maps` \
         counts them",
        name(snapshot, *pid)
    );
    Some(Missing::skipped(format!("/proc/{pid}/maps"), why))
}

fn finding(snapshot: &Snapshot, count: MapCount, limit: u64) -> Finding {
    let MapCount { pid, mappings, is_whole } = count;
    let share = percent(mappings, limit);
    let name = name(snapshot, pid);
    let more = if is_whole { "" } else { "at least " };
    let headline = format!(
        "{name} (pid {pid}) has {more}{mappings} mappings, {share:.0}% of {MAX_MAP_COUNT} ({limit})"
    );
    let impact =
        "At the limit its mmap, mprotect and new threads fail with ENOMEM although memory is free.";
    let finding = Finding::new(Severity::Warning, Subject::Process(name), headline)
        .with_evidence("mappings", Quantity::Count(mappings), format!("/proc/{pid}/maps"))
        .with_evidence(MAX_MAP_COUNT, Quantity::Count(limit), Sysctl::path(MAX_MAP_COUNT))
        .with_impact(impact);
    match raised(limit) {
        Some(raised) => finding.with_remedy(Remedy::named(
            format!("set {MAX_MAP_COUNT} to {raised}"),
            vec![Step::write(Sysctl::path(MAX_MAP_COUNT), raised)],
        )),
        None => finding,
    }
}

fn raised(limit: u64) -> Option<u64> {
    let raised = limit.saturating_mul(2).clamp(USUAL_LIMIT, LARGEST_LIMIT);
    (raised > limit).then_some(raised)
}

fn name(snapshot: &Snapshot, pid: u32) -> String {
    let processes = snapshot.processes.value().map_or(&[][..], |processes| &processes.list);
    let process = processes.iter().find(|process| process.status.pid == Some(pid));
    process.map_or_else(|| "a process".to_owned(), |process| process.status.name.clone())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use mw_model::Reading;

    #[test]
    fn the_limit_is_raised_and_stays_within_the_kernels() {
        assert_eq!(raised(65_530), Some(1 << 20));
        assert_eq!(raised(1 << 20), Some(1 << 21));
        assert_eq!(raised(LARGEST_LIMIT - 1), Some(LARGEST_LIMIT));
        assert_eq!(raised(LARGEST_LIMIT), None);
    }
    fn window(limit: u64, list: Vec<MapCount>) -> Window {
        let mut snapshot = Snapshot::default();
        snapshot.sysctl.values.insert(MAX_MAP_COUNT.to_owned(), Ok(limit.to_string()));
        snapshot.map_counts = Reading::Value(MapCounts { list, unseen: None });
        Window::new(snapshot)
    }

    fn fires(mappings: u64, is_whole: bool) -> bool {
        let window = window(1000, vec![MapCount { pid: 7, mappings, is_whole }]);
        !hazard(&window).unwrap().is_empty()
    }

    #[test]
    fn a_process_is_close_from_a_share_of_the_limit_on() {
        assert!(!fires(899, true));
        assert!(fires(900, true));
        assert!(fires(900, false), "it has more");
    }

    #[test]
    fn a_process_that_was_not_counted_to_the_end_has_not_passed() {
        let window = window(1000, vec![MapCount { pid: 7, mappings: 500, is_whole: false }]);
        let missing = hazard(&window).unwrap_err();
        assert!(missing.why.contains("at least 500 mappings"), "{missing}");
    }
}
