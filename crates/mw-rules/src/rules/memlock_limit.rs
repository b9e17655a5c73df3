//! # memlock-limit
//!
//! A process has almost reached its limit on locked memory.
//!
//! ## What it finds
//! A process without CAP_IPC_LOCK whose locked memory (`VmLck`) is at least 90% of its RLIMIT_MEMLOCK.
//!
//! ## Why it hurts
//! The next `mlock`, `io_uring` ring or registered buffer fails with ENOMEM or EAGAIN. Databases then
//! start without locked memory (and are swapped out), or do not start.
//!
//! ## What it looks like
//! "could not lock memory" or "mlock: Cannot allocate memory" in the program's log, although memory is
//! free.
//!
//! ## How to fix it
//! Raise the limit where the service is started: `LimitMEMLOCK=infinity` in its unit, `memlock
//! unlimited` in /etc/security/limits.conf, or `prlimit --memlock=unlimited --pid PID` for a running
//! process.
//!
//! ## Threshold
//! 90%: programs lock memory in large pieces, so the last tenth is rarely usable. The default limit of
//! 64 KiB, or 8 MiB since kernel 5.16, is meant for cryptographic keys, not for databases.
//!
//! ## References
//! mlock(2), getrlimit(2), systemd.exec(5).

use crate::share::percent;
use mw_model::{
    Finding, Missing, Process, Quantity, Remedy, Severity, Step, Subject, Window, format_bytes,
};

const WARNING_PERCENT: f64 = 90.0;

/// The capability for which the limit does not count (capabilities(7)).
const CAP_IPC_LOCK: u64 = 1 << 14;

/// Processes that are reported.
const MAX_SHOWN: usize = 5;

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let processes = window.now.processes.required()?;
    let found: Vec<Finding> = processes.list.iter().filter_map(finding).take(MAX_SHOWN).collect();
    if found.is_empty() {
        processes.whole()?;
    }
    Ok(found)
}

fn finding(process: &Process) -> Option<Finding> {
    let status = &process.status;
    if status.effective_capabilities.is_none_or(|set| set & CAP_IPC_LOCK != 0) {
        return None;
    }
    let locked = status.vm_lck_bytes.filter(|bytes| *bytes > 0)?;
    let limit = process.limits.as_ref()?.max_locked_memory?.soft?;
    let share = percent(locked, limit);
    if share < WARNING_PERCENT {
        return None;
    }
    let pid = status.pid?;
    let headline = format!(
        "{} (pid {pid}) has locked {} of its limit of {} ({share:.0}%)",
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
            .with_remedy(Remedy::named(
                "raise the limit of the service",
                vec![
                    Step::manual("LimitMEMLOCK=infinity in the [Service] section of its unit"),
                    Step::manual(format!("prlimit --memlock=unlimited --pid {pid}")),
                ],
            )),
    )
}
