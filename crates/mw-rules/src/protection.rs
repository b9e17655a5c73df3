//! Memory that reclaim leaves to cgroups: `memory.min` and `memory.low`.

use mw_model::{Cgroup, Snapshot, derived};

/// Bytes that no allocation of other groups gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ProtectedMemory {
    pub(crate) cache: u64,
    pub(crate) anonymous: u64,
}

/// At least, and at most, by how the protection of a group goes to those below it: without the mount option
/// `memory_recursiveprot`, groups below have only what their own `memory.min` says.
pub(crate) fn bounds(snapshot: &Snapshot) -> (ProtectedMemory, ProtectedMemory) {
    let Some(cgroups) = snapshot.cgroups.value() else { return Default::default() };
    // The caller's own groups give the request what they have.
    let is_own = |group: &Cgroup| cgroups.own.iter().any(|own| own.path == group.path);
    let others = || cgroups.limited.iter().filter(|group| group.min_bytes > 0 && !is_own(group));
    let is_top = |group: &&Cgroup| is_top(group);
    let of = |group: &Cgroup| within(group, group.min_bytes);
    (sum(others().filter(|group| group.is_leaf).map(of)), sum(others().filter(is_top).map(of)))
}

/// True for a group below the root. The protection of those further below goes as far as that of their parents.
pub(crate) fn is_top(group: &Cgroup) -> bool {
    group.path.matches('/').count() == 1
}

/// What a group has of a protection: reclaim takes what exceeds it, cache before anonymous memory.
pub(crate) fn within(group: &Cgroup, protection: u64) -> ProtectedMemory {
    let stat = &group.stat;
    let lists = |list: [Option<u64>; 2]| derived::total(list.into_iter().flatten());
    let cache = lists([stat.active_file_bytes, stat.inactive_file_bytes]);
    let anonymous = lists([stat.active_anon_bytes, stat.inactive_anon_bytes]);
    let beyond = group.current_bytes.unwrap_or(0).saturating_sub(protection);
    ProtectedMemory {
        cache: cache.saturating_sub(beyond),
        anonymous: anonymous.saturating_sub(beyond.saturating_sub(cache)),
    }
}

fn sum(of: impl Iterator<Item = ProtectedMemory>) -> ProtectedMemory {
    of.fold(ProtectedMemory::default(), |sum, one| ProtectedMemory {
        cache: sum.cache.saturating_add(one.cache),
        anonymous: sum.anonymous.saturating_add(one.anonymous),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::Cgroups;
    use mw_proc::cgroup::MemoryStat;

    fn group(path: &str, min_bytes: u64, is_leaf: bool) -> Cgroup {
        let stat = MemoryStat {
            inactive_file_bytes: Some(100),
            inactive_anon_bytes: Some(50),
            ..MemoryStat::default()
        };
        let path = path.to_owned();
        Cgroup { path, current_bytes: Some(150), min_bytes, is_leaf, stat, ..Cgroup::default() }
    }

    fn of(limited: Vec<Cgroup>) -> (u64, u64) {
        let own = vec![group("/mine", 0, true)];
        let cgroups = Cgroups { own, limited, ..Cgroups::default() };
        let snapshot = Snapshot { cgroups: Ok(cgroups).into(), ..Snapshot::default() };
        let (least, most) = bounds(&snapshot);
        (least.cache, most.cache)
    }

    #[test]
    fn what_exceeds_the_protection_is_reclaimed() {
        assert_eq!(of(vec![group("/a", u64::MAX, true)]), (100, 100));
        assert_eq!(of(vec![group("/a", 120, true)]), (70, 70));
        assert_eq!(of(vec![group("/a", 20, true)]), (0, 0));
        assert_eq!(within(&group("/a", 0, true), 20).anonymous, 20);
    }

    #[test]
    fn a_parents_protection_may_or_may_not_reach_those_below() {
        assert_eq!(of(vec![group("/a", 150, false)]), (0, 100));
        assert_eq!(of(vec![group("/a", 150, false), group("/a/b", 120, true)]), (70, 100));
    }

    #[test]
    fn the_callers_own_group_protects_nothing_from_it() {
        assert_eq!(of(vec![group("/mine", 150, true)]), (0, 0));
    }
}
