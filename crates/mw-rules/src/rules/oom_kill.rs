//! # oom-kill
//!
//! The kernel has killed processes because memory ran out.
//!
//! ## What it finds
//! `oom_kill` in /proc/vmstat is not 0: OOM kills since boot, of the whole machine or of a cgroup at its
//! limit.
//!
//! The recorder reports kills as an incident of their own, also where no service stalled: who was killed, at
//! whose limit, who held most memory then, and what became of the probed services that lost a process. Kills
//! that follow one another belong to one incident: those at the limit of one cgroup, and those of one shortage of
//! the machine. A shortage that goes on has another incident for each user, service or container that it had not
//! hit in its first 10 s, so that kills of one cgroup do not hide those of another.
//!
//! As the cause of a stall: the OOM killer killed a process of the service, by its number, name or cgroup, or met the
//! limit of a cgroup that the service is in; or systemd-oomd, earlyoom, nohang or systemd's `OOMPolicy=` ended the service
//! because of memory, as the signal and the journal show (`memwright killed`); or memory was short beyond a single cgroup, and the service was slow
//! because tasks waited for memory. Any other kill that falls into the stall is no cause. A rule that explains why
//! memory ran out ranks before this one.
//!
//! ## Why it hurts
//! The killed process is gone, and needs the same memory again when it is restarted. Before each kill
//! the machine was stalled for seconds.
//!
//! ## What it looks like
//! "Out of memory: Killed process" in the kernel log; services that restart unexpectedly.
//!
//! ## How to fix it
//! The kernel log (`dmesg | grep -A 40 'invoked oom-killer'`) shows which task allocated, which was
//! killed and what used the memory. Give the largest program less memory, or a cgroup limit of its own.
//!
//! ## Threshold
//! The kernel log has the time of the last kill, and the cgroup or machine whose memory had run out. A kill for lack of memory of the
//! machine is critical while processes are being killed (between the two samples of this check), a warning for a day,
//! and then a note. A kill at the limit of a cgroup is a note: it concerns that group alone, and any user can bring it
//! about. After a week a kill is not mentioned. Where the log cannot be read, a kill in a machine that has been up for
//! less than a day, or between the two samples, is a warning, and so are three or more that come at least every two days, on
//! average since boot; any other is a note.
//!
//! An incident is a warning where all kills were at limits of users' own cgroups (below /user.slice) and no probed
//! service lost a process; otherwise it is critical.
//!
//! ## References
//! Linux, mm/oom_kill.c; proc_vmstat(5).

use crate::cause_score::CauseScore;
use crate::rules::service_failure;
use crate::share::{counter, percent};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use crate::{group_kills, oom_tie, oom_words, roles};
use mw_model::{
    Area, Cause, EndKind, Finding, Killer, MemoryHolder, Missing, OomHistory, OomKills,
    OomShortage, OomVictim, Quantity, Remedy, Role, ServiceProcess, Severity, Step, Subject,
    TriggerKind, WaitKind, Window, derived, format_bytes, format_duration_ms,
};
use mw_proc::swaps::Swap;
use mw_proc::vmstat::Counter;

const DAY_S: f64 = 86_400.0;

/// So many kills, one in so many days, come back.
const RECURRING_KILLS: u64 = 3;
const RECURRING_DAYS: f64 = 2.0;

/// After so many days a kill is no finding.
const FORGOTTEN_DAYS: f64 = 7.0;

/// Tasks that are named as killed.
const MAX_SHOWN: usize = 3;

/// Victims, and holders of memory, that are evidence.
const MAX_VICTIMS: usize = 8;
const MAX_HOLDERS: usize = 5;

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let vmstat = window.now.sample.vmstat.required()?;
    let kills = counter(vmstat, Counter::OomKill)?;
    if kills == 0 {
        return Ok(Vec::new());
    }
    let killing = window.rate(Counter::OomKill).is_ok_and(|rate| rate > 0.0);
    let uptime_days = window.now.origin.uptime_s.map(|seconds| seconds / DAY_S);
    let history = window.now.oom_history.value();
    let now_unix_ms = window.now.origin.taken_unix_ms;
    let days_ago = |victim: &OomVictim| {
        let ago_ms = now_unix_ms?.saturating_sub(victim.last_unix_ms);
        Some(ago_ms as f64 / 1000.0 / DAY_S)
    };
    let severity = match history {
        Some(OomHistory { of_machine: Some(victim), .. }) => {
            let is_recent = days_ago(victim).is_none_or(|days| days <= 1.0);
            by_machine(killing && is_recent, is_recent)
        }
        Some(OomHistory { of_cgroup: Some(_), .. }) => Severity::Note,
        _ if group_kills::all_at_limits(&window.now, kills) => Severity::Note,
        // The log does not have them (any more), or cannot be read: whose limit was met is unknown.
        _ if killing || uptime_days.is_none_or(|days| days <= 1.0 || recur(kills, days)) => {
            Severity::Warning
        }
        _ => Severity::Note,
    };
    let last = history.and_then(OomHistory::last);
    if last.and_then(days_ago).is_some_and(|days| days > FORGOTTEN_DAYS) {
        return Ok(Vec::new());
    }
    let last = last.map_or(String::new(), |victim| last_words(victim, days_ago(victim)));
    let at_limits = group_kills::at_limits(&window.now);
    let headline = format!(
        "the OOM killer has killed {} since boot{last}{}",
        oom_words::processes(kills),
        group_kills::words(&at_limits)
    );
    let mut finding = Finding::new(severity, Area::OomKiller, headline)
        .with_evidence("oom_kill", Quantity::Count(kills), "/proc/vmstat")
        .with_impact(match swap_left(window) {
            SwapLeft::NoArea => {
                "The killed program needs the same memory again when it is restarted, and there is no swap for what is idle."
                    .to_owned()
            }
            // At the limit of a cgroup the machine's swap does not matter.
            SwapLeft::Full(bytes) if at_limits.is_empty() => format!(
                "The killed program needs the same memory again when it is restarted, and the swap of {} is full: a larger area \
                 has room for what is idle.",
                format_bytes(bytes)
            ),
            SwapLeft::Full(_) | SwapLeft::Other => {
                "The killed program needs the same memory again when it is restarted.".to_owned()
            }
        })
        .with_remedy(match (at_limits.first(), history) {
            (Some(kills), _) => group_kills::remedy(kills),
            (None, Some(OomHistory { of_machine: Some(_), .. })) => remedy(),
            (None, Some(OomHistory { of_cgroup: Some(_), .. })) => remedy_of_a_limit(),
            (None, _) => remedy_where_unknown(),
        });
    if let Some(days) = uptime_days {
        let uptime = Quantity::Text(format_duration_ms(days * DAY_S * 1000.0));
        finding = finding.with_evidence("uptime", uptime, "/proc/uptime");
    }
    Ok(vec![finding])
}

/// True for kills that come back: once in two days, on average since boot.
fn recur(kills: u64, uptime_days: f64) -> bool {
    kills >= RECURRING_KILLS && kills as f64 >= uptime_days / RECURRING_DAYS
}

/// Swap for idle memory, as it is now.
enum SwapLeft {
    NoArea,
    /// The areas have so many bytes, and hardly any of them is free.
    Full(u64),
    /// A part is free, it is not known, or a larger area would take memory.
    Other,
}

fn swap_left(window: &Window) -> SwapLeft {
    const FULL_PERCENT: f64 = 99.0;
    let meminfo = window.now.sample.meminfo.value();
    let swap = meminfo.and_then(|meminfo| meminfo.swap_total_bytes.zip(meminfo.swap_free_bytes));
    // A larger zram device takes memory.
    let has_zram = window.now.swaps.value().is_some_and(|swaps| swaps.iter().any(Swap::is_zram));
    match swap {
        Some((0, _)) => SwapLeft::NoArea,
        Some((total, free))
            if !has_zram && percent(total.saturating_sub(free), total) >= FULL_PERCENT =>
        {
            SwapLeft::Full(total)
        }
        _ => SwapLeft::Other,
    }
}

fn by_machine(killing: bool, is_recent: bool) -> Severity {
    match (killing, is_recent) {
        (true, _) => Severity::Critical,
        (false, true) => Severity::Warning,
        (false, false) => Severity::Note,
    }
}

/// `; the last, redis, 2 h ago at the limit of its cgroup`.
fn last_words(victim: &OomVictim, days_ago: Option<f64>) -> String {
    let ago = days_ago.map_or(String::new(), |days| {
        format!(", {} ago", format_duration_ms(days * DAY_S * 1000.0))
    });
    let whose = match victim.shortage {
        OomShortage::Cgroup(_) => " at the limit of its cgroup",
        _ => "",
    };
    format!("; the last was '{}'{ago}{whose}", victim.process.name)
}

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    const OF_A_KILL: f64 = 65.0;
    const OF_A_FAILURE: f64 = 20.0;
    let killed = killed_service(stall).or_else(|| killed_by_daemon(stall));
    if let Some(cause) = killed.or_else(|| reported(stall)) {
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
    if kills == 0 || !oom_tie::concern(stall) {
        return score.no_cause();
    }
    let failed = stall.incident.trigger.failure.is_some();
    let score = score.event(OF_A_KILL + if failed { OF_A_FAILURE } else { 0.0 }).with_evidence(
        "oom_kill during the stall",
        Quantity::Count(kills),
        "/proc/vmstat",
    );
    let headline = match &stall.incident.oom {
        Some(oom) => oom_words::headline(oom),
        None => {
            let waits = stall.waits(&[WaitKind::Oom]);
            let killed: Vec<&str> = waits.map(|wait| wait.task.as_str()).take(MAX_SHOWN).collect();
            let names =
                if killed.is_empty() { String::new() } else { format!(" ({})", killed.join(", ")) };
            format!("the OOM killer killed {}{names}", oom_words::processes(kills))
        }
    };
    let finding = Finding::new(Severity::Critical, Area::OomKiller, headline)
        .with_impact("The killed process is gone, and the machine stalled before the kill.")
        .with_remedy(remedy());
    score.cause(with_holders(finding, stall))
}

/// Holder of most memory when it ran out.
pub(crate) fn culprits(stall: &StallWindow<'_>, cause: &Cause) -> Vec<Role> {
    let held = |holder: &MemoryHolder| Role {
        pid: holder.process.pid,
        task: holder.process.name.clone(),
        why: format!("held {} when memory ran out", format_bytes(held_bytes(holder))),
    };
    let holders = stall.incident.oom.iter().flat_map(|oom| &oom.holders);
    let held: Vec<Role> = holders.map(held).take(MAX_HOLDERS).collect();
    if held.is_empty() { roles::allocating(stall, cause) } else { held }
}

/// The incident is of the kills themselves.
fn reported(stall: &StallWindow<'_>) -> Option<Suspect> {
    const CERTAIN: u8 = 97;
    let oom = stall.incident.oom.as_ref()?;
    if stall.incident.trigger.kind != TriggerKind::OomKill {
        return None;
    }
    let mut finding = Finding::new(severity(oom), subject(oom), oom_words::headline(oom))
        .with_impact("The killed process needs the same memory again when it is restarted.")
        .with_remedy(remedy());
    for fate in &oom.services {
        let outcome = Quantity::Text(oom_words::fate(fate));
        finding = finding.with_evidence(format!("probe {}", fate.probe), outcome, "sockets");
    }
    for victim in oom.victims.iter().take(MAX_VICTIMS) {
        let killed = Quantity::Text(oom_words::victim(victim));
        finding = finding.with_evidence("killed", killed, "kernel log");
        if let (OomShortage::Cgroup(Some(path)), Some(limit)) =
            (&victim.shortage, victim.limit_bytes)
        {
            let what = format!("memory limit of {path}");
            finding = finding.with_evidence(what, Quantity::Bytes(limit), "kernel log");
        }
    }
    finding =
        finding.with_evidence("OOM kills", Quantity::Count(oom.count), "/proc/vmstat, kernel log");
    if let Some(unseen) = &oom.unseen {
        finding = finding.with_evidence("not seen", Quantity::Text(unseen.clone()), "/dev/kmsg");
    }
    Some(Suspect::new(with_holders(finding, stall), CERTAIN))
}

/// Below it are the cgroups that ordinary users make.
const USERS: &str = "/user.slice/";

/// Severity: kills within users' own limits concern them; if a probed service lost a process, everybody.
fn severity(oom: &OomKills) -> Severity {
    let is_users = |victim: &OomVictim| match &victim.shortage {
        OomShortage::Cgroup(Some(path)) => path.starts_with(USERS),
        _ => false,
    };
    let are_users = !oom.victims.is_empty() && oom.victims.iter().all(is_users);
    if are_users && oom.services.is_empty() { Severity::Warning } else { Severity::Critical }
}

/// The cgroup whose limit was met, or the one that all such are below.
fn subject(oom: &OomKills) -> Subject {
    let limits = oom.victims.iter().map(|victim| match &victim.shortage {
        OomShortage::Cgroup(path) => Some(path.as_deref()),
        _ => None,
    });
    let Some(limits) = limits.collect::<Option<Vec<_>>>() else { return Area::OomKiller.into() };
    match limits.as_slice() {
        [] => Area::OomKiller.into(),
        [None, ..] => Subject::Cgroup(None),
        [Some(first), others @ ..] => {
            let names: Vec<&str> = first.split('/').collect();
            let shared = others.iter().fold(names.len(), |shared, other| {
                let other = other.unwrap_or_default().split('/');
                names.iter().zip(other).take_while(|(a, b)| *a == b).count().min(shared)
            });
            let path = names.get(..shared).unwrap_or_default().join("/");
            if path.is_empty() { Area::OomKiller.into() } else { Subject::Cgroup(Some(path)) }
        }
    }
}

fn with_holders(mut finding: Finding, stall: &StallWindow<'_>) -> Finding {
    let Some(oom) = &stall.incident.oom else { return finding };
    for holder in oom.holders.iter().take(MAX_HOLDERS) {
        let ended = if holder.has_ended { ", which has ended since" } else { "" };
        let what = format!("held by {}{ended}", oom_words::process(&holder.process));
        let held = Quantity::Bytes(held_bytes(holder));
        finding = finding.with_evidence(what, held, oom.holders_source.as_str());
    }
    finding
}

fn held_bytes(holder: &MemoryHolder) -> u64 {
    holder.resident_bytes.saturating_add(holder.swapped_bytes)
}

fn remedy() -> Remedy {
    Remedy::named(
        "find the largest program in the kernel log; give it less memory, or its cgroup a higher limit",
        vec![Step::manual("dmesg | grep -A 40 'invoked oom-killer'")],
    )
}

/// The last kill was at the limit of a cgroup that is not there any more.
fn remedy_of_a_limit() -> Remedy {
    Remedy::named(
        "raise the limit of the cgroup that the kernel log names, or reduce the memory of its programs",
        vec![Step::manual("dmesg | grep -A 40 'invoked oom-killer'")],
    )
}

/// Which memory had run out is not known.
fn remedy_where_unknown() -> Remedy {
    Remedy::named(
        "read in the kernel log what had run out: all memory, a zone, or the limit of a cgroup",
        vec![Step::manual("dmesg | grep -A 40 'invoked oom-killer'")],
    )
}

/// A daemon or systemd killed the probed service because of memory.
fn killed_by_daemon(stall: &StallWindow<'_>) -> Option<Suspect> {
    const CERTAIN: u8 = 97;
    let outage = stall.incident.outage.as_ref()?;
    let kill = service_failure::kill_of(stall.incident, outage.ended.as_ref()?)?;
    if !kill.is_of_memory() || kill.killer == Killer::OomKiller {
        return None;
    }
    let mut finding = Finding::new(Severity::Critical, Area::Service, kill.headline())
        .with_evidence("killed by", Quantity::Text(kill.killer_text()), "signal:signal_generate");
    if let Some(line) = &kill.line {
        finding = finding.with_evidence("its log", Quantity::Text(line.clone()), "journal");
    }
    let finding = finding
        .with_impact("The service is gone until it is started again.")
        .with_remedy(remedy_of_a_daemon());
    Some(Suspect::new(finding, CERTAIN))
}

fn remedy_of_a_daemon() -> Remedy {
    Remedy::named(
        "limit what uses the memory (MemoryHigh= of its unit), or exempt the service from the daemon that killed it",
        vec![Step::manual("memwright killed")],
    )
}

/// The OOM killer ended the probed service.
fn killed_service(stall: &StallWindow<'_>) -> Option<Suspect> {
    const CERTAIN: u8 = 97;
    let outage = stall.incident.outage.as_ref()?;
    let end = outage.ended.as_ref().filter(|end| end.how == EndKind::OomKilled)?;
    let ServiceProcess { pid, name } = &end.process;
    let (subject, limit) = match &end.limit_of {
        Some(path) => {
            let limit = format!(" at the limit of {}", mw_model::cgroup_name(path));
            (Subject::Cgroup(Some(path.clone())), limit)
        }
        None => (Area::OomKiller.into(), String::new()),
    };
    let headline = format!("the OOM killer killed {name} ({pid}){limit}");
    let finding = Finding::new(Severity::Critical, subject, headline)
        .with_evidence("the service", Quantity::Text(outage.text.clone()), "kernel log")
        .with_impact("The service is gone until it is started again.")
        .with_remedy(remedy());
    Some(Suspect::new(finding, CERTAIN))
}
