//! # slow-dependency
//!
//! Another program on this machine kept the service waiting.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. A task of the service waited for a task of another program: for its answer,
//! or for a lock of a file that it held. That program, or one that it waited for, computed, slept, waited for a lock or
//! idled for most of the request. Memory was not the cause.
//!
//! ## Why it hurts
//! A proxy is as slow as its upstream, and a task that needs a lock as slow as its holder.
//!
//! ## What it looks like
//! The service is idle. `memwright why --pid PID` names the program that it waits for.
//!
//! ## How to fix it
//! See what the other program does: `memwright why --pid PID`.
//!
//! ## Threshold
//! The other program's time is at least half of the request, the service's processes are known, and the chain of waits
//! leaves them. What the other program waited for, if that is a disk, memory or a CPU, is the cause itself.
//!
//! ## References
//! flock(2); fcntl_locking(2).

use crate::path_words::{named, see};
use crate::rules::service_itself::{deed, leaving_link, time_of_program};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_model::{Area, Finding, Missing, Quantity, Severity};

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let Some(time) = time_of_program(stall) else { return Ok(None) };
    let Some(link) = leaving_link(stall, &time) else { return Ok(None) };
    let (did, sure) = deed(&time);
    let (waiter, other) = (named(stall, &link.waiter), named(stall, &link.other));
    let task = &time.part.task;
    let then = if link.other.tid == task.tid {
        format!("which {did}")
    } else {
        format!("behind which {} {did}", named(stall, task))
    };
    let chain = format!("{waiter} waited for {other} ({}), {then}", link.wait.label());
    let headline = format!("{other} kept {waiter} waiting");
    let finding = Finding::new(Severity::Warning, Area::Dependency, headline)
        .with_evidence("wait", Quantity::Text(chain), "critical path")
        .with_impact("The service is blocked on another program.")
        .with_remedy(see(&link.other));
    Ok(Some(time.cause(finding, sure)))
}
