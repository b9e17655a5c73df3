//! /proc/PID/status and limits, of a bounded number of processes.

use crate::source::Source;
use mw_model::{Missing, Process, Processes};
use mw_proc::limits::Limits;
use mw_proc::status::Status;
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
    // The newest first: the oldest are the kernel's own threads.
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
