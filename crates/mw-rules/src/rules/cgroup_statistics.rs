//! # cgroup-statistics
//!
//! Tasks spun for the lock under which the kernel adds up the statistics of cgroups.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The request used its time, on a CPU, to add up the statistics of memory
//! cgroups or to get the lock for it.
//!
//! ## Why it hurts
//! Each CPU counts for itself; a reader adds the counts of all CPUs and of all cgroups below up, under one spinlock
//! (`cgroup_rstat_flush`, kernel/cgroup/rstat.c, Linux 5.10 to 6.12; `css_rstat_flush` with a lock of each controller
//! in 7.3). Reads of memory.stat and cpu.stat do it, reclaim does it (`mem_cgroup_flush_stats`, mm/memcontrol.c), and
//! in 6.12 and 7.3 so do refaults (`workingset_refault`, mm/workingset.c), some of them only at intervals. With
//! hundreds of CPUs and thousands of cgroups one pass takes milliseconds, and everybody else spins meanwhile.
//!
//! ## What it looks like
//! CPUs in `native_queued_spin_lock_slowpath` below `cgroup_rstat_flush`; many programs read memory.stat. In 6.12 and
//! 7.3 the tracepoints `cgroup_rstat_lock_contended` and `cgroup_rstat_locked` show who.
//!
//! ## How to fix it
//! Read memory.stat, cpu.stat and io.stat of cgroups less often, and of as few cgroups as needed: each monitor
//! multiplies it. memory.current and memory.pressure need no pass. Remove empty cgroups that are left over.
//!
//! ## Threshold
//! That takes at least half of the request on its CPUs. Without a critical path the profile counts, and never by
//! itself: that it grew does not say that anybody waited.
//!
//! ## References
//! Linux, kernel/cgroup/rstat.c; mm/memcontrol.c, `mem_cgroup_flush_stats()`; include/trace/events/cgroup.h.

use crate::cause_score::CauseScore;
use crate::stack_evidence::StackEvidence;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::kernel::FunctionSet;
use mw_model::{Area, Finding, Missing, Remedy, Severity, Step};

const FLUSH: FunctionSet = FunctionSet::new(&[
    "cgroup_rstat_flush",
    "css_rstat_flush",
    "mem_cgroup_flush_stats",
    "__mem_cgroup_flush_stats",
    "mem_cgroup_css_rstat_flush",
]);

pub(crate) const FUNCTIONS: &[FunctionSet] = &[FLUSH];

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    if stall.request.is_none() {
        let finding = finding("tasks added up statistics of cgroups".to_owned());
        return CauseScore::new(stall).profile(FUNCTIONS).needing_a_wait().cause(finding);
    }
    let Some(seen) = StackEvidence::find(stall, |stack| FLUSH.are_in(stack)) else {
        return Ok(None);
    };
    let headline = format!("statistics of cgroups held up {}", seen.task());
    seen.cause(finding(headline))
}

fn finding(headline: String) -> Finding {
    Finding::new(Severity::Warning, Area::Cpus, headline)
        .with_impact("Readers of memory.stat, reclaim and refaults spin for one lock.")
        .with_remedy(Remedy::named(
            "read the statistics of cgroups less often",
            vec![Step::manual("find /sys/fs/cgroup -name memory.stat | wc -l")],
        ))
}
