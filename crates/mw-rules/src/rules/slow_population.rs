//! # slow-population
//!
//! A thread populated or unmapped memory page by page.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The request's thread took page faults, populated a mapping (MAP_POPULATE,
//! MADV_POPULATE_WRITE, mlock(2)) or unmapped one, and the kernel worked for that thread all the while: it found, cleared and
//! mapped, or freed, one page after the other. Where other threads waited for mmap_lock meanwhile, that is
//! [mmap-lock](mmap-lock.md); where the kernel had to reclaim or compact for the pages, the rules for that apply.
//!
//! ## Why it hurts
//! One thread populated 0.7 to 3.5 GiB a second with pages of 4 KiB on two virtual machines, whose host has to back each
//! page as well. A process that returns memory and takes it again pays each time.
//!
//! ## What it looks like
//! The thread is on a CPU, in the kernel (`%sys` of one CPU is 100%). Its minor faults (`minflt`) go up by thousands or
//! millions. Its stack has `handle_mm_fault` or `populate_vma_page_range`, and below them `clear_page`.
//!
//! ## How to fix it
//! Populate with several threads before the first request (`memwright run --prefault` does that for unmodified
//! programs), use huge pages, which need 512 times fewer faults, or keep memory instead of returning it
//! (`M_TRIM_THRESHOLD` and `M_MMAP_THRESHOLD` of mallopt(3), `-XX:+AlwaysPreTouch` of a JVM). A
//! [pool](../pool.md) has memory ready for a program that restarts.
//!
//! ## Threshold
//! That takes at least half of the request. Where nothing may be traced, half of the kernel's samples of the process have to
//! be there.
//!
//! ## References
//! Linux, mm/memory.c, `handle_mm_fault`, and mm/gup.c, `populate_vma_page_range`; mmap(2), madvise(2), mallopt(3).

use crate::path_words::named;
use crate::request::is_of_probe;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::TimeClass;
use mw_critical_path::{KernelWork, PathPart, RunMode, TimeKind};
use mw_model::{Finding, Missing, Quantity, Remedy, Severity, Step, Subject};

const CONFIRMED: u8 = 90;

/// From which growth on a process is said to have grown.
const GROWTH_BYTES: i64 = 64 << 20;

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let Some(request) = stall.request else { return Ok(None) };
    let Some(part) = request.largest(&[TimeClass::Population]) else { return Ok(None) };
    if is_of_probe(stall.incident, request.path, part) {
        return Ok(None);
    }
    let process = stall.incident.tasks.iter().find(|task| task.pid == part.task.process);
    let name = part.task.name.clone();
    let mut finding =
        Finding::new(Severity::Warning, Subject::Process(name), headline(stall, part))
            .with_impact("The thread went on only when the kernel had found, cleared and mapped, or freed, each page.")
            .with_remedy(Remedy::named(
                "populate with several threads beforehand, use huge pages, or keep memory instead of returning it",
                vec![Step::manual("memwright run --prefault --huge auto -- COMMAND")],
            ));
    if let Some(process) = process {
        let source = format!("/proc/{}/stat", process.pid);
        let faults = Quantity::Count(process.minor_faults);
        finding = finding.with_evidence("page faults of the process", faults, source);
        if process.resident_growth_bytes >= GROWTH_BYTES {
            let grown = Quantity::Bytes(process.resident_growth_bytes.unsigned_abs());
            let source = format!("/proc/{}/statm", process.pid);
            finding = finding.with_evidence("growth of the process", grown, source);
        }
    }
    Ok(Some(Suspect::new(finding, CONFIRMED)))
}

fn headline(stall: &StallWindow<'_>, part: &PathPart) -> String {
    let what = match part.kind {
        TimeKind::Running(RunMode::Kernel(KernelWork::PageFault)) => "took page faults one by one",
        TimeKind::Running(RunMode::Kernel(KernelWork::Unmap)) => "unmapped memory page by page",
        _ => "populated memory page by page",
    };
    format!("{} {what}", named(stall, &part.task))
}
