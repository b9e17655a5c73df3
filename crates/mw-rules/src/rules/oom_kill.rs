//! # oom-kill
//!
//! The kernel has killed processes for want of memory.
//!
//! ## What it finds
//! `oom_kill` in /proc/vmstat is not 0: kills since boot, of the whole machine or of a cgroup at its
//! limit.
//!
//! As the cause of a stall: a process was killed during it. What made memory short is named before it, where
//! that is known.
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
use crate::stall::Stall;
use crate::suspicion::Suspicion;
use mw_model::{
    Cause, Finding, Missing, Quantity, Remedy, Severity, Step, WaitKind, Window, derived,
};
use mw_proc::vmstat::Counter;

const DAY_S: f64 = 86_400.0;

/// Tasks that are named as killed.
const MAX_SHOWN: usize = 3;

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
            .mended_by(remedy()),
    ])
}

pub(crate) fn cause(stall: &Stall<'_>) -> Result<Option<Cause>, Missing> {
    const OF_A_KILL: f64 = 65.0;
    const OF_A_FAILURE: f64 = 20.0;
    let traced = derived::total(stall.waits(&[WaitKind::Oom]).map(|wait| wait.count));
    let rate = match stall.rate(&[Counter::OomKill]) {
        Err(missing) if traced == 0 => return Err(missing),
        rate => rate.unwrap_or(0.0),
    };
    let suspicion = Suspicion::of(stall).waits(&[WaitKind::Oom]);
    let counted = (rate * stall.window.span_ms().unwrap_or(0.0) / 1000.0).round() as u64;
    let kills = counted.max(traced);
    if kills == 0 {
        return suspicion.nothing();
    }
    let failed = stall.incident.trigger.failure.is_some();
    let suspicion = suspicion.event(OF_A_KILL + if failed { OF_A_FAILURE } else { 0.0 }).see(
        "oom_kill during the stall",
        Quantity::Count(kills),
        "/proc/vmstat",
    );
    let killed: Vec<&str> =
        stall.waits(&[WaitKind::Oom]).map(|wait| wait.task.as_str()).take(MAX_SHOWN).collect();
    let of = if killed.is_empty() { String::new() } else { format!(" ({})", killed.join(", ")) };
    let headline = format!("the kernel killed {kills} for want of memory{of}");
    let finding = Finding::new(Severity::Critical, "OOM killer", headline)
        .hurts("What was killed is gone, and the machine stood still before it.")
        .mended_by(remedy());
    suspicion.cause(finding)
}

fn remedy() -> Remedy {
    Remedy::named(
        "see in the kernel log who held the memory, and give it less",
        vec![Step::manual("dmesg | grep -A 40 'invoked oom-killer'")],
    )
}
