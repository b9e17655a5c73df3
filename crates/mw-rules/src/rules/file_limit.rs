//! # file-limit
//!
//! The service reached a limit of open files.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The service failed at once and said that too many files were open, in the
//! words that the C library has for EMFILE and ENFILE. Memory was not the cause.
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
//! The service said so itself.
//!
//! ## References
//! errno(3), EMFILE and ENFILE; getrlimit(2), RLIMIT_NOFILE; systemd.exec(5), `LimitNOFILE=`.

use crate::path_words::unit_of_service;
use crate::rules::service_failure;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_model::{Area, Finding, Missing, Quantity, Remedy, Severity, Step};

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    const OF_MACHINE: &str = "too many open files in system";
    const WORDS: &[&str] = &["too many open files", "emfile", "enfile"];
    if service_failure::kind(stall).is_none() || !stall.says(WORDS) {
        return Ok(None);
    }
    let said = stall.incident.trigger.failure.clone().unwrap_or_default();
    let (headline, step) = match stall.says(&[OF_MACHINE, "enfile"]) {
        true => (
            "the machine reached its limit of open files (fs.file-max)",
            Step::manual("sysctl fs.file-nr fs.file-max"),
        ),
        false => (
            "the service reached its limit of open files (RLIMIT_NOFILE)",
            Step::manual(format!("systemctl edit {}    # LimitNOFILE=", unit_of_service(stall))),
        ),
    };
    let finding = Finding::new(Severity::Critical, Area::OpenFiles, headline)
        .with_evidence("error of the service", Quantity::Text(said), "probe")
        .with_impact("open(2), socket(2) and accept(2) fail.")
        .with_remedy(Remedy::named(
            "raise the limit, or find out which files the service leaves open",
            vec![step],
        ));
    Ok(Some(Suspect::new(finding, service_failure::CERTAIN)))
}
