//! # ksm-scan
//!
//! ksmd had the CPU, or held a page, that the service waited for.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The request waited for a CPU on which ksmd ran, for a page that ksmd had
//! locked, or merged pages were split again by hand.
//!
//! ## Why it hurts
//! Kernel samepage merging compares pages of processes that allow it and shares equal ones. ksmd scans as many pages as
//! it is told, at nice value 5 and on any CPU, and keeps a page locked while it makes it read-only and replaces it
//! (`ksm_scan_thread`, `try_to_merge_one_page`, mm/ksm.c, Linux 5.10 to 7.3). To disable it by writing 2 to
//! /sys/kernel/mm/ksm/run, or by madvise(2) with MADV_UNMERGEABLE, copies every merged page again (`break_ksm`), which
//! needs the memory that it had saved.
//!
//! ## What it looks like
//! ksmd uses a CPU in top(1); `pages_sharing` in /sys/kernel/mm/ksm is small compared with `pages_volatile`.
//!
//! ## How to fix it
//! Scan less at a time: `pages_to_scan` (100 by default), or more rarely: `sleep_millisecs` (20 by default); stop
//! scanning with 0 in /sys/kernel/mm/ksm/run, which keeps pages merged. Do not write 2 while memory is short. Where
//! `advisor_mode` (6.12) is scan-time, the kernel sets `pages_to_scan` itself, and `advisor_max_cpu` limits it.
//!
//! ## Threshold
//! That takes at least half of the request. A write to a merged page copies it, as one after a fork does: what is
//! written most is better not merged. These copies are counted in `cow_ksm` of /proc/vmstat (6.12), and are not told
//! from others by the stack.
//!
//! ## References
//! Linux, Documentation/admin-guide/mm/ksm.rst; mm/ksm.c.

use crate::stack_evidence::StackEvidence;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::kernel::{FunctionSet, is_in};
use mw_model::{Area, Finding, Missing, Remedy, Severity, Step};

const SCAN: FunctionSet = FunctionSet::new(&["ksm_scan_thread"]);
const UNMERGE: FunctionSet = FunctionSet::new(&["break_ksm", "unmerge_ksm_pages"]);

pub(crate) const FUNCTIONS: &[FunctionSet] = &[SCAN, UNMERGE];

/// The thread of the kernel that scans.
const KSMD: &str = "ksmd";

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let seen = StackEvidence::find_part(
        stall,
        |part| {
            let has_cpu = part.holder.as_ref().is_some_and(|holder| holder.name == KSMD);
            has_cpu || is_in(&part.stack, FUNCTIONS) || SCAN.are_in(&part.waker_stack)
        },
        |stack| UNMERGE.are_in(stack),
    );
    let Some(seen) = seen else { return Ok(None) };
    let headline = format!("ksmd held up {}", seen.task());
    let finding = Finding::new(Severity::Warning, Area::Cpus, headline)
        .with_impact("ksmd takes CPU time and locks the pages that it merges.")
        .with_remedy(Remedy::named(
            "have ksmd scan fewer pages at a time",
            vec![Step::manual("echo 100 >/sys/kernel/mm/ksm/pages_to_scan")],
        ));
    seen.cause(finding)
}
