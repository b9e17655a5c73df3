//! # fork-copy
//!
//! A process with much memory forked, and the kernel copied its page tables.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The request waited while a task of its path was in fork(2).
//!
//! ## Why it hurts
//! fork(2) copies the page tables of the parent, which does not run meanwhile: about 10 ms for each GiB of
//! base pages, and several times as much on a slow machine. The first write to each page afterwards copies it.
//!
//! ## What it looks like
//! The service does not answer for some hundred milliseconds whenever it saves a snapshot in a child
//! (Redis BGSAVE) or starts a program. Redis reports it as `latest_fork_usec`.
//!
//! ## Threshold
//! The copy takes at least half of the request.
//!
//! ## How to fix it
//! Use huge pages for the data: page tables are 512 times as small. Start programs by posix_spawn(3) or
//! vfork(2), which copy nothing. Let a replica save the snapshots.
//!
//! ## References
//! Linux, mm/memory.c, `copy_page_range`; fork(2).

use crate::request::Spent;
use crate::stall::Stall;
use mw_model::{Cause, Finding, Missing, Remedy, Severity, Step, Subject};

const CONFIRMED: u8 = 90;

pub(crate) fn cause(stall: &Stall<'_>) -> Result<Option<Cause>, Missing> {
    let Some(part) = stall.request.and_then(|request| request.largest(&[Spent::Fork])) else {
        return Ok(None);
    };
    let name = part.task.name.clone();
    let headline = format!("{name} ({}) was in fork, which copied its page tables", part.task.tid);
    let finding = Finding::new(Severity::Warning, Subject::Process(name), headline)
        .with_impact("The process did not answer until its page tables were copied.")
        .with_remedy(Remedy::named(
            "use huge pages for the data of the process, or fork less often",
            vec![Step::manual("memwright run --huge auto -- COMMAND")],
        ));
    Ok(Some(Cause::new(finding, CONFIRMED)))
}
