//! Reasons why transparent huge pages may hold more memory than a program uses. The kernel counts what a huge page holds as the
//! program's, touched or not.

use crate::share::percent;
use mw_model::{HugePageExcess, Process, Snapshot, derived};
use mw_proc::version::KernelVersion;
use mw_proc::vmstat::Counter;

/// Fewer threads are no reason, and huge pages of more than this are one by themselves.
const MANY_THREADS: u64 = 1000;
const USUAL_PAGE_BYTES: u64 = 2 << 20;
/// Share of memory in huge pages from which on they matter.
const LARGE_PERCENT: f64 = 10.0;
/// khugepaged has made so many times what is in use now, and what page faults made.
const MADE_TIMES: u64 = 4;
/// Half of the base pages of a huge page, of 4 KiB each: what khugepaged may fill in at least.
const LEAST_FILLED: u64 = 256;

/// The reason for the processes of one program, which have this much anonymous memory.
pub(crate) fn reason(
    snapshot: &Snapshot,
    processes: &[&Process],
    bytes: u64,
) -> Option<HugePageExcess> {
    let thp = snapshot.thp.value()?;
    if thp.enabled.selected() != Some("always") {
        return None;
    }
    let page_bytes = derived::huge_page_bytes(snapshot);
    let meminfo = snapshot.sample.meminfo.value()?;
    let in_huge_pages = meminfo.anon_huge_pages_bytes.unwrap_or(0);
    let matters = percent(in_huge_pages, meminfo.mem_total_bytes?) >= LARGE_PERCENT;
    if page_bytes > USUAL_PAGE_BYTES {
        return matters.then_some(HugePageExcess::LargePages { page_bytes });
    }
    let threads = processes.iter().filter_map(|process| process.status.threads);
    let threads = threads.fold(0, u64::saturating_add);
    if are_of_stacks(snapshot, threads, bytes, page_bytes) {
        return Some(HugePageExcess::Stacks { threads });
    }
    let filled = thp.khugepaged.get("max_ptes_none").copied().unwrap_or(0);
    let made_bytes = made_by_khugepaged(snapshot)?.saturating_mul(page_bytes);
    let is_refilled =
        filled >= LEAST_FILLED && made_bytes >= in_huge_pages.saturating_mul(MADE_TIMES);
    (matters && is_refilled).then_some(HugePageExcess::Refilled { made_bytes })
}

/// True for threads that have about a huge page of memory each, where the kernel makes huge pages of memory that nobody asked
/// for: the first fault on a stack that is aligned to one, or khugepaged later, takes a whole one. From 6.7 on glibc's stacks
/// get none (MAP_STACK is VM_NOHUGEPAGE, include/linux/mman.h, `calc_vm_flag_bits()`).
fn are_of_stacks(snapshot: &Snapshot, threads: u64, bytes: u64, page_bytes: u64) -> bool {
    const WITHOUT: KernelVersion = KernelVersion::new(6, 7, 0);
    let share = percent(bytes, threads.saturating_mul(page_bytes));
    let is_old = snapshot.origin.kernel.is_none_or(|kernel| kernel < WITHOUT);
    threads >= MANY_THREADS && is_old && (40.0..=150.0).contains(&share)
}

/// Huge pages that khugepaged has made since boot, where it made most of them.
fn made_by_khugepaged(snapshot: &Snapshot) -> Option<u64> {
    let vmstat = snapshot.sample.vmstat.value()?;
    let made = vmstat.get(Counter::ThpCollapseAlloc)?;
    let by_faults = vmstat.get(Counter::ThpFaultAlloc)?;
    (made >= by_faults.saturating_mul(MADE_TIMES)).then_some(made)
}
