//! # oom-kill
//!
//! The kernel has killed processes for want of memory.
//!
//! ## What it finds
//! `oom_kill` in /proc/vmstat is not 0: kills since boot, of the whole machine or of a cgroup at its
//! limit.
//!
//! ## Why it hurts
//! What was killed is gone, and the memory that it was killed for is wanted again when it has been
//! restarted. Before each kill the machine was at a standstill for seconds.
//!
//! ## What it looks like
//! "Out of memory: Killed process" in the kernel log; services that restart by themselves.
//!
//! ## Threshold
//! A kill within a day, or one a day on average since boot, is a warning; older ones are a note. It
//! is critical while processes are being killed (between the two looks of this check).
//!
//! ## How to fix it
//! The kernel log (`dmesg | grep -A 40 'invoked oom-killer'`) shows who asked, who was killed and
//! what held the memory. Give the largest program less, or a cgroup limit of its own.
//!
//! ## References
//! Linux, mm/oom_kill.c; proc_vmstat(5).

use crate::share::counter;
use mw_model::{Finding, Missing, Quantity, Remedy, Severity, Step, Window};
use mw_proc::vmstat::Counter;

const DAY_S: f64 = 86_400.0;

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let vmstat = window.now.sample.vmstat.need()?;
    let kills = counter(vmstat, Counter::OomKill)?;
    if kills == 0 {
        return Ok(Vec::new());
    }
    let killing = window.rate(Counter::OomKill).is_ok_and(|rate| rate > 0.0);
    let days = window.now.origin.uptime_s.map_or(1.0, |seconds| seconds / DAY_S);
    let severity = match () {
        () if killing => Severity::Critical,
        () if days <= 1.0 || kills as f64 >= days => Severity::Warning,
        () => Severity::Note,
    };
    let what = if kills == 1 { "1 process" } else { "processes" };
    let headline = if kills == 1 {
        format!("the kernel has killed {what} for want of memory since boot")
    } else {
        format!("the kernel has killed {kills} {what} for want of memory since boot")
    };
    Ok(vec![
        Finding::new(severity, "OOM killer", headline)
            .seen("oom_kill", Quantity::Count(kills), "/proc/vmstat")
            .seen("uptime in days", Quantity::Ratio(days), "/proc/uptime")
            .hurts("What was killed wants the memory again when it is restarted.")
            .mended_by(Remedy::named(
                "see in the kernel log who held the memory, and give it less",
                vec![Step::manual("dmesg | grep -A 40 'invoked oom-killer'")],
            )),
    ])
}
