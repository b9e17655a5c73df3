//! Users that are at the limit of tasks of one of their processes (`RLIMIT_NPROC`).

use crate::raised_rlimit::raise_rlimit;
use crate::share::{LIMIT_PERCENT, percent};
use mw_model::{Finding, Process, Quantity, Remedy, Severity, Snapshot, Subject, is_person};
use mw_proc::limits::Rlimit;
use std::collections::BTreeMap;

/// A smaller limit of a user is set on purpose, as that of tasks so that a program cannot fork (systemd's `LimitNPROC=1`,
/// rtkit).
pub(crate) const LEAST_LIMIT: u64 = 256;

/// A process and the limit that its user has reached.
struct UserTaskLimit<'a> {
    process: &'a Process,
    uid: u32,
    limit: u64,
    hard: Option<u64>,
    /// Tasks of the user.
    tasks: u64,
}

/// A finding for each user. The kernel compares all tasks of the real user, in whatever container, with the soft limit of
/// the one that forks (kernel/fork.c, `copy_process()`); root is exempt. Processes that were not read make the sum smaller.
pub(crate) fn at_limits(snapshot: &Snapshot) -> Vec<Finding> {
    let processes = snapshot.processes.value().map_or(&[][..], |all| all.list.as_slice());
    let mut tasks: BTreeMap<u32, u64> = BTreeMap::new();
    for status in processes.iter().map(|process| &process.status) {
        if let Some(uid) = status.uid {
            let sum = tasks.entry(uid).or_default();
            *sum = sum.saturating_add(status.threads.unwrap_or(1));
        }
    }
    let mut reached: BTreeMap<u32, UserTaskLimit<'_>> = BTreeMap::new();
    let limited = processes.iter().filter_map(|process| {
        let uid = process.status.uid.filter(|uid| *uid != 0)?;
        let Rlimit { soft, hard } = process.limits?.max_processes?;
        let limit = soft?;
        let tasks = *tasks.get(&uid)?;
        let is_reached = limit >= LEAST_LIMIT && percent(tasks, limit) >= LIMIT_PERCENT;
        is_reached.then_some(UserTaskLimit { process, uid, limit, hard, tasks })
    });
    let threads = |of: &UserTaskLimit<'_>| of.process.status.threads.unwrap_or(1);
    for of in limited {
        match reached.get(&of.uid) {
            Some(other) if threads(other) >= threads(&of) => {}
            _ => {
                reached.insert(of.uid, of);
            }
        }
    }
    reached.values().map(finding).collect()
}

/// The user whose limit is the lowest of those below the number of CPUs: a program with a thread for each CPU does not start.
/// Those of services are often set so that they cannot fork.
pub(crate) fn below_cpus(snapshot: &Snapshot) -> Option<Finding> {
    /// Less than that is set so that a program cannot fork.
    const FEW: u64 = 8;
    let cpus = u64::from(snapshot.origin.cpus?);
    let limited = snapshot.processes.value()?.list.iter().filter_map(|process| {
        let uid = process.status.uid.filter(|uid| is_person(*uid))?;
        let rlimit = process.limits?.max_processes?;
        let limit = rlimit.soft.filter(|limit| (FEW..cpus).contains(limit))?;
        Some((limit, uid, rlimit, process))
    });
    let (limit, uid, rlimit, process) = limited.min_by_key(|(limit, uid, ..)| (*limit, *uid))?;
    let pid = process.status.pid.unwrap_or_default();
    let headline =
        format!("user {uid} may have {limit} tasks on {cpus} CPUs (ulimit -u of pid {pid})");
    let finding = Finding::new(Severity::Note, Subject::Process(process.status.name.clone()), headline)
        .with_evidence("limit", Quantity::Count(limit), format!("/proc/{pid}/limits"))
        .with_evidence("CPUs", Quantity::Count(cpus), "/sys/devices/system/cpu/online")
        .with_impact(
            "A program that starts a thread for each CPU is refused with EAGAIN (\"Resource temporarily unavailable\"), \
             although memory is free.",
        );
    let raised = cpus.saturating_mul(4);
    Some(finding.with_remedy(Remedy::named(
        "have the program start fewer threads, or raise the limit (nproc of limits.conf)",
        vec![raise_rlimit(pid, "nproc", rlimit, raised)],
    )))
}

fn finding(of: &UserTaskLimit<'_>) -> Finding {
    let UserTaskLimit { uid, limit, hard, tasks, .. } = *of;
    let status = &of.process.status;
    let pid = status.pid.unwrap_or_default();
    let headline = format!(
        "the tasks of user {uid} are at the limit of {} (pid {pid}): {tasks} of {limit} (ulimit -u)",
        status.name
    );
    let raised = limit.saturating_mul(2);
    Finding::new(Severity::Warning, Subject::Process(status.name.clone()), headline)
        .with_evidence("tasks of the user", Quantity::Count(tasks), "/proc/PID/status")
        .with_evidence("limit", Quantity::Count(limit), format!("/proc/{pid}/limits"))
        .with_evidence(
            "threads of the process",
            Quantity::Count(status.threads.unwrap_or(1)),
            format!("/proc/{pid}/status"),
        )
        .with_impact("fork(2) and the creation of threads fail with EAGAIN although memory is free.")
        .with_remedy(Remedy::named(
            "find what starts so many tasks, or raise the limit (LimitNPROC= of the unit, nproc of limits.conf)",
            vec![raise_rlimit(pid, "nproc", Rlimit { soft: Some(limit), hard }, raised)],
        ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::{Processes, Reading};
    use mw_proc::limits::Rlimits;
    use mw_proc::status::Status;

    fn process(pid: u32, uid: u32, threads: u64, limit: Option<u64>) -> Process {
        let status = Status {
            name: format!("app{pid}"),
            pid: Some(pid),
            uid: Some(uid),
            threads: Some(threads),
            ..Status::default()
        };
        let max_processes = limit.map(|soft| Rlimit { soft: Some(soft), hard: None });
        let limits = max_processes.map(|_| Rlimits { max_processes, ..Rlimits::default() });
        Process { status, limits, ..Process::default() }
    }

    fn headlines(list: Vec<Process>) -> Vec<String> {
        let processes = Processes { present: list.len(), unseen: 0, list };
        let snapshot = Snapshot { processes: Reading::Value(processes), ..Snapshot::default() };
        at_limits(&snapshot).into_iter().map(|finding| finding.headline).collect()
    }

    /// Promise (Findings): A person who may have fewer tasks than there are CPUs is told so; a service is not.
    #[test]
    fn a_person_with_fewer_tasks_than_cpus_is_found() {
        let found = |uid, limit| {
            let list = vec![process(7, uid, 2, Some(limit))];
            let processes = Processes { present: 1, unseen: 0, list };
            let mut snapshot =
                Snapshot { processes: Reading::Value(processes), ..Snapshot::default() };
            snapshot.origin.cpus = Some(104);
            below_cpus(&snapshot).map(|finding| finding.headline)
        };
        let expected = "user 2204 may have 40 tasks on 104 CPUs (ulimit -u of pid 7)";
        assert_eq!(found(2204, 40).as_deref(), Some(expected));
        for (uid, limit) in [(2204, 104), (2204, 1), (33, 40), (65534, 40), (0, 40)] {
            assert_eq!(found(uid, limit), None, "{uid} {limit}");
        }
    }

    /// Promise (Findings): A user at the limit of tasks of a process is reported; root and limits that forbid to fork are not.
    #[test]
    fn all_tasks_of_a_user_count_towards_the_limit_of_each_process() {
        let list = |second| vec![process(7, 1000, 900, Some(1024)), process(8, 1000, second, None)];
        let expected =
            "the tasks of user 1000 are at the limit of app7 (pid 7): 980 of 1024 (ulimit -u)";
        assert_eq!(headlines(list(80)), [expected]);
        let none: [String; 0] = [];
        assert_eq!(headlines(list(60)), none);
        assert_eq!(headlines(vec![process(7, 0, 1024, Some(1024))]), none, "root");
        assert_eq!(headlines(vec![process(7, 9, 3, Some(3))]), none, "sealed");
        let two = vec![process(7, 9, 10, Some(1000)), process(8, 9, 985, Some(1000))];
        assert!(headlines(two)[0].contains("app8"));
    }
}
