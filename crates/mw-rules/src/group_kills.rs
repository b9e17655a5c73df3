//! Kills of the OOM killer at the limits of cgroups, as the groups count them.

use crate::group_settings::{GroupSetting, set};
use crate::kernel_memory::FULL_PERCENT;
use crate::share::percent;
use crate::{cgroup_parts, oom_words};
use mw_model::{
    Cgroup, CgroupVersion, Cgroups, Finding, Quantity, Remedy, Severity, Snapshot, Step, Subject,
    derived, format_bytes, is_cgroup_below,
};
use std::cmp::Reverse;

/// Groups that are named.
const MAX_NAMED: usize = 3;

/// Kills in a group that met its own limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupKills<'a> {
    cgroups: &'a Cgroups,
    group: &'a Cgroup,
    count: u64,
}

/// The groups with most kills first, each with those at its own limit.
pub(crate) fn at_limits(snapshot: &Snapshot) -> Vec<GroupKills<'_>> {
    let Some(cgroups) = snapshot.cgroups.value() else { return Vec::new() };
    let mut met: Vec<&Cgroup> =
        cgroups.limited.iter().filter(|group| has_met_its_limit(group)).collect();
    // The innermost first.
    met.sort_by_key(|group| Reverse(group.path.split('/').count()));
    let mut kills: Vec<GroupKills<'_>> = Vec::new();
    for group in met {
        let counted = group.events.oom_kill.unwrap_or(0);
        let count = match cgroups.version {
            CgroupVersion::V1 => counted,
            // There a group counts the kills of those below it as well.
            CgroupVersion::V2 => {
                let below =
                    kills.iter().filter(|kills| is_cgroup_below(&kills.group.path, &group.path));
                counted.saturating_sub(derived::total(below.map(|kills| kills.count)))
            }
        };
        kills.extend((count > 0).then_some(GroupKills { cgroups, group, count }));
    }
    kills.sort_by_key(|kills| Reverse(kills.count));
    kills
}

/// A group in which the OOM killer has killed at its own limit, and that is full again, next to none of it page cache: reclaim
/// did not keep it below its limit then, whatever swap would take.
pub(crate) fn full_again(group: &Cgroup, cgroups: &Cgroups) -> Option<Finding> {
    let (limit, used) = (group.max_bytes?, group.current_bytes?);
    let count = group.events.oom_kill.filter(|count| *count > 0)?;
    let lists = [group.stat.inactive_file_bytes?, group.stat.active_file_bytes?];
    let own = used.saturating_sub(derived::total(lists));
    let is_full = percent(own, limit) >= FULL_PERCENT;
    if !is_full || !has_met_its_limit(group) {
        return None;
    }
    let kills = GroupKills { cgroups, group, count };
    let headline = format!(
        "full again at its limit of {}, where the OOM killer has killed {}: {} of it are no page cache",
        format_bytes(limit),
        oom_words::processes(count),
        format_bytes(own)
    );
    let file = cgroups.limit_file(group, limit);
    let subject = Subject::Cgroup(Some(group.path.clone()));
    let finding = Finding::new(Severity::Warning, subject, headline)
        .with_evidence(file, Quantity::Bytes(limit), file)
        .with_evidence("memory that is no page cache", Quantity::Bytes(own), "memory.stat")
        .with_impact("The next allocations of this cgroup swap or meet the OOM killer; other programs are not concerned.")
        .with_remedy(remedy(&kills));
    Some(cgroup_parts::with_events(finding, group))
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
    let GroupKills { group, cgroups, .. } = kills;
    let path = &group.path;
    let step = match limit_bytes(group) {
        Some(limit) => {
            let twice = Some(limit.saturating_mul(2));
            set(GroupSetting::MemoryMax, twice, Some(path), Some(cgroups))
        }
        None => {
            let twice = group.kernel_limit_bytes.unwrap_or(0).saturating_mul(2);
            let file = cgroups.file(group, "memory.kmem.limit_in_bytes");
            Step::manual_on(&format!("echo {twice} >"), &file)
        }
    };
    Remedy::named(
        format!("raise the limit of cgroup {path}, or reduce the memory of its programs"),
        vec![step],
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

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn group() -> Cgroup {
        let mut group = Cgroup {
            path: "/docker/a".to_owned(),
            current_bytes: Some(4 * GIB),
            max_bytes: Some(4 * GIB),
            ..Cgroup::default()
        };
        group.stat.inactive_file_bytes = Some(GIB / 64);
        group.stat.active_file_bytes = Some(0);
        group.events.max = Some(900);
        group.events.oom_kill = Some(6);
        group
    }

    fn found(group: &Cgroup) -> Option<String> {
        full_again(group, &Cgroups::default()).map(|finding| finding.headline)
    }

    /// Promise (Findings): A container that was killed at its limit and is full again is reported, whatever swap the machine has.
    #[test]
    fn a_group_that_is_full_again_after_kills_is_reported() {
        let headline = "full again at its limit of 4 GiB, where the OOM killer has killed 6 processes: 4.0 GiB of it are no page cache";
        assert_eq!(found(&group()).as_deref(), Some(headline));
        let below = Cgroup { current_bytes: Some(3 * GIB), ..group() };
        assert_eq!(found(&below), None, "restarted, and below its limit");
        let mut cached = group();
        cached.stat.inactive_file_bytes = Some(GIB);
        assert_eq!(found(&cached), None, "page cache fills any limit");
        let mut calm = group();
        calm.events.oom_kill = Some(0);
        assert_eq!(found(&calm), None);
        let mut of_others = group();
        of_others.events.max = Some(0);
        assert_eq!(found(&of_others), None, "killed for a limit of another cgroup");
    }
}
