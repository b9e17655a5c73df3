//! # cgroup-limit
//!
//! A cgroup is close to its memory limit, however much memory the machine has.
//!
//! ## What it finds
//! A memory cgroup (its own, an ancestor, or any other with a limit) in which memory that reclaim inside
//! the group cannot free takes 90% of the limit: kernel memory, locked memory, and as much anonymous and shared memory
//! as neither the free swap nor the group's memory.swap.max has room for, but not page cache. Or a group that is full and has
//! half of its limit in kernel objects that reclaim frees one by one (cached dentries and inodes); or a group of version 1
//! at its limit of kernel memory (`memory.kmem.limit_in_bytes`), which counts apart. Or a group that is full and has half of
//! its limit in page cache that has to be written before it can be freed. Or a group in which the OOM killer has killed
//! processes at the group's own limit, and that is full again, whatever swap would take. Or a group at `memory.max` whose
//! memory.pressure was `full` for half of the last 10 s and of the last minute, twice that of the machine.
//!
//! As the cause of a stall: tasks reclaimed within a cgroup's limit or were blocked there, or a cgroup
//! reached its limit more often than before. The machine and the canary may have been calm throughout.
//!
//! ## Why it hurts
//! At `memory.high` the kernel slows the group's tasks down. At `memory.max` they reclaim from each
//! other, and then the OOM killer kills one of them. The machine as a whole looks healthy.
//!
//! ## What it looks like
//! A program that creates and deletes many files fills its group with dentries, while its own memory is small. At the limit of
//! kernel memory fork(2), open(2) and mmap(2) fail with ENOMEM. Files in a tmpfs (/dev/shm) count as `cache` or `file`, but
//! without swap they are no page cache that can be dropped; tools that subtract page cache show such a group far below its
//! limit. A program that copies to NFS is killed although its own memory is small.
//!
//! `max` and `oom_kill` in the group's memory.events increase. The group's memory.pressure is high, the
//! machine's is not.
//!
//! ## How to fix it
//! Raise the limit, or give the program less memory to use: `systemctl set-property UNIT MemoryMax=8G`,
//! or write to memory.max of the group. memwright does not change the limit itself, because it is an
//! administrator's policy. Kernel objects are freed by `memory.reclaim` of the group (5.19) or `drop_caches` 2; they come
//! back unless the program creates and deletes fewer files.
//!
//! ## Threshold
//! Page cache fills every limit in time and is reclaimable, and so is anonymous memory while there is swap for it
//! (`can_reclaim_anon_pages`, mm/vmscan.c): a group with memory.high and swap is meant to be at its limit. vm.swappiness 0
//! keeps a group's reclaim from swapping. With the rest at 90%, too little cache is
//! left for the group's own programs and files. It is never critical: only programs of the group wait,
//! and any user's group can be at its limit.
//!
//! ## References
//! Linux, Documentation/admin-guide/cgroup-v2.rst, "Memory Interface Files"; cgroup-v1/memory.rst.

use crate::cause_score::CauseScore;
use crate::cgroup_parts;
use crate::group_kills;
use crate::group_settings::{GroupSetting, raised, set};
use crate::kernel_memory;
use crate::largest_holders::{largest_in_group, largest_program_within};
use crate::request::{is_task_within, limit_events};
use crate::rules::cgroup_throttled::{is_over_swap_high, over_swap_high};
use crate::share::percent;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::TimeClass;
use mw_critical_path::kernel::{CGROUP_RECLAIM, MEMORY_HIGH};
use mw_model::{
    Cgroup, CgroupVersion, Cgroups, Finding, GroupUse, Missing, Quantity, Remedy, Severity,
    Snapshot, Subject, TriggerKind, WaitKind, Window, contradiction, derived, format_bytes,
};

const WARNING_PERCENT: f64 = 90.0;

/// What the limit's own reclaim makes a request wait for, and with the reads of what it reclaimed.
const RECLAIM_BY_LIMIT: &[TimeClass] = &[TimeClass::CgroupReclaim, TimeClass::GroupSwapIn];
pub(crate) const BY_LIMIT: &[TimeClass] =
    &[TimeClass::CgroupReclaim, TimeClass::GroupSwapIn, TimeClass::GroupRefault];

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let cgroups = window.now.cgroups.required()?;
    let mut found: Vec<Finding> = cgroups
        .each()
        .filter(|group| is_possible(group, &window.now))
        .filter_map(|group| {
            finding(group, &window.now, cgroups)
                .or_else(|| kernel_memory::at_its_limit(group, cgroups))
                .or_else(|| kernel_memory::objects(group, cgroups))
                .or_else(|| group_kills::full_again(group, cgroups))
                .or_else(|| {
                    let hard = hard_bytes(group, &window.now, cgroups.version)?;
                    cgroup_parts::unwritten(group, cgroups, hard)
                })
                .or_else(|| cgroup_parts::pressed(group, &window.now, cgroups))
        })
        .collect();
    kernel_memory::keep_innermost(&mut found);
    if found.is_empty() {
        cgroups.whole()?;
    }
    Ok(found)
}

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    const MET_AT_LEAST: u64 = 10;
    const OF_EVENTS: f64 = 60.0;
    let mut score = CauseScore::new(stall)
        .waits(&[WaitKind::CgroupReclaim])
        .blocked_in(&[CGROUP_RECLAIM, MEMORY_HIGH]);
    let waited = score.strength_percent() > 0.0;
    let cgroups = match stall.window.now.cgroups.required() {
        Err(missing) if !waited => return Err(missing),
        looked => looked.ok(),
    };
    let met = cgroups.and_then(|groups| most_met(stall, groups));
    let counted = met.map(|(group, times)| (group.path.as_str(), times));
    let counted = counted.into_iter().chain(most_counted(stall)).max_by_key(|(_, times)| *times);
    if let Some((path, times)) = counted.filter(|(_, times)| *times >= MET_AT_LEAST) {
        let what = format!("times {path} reached its limit during the stall");
        score = score.event(OF_EVENTS).with_evidence(
            what,
            Quantity::Count(times),
            "memory.events.local",
        );
    }
    let named = met.map(|(group, _)| group);
    let full = cgroups.and_then(|groups| {
        let candidates = named.into_iter().chain(&groups.own).chain(&groups.limited);
        let candidates = candidates.filter(|group| is_of_request(stall, &group.path));
        candidates.filter_map(|group| finding(group, &stall.window.now, groups)).next()
    });
    let of_swap = most_swap_throttled(stall).filter(|group| {
        let times = group.swap_high_events.unwrap_or(0);
        times >= MET_AT_LEAST && counted.is_none_or(|(_, others)| times > others)
    });
    if let Some(group) = of_swap {
        return score.cause(over_swap_high(group));
    }
    let finding = full.unwrap_or_else(|| unnamed(counted.map(|(path, _)| path), cgroups));
    let headline = format!("{} hit its memory limit", finding.subject.actor());
    let finding = Finding { severity: Severity::Critical, headline, ..finding };
    let cause = score.cause(finding)?;
    Ok(match stall.request {
        Some(request) => {
            cause.map(|cause| cause.explaining(request.explained_by(RECLAIM_BY_LIMIT)))
        }
        None => cause,
    })
}

/// True if the task that the limit held up is in a group, where there is a path that names it; without one, whether
/// the service is, where that is known.
fn is_of_request(stall: &StallWindow<'_>, group: &str) -> bool {
    let part = stall.request.and_then(|request| request.largest(BY_LIMIT));
    let Some(part) = part.filter(|part| part.task.cgroup.is_some()) else {
        let mut of_service =
            stall.incident.groups.iter().filter(|group| group.of_service).peekable();
        return of_service.peek().is_none() || of_service.any(|known| known.path == group);
    };
    is_task_within(&part.task, group)
}

/// The group that reached its limit most often since the alarm: the service's, where one was probed.
fn most_counted<'a>(stall: &StallWindow<'a>) -> Option<(&'a str, u64)> {
    let is_probed = stall.incident.trigger.kind == TriggerKind::Probe;
    let groups = stall.incident.groups.iter();
    let groups = groups.filter(|group| group.path != "/" && (group.of_service || !is_probed));
    let groups = groups.filter(|group| is_of_request(stall, &group.path));
    let met = groups.map(|group| (group.path.as_str(), limit_events(group)));
    met.filter(|(_, times)| *times > 0).max_by_key(|(_, times)| *times)
}

/// The group that was throttled most often for memory.swap.high, which counts as no limit of memory.
fn most_swap_throttled<'a>(stall: &StallWindow<'a>) -> Option<&'a GroupUse> {
    let groups = stall.incident.groups.iter().filter(|group| is_over_swap_high(group));
    let groups = groups.filter(|group| is_of_request(stall, &group.path));
    groups.max_by_key(|group| group.swap_high_events)
}

/// The group that reached its limit most often since the minute before.
fn most_met<'a>(stall: &StallWindow<'a>, cgroups: &'a Cgroups) -> Option<(&'a Cgroup, u64)> {
    let before = stall.calm?.now.cgroups.value()?;
    let times = |group: &Cgroup| {
        let (max, high) = (group.events.max.unwrap_or(0), group.events.high.unwrap_or(0));
        max.saturating_add(high)
    };
    let since = |group: &'a Cgroup| {
        let was = times(before.each().find(|known| known.path == group.path)?);
        Some((group, times(group).checked_sub(was)?))
    };
    let groups = cgroups.each().filter(|group| is_of_request(stall, &group.path));
    groups.filter_map(since).filter(|(_, met)| *met > 0).max_by_key(|(_, met)| *met)
}

/// A group that is known only to have been at its limit.
fn unnamed(path: Option<&str>, cgroups: Option<&Cgroups>) -> Finding {
    Finding::new(Severity::Critical, Subject::Cgroup(path.map(str::to_owned)), "")
        .with_impact("Each allocation of the cgroup first reclaims memory of its own processes.")
        .with_remedy(Remedy::named(
            "raise the cgroup's limit, or reduce the program's memory use",
            vec![set(GroupSetting::MemoryMax, None, path, cgroups)],
        ))
}

/// False for a group with more memory than the machine, whose counter cannot be right.
fn is_possible(group: &Cgroup, snapshot: &Snapshot) -> bool {
    group.current_bytes.is_none_or(|bytes| contradiction::is_possible_use(snapshot, bytes))
}

/// Charged memory that reclaim inside the group cannot free.
fn hard_bytes(group: &Cgroup, snapshot: &Snapshot, version: CgroupVersion) -> Option<u64> {
    let stat = &group.stat;
    // Version 1 does not tell which part of the kernel memory is reclaimable: at most all of it.
    let slab = stat.slab_reclaimable_bytes.or(group.kernel_bytes);
    let lists = [stat.inactive_anon_bytes, stat.active_anon_bytes];
    let swappable = derived::total(lists.into_iter().flatten());
    let swappable = swappable.min(swap_room_bytes(group, snapshot, version));
    let soft = [stat.inactive_file_bytes, stat.active_file_bytes, slab, Some(swappable)];
    Some(group.current_bytes?.saturating_sub(derived::total(soft.into_iter().flatten())))
}

/// Bytes that reclaim inside the group can swap out.
fn swap_room_bytes(group: &Cgroup, snapshot: &Snapshot, version: CgroupVersion) -> u64 {
    if snapshot.sysctl.number("vm.swappiness") == Ok(0) {
        return 0;
    }
    let free = snapshot.sample.meminfo.value().and_then(|m| m.swap_free_bytes).unwrap_or(0);
    let limit = group.swap_max_bytes.into_iter().chain(group.swap_high_bytes).min();
    let used = group.swap_current_bytes.unwrap_or(0);
    let room = match (version, limit, group.max_bytes) {
        (CgroupVersion::V2, Some(limit), _) => limit.saturating_sub(used),
        // The limit and the use of version 1 are of memory and swap together.
        (CgroupVersion::V1, Some(limit), Some(of_memory)) => {
            let swapped = used.saturating_sub(group.current_bytes.unwrap_or(0));
            limit.saturating_sub(of_memory).saturating_sub(swapped)
        }
        _ => free,
    };
    room.min(free)
}

fn finding(group: &Cgroup, snapshot: &Snapshot, cgroups: &Cgroups) -> Option<Finding> {
    let limit = group.lowest_limit_bytes()?;
    let hard = hard_bytes(group, snapshot, cgroups.version)?;
    let share = percent(hard, limit);
    if share < WARNING_PERCENT {
        return None;
    }
    let limit_file = cgroups.limit_file(group, limit);
    let current_file = match cgroups.version {
        CgroupVersion::V1 => "memory.usage_in_bytes",
        CgroupVersion::V2 => "memory.current",
    };
    let part = cgroup_parts::largest_part(group, hard);
    let mut headline = format!(
        "{} of {} is unreclaimable ({share:.0}% of {limit_file})",
        format_bytes(hard),
        format_bytes(limit)
    );
    if let Some(part) = &part {
        headline.push_str(&format!("; {} of it are {}", format_bytes(part.bytes), part.name));
    }
    let use_less = part.as_ref().map_or("reduce the program's memory use", |part| part.remedy);
    let program = group.stat.anon_bytes.filter(|_| part.is_none()).and_then(|anon| {
        let seen = largest_in_group(snapshot, &group.path, anon);
        seen.or_else(|| largest_program_within(snapshot, anon))
    });
    if let Some(program) = &program {
        headline.push_str(&format!("; {} has {}", program.label(), format_bytes(program.bytes)));
    }
    let mut finding = Finding::new(
        Severity::Warning,
        Subject::Cgroup(Some(group.path.clone())),
        headline,
    )
    .with_evidence(limit_file, Quantity::Bytes(limit), limit_file)
    .with_evidence(current_file, Quantity::Bytes(group.current_bytes.unwrap_or(0)), current_file)
    .with_evidence("unreclaimable", Quantity::Bytes(hard), "memory.stat")
    .with_impact(
        "The next allocation of this cgroup reclaims memory of its own processes, or the OOM \
             killer kills one of them.",
    )
    .with_remedy(Remedy::named(
        format!("raise the cgroup's limit, or {use_less}"),
        vec![set(
            GroupSetting::of_limit(group, limit, cgroups.version),
            Some(raised(limit)),
            Some(&group.path),
            Some(cgroups),
        )],
    ));
    if let Some(part) = part {
        finding = finding.with_evidence(part.line, Quantity::Bytes(part.bytes), "memory.stat");
    }
    Some(cgroup_parts::with_events(finding, group))
}
