//! Reasons why transparent huge pages may hold more memory than a program uses. The kernel counts what a huge page holds as the
//! program's, touched or not.

use crate::share::percent;
use mw_model::{HugePageExcess, Process, Snapshot, derived};
use mw_proc::version::KernelVersion;
use mw_proc::vmstat::Counter;

/// Fewer threads in all are no reason, nor are processes of fewer threads each: their memory is no stacks'. Huge pages of more
/// than this are a reason by themselves.
const MANY_THREADS: u64 = 1000;
const LEAST_THREADS: u64 = 64;
const USUAL_PAGE_BYTES: u64 = 2 << 20;
/// Share of memory in huge pages from which on they matter.
const LARGE_PERCENT: f64 = 5.0;
/// khugepaged has made so many times what is in use now, and what page faults made.
const MADE_TIMES: u64 = 4;
/// Half of the base pages of a huge page, of 4 KiB each: what khugepaged may fill in at least.
const LEAST_FILLED: u64 = 256;

/// The reason for the processes of one program.
pub(crate) fn reason(snapshot: &Snapshot, processes: &[&Process]) -> Option<HugePageExcess> {
    let thp = snapshot.thp.value()?;
    if thp.enabled.selected() != Some("always") {
        return None;
    }
    let page_bytes = derived::huge_page_bytes(snapshot);
    let meminfo = snapshot.sample.meminfo.value()?;
    let in_huge_pages = meminfo.anon_huge_pages_bytes?;
    let has_none = |process: &&Process| process.status.thp_enabled == Some(false);
    if percent(in_huge_pages, meminfo.mem_total_bytes?) < LARGE_PERCENT
        || processes.iter().any(has_none)
    {
        return None;
    }
    if page_bytes > USUAL_PAGE_BYTES {
        return Some(HugePageExcess::LargePages { page_bytes });
    }
    if let Some(threads) = threads_of_stacks(snapshot, processes, page_bytes) {
        return Some(HugePageExcess::Stacks { threads });
    }
    let filled = thp.khugepaged.get("max_ptes_none").copied().unwrap_or(0);
    let made_bytes = made_by_khugepaged(snapshot)?.saturating_mul(page_bytes);
    let is_refilled =
        filled >= LEAST_FILLED && made_bytes >= in_huge_pages.saturating_mul(MADE_TIMES);
    is_refilled.then_some(HugePageExcess::Refilled { made_bytes })
}

/// Threads that have about a huge page of memory each, where the kernel makes huge pages of memory that nobody asked for: the
/// first fault on a stack that is aligned to one, or khugepaged later, takes a whole one. From 6.7 on glibc's stacks get none
/// (MAP_STACK is VM_NOHUGEPAGE, include/linux/mman.h, `calc_vm_flag_bits()`).
fn threads_of_stacks(snapshot: &Snapshot, processes: &[&Process], page_bytes: u64) -> Option<u64> {
    const WITHOUT: KernelVersion = KernelVersion::new(6, 7, 0);
    if snapshot.origin.kernel.is_some_and(|kernel| kernel >= WITHOUT) {
        return None;
    }
    let many = processes.iter().filter_map(|process| {
        let threads = process.status.threads.filter(|threads| *threads >= LEAST_THREADS)?;
        Some((threads, process.status.rss_anon_bytes?))
    });
    let (threads, bytes) = many.fold((0_u64, 0_u64), |(threads, bytes), (of, own)| {
        (threads.saturating_add(of), bytes.saturating_add(own))
    });
    let share = percent(bytes, threads.saturating_mul(page_bytes));
    (threads >= MANY_THREADS && (40.0..=150.0).contains(&share)).then_some(threads)
}

/// Huge pages that khugepaged has made since boot, where it made most of them.
fn made_by_khugepaged(snapshot: &Snapshot) -> Option<u64> {
    let vmstat = snapshot.sample.vmstat.value()?;
    let made = vmstat.get(Counter::ThpCollapseAlloc)?;
    let by_faults = vmstat.get(Counter::ThpFaultAlloc)?;
    (made >= by_faults.saturating_mul(MADE_TIMES)).then_some(made)
}
