//! # memlock-limit
//!
//! A process has almost reached its limit on locked memory.
//!
//! ## What it finds
//! A process without CAP_IPC_LOCK that has locked at least 90% of its RLIMIT_MEMLOCK with mlock (`VmLck`); or a user
//! whose processes without it have pinned as much of the lowest of their limits (`VmPin`). On the running machine also the
//! limit of the calling process itself, where it is below the kernel's default of 8 MiB and counts.
//!
//! ## Why it hurts
//! The next `mlock`, `io_uring` ring or registered buffer fails with ENOMEM or EAGAIN. Databases then
//! start without locked memory (and are swapped out), or do not start.
//!
//! ## What it looks like
//! "could not lock memory" or "mlock: Cannot allocate memory" in the program's log, although memory is
//! free. io_uring charges its rings and registered buffers to the user, all processes together, and each process
//! compares the sum with its own limit (io_uring/rsrc.c, `__io_account_mem()`): `io_uring_setup` or
//! `io_uring_register` then fails in a process whose `VmLck` is 0.
//!
//! ## How to fix it
//! Raise the limit where the service is started: `LimitMEMLOCK=infinity` in its unit, `memlock
//! unlimited` in /etc/security/limits.conf, or `prlimit --memlock=unlimited --pid PID` for a running
//! process.
//!
//! ## Threshold
//! 90%: programs lock memory in large pieces, so the last tenth is rarely usable. The default limit of
//! 64 KiB, or 8 MiB since kernel 5.16, is meant for cryptographic keys, not for databases. Pinned memory is a warning
//! where one process reaches the limit by itself, and a note where only the sum does: other subsystems than io_uring
//! limit each process.
//!
//! ## References
//! mlock(2), getrlimit(2), io_uring_register(2), systemd.exec(5).

use crate::share::percent;
use mw_model::{
    Finding, Missing, OriginKind, Process, Quantity, Remedy, Severity, Snapshot, Step, Subject,
    Window, caller, format_bytes,
};

use std::collections::BTreeMap;

const WARNING_PERCENT: f64 = 90.0;

/// The kernel's default since 5.16 (`MLOCK_LIMIT`).
const DEFAULT_BYTES: u64 = 8 << 20;

/// The capability for which the limit does not count (capabilities(7)).
const CAP_IPC_LOCK: u64 = 1 << 14;

/// Processes that are reported.
const MAX_SHOWN: usize = 5;

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let processes = window.now.processes.required()?;
    let locked = processes.list.iter().filter_map(finding);
    let found = locked.chain(pinned(&processes.list)).take(MAX_SHOWN);
    let found: Vec<Finding> = found.chain(of_caller(&window.now)).collect();
    if found.is_empty() {
        processes.whole()?;
    }
    Ok(found)
}

/// True if the limit counts for a process.
fn is_limited(process: &Process) -> bool {
    process.status.effective_capabilities.is_some_and(|set| set & CAP_IPC_LOCK == 0)
}

/// The limit of a process in bytes, unless it has none.
fn limit_bytes(process: &Process) -> Option<u64> {
    process.limits.as_ref()?.max_locked_memory?.soft
}

/// The limit of the calling process, which the programs that its user starts inherit, where next to nothing can be locked.
fn of_caller(snapshot: &Snapshot) -> Option<Finding> {
    let is_live = snapshot.origin.kind == OriginKind::Live;
    let limit = snapshot.limits.value()?.max_locked_memory?.soft?;
    if !is_live || caller::may_lock_all(snapshot) != Some(false) || limit >= DEFAULT_BYTES {
        return None;
    }
    let headline = format!(
        "this process, and what it starts, may lock {} only (RLIMIT_MEMLOCK)",
        format_bytes(limit)
    );
    let finding = Finding::new(Severity::Note, Subject::Process("this process".to_owned()), headline)
        .with_evidence("Max locked memory", Quantity::Bytes(limit), "/proc/self/limits")
        .with_impact(
            "mlock, buffers of io_uring, RDMA and VFIO fail with ENOMEM beyond it, although memory is free.",
        );
    Some(finding.with_remedy(Remedy::named(
        "raise the limit where the program is started",
        vec![
            Step::manual("LimitMEMLOCK=infinity in the [Service] section of its unit"),
            Step::manual("memlock unlimited in /etc/security/limits.conf"),
        ],
    )))
}

/// The users whose processes have pinned almost as much as the lowest of their limits.
fn pinned(processes: &[Process]) -> Vec<Finding> {
    let mut of_users: BTreeMap<u32, Vec<&Process>> = BTreeMap::new();
    for process in processes.iter().filter(|process| is_limited(process)) {
        if let Some(uid) = process.status.uid
            && process.status.vm_pin_bytes.is_some_and(|bytes| bytes > 0)
        {
            of_users.entry(uid).or_default().push(process);
        }
    }
    of_users.iter().filter_map(|(uid, processes)| of_user(*uid, processes)).collect()
}

fn of_user(uid: u32, processes: &[&Process]) -> Option<Finding> {
    let pinned_bytes = |process: &&Process| process.status.vm_pin_bytes.unwrap_or(0);
    let sum = processes.iter().map(pinned_bytes).fold(0, u64::saturating_add);
    let limited = processes.iter().filter_map(|process| Some((limit_bytes(process)?, process)));
    let (limit, lowest) = limited.min_by_key(|(limit, _)| *limit)?;
    let share = percent(sum, limit);
    if share < WARNING_PERCENT {
        return None;
    }
    let is_alone = percent(pinned_bytes(lowest), limit) >= WARNING_PERCENT;
    let severity = if is_alone { Severity::Warning } else { Severity::Note };
    let (name, pid) = (lowest.status.name.clone(), lowest.status.pid?);
    let headline = format!(
        "processes of user {uid} ({}) have pinned {} in all; the limit of {name} (pid {pid}) is {} ({share:.0}%)",
        processes.len(),
        format_bytes(sum),
        format_bytes(limit)
    );
    let finding = Finding::new(severity, Subject::Process(name), headline)
        .with_evidence("VmPin of the user", Quantity::Bytes(sum), "/proc/PID/status")
        .with_evidence("Max locked memory", Quantity::Bytes(limit), format!("/proc/{pid}/limits"))
        .with_impact("The next io_uring ring or registered buffer of this user fails.");
    Some(finding.with_remedy(remedy(pid)))
}

fn remedy(pid: u32) -> Remedy {
    Remedy::named(
        "raise the limit of the service",
        vec![
            Step::manual("LimitMEMLOCK=infinity in the [Service] section of its unit"),
            Step::manual(format!("prlimit --memlock=unlimited --pid {pid}")),
        ],
    )
}

fn finding(process: &Process) -> Option<Finding> {
    let status = &process.status;
    if !is_limited(process) {
        return None;
    }
    let locked = status.vm_lck_bytes.filter(|bytes| *bytes > 0)?;
    let limit = limit_bytes(process)?;
    let share = percent(locked, limit);
    if share < WARNING_PERCENT {
        return None;
    }
    let pid = status.pid?;
    let headline = format!(
        "{} (pid {pid}) has locked {} with mlock, of its limit of {} ({share:.0}%)",
        status.name,
        format_bytes(locked),
        format_bytes(limit)
    );
    Some(
        Finding::new(Severity::Warning, Subject::Process(status.name.clone()), headline)
            .with_evidence("VmLck", Quantity::Bytes(locked), format!("/proc/{pid}/status"))
            .with_evidence("Max locked memory", Quantity::Bytes(limit), format!("/proc/{pid}/limits"))
            .with_impact("Its next request to lock memory fails; the program runs without locked memory, or not at \
                 all.")
            .with_remedy(remedy(pid)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_proc::limits::Rlimits;
    use mw_proc::status::Status;

    fn process(uid: u32, pinned_kib: u64, capabilities: u64) -> Process {
        let limits =
            b"Limit                     Soft Limit           Hard Limit           Units     \n\
            Max locked memory         8388608              8388608              bytes     \n";
        let status = Status {
            name: "node".to_owned(),
            pid: Some(7),
            uid: Some(uid),
            effective_capabilities: Some(capabilities),
            vm_lck_bytes: Some(0),
            vm_pin_bytes: Some(pinned_kib << 10),
            ..Status::default()
        };
        Process { status, limits: Rlimits::parse(limits).ok(), ..Process::default() }
    }

    #[test]
    fn pinned_memory_counts_by_user() {
        let severities = |processes: &[Process]| -> Vec<Severity> {
            pinned(processes).into_iter().map(|finding| finding.severity).collect()
        };
        let (one, other) = (process(5, 4000, 0), process(5, 3900, 0));
        assert_eq!(severities(&[one.clone(), other]), [Severity::Note]);
        assert_eq!(severities(&[one.clone(), process(6, 3900, 0)]), [], "another user's");
        assert_eq!(severities(&[one, process(5, 3900, CAP_IPC_LOCK)]), [], "not limited");
        assert_eq!(severities(&[process(5, 8000, 0)]), [Severity::Warning]);
    }
}
