//! # cgroup-throttled
//!
//! A cgroup was over memory.high or memory.swap.high, and the kernel slowed its tasks down.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The request's tasks slept or reclaimed on their way back to
//! user mode or, after more than 64 pages, within the allocation (`try_charge_memcg`, mm/memcontrol.c), because their
//! cgroup was over `memory.high`, or its swap over `memory.swap.high` (Linux 5.8).
//!
//! ## Why it hurts
//! Over memory.high every allocation is followed by reclaim inside the group, and then by a sleep of up to
//! two seconds; over memory.swap.high by the sleep. Nothing is killed and nothing fails: the service only becomes slow.
//!
//! ## What it looks like
//! `high` in the group's memory.events.local, or in its memory.swap.events, increases; its tasks are in
//! `mem_cgroup_handle_over_high`. The machine has memory available.
//!
//! ## How to fix it
//! Raise memory.high above the service's working set (`systemctl set-property UNIT MemoryHigh=SIZE`), or
//! give the service less memory to use. Where memory.swap.high throttled, raise that, and not MemoryMax.
//!
//! ## Threshold
//! The throttling, with the swap-in and the reads of reclaimed pages that the limit causes, takes at
//! least half of the request, and `high` has increased where it could be read.
//!
//! ## References
//! Linux, Documentation/admin-guide/cgroup-v2.rst, "Memory Interface Files"; mm/memcontrol.c,
//! `mem_cgroup_handle_over_high`.

use crate::group_settings::{GroupSetting, raised, set};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::TimeClass;
use mw_model::{Finding, GroupUse, Missing, Quantity, Remedy, Severity, Subject};

const CONFIRMED: u8 = 95;

/// What the limit causes beside the throttling itself.
pub(crate) const OF_LIMIT: &[TimeClass] = &[
    TimeClass::MemoryHigh,
    TimeClass::CgroupReclaim,
    TimeClass::GroupSwapIn,
    TimeClass::GroupRefault,
];

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let Some(request) = stall.request else { return Ok(None) };
    let groups = &stall.incident.groups;
    let over =
        groups.iter().filter(|group| group.high_events.max(group.swap_high_events) > Some(0));
    let times = |group: &GroupUse| group.high_events.max(group.swap_high_events);
    let group = over.max_by_key(|group| (group.of_service, times(group)));
    // A task at memory.max comes through the same code. Where the kernel's count of its cgroup was read, it decides.
    let throttled_task = request.largest(&[TimeClass::MemoryHigh]).map(|part| &part.task);
    let own = throttled_task.and_then(|task| task.cgroup.as_deref());
    let is_counted =
        |group: &GroupUse| group.high_events.is_some() && own.is_none_or(|own| own == group.path);
    if group.is_none() && groups.iter().any(is_counted) {
        return Ok(None);
    }
    let throttled = request.percent(&[TimeClass::MemoryHigh]);
    // Without sleeps of its own the limit is that of reclaim: memory.max meets the same.
    let is_throttled = throttled >= request.percent(&[TimeClass::CgroupReclaim]);
    if throttled <= 0.0 || !is_throttled {
        return Ok(None);
    }
    let finding = match group {
        Some(group) if is_over_swap_high(group) => over_swap_high(group),
        _ => over_memory_high(group, own),
    };
    Ok(Some(Suspect::new(finding, CONFIRMED).explaining(request.percent(OF_LIMIT))))
}

/// `own` is the cgroup of the task that was throttled, where it is known.
fn over_memory_high(group: Option<&GroupUse>, own: Option<&str>) -> Finding {
    let path = group.map(|group| group.path.as_str()).or(own);
    let high = group.and_then(|group| group.memory_high_bytes);
    let subject = Subject::Cgroup(path.map(str::to_owned));
    let headline = format!("{} exceeded memory.high", subject.actor());
    let finding = Finding::new(Severity::Critical, subject, headline)
        .with_impact("Each allocation of the group was followed by reclaim and a sleep.")
        .with_remedy(Remedy::named(
            "raise memory.high of the group above its working set",
            vec![set(GroupSetting::MemoryHigh, high.map(raised), path, None)],
        ));
    let Some(group) = group else { return finding };
    let times = Quantity::Count(group.high_events.unwrap_or(0));
    let finding = finding.with_evidence("times over memory.high", times, "memory.events.local");
    match group.memory_high_bytes {
        Some(bytes) => finding.with_evidence("memory.high", Quantity::Bytes(bytes), "memory.high"),
        None => finding,
    }
}

/// True if the group was throttled for its swap rather than for its memory.
pub(crate) fn is_over_swap_high(group: &GroupUse) -> bool {
    group.swap_high_events.unwrap_or(0) > group.high_events.unwrap_or(0)
}

/// The finding on a group that was throttled for memory.swap.high.
pub(crate) fn over_swap_high(group: &GroupUse) -> Finding {
    const FILE: &str = "memory.swap.high";
    let subject = Subject::Cgroup(Some(group.path.clone()));
    let headline = format!("{} exceeded {FILE}", subject.actor());
    let times = Quantity::Count(group.swap_high_events.unwrap_or(0));
    let finding = Finding::new(Severity::Critical, subject, headline)
        .with_impact("Each allocation of the group was followed by a sleep.")
        .with_remedy(Remedy::named(
            "raise memory.swap.high of the group, or have it use less memory",
            vec![set(GroupSetting::SwapHigh, None, Some(&group.path), None)],
        ))
        .with_evidence("times over memory.swap.high", times, "memory.swap.events");
    match group.memory_swap_high_bytes {
        Some(bytes) => finding.with_evidence(FILE, Quantity::Bytes(bytes), FILE),
        None => finding,
    }
}
