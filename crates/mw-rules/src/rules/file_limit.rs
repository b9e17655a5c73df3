//! # file-limit
//!
//! The service reached a limit of open files.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The service failed at once and said that too many files were open, in the
//! words that the C library has for EMFILE and ENFILE; or a process of the service had no descriptor left while the
//! service failed, or while its request waited for nothing that the machine lacks. Memory was not the cause.
//!
//! ## Why it hurts
//! open(2), socket(2) and accept(2) fail. A server that cannot accept leaves its clients waiting, and often spins.
//!
//! ## What it looks like
//! `Too many open files` in the log. For EMFILE the process has as many entries in /proc/PID/fd as /proc/PID/limits
//! allows; for ENFILE the machine is at fs.file-max.
//!
//! ## How to fix it
//! Raise the limit of the unit (`systemctl set-property` does not do that: set `LimitNOFILE=` with `systemctl edit UNIT`),
//! or find out which files it leaves open (`ls -l /proc/PID/fd`). At fs.file-max: see `kernel-limit`.
//!
//! ## Threshold
//! The service said so itself, or the entries of /proc/PID/fd are as many as RLIMIT_NOFILE allows. At most 64
//! processes are looked at.
//!
//! ## References
//! errno(3), EMFILE and ENFILE; getrlimit(2), RLIMIT_NOFILE; systemd.exec(5), `LimitNOFILE=`.

use crate::named_limit::{self, NamedLimit};
use crate::path_words::unit_of_service;
use crate::reached_limit;
use crate::rules::service_failure;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_model::{Area, Finding, Missing, Quantity, ReachedLimitKind, Remedy, Severity, Step};

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let limit = named_limit::named(stall).filter(|_| service_failure::kind(stall).is_some());
    let said = stall.incident.trigger.failure.clone().unwrap_or_default();
    let (headline, step) = match limit {
        Some(NamedLimit::OpenFilesOfMachine) => (
            "the machine reached its limit of open files (fs.file-max)",
            Step::manual("sysctl fs.file-nr fs.file-max"),
        ),
        Some(NamedLimit::OpenFiles) => {
            ("the service reached its limit of open files (RLIMIT_NOFILE)", raise(stall))
        }
        _ => return Ok(at_limit(stall)),
    };
    let finding = finding(headline, step).with_evidence(
        "error of the service",
        Quantity::Text(said),
        "probe",
    );
    Ok(Some(Suspect::new(finding, service_failure::CERTAIN)))
}

/// By the number of descriptors: a server that cannot accept a connection leaves its clients waiting, and says nothing.
fn at_limit(stall: &StallWindow<'_>) -> Option<Suspect> {
    let reached = reached_limit::find(stall, &[ReachedLimitKind::OpenFiles])?;
    let headline = format!("{} has all of its {} files open", reached.holder, reached.limit);
    let finding = finding(&headline, raise(stall))
        .with_evidence("open files", Quantity::Count(reached.used), "/proc/PID/fd")
        .with_evidence("RLIMIT_NOFILE", Quantity::Count(reached.limit), "/proc/PID/limits");
    Some(reached_limit::suspect(stall, finding))
}

fn raise(stall: &StallWindow<'_>) -> Step {
    Step::manual(format!("systemctl edit {}    # LimitNOFILE=", unit_of_service(stall)))
}

fn finding(headline: &str, step: Step) -> Finding {
    Finding::new(Severity::Critical, Area::OpenFiles, headline)
        .with_impact("open(2), socket(2) and accept(2) fail.")
        .with_remedy(Remedy::named(
            "raise the limit, or find out which files the service leaves open",
            vec![step],
        ))
}
