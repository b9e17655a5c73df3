//! Tasks that wait for memory, over a short time: the tracepoints alone, without stacks and without a thread.

use crate::open::{EventSet, Rates, open_waits};
use crate::profiler::enable;
use crate::reader::RingReader;
use crate::task_numbers::TaskNumbers;
use mw_model::{FloodShare, KernelWait, Missing, WaitKind, Waiter, Waiters};
use mw_proc::status::Status;
use mw_sys::monotonic_ns;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Rings of 64 KiB hold the records of this time on a busy machine.
const ROUND: Duration = Duration::from_millis(50);
const FLOOD_PERIOD: u64 = 64;
/// Threads whose process is looked up.
const MAX_THREADS: usize = 1024;

/// Watches for `span`, which it takes. Kernel threads and this process are left out.
///
/// # Errors
/// Events may not be opened: needs root or CAP_PERFMON, and tracefs.
pub fn waiters(span: Duration) -> Result<Waiters, Missing> {
    let numbers = TaskNumbers::of_this_process()?;
    let rates = Rates { baseline_hz: 1, stall_hz: 1, flood_period: FLOOD_PERIOD };
    let (opened, rings) = open_waits(rates)?;
    let began = Instant::now();
    let mut reader = RingReader::new(rings, numbers, FLOOD_PERIOD, began);
    let began_ns = monotonic_ns();
    reader.begin(began_ns, began_ns, began_ns);
    let EventSet { waits, flood, .. } = &opened;
    enable(waits);
    enable(flood);
    while let Some(left) = span.checked_sub(began.elapsed()) {
        std::thread::sleep(left.min(ROUND));
        reader.drain(monotonic_ns());
    }
    let now_ns = monotonic_ns();
    reader.drain(now_ns);
    let seen = reader.end(now_ns, 0, 0, 0);
    if seen.lost > 0 {
        let why = format!("{} records were lost: who waits is not known", seen.lost);
        return Err(Missing::failed("tracepoints of vmscan and compaction", why));
    }
    let processes = by_process(&seen.waits, &reader.flood(now_ns));
    Ok(Waiters { span_us: now_ns.saturating_sub(began_ns) / 1000, processes })
}

/// Waits for the machine's memory; those in reclaim of a cgroup are for its limit.
fn is_for_memory(wait: &&KernelWait) -> bool {
    matches!(wait.kind, WaitKind::DirectReclaim | WaitKind::NodeReclaim | WaitKind::Compaction)
}

fn by_process(waits: &[KernelWait], flood: &[FloodShare]) -> Vec<Waiter> {
    let mut processes: BTreeMap<u32, Waiter> = BTreeMap::new();
    let mut looked_up = BTreeMap::new();
    for wait in waits.iter().filter(is_for_memory) {
        // Beyond the limit a thread counts by itself.
        let is_free = looked_up.len() < MAX_THREADS || looked_up.contains_key(&wait.pid);
        let own = || if is_free { process_of(wait.pid) } else { Some(wait.pid) };
        let Some(pid) = *looked_up.entry(wait.pid).or_insert_with(own) else { continue };
        let process = processes.entry(pid).or_insert_with(|| named(pid, &wait.task));
        process.waited_us += wait.total_us;
    }
    for share in flood {
        let process = processes.entry(share.pid).or_insert_with(|| named(share.pid, &share.task));
        process.cached_pages += share.pages;
    }
    processes.remove(&std::process::id());
    processes.into_values().collect()
}

fn named(pid: u32, name: &str) -> Waiter {
    Waiter { pid, name: name.to_owned(), ..Waiter::default() }
}

/// The process of a thread, which may be gone; none of a kernel thread.
fn process_of(tid: u32) -> Option<u32> {
    const KTHREADD: u32 = 2;
    let Ok(text) = mw_sys::kernel_file::read(format!("/proc/{tid}/status")) else {
        return Some(tid);
    };
    let Ok(status) = Status::parse(&text) else { return Some(tid) };
    let is_of_kernel = status.ppid == Some(KTHREADD) || tid == KTHREADD;
    (!is_of_kernel).then_some(status.tgid.unwrap_or(tid))
}
