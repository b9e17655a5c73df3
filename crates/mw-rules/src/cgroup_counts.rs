//! Limits of numbers of cgroups and of their tasks.

use crate::group_settings::{GroupSetting, by_manager};
use crate::share::{LIMIT_PERCENT, percent};
use mw_model::{Area, Finding, GroupTasks, Quantity, Remedy, Severity, Snapshot, Step, Subject};
use mw_proc::version::KernelVersion;

/// Numbers of memory cgroups: `MEM_CGROUP_ID_MAX`, before 3.15 `CSS_ID_MAX`.
const CGROUP_NUMBERS: u64 = 65_535;

/// The first kernel that releases the number of a deleted memory cgroup although memory is charged to it.
const RELEASES_NUMBERS: KernelVersion = KernelVersion::new(4, 7, 0);

/// The finding that no number is left for a memory cgroup; the outer option is none where that cannot be told.
pub(crate) fn numbers(snapshot: &Snapshot) -> Option<Option<Finding>> {
    let memory = (*snapshot.memory_hierarchy.value()?)?;
    // Groups of the unified hierarchy (0) need not have the controller.
    if snapshot.origin.kernel? >= RELEASES_NUMBERS || memory.hierarchy == 0 {
        return None;
    }
    let is_reached =
        percent(memory.groups, CGROUP_NUMBERS) >= LIMIT_PERCENT && memory.groups <= CGROUP_NUMBERS;
    let headline = format!(
        "memory cgroups have nearly no number left: {} of {CGROUP_NUMBERS} are in use, deleted cgroups included",
        memory.groups
    );
    let finding = || {
        Finding::new(Severity::Warning, Area::KernelMemory, headline)
            .with_evidence("memory cgroups", Quantity::Count(memory.groups), "/proc/cgroups")
            .with_evidence("numbers", Quantity::Count(CGROUP_NUMBERS), "mm/memcontrol.c")
            .with_impact(
                "A memory cgroup cannot be created (ENOSPC or ENOMEM), so that no container starts, although memory is \
                 free.",
            )
            .with_remedy(Remedy::named(
                "free the page cache and the objects that keep deleted cgroups, and create fewer; Linux 4.7 releases the \
                 number of a deleted one",
                vec![
                    Step::manual("find /sys/fs/cgroup/memory -type d | wc -l"),
                    Step::Once {
                        path: "/proc/sys/vm/drop_caches".to_owned(),
                        value: "3".to_owned(),
                    },
                ],
            ))
    };
    Some(is_reached.then(finding))
}

/// Cgroups at their limit of tasks (kernel/cgroup/pids.c), which counts the tasks of the cgroups below as well.
pub(crate) fn tasks(snapshot: &Snapshot) -> Vec<Finding> {
    snapshot.task_limits.value().into_iter().flatten().filter_map(at_its_tasks).collect()
}

fn at_its_tasks(group: &GroupTasks) -> Option<Finding> {
    let GroupTasks { limit, tasks, .. } = *group;
    if percent(tasks, limit) < LIMIT_PERCENT {
        return None;
    }
    let headline = format!("its tasks are at the limit pids.max: {tasks} of {limit}");
    let raised = limit.saturating_mul(2);
    let step = by_manager(GroupSetting::TasksMax, &raised.to_string(), &group.path)
        .unwrap_or_else(|| Step::manual_on(&format!("echo {raised} >"), &group.file));
    Some(
        Finding::new(Severity::Warning, Subject::Cgroup(Some(group.path.clone())), headline)
            .with_evidence("tasks", Quantity::Count(tasks), "pids.current")
            .with_evidence("limit", Quantity::Count(limit), "pids.max")
            .with_impact(
                "fork(2) and the creation of threads fail with EAGAIN in this cgroup although memory is free.",
            )
            .with_remedy(Remedy::named(
                "find what starts so many tasks, or raise the limit",
                vec![step],
            )),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use mw_model::Reading;

    #[test]
    fn a_cgroup_is_at_its_limit_of_tasks() {
        let found = |tasks, limit| {
            let group =
                GroupTasks { path: "/ci".to_owned(), tasks, limit, ..GroupTasks::default() };
            let task_limits = Reading::Value(vec![group]);
            super::tasks(&Snapshot { task_limits, ..Snapshot::default() })
        };
        let [finding] = found(96, 100).try_into().unwrap();
        assert_eq!(finding.headline, "its tasks are at the limit pids.max: 96 of 100");
        assert_eq!(found(90, 100), []);
    }
}
