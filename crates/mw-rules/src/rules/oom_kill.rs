//! # oom-kill
//!
//! The kernel has killed processes because memory ran out.
//!
//! ## What it finds
//! `oom_kill` in /proc/vmstat is not 0: OOM kills since boot, of the whole machine or of a cgroup at its
//! limit.
//!
//! As the cause of a stall: the OOM killer killed a process during it. A rule that explains why memory
//! ran out ranks before this one.
//!
//! ## Why it hurts
//! The killed process is gone, and needs the same memory again when it is restarted. Before each kill
//! the machine was stalled for seconds.
//!
//! ## What it looks like
//! "Out of memory: Killed process" in the kernel log; services that restart unexpectedly.
//!
//! ## Threshold
//! A kill within the last day, or one a day on average since boot, is a warning; older ones are a note.
//! It is critical while processes are being killed (between the two samples of this check).
//!
//! ## How to fix it
//! The kernel log (`dmesg | grep -A 40 'invoked oom-killer'`) shows which task allocated, which was
//! killed and what used the memory. Give the largest program less memory, or a cgroup limit of its own.
//!
//! ## References
//! Linux, mm/oom_kill.c; proc_vmstat(5).

use crate::cause_score::CauseScore;
use crate::share::counter;
use crate::stall::Stall;
use mw_model::{
    Area, Cause, EndKind, Finding, Missing, Quantity, Remedy, ServiceProcess, Severity, Step,
    Subject, WaitKind, Window, derived,
};
use mw_proc::vmstat::Counter;

const DAY_S: f64 = 86_400.0;

/// Tasks that are named as killed.
const MAX_SHOWN: usize = 3;

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let vmstat = window.now.sample.vmstat.required()?;
    let kills = counter(vmstat, Counter::OomKill)?;
    if kills == 0 {
        return Ok(Vec::new());
    }
    let killing = window.rate(Counter::OomKill).is_ok_and(|rate| rate > 0.0);
    let days = window.now.origin.uptime_s.map_or(1.0, |seconds| seconds / DAY_S);
    let severity = if killing {
        Severity::Critical
    } else if days <= 1.0 || kills as f64 >= days {
        Severity::Warning
    } else {
        Severity::Note
    };
    let processes = if kills == 1 { "process" } else { "processes" };
    let headline = format!("the OOM killer has killed {kills} {processes} since boot");
    Ok(vec![
        Finding::new(severity, Area::OomKiller, headline)
            .with_evidence("oom_kill", Quantity::Count(kills), "/proc/vmstat")
            .with_evidence("uptime in days", Quantity::Ratio(days), "/proc/uptime")
            .with_impact("The killed program needs the same memory again when it is restarted.")
            .with_remedy(remedy()),
    ])
}

pub(crate) fn cause(stall: &Stall<'_>) -> Result<Option<Cause>, Missing> {
    const OF_A_KILL: f64 = 65.0;
    const OF_A_FAILURE: f64 = 20.0;
    if let Some(cause) = killed_service(stall) {
        return Ok(Some(cause));
    }
    let traced = derived::total(stall.waits(&[WaitKind::Oom]).map(|wait| wait.count));
    let rate = match stall.rate(&[Counter::OomKill]) {
        Err(missing) if traced == 0 => return Err(missing),
        rate => rate.unwrap_or(0.0),
    };
    let score = CauseScore::new(stall).waits(&[WaitKind::Oom]);
    let counted = (rate * stall.window.span_ms().unwrap_or(0.0) / 1000.0).round() as u64;
    let kills = counted.max(traced);
    if kills == 0 {
        return score.no_cause();
    }
    let failed = stall.incident.trigger.failure.is_some();
    let score = score.event(OF_A_KILL + if failed { OF_A_FAILURE } else { 0.0 }).with_evidence(
        "oom_kill during the stall",
        Quantity::Count(kills),
        "/proc/vmstat",
    );
    let killed: Vec<&str> =
        stall.waits(&[WaitKind::Oom]).map(|wait| wait.task.as_str()).take(MAX_SHOWN).collect();
    let names = if killed.is_empty() { String::new() } else { format!(" ({})", killed.join(", ")) };
    let processes = if kills == 1 { "process" } else { "processes" };
    let headline = format!("the OOM killer killed {kills} {processes}{names}");
    let finding = Finding::new(Severity::Critical, Area::OomKiller, headline)
        .with_impact("The killed process is gone, and the machine stalled before the kill.")
        .with_remedy(remedy());
    score.cause(finding)
}

fn remedy() -> Remedy {
    Remedy::named(
        "find the largest program in the kernel log, and give it less memory",
        vec![Step::manual("dmesg | grep -A 40 'invoked oom-killer'")],
    )
}

/// The OOM killer ended the probed service.
fn killed_service(stall: &Stall<'_>) -> Option<Cause> {
    const CERTAIN: u8 = 97;
    let outage = stall.incident.outage.as_ref()?;
    let end = outage.ended.as_ref().filter(|end| end.how == EndKind::OomKilled)?;
    let ServiceProcess { pid, name } = &end.process;
    let (subject, limit) = match &end.limit_of {
        Some(path) => {
            (Subject::Cgroup(Some(path.clone())), format!(", at the memory limit of {path}"))
        }
        None => (Area::OomKiller.into(), String::new()),
    };
    let headline = format!("the OOM killer killed {name} ({pid}), the service{limit}");
    let finding = Finding::new(Severity::Critical, subject, headline)
        .with_evidence("the service", Quantity::Text(outage.text.clone()), "kernel log")
        .with_impact("The service is gone until it is started again.")
        .with_remedy(remedy());
    Some(Cause::new(finding, CERTAIN))
}
