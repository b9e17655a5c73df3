//! Kills of the OOM killer at the limits of cgroups, as the groups count them.

use mw_model::{Cgroup, Cgroups, Remedy, Snapshot, Step, derived, format_bytes, is_cgroup_within};

/// Groups that are named.
const MAX_NAMED: usize = 3;

/// Kills in a group that met its own limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupKills<'a> {
    cgroups: &'a Cgroups,
    group: &'a Cgroup,
    count: u64,
}

/// The groups with most kills first; of groups within each other, the one whose limit was met.
pub(crate) fn at_limits(snapshot: &Snapshot) -> Vec<GroupKills<'_>> {
    let Some(cgroups) = snapshot.cgroups.value() else { return Vec::new() };
    let met = cgroups.limited.iter().filter(|group| has_met_its_limit(group));
    let killed = |group: &'_ Cgroup| group.events.oom_kill.filter(|count| *count > 0);
    let killed = |group| Some(GroupKills { cgroups, group, count: killed(group)? });
    let mut kills: Vec<GroupKills<'_>> = met.filter_map(killed).collect();
    kills.sort_by_key(|kills| std::cmp::Reverse(kills.count));
    let paths: Vec<&str> = kills.iter().map(|kills| kills.group.path.as_str()).collect();
    // A group counts the kills of those below it.
    kills.retain(|kills| !paths.iter().any(|path| is_below(&kills.group.path, path)));
    kills
}

/// True if the groups' limits account for all kills that the machine has counted.
pub(crate) fn all_at_limits(snapshot: &Snapshot, kills: u64) -> bool {
    derived::total(at_limits(snapshot).iter().map(|kills| kills.count)) >= kills
}

/// `: 33 of them in /a at its limit of 100 MiB`.
pub(crate) fn words(kills: &[GroupKills<'_>]) -> String {
    let of = |kills: &GroupKills<'_>| {
        let limit = limit_bytes(kills.group).map_or_else(
            || "its limit of kernel memory".to_owned(),
            |limit| format!("its limit of {}", format_bytes(limit)),
        );
        format!("{} of them in cgroup {} at {limit}", kills.count, kills.group.path)
    };
    let named: Vec<String> = kills.iter().take(MAX_NAMED).map(of).collect();
    if named.is_empty() { String::new() } else { format!(": {}", named.join(", ")) }
}

pub(crate) fn remedy(kills: &GroupKills<'_>) -> Remedy {
    let path = &kills.group.path;
    let (limit, file) = match (limit_bytes(kills.group), kills.group.kernel_bytes) {
        (None, _) => (kills.group.kernel_limit_bytes.unwrap_or(0), "memory.kmem.limit_in_bytes"),
        (Some(limit), Some(_)) => (limit, "memory.limit_in_bytes"),
        (Some(limit), None) => (limit, "memory.max"),
    };
    let raised = limit.saturating_mul(2);
    let step = format!("echo {raised} >");
    Remedy::named(
        format!("raise the limit of cgroup {path}, or reduce the memory of its programs"),
        vec![Step::manual_on(&step, &kills.cgroups.file(kills.group, file))],
    )
}

fn has_met_its_limit(group: &Cgroup) -> bool {
    // `max` of version 2 also counts what reclaim within the group has solved.
    let refused = group.events.oom.or(group.events.max);
    [refused, group.kernel_failures].into_iter().flatten().any(|count| count > 0)
}

/// The limit that was met: of kernel memory where that refused memory.
fn limit_bytes(group: &Cgroup) -> Option<u64> {
    if group.kernel_failures.is_some_and(|failures| failures > 0) && group.events.max == Some(0) {
        return None;
    }
    group.max_bytes
}

fn is_below(path: &str, other: &str) -> bool {
    path != other && (other == "/" || is_cgroup_within(path, other))
}
