//! Processes that are at their limit of open files (`RLIMIT_NOFILE`).

use crate::raised_rlimit::raise_rlimit;
use mw_model::open_files::reaches_limit;
use mw_model::{Finding, Process, Quantity, Remedy, Severity, Snapshot, Step, Subject};
use mw_proc::limits::Rlimit;

/// Processes that the finding has evidence of.
const MAX_SHOWN: usize = 4;

/// The largest limit that a process may have.
const NR_OPEN: &str = "fs.nr_open";

/// A process that reaches its limit.
#[derive(Clone, Copy)]
struct FullProcess<'a> {
    process: &'a Process,
    open: u64,
    limit: u64,
    hard: Option<u64>,
}

impl FullProcess<'_> {
    fn pid(&self) -> u32 {
        self.process.status.pid.unwrap_or_default()
    }
}

/// One finding, whatever number of processes reach their limit: any user may start some that do.
pub(crate) fn at_limits(snapshot: &Snapshot) -> Option<Finding> {
    let processes = snapshot.processes.value()?;
    let mut full: Vec<FullProcess<'_>> = processes.list.iter().filter_map(at_limit).collect();
    // Services have the lower numbers of users.
    full.sort_by_key(|of| (of.process.status.uid, of.pid()));
    let (first, others) = full.split_first()?;
    Some(finding(snapshot, *first, others))
}

fn at_limit(process: &Process) -> Option<FullProcess<'_>> {
    let (open, Rlimit { soft, hard }) = (process.open_files?, process.limits?.open_files?);
    let limit = soft.filter(|limit| reaches_limit(open, *limit))?;
    Some(FullProcess { process, open, limit, hard })
}

fn finding(snapshot: &Snapshot, first: FullProcess<'_>, others: &[FullProcess<'_>]) -> Finding {
    let (name, pid) = (&first.process.status.name, first.pid());
    let more = match others.len() {
        0 => String::new(),
        1 => "; so is 1 other process".to_owned(),
        count => format!("; so are {count} other processes"),
    };
    let headline = format!(
        "{name} (pid {pid}) is at its limit of open files: {} of {} (ulimit -n){more}",
        first.open, first.limit
    );
    let mut finding = Finding::new(Severity::Warning, Subject::Process(name.clone()), headline)
        .with_evidence("open files", Quantity::Count(first.open), format!("/proc/{pid}/fd"))
        .with_evidence("limit", Quantity::Count(first.limit), format!("/proc/{pid}/limits"));
    for other in others.iter().take(MAX_SHOWN - 1) {
        let what = format!("open files of {} (pid {})", other.process.status.name, other.pid());
        let source = format!("/proc/{}/fd", other.pid());
        finding = finding.with_evidence(what, Quantity::Count(other.open), source);
    }
    finding
        .with_impact("open(2), socket(2) and accept(2) of this process fail with EMFILE although memory is free.")
        .with_remedy(remedy(snapshot, first))
}

fn remedy(snapshot: &Snapshot, of: FullProcess<'_>) -> Remedy {
    let raised = of.limit.saturating_mul(2);
    let mut steps = vec![Step::manual(format!("ls -l /proc/{}/fd", of.pid()))];
    if snapshot.sysctl.number(NR_OPEN).is_ok_and(|most| most < raised) {
        steps.push(Step::manual(format!("sysctl -w {NR_OPEN}={raised}")));
    }
    let limit = Rlimit { soft: Some(of.limit), hard: of.hard };
    steps.push(raise_rlimit(of.pid(), "nofile", limit, raised));
    let summary = "find what leaves files or sockets open, or raise the limit (LimitNOFILE= of the unit, nofile of \
                   limits.conf, --ulimit of the container)";
    Remedy::named(summary, steps)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use mw_model::{Processes, Reading};
    use mw_proc::limits::Rlimits;
    use mw_proc::status::Status;

    fn process(pid: u32, uid: u32, open: Option<u64>, soft: u64, hard: u64) -> Process {
        let name = format!("app{pid}");
        let status = Status { name, pid: Some(pid), uid: Some(uid), ..Status::default() };
        let open_files = Some(Rlimit { soft: Some(soft), hard: Some(hard) });
        let limits = Some(Rlimits { open_files, ..Rlimits::default() });
        Process { status, limits, open_files: open, ..Process::default() }
    }

    fn found(list: Vec<Process>) -> Option<Finding> {
        let processes = Processes { present: list.len(), unseen: 0, list };
        let mut snapshot = Snapshot { processes: Reading::Value(processes), ..Snapshot::default() };
        snapshot.sysctl.values.insert(NR_OPEN.to_owned(), Ok("1048576".to_owned()));
        at_limits(&snapshot)
    }

    fn is_found(open: u64, soft: u64) -> bool {
        found(vec![process(7, 33, Some(open), soft, 1 << 20)]).is_some()
    }

    /// Promise (Findings): A process at its limit of open files is reported; one that keeps some free, has lowered its
    /// limit or forbids itself to open files is not.
    #[test]
    fn a_process_without_a_free_descriptor_is_at_its_limit() {
        assert!(is_found(1024, 1024) && is_found(1020, 1024));
        assert!(!is_found(1014, 1024), "PostgreSQL keeps ten free");
        assert!(!is_found(65_526, 65_536), "and so it does at any limit");
        assert!(!is_found(3000, 1024), "it lowered its limit");
        assert!(!is_found(16, 16), "it forbids itself more");
        assert!(found(vec![process(7, 33, None, 1024, 4096)]).is_none(), "not counted");
    }

    #[test]
    fn many_processes_are_one_finding_that_names_a_service() {
        let users = (100..110).map(|pid| process(pid, 1000, Some(1024), 1024, 4096));
        let list = users.chain([process(7, 33, Some(512), 512, 512)]).collect();
        let finding = found(list).unwrap();
        assert_eq!(
            finding.headline,
            "app7 (pid 7) is at its limit of open files: 512 of 512 (ulimit -n); so are 10 other processes"
        );
        assert_eq!(finding.evidence.len(), 2 + MAX_SHOWN - 1);
    }

    #[test]
    fn the_limit_of_all_processes_is_raised_first_where_it_is_in_the_way() {
        let steps = |soft, hard| {
            let finding = found(vec![process(7, 33, Some(soft), soft, hard)]).unwrap();
            format!("{:?}", finding.remedy.unwrap().steps)
        };
        let usual = steps(1024, 524_288);
        assert!(usual.contains("--nofile=2048:") && !usual.contains(NR_OPEN), "{usual}");
        let largest = steps(1 << 20, 1 << 20);
        assert!(largest.contains("sysctl -w fs.nr_open=2097152"), "{largest}");
        assert!(largest.contains("--nofile=2097152\""), "{largest}");
    }
}
