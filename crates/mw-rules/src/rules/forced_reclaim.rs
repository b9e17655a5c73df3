//! # forced-reclaim
//!
//! A program had the kernel reclaim memory that was not short, and the service needed it again.
//!
//! ## What it finds
//! As the cause of a stall: somebody wrote to memory.reclaim or memory.force_empty of the service's cgroup,
//! or of one above it, or to `reclaim` of a node; and the request waited for pages to be read or swapped in
//! again, or for the CPU that the reclaim had. The profile names the writer.
//!
//! ## Why it hurts
//! What is reclaimed by hand is chosen by a program that does not know what the service is about to use.
//! It comes back page by page, at the speed of the disk.
//!
//! ## What it looks like
//! `pgscan` of the group's memory.stat increases although neither `max` nor `high` of memory.events does
//! and the machine reclaims nothing; from Linux 6.15 on `pgscan_proactive` increases.
//!
//! ## Threshold
//! The profile shows the write, the service's group was scanned and met no limit of its own meanwhile, and
//! the request spent a tenth of its time on what follows.
//!
//! ## How to fix it
//! Have the program reclaim less, stop at the group's memory pressure, or leave out the service's group
//! (memory.min or memory.low protect it from reclaim of a group above).
//!
//! ## References
//! Linux, Documentation/admin-guide/cgroup-v2.rst, "memory.reclaim"; cgroup-v1/memory.rst, "force_empty".

use crate::forced_work::{Forced, ForcedWork, most, named};
use crate::request::{Spent, limit_events};
use crate::roles;
use crate::stall::Stall;
use mw_model::{
    Area, Cause, Finding, GroupUse, Missing, Quantity, Remedy, Role, Severity, Step, Subject,
};

/// What a request spends its time on because of it.
pub(crate) const AGAIN: &[Spent] =
    &[Spent::Refault, Spent::GroupRefault, Spent::SwapIn, Spent::GroupSwapIn, Spent::ForcedReclaim];

const CONFIRMED: u8 = 97;

pub(crate) fn cause(stall: &Stall<'_>) -> Result<Option<Cause>, Missing> {
    let Some(request) = stall.request else { return Ok(None) };
    let Some(Forced { process, .. }) = most(stall.incident, ForcedWork::Reclaim) else {
        return Ok(None);
    };
    let own = || stall.incident.groups.iter().filter(|group| group.of_service);
    let has_met_limit = |group: &GroupUse| limit_events(group) > 0;
    // Pages of a group count in those above it, too: theirs may be another service's.
    let is_own = |group: &&GroupUse| Some(group.path.as_str()) == stall.own_group();
    let scanned = own().find(is_own).or_else(|| own().max_by_key(|group| group.path.len()));
    let pages = scanned.and_then(|group| group.pgscan).unwrap_or(0);
    let is_of_cpu = request.percent(&[Spent::ForcedReclaim]) >= request.percent(AGAIN) / 2.0;
    if !is_of_cpu && (pages == 0 || own().any(has_met_limit)) {
        return Ok(None);
    }
    let who = named(stall.incident, &process);
    let subject = match scanned.filter(|_| pages > 0) {
        Some(group) => Subject::Cgroup(Some(group.path.clone())),
        None => Area::Reclaim.into(),
    };
    let headline = format!("{who} had memory reclaimed by hand (memory.reclaim), of {subject}");
    let finding = Finding::new(Severity::Critical, subject, headline)
        .with_evidence("pages scanned in the group", Quantity::Count(pages), "memory.stat")
        .with_impact("What was reclaimed was read or swapped in again when it was needed.")
        .with_remedy(Remedy::named(
            "have the program leave out the service's group, or protect it",
            vec![Step::manual("systemctl set-property UNIT MemoryLow=SIZE")],
        ));
    Ok(Some(Cause::new(finding, CONFIRMED)))
}

/// Who had it reclaimed.
pub(crate) fn culprits(stall: &Stall<'_>, cause: &Cause) -> Vec<Role> {
    let Some(Forced { process, cpu_percent, .. }) = most(stall.incident, ForcedWork::Reclaim)
    else {
        return roles::allocating(stall, cause);
    };
    let why = format!("used {cpu_percent:.0}% of a CPU: {}", named(stall.incident, &process));
    vec![Role { pid: process.pid, task: process.name, why }]
}
