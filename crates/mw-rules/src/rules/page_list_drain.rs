//! # page-list-drain
//!
//! A task waited for a worker on every CPU, and one CPU had no time for its worker.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The request made the kernel put the pages on the per-CPU lists of all
//! CPUs onto the LRU lists (`lru_add_drain_all`), and waited for the workers that do it.
//!
//! ## Why it hurts
//! The kernel queues one work item on each CPU that has such pages and waits for all of them (`__lru_add_drain_all`,
//! mm/swap.c; mm/folio.c in Linux 7.3). The workers have the priority of an ordinary task: a real-time task that keeps
//! its CPU holds up every task that waits. posix_fadvise(2) with POSIX_FADV_DONTNEED does it where pages are left over, sealing
//! a memfd, mbind(2) and move_pages(2), a long-term pin, a write to compact_memory, and taking memory offline.
//!
//! ## What it looks like
//! A task in state D in `__flush_work` below `__lru_add_drain_all`; a worker (kworker/N:M) of one CPU is ready to run
//! and does not; a task of class FF or RR uses that CPU. No counter shows it.
//!
//! ## How to fix it
//! Let the real-time task sleep, or give it a CPU on which no others run. Leave `kernel.sched_rt_runtime_us` at its
//! default of 950000: it leaves ordinary tasks a twentieth of each second; -1 leaves them nothing. Or avoid the call
//! where it is frequent.
//!
//! ## Threshold
//! The wait takes at least half of the request; without a critical path, it is scored by how often a task was found in
//! it. Read on 5.10 to 7.3.
//!
//! ## References
//! Linux, mm/swap.c, `__lru_add_drain_all()`; Documentation/scheduler/sched-rt-group.rst; sched(7), "Limiting the CPU
//! usage of real-time and deadline processes".

use crate::stack_evidence::StackEvidence;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::kernel::FunctionSet;
use mw_model::{Area, Finding, Missing, Remedy, Severity, Step};

const DRAIN: FunctionSet = FunctionSet::new(&["lru_add_drain_all", "__lru_add_drain_all"]);
const WAIT: FunctionSet = FunctionSet::new(&["__flush_work", "flush_work"]);

pub(crate) const FUNCTIONS: &[FunctionSet] = &[DRAIN, WAIT];

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let waits = |stack: &[String]| DRAIN.are_in(stack) && WAIT.are_in(stack);
    let Some(seen) = StackEvidence::find(stall, waits) else { return Ok(None) };
    let headline = match seen.other() {
        Some(worker) => format!("{worker} did not get its CPU"),
        None => format!("a worker without CPU blocked {}", seen.task()),
    };
    let finding = Finding::new(Severity::Warning, Area::Cpus, headline)
        .with_impact(
            "A task that drains the per-CPU lists of pages waits for a worker on each CPU.",
        )
        .with_remedy(Remedy::named(
            "find the real-time task that keeps a CPU, and let it sleep",
            vec![Step::manual("ps -eLo class,rtprio,psr,pcpu,tid,comm | grep -E '^ *(FF|RR)'")],
        ));
    seen.cause(finding)
}
