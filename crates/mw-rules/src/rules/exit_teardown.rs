//! # exit-teardown
//!
//! A large process exited, and others waited while its memory was freed.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The request waited for a process that freed its address space,
//! because its last thread ended or it started another program; or it waited for the CPU on which that process
//! did so.
//!
//! ## Why it hurts
//! The last thread of a process frees all of its memory before the kernel closes its files and tells its
//! parent. Until then its sockets stay open: clients connect and are not answered, and a successor cannot listen at
//! the same address. A service manager that restarts the service waits as long. Base pages take about 100 ms for each
//! GiB on one CPU, which other tasks wait for.
//!
//! ## What it looks like
//! The process is in state Z or R with 0 bytes of resident memory, and runs in the kernel in `exit_mmap`,
//! `unmap_page_range` and `free_pgtables`; free memory increases. A signal has no effect any more.
//!
//! ## How to fix it
//! Use huge pages for the data: freeing them costs a fraction. Keep large memory in a pool, which outlives the process.
//! Have the service free its memory in parallel before it ends. A service manager that kills can also call
//! process_mrelease(2) (Linux 5.15) right after SIGKILL, which frees private memory of a victim that does not get to run.
//! It skips shared memory and huge pages of a pool, frees no page tables, and does nothing for an exit that has begun to
//! free (`exit_mmap` sets MMF_OOM_SKIP; mm/oom_kill.c, `process_mrelease` and `__oom_reap_task_mm`).
//!
//! ## Threshold
//! The wait takes at least half of the request.
//!
//! ## References
//! Linux, kernel/exit.c, `do_exit`: `exit_mm` precedes `exit_files` and `exit_notify`; process_mrelease(2).

use crate::path_words::named;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::TimeClass;
use mw_critical_path::{PathPart, PathSummary, TimeKind, Wait, WaitLink};
use mw_model::{Finding, Metric, Missing, Quantity, Remedy, Severity, Step, Subject};
use mw_proc::vmstat::Counter;

const CONFIRMED: u8 = 90;

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let Some(request) = stall.request else { return Ok(None) };
    let Some(part) = request.largest(&[TimeClass::Teardown]) else { return Ok(None) };
    let ending = match part.kind {
        TimeKind::Runnable(_) => part.holder.as_ref().unwrap_or(&part.task),
        _ => &part.task,
    };
    let subject = Subject::Process(ending.name.clone());
    let headline = format!("{} exited and freed its memory", named(stall, ending));
    let mut finding = Finding::new(Severity::Warning, subject, headline)
        .with_impact(
            "Until its memory was freed, its sockets stayed open, and processes that waited for its end waited longer.",
        )
        .with_remedy(Remedy::named(
            "use huge pages for the data of the process, or keep it in a pool",
            vec![Step::manual("memwright run --huge auto -- COMMAND")],
        ));
    if let Some(waiter) = waiter(stall, request.path, part) {
        finding = finding.with_evidence("waited", Quantity::Text(waiter), "critical path");
    }
    if let Some(bytes) = freed_bytes(stall) {
        let what = "increase of free memory during the stall";
        finding = finding.with_evidence(what, Quantity::Bytes(bytes), "/proc/vmstat");
    }
    Ok(Some(Suspect::new(finding, CONFIRMED)))
}

/// Who waited for it: for its end, or for the CPU that it used.
fn waiter(stall: &StallWindow<'_>, path: &PathSummary, part: &PathPart) -> Option<String> {
    if matches!(part.kind, TimeKind::Runnable(_)) {
        return Some(named(stall, &part.task));
    }
    let is_for_end = |link: &&WaitLink| link.other.tid == part.task.tid && link.wait == Wait::Child;
    path.chain.iter().find(is_for_end).map(|link| named(stall, &link.waiter))
}

/// Memory that was free after the least of the stall, in addition.
fn freed_bytes(stall: &StallWindow<'_>) -> Option<u64> {
    let free = stall.incident.table.values(&Metric::Vmstat(Counter::NrFreePages))?;
    let free: Vec<u64> = stall.during(free.collect()).flatten().collect();
    let least = free.iter().enumerate().min_by_key(|(_, pages)| **pages)?.0;
    let most = free.iter().skip(least).max()?;
    let pages = most.checked_sub(*free.get(least)?).filter(|pages| *pages > 0)?;
    Some(pages.saturating_mul(stall.window.now.origin.page_bytes))
}
