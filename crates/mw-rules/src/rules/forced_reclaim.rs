//! # forced-reclaim
//!
//! A program forced reclaim, and the service had to read its pages back.
//!
//! ## What it finds
//! As the cause of a stall: somebody wrote to memory.reclaim or memory.force_empty of the service's cgroup,
//! or of one above it, lowered a limit of it and lifted it again, or wrote to `reclaim` of a node; and the request
//! waited for pages to be read or swapped in again, or for the CPU that the reclaim had. The profile names the writer,
//! if it was still at it when the stall was noticed.
//!
//! ## Why it hurts
//! What is reclaimed by hand is chosen by a program that does not know what the service is about to use.
//! It comes back page by page, at the speed of the disk.
//!
//! ## What it looks like
//! `pgscan` of the group's memory.stat increases although neither `max` nor `high` of memory.events does
//! and the machine reclaims nothing; from Linux 6.15 on `pgscan_proactive` increases. In /proc/vmstat, `pgsteal_file`
//! and `pgsteal_anon` count it; `pgsteal_direct` does so from 7.1 on, and no kernel counts it in `pgsteal_kswapd`
//! and `allocstall` (mm/vmscan.c, `shrink_inactive_list()`).
//!
//! ## How to fix it
//! Have the program reclaim less, stop at the group's memory pressure, or leave out the service's group
//! (memory.min or memory.low protect it from reclaim of a group above).
//!
//! ## Threshold
//! The profile shows the write, the service's group was scanned and met no limit of its own meanwhile, and
//! the request spent a tenth of its time on what follows. Where the profile does not show it, because the write was over
//! before the stall was noticed: the group read or swapped in at least 64 pages again; in the 45 s before the end of the
//! stall reclaim inside cgroups freed at least half as many, and more than that of the machine; and no group met a limit.
//!
//! ## References
//! Linux, Documentation/admin-guide/cgroup-v2.rst, "memory.reclaim"; cgroup-v1/memory.rst, "force_empty".

use crate::forced_work::{ForcedWork, ForcingTask, most, named};
use crate::group_settings::{GroupSetting, set};
use crate::request::limit_events;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::TimeClass;
use mw_model::{
    Area, Cause, Cgroups, Finding, GroupUse, Incident, Missing, Quantity, Remedy, Role, Severity,
    Subject, VmActivity,
};

/// What a request spends its time on because of it.
pub(crate) const AGAIN: &[TimeClass] = &[
    TimeClass::Refault,
    TimeClass::GroupRefault,
    TimeClass::SwapIn,
    TimeClass::GroupSwapIn,
    TimeClass::ForcedReclaim,
];

const CONFIRMED: u8 = 97;

/// Fewer pages that were read again say nothing.
const LEAST_AGAIN: u64 = 64;

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let Some(request) = stall.request else { return Ok(None) };
    let own = || stall.incident.groups.iter().filter(|group| group.of_service);
    // Pages of a group count in those above it, too: theirs may be another service's.
    let is_own = |group: &&GroupUse| Some(group.path.as_str()) == stall.own_group();
    let group = own().find(is_own).or_else(|| own().max_by_key(|group| group.path.len()));
    let writer = most(stall.incident, ForcedWork::Reclaim);
    let scanned = group.and_then(|group| group.pgscan).unwrap_or(0);
    let is_of_cpu = request.percent(&[TimeClass::ForcedReclaim]) >= request.percent(AGAIN) / 2.0;
    let is_seen = writer.is_some() && (is_of_cpu || (scanned > 0 && !own().any(has_met_limit)));
    let before = group.and_then(|group| reclaimed_before(stall, group));
    if !is_seen && before.is_none() {
        return Ok(None);
    }
    let cgroups = stall.window.now.cgroups.value();
    let seen = ReclaimEvidence { writer, is_seen, group, cgroups, before };
    Ok(Some(Suspect::new(finding(stall.incident, &seen), CONFIRMED)))
}

/// Evidence that memory was reclaimed by hand.
struct ReclaimEvidence<'a> {
    writer: Option<ForcingTask>,
    /// True if the profile shows it.
    is_seen: bool,
    /// Of the service.
    group: Option<&'a GroupUse>,
    cgroups: Option<&'a Cgroups>,
    before: Option<EarlierReclaim>,
}

fn finding(incident: &Incident, seen: &ReclaimEvidence<'_>) -> Finding {
    let writer = seen.writer.as_ref().map(|writer| &writer.process);
    let who = writer.map_or_else(|| "a program".to_owned(), crate::oom_words::process);
    let scanned = seen.group.and_then(|group| group.pgscan).unwrap_or(0);
    let subject = match seen.group.filter(|_| scanned > 0 || seen.before.is_some()) {
        Some(group) => Subject::Cgroup(Some(group.path.clone())),
        None => Area::Reclaim.into(),
    };
    let path = seen.group.map(|group| group.path.as_str());
    let group = subject.actor();
    let headline = match seen.is_seen {
        true => format!("{who} forced reclaim in {group}"),
        false => format!("{who} forced reclaim in {group}, or lowered its limit"),
    };
    let mut finding = Finding::new(Severity::Critical, subject, headline).with_evidence(
        "pages scanned in the group",
        Quantity::Count(scanned),
        "memory.stat",
    );
    if let Some(writer) = writer {
        let by = Quantity::Text(named(incident, writer));
        finding = finding.with_evidence("reclaimed by hand", by, "profile");
    }
    if let Some(EarlierReclaim { freed, again }) = seen.before {
        finding = finding
            .with_evidence("pages that the group read again", Quantity::Count(again), "memory.stat")
            .with_evidence(
                "pages reclaimed inside cgroups in 45 s, at no limit",
                Quantity::Count(freed),
                "/proc/vmstat",
            );
    }
    finding
        .with_impact("What was reclaimed was read or swapped in again when it was needed.")
        .with_remedy(Remedy::named(
            "exclude the service's cgroup, or protect it with memory.low",
            vec![set(GroupSetting::MemoryLow, None, path, seen.cgroups)],
        ))
}

fn has_met_limit(group: &GroupUse) -> bool {
    limit_events(group) > 0
}

/// Reclaim that was over before the stall was noticed.
struct EarlierReclaim {
    /// Pages that reclaim inside cgroups freed in the recorded rows.
    freed: u64,
    /// Pages that the group read or swapped in again.
    again: u64,
}

/// The group needs pages again that were reclaimed inside cgroups, while no group met a limit.
fn reclaimed_before(stall: &StallWindow<'_>, group: &GroupUse) -> Option<EarlierReclaim> {
    let incident = stall.incident;
    let refaults = [group.refaults_file, group.refaults_anon].into_iter().flatten();
    let again = refaults.fold(0_u64, u64::saturating_add);
    if again < LEAST_AGAIN || incident.groups.iter().any(has_met_limit) {
        return None;
    }
    let kernel = stall.window.counting_kernel();
    let freed = VmActivity::CgroupSteals.increase_in(&incident.table, kernel).ok()?;
    let of_machine = VmActivity::MachineSteals.increase_in(&incident.table, kernel).ok()?;
    (freed >= again / 2 && freed > of_machine).then_some(EarlierReclaim { freed, again })
}

/// Task that forced the reclaim.
pub(crate) fn culprits(stall: &StallWindow<'_>, _: &Cause) -> Vec<Role> {
    let Some(ForcingTask { process, cpu_percent, .. }) = most(stall.incident, ForcedWork::Reclaim)
    else {
        return Vec::new();
    };
    let why = format!("used {cpu_percent:.0}% of a CPU: {}", named(stall.incident, &process));
    vec![Role { pid: process.pid, task: process.name, why }]
}
