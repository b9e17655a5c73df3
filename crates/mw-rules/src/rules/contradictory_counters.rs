//! # contradictory-counters
//!
//! Counters of memory contradict each other.
//!
//! ## What it finds
//! A counter that is larger than what it is a part of: a line of /proc/meminfo, the sum of the nodes or zones, or the
//! memory of a cgroup above MemTotal; more pages on the lists of files than there are pages of files and of processes;
//! MemAvailable above what it is computed from.
//!
//! ## Why it hurts
//! Every tool that reads such a counter is wrong by it: `free`, schedulers of containers, alerts. Reclaim and the OOM
//! killer decide by the lists and may be wrong as well.
//!
//! ## What it looks like
//! Sizes above the machine's memory, percentages above 100, a machine that is out of memory while MemAvailable is large.
//!
//! ## How to fix it
//! Where /proc/meminfo is a container's (lxcfs) and /sys the host's, compare on the host. Otherwise a defect of the kernel has
//! left a counter wrong: install a kernel with the fix; the counters are right again after a reboot. memwright does
//! not use a counter that cannot be right: it computes available memory from MemFree and Cached instead.
//!
//! ## Threshold
//! 1%. The kernel updates counters in batches for each CPU (vmstat_interval, 1 s), and the files are read one after the
//! other; both make less than that.
//!
//! ## References
//! Linux, fs/proc/meminfo.c; mm/page_alloc.c, si_mem_available(); mm/vmstat.c; lxcfs(1).

use mw_memory::Contradiction;
use mw_model::{
    Absence, Area, Finding, Missing, Quantity, Remedy, Severity, Snapshot, Step, Window,
    contradiction, derived, format_bytes,
};

use mw_model::contradiction::GROUP_FILES;

/// Counters that are shown.
const MAX_SHOWN: usize = 4;

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    derived::memory_bytes(&snapshot.sample)?;
    let found = contradiction::all(snapshot);
    let Some(worst) = found.first() else { return Ok(Vec::new()) };
    let headline = format!(
        "{} is {}, but {} is {}: both cannot be right",
        worst.counter,
        format_bytes(worst.bytes),
        worst.bound,
        format_bytes(worst.bound_bytes)
    );
    let mut finding = Finding::new(Severity::Warning, Area::Counters, headline);
    for Contradiction { counter, source, bytes, .. } in found.iter().take(MAX_SHOWN) {
        finding = finding.with_evidence(counter.as_str(), Quantity::Bytes(*bytes), *source);
    }
    let total = worst.bound_bytes;
    finding = finding.with_evidence(worst.bound, Quantity::Bytes(total), "/proc/meminfo");
    if let Ok(available) = derived::available_bytes(snapshot) {
        let source = "/proc/meminfo, without the counters that cannot be right";
        finding = finding.with_evidence("available", Quantity::Bytes(available), source);
    }
    let impact = "What other tools compute from these counters is wrong.";
    Ok(vec![finding.with_impact(impact).with_remedy(remedy(snapshot, &found))])
}

fn remedy(snapshot: &Snapshot, found: &[Contradiction]) -> Remedy {
    let is_lxcfs = |missing: &&Missing| missing.absence == Absence::Skipped;
    if snapshot.origin.replaced.iter().any(|missing| is_lxcfs(&missing))
        || contradiction::nodes_are_of_another_machine(snapshot)
    {
        return Remedy::named(
            "compare on the host: /proc/meminfo is that of a container here, the other files are the host's",
            vec![Step::manual("grep lxcfs /proc/mounts")],
        );
    }
    if found.iter().all(|found| found.source == GROUP_FILES) {
        return Remedy::named(
            "install a kernel that counts its cgroups correctly; judge by the processes (RssAnon) until then",
            vec![Step::manual("uname -r")],
        );
    }
    Remedy::named(
        "install a kernel that counts correctly: until the next reboot, judge by MemFree and Cached",
        vec![Step::manual("uname -r")],
    )
}
