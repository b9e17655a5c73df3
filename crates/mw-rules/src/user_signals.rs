//! Users that are at the limit of queued signals of one of their processes (`RLIMIT_SIGPENDING`), of which each timer takes
//! one.

use crate::raised_rlimit::raise_rlimit;
use crate::share::{LIMIT_PERCENT, percent};
use crate::user_tasks::LEAST_LIMIT;
use mw_model::{Finding, Process, Quantity, Remedy, Severity, Snapshot, Subject};
use mw_proc::limits::Rlimit;
use mw_proc::status::QueuedSignals;
use std::collections::BTreeSet;

/// One finding, of the user that is the furthest: any user may reach a limit that it has lowered. The kernel compares what
/// the user has queued with the soft limit of the process (kernel/signal.c, `sig_get_ucounts()`), also of root.
pub(crate) fn at_limits(snapshot: &Snapshot) -> Option<Finding> {
    let processes = &snapshot.processes.value()?.list;
    let reached: Vec<(&Process, QueuedSignals)> =
        processes.iter().filter_map(|process| Some((process, at_limit(process)?))).collect();
    let share = |of: &QueuedSignals| percent(of.of_user, of.limit);
    // Of those that are equally far, the first.
    let (process, queued) =
        reached.iter().rev().max_by(|(_, a), (_, b)| share(a).total_cmp(&share(b)))?;
    let users: BTreeSet<Option<u32>> =
        reached.iter().map(|(process, _)| process.status.uid).collect();
    Some(finding(process, *queued, users.len().saturating_sub(1)))
}

fn at_limit(process: &Process) -> Option<QueuedSignals> {
    let queued = process.status.queued_signals?;
    let is_reached =
        queued.limit >= LEAST_LIMIT && percent(queued.of_user, queued.limit) >= LIMIT_PERCENT;
    is_reached.then_some(queued)
}

fn finding(process: &Process, queued: QueuedSignals, other_users: usize) -> Finding {
    let QueuedSignals { of_user, limit } = queued;
    let status = &process.status;
    let pid = status.pid.unwrap_or_default();
    let user = status.uid.map_or_else(|| "its user".to_owned(), |uid| format!("user {uid}"));
    let more = match other_users {
        0 => String::new(),
        1 => "; so are those of 1 other user".to_owned(),
        count => format!("; so are those of {count} other users"),
    };
    let headline = format!(
        "timers and queued signals of {user} are at the limit of {} (pid {pid}): {of_user} of {limit} (ulimit -i){more}",
        status.name
    );
    // The kernel gives the first process the same soft and hard limit.
    let both = Rlimit { soft: Some(limit), hard: Some(limit) };
    let summary = "find the program that creates so many timers (timer_create), or raise the limit (LimitSIGPENDING= of the \
                   unit, sigpending of limits.conf)";
    Finding::new(Severity::Warning, Subject::Process(status.name.clone()), headline)
        .with_evidence(
            "queued by the user",
            Quantity::Count(of_user),
            format!("/proc/{pid}/status"),
        )
        .with_evidence("limit", Quantity::Count(limit), format!("/proc/{pid}/status"))
        .with_impact("timer_create(2) and sigqueue(3) fail with EAGAIN although memory is free.")
        .with_remedy(Remedy::named(
            summary,
            vec![raise_rlimit(pid, "sigpending", both, limit.saturating_mul(2))],
        ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::{Processes, Reading};
    use mw_proc::status::Status;

    fn process(pid: u32, uid: u32, of_user: u64, limit: u64) -> Process {
        let status = Status {
            name: format!("app{pid}"),
            pid: Some(pid),
            uid: Some(uid),
            queued_signals: Some(QueuedSignals { of_user, limit }),
            ..Status::default()
        };
        Process { status, ..Process::default() }
    }

    fn headline(list: Vec<Process>) -> Option<String> {
        let processes = Processes { present: list.len(), unseen: 0, list };
        let snapshot = Snapshot { processes: Reading::Value(processes), ..Snapshot::default() };
        at_limits(&snapshot).map(|finding| finding.headline)
    }

    /// Promise (Findings): A user at the limit of queued signals, of which timers take one each, is reported once.
    #[test]
    fn all_of_a_user_count_towards_the_limit_of_each_process() {
        let list = vec![
            process(7, 1000, 3700, 3802),
            process(8, 1000, 3700, 1 << 20),
            process(9, 33, 990, 1000),
        ];
        let expected = "timers and queued signals of user 33 are at the limit of app9 (pid 9): 990 of 1000 (ulimit -i); so \
                        are those of 1 other user";
        assert_eq!(headline(list).as_deref(), Some(expected));
        assert_eq!(headline(vec![process(7, 1000, 3600, 3802)]), None);
        assert_eq!(headline(vec![process(7, 1000, 16, 16)]), None, "set on purpose");
        assert_eq!(headline(vec![process(7, 1000, 1 << 30, u64::MAX)]), None, "unlimited");
    }
}
