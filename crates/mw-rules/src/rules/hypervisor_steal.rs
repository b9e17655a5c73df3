//! # hypervisor-steal
//!
//! The hypervisor ran other virtual machines while the service needed a CPU.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The tasks of the request ran or were ready to run, and /proc/stat counted
//! stolen time (`steal`) in the same seconds. Memory was not the cause.
//!
//! ## Why it hurts
//! A virtual CPU that the hypervisor does not run stands still. From inside, it looks busy: the task that has it computes
//! for longer, and nothing on this machine delays it.
//!
//! ## What it looks like
//! `st` of `vmstat 1` is above zero, and requests that only compute take a multiple of their time.
//!
//! ## How to fix it
//! Move the virtual machine to a host with free CPUs, or give it a larger share there.
//!
//! ## Threshold
//! Of the time in which the request's tasks ran or waited for a CPU, the share counts that was stolen of all CPU time in
//! the same seconds. It takes at least half of the request. Without a critical path, this rule finds nothing.
//!
//! ## References
//! proc_stat(5), `steal`; Linux, Documentation/virt/kvm/x86/msr.rst, "MSR_KVM_STEAL_TIME".

use crate::path_words::{manual, named};
use crate::request::RequestTime;
use crate::spent_time::CONFIRMED;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_model::{Area, Finding, Missing, Quantity, Severity};

const LEAST_PERCENT: f64 = 50.0;

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    Ok(stall.request.and_then(|request| by_path(stall, request)))
}

/// True if the hypervisor took so much of the request that what the rest was spent on is not its cause.
pub(crate) fn is_cause(stall: &StallWindow<'_>, request: &RequestTime<'_>) -> bool {
    by_path(stall, request).is_some()
}

fn by_path(stall: &StallWindow<'_>, request: &RequestTime<'_>) -> Option<Suspect> {
    let cpus = stall.incident.cpus?;
    let stolen = request.stolen_percent(cpus);
    let (_, part) = request.main().filter(|_| stolen >= LEAST_PERCENT)?;
    let who = Quantity::Text(named(stall, &part.task));
    let headline = "the hypervisor ran other virtual machines";
    let ms = |ms: u64| Quantity::Milliseconds(ms as f64);
    let finding = Finding::new(Severity::Critical, Area::Hypervisor, headline)
        .with_evidence("CPU time stolen by the hypervisor", ms(cpus.stolen_ms), "/proc/stat")
        .with_evidence("CPU time used", ms(cpus.busy_ms), "/proc/stat")
        .with_evidence("needed a CPU", who, "critical path")
        .with_impact("A virtual CPU that the hypervisor does not run looks busy from inside.")
        .with_remedy(manual(
            "move the virtual machine to a host with free CPUs, or give it a larger share there",
            "vmstat 1",
        ));
    Some(Suspect::new(finding, CONFIRMED).explaining(stolen))
}
