//! /proc/PID/status and limits, of a bounded number of processes.

use crate::source::Source;
use mw_model::{Missing, Process, Processes};
use mw_proc::limits::Limits;
use mw_proc::status::Status;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The most processes that are looked at.
pub(crate) const MAX_PROCESSES: usize = 4096;

/// How long all of them may take: a status costs 10 to 20 µs, more when the process is busy.
const BUDGET: Duration = Duration::from_millis(8);

pub(crate) fn collect(source: &Source) -> Result<Processes, Missing> {
    let mut pids: Vec<u32> =
        source.list("/proc")?.iter().filter_map(|name| name.parse().ok()).collect();
    if pids.is_empty() {
        return Err(Missing::absent("/proc/PID", "no process in it"));
    }
    let kernel = kernel_threads(source);
    pids.retain(|pid| !kernel.contains(pid));
    // The newest first: what has been there since boot is the least likely to be the cause.
    pids.sort_unstable_by(|a, b| b.cmp(a));
    let deadline = Instant::now() + source.budget(BUDGET);
    let mut seen = 0;
    let mut list: Vec<Process> = pids
        .iter()
        .take(MAX_PROCESSES)
        .take_while(|_| Instant::now() < deadline)
        .inspect(|_| seen += 1)
        .filter_map(|pid| process(source, *pid))
        .collect();
    list.reverse();
    Ok(Processes { present: pids.len(), unseen: pids.len() - seen, list })
}

/// Where the kernel lists the children of kthreadd, its own threads, if it was built to.
const KERNEL_THREADS: &str = "/proc/2/task/2/children";

/// The kernel's own threads, in one read: on a large server most of /proc are these.
fn kernel_threads(source: &Source) -> BTreeSet<u32> {
    // In a container process 2 is another, which has a program.
    let is_kthreadd = source.leads_nowhere("/proc/2/exe");
    let list = source.read(KERNEL_THREADS).ok().filter(|_| is_kthreadd).unwrap_or_default();
    let list = String::from_utf8_lossy(&list);
    list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// One process that has memory; kernel threads have none, and a process may be gone.
fn process(source: &Source, pid: u32) -> Option<Process> {
    if source.leads_nowhere(&format!("/proc/{pid}/exe")) {
        return None;
    }
    let status = source.parse(&format!("/proc/{pid}/status"), Status::parse).ok()?;
    status.vm_rss_bytes?;
    let locks = status.vm_lck_bytes.is_some_and(|bytes| bytes > 0);
    let limits = locks.then(|| source.parse(&format!("/proc/{pid}/limits"), Limits::parse).ok());
    Some(Process { status, limits: limits.flatten() })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_kernels_own_threads_are_told_from_programs() {
        let source = Source::live().unwrap();
        let threads = kernel_threads(&source);
        assert!(!threads.contains(&std::process::id()));
        // A container has none, nor a kernel that was not built to say it.
        let names = std::fs::read_to_string("/proc/2/comm").unwrap_or_default();
        if names == "kthreadd\n" && Path::new(KERNEL_THREADS).exists() {
            assert!(threads.len() > 3, "{threads:?}");
            let programs =
                threads.iter().filter(|pid| Path::new(&format!("/proc/{pid}/exe")).exists());
            assert_eq!(programs.count(), 0);
        }
        let seen = collect(&source).unwrap();
        assert!(seen.list.iter().any(|process| process.status.pid == Some(std::process::id())));
    }
}
