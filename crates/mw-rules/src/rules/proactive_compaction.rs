//! # proactive-compaction
//!
//! Proactive or manual compaction delayed the service.
//!
//! ## What it finds
//! As the cause of a stall: a program wrote to /proc/sys/vm/compact_memory or to `compact` of a node, or
//! the kernel's thread kcompactd compacted because of `vm.compaction_proactiveness`; and the request waited
//! for pages that were being moved, or for the CPU that the compaction had. The profile names the writer.
//! Compaction that an allocation needs is `thp-compaction` or `fragmented-node`.
//!
//! ## Why it hurts
//! Compaction moves pages that programs use. A task that touches one waits until it has been moved; the locks
//! of the zone are held for long; and a write to compact_memory works through all of memory at once.
//!
//! ## What it looks like
//! `compact_migrate_scanned` and `pgmigrate_success` increase although no task is in direct compaction; a
//! shell or kcompactd uses a CPU in `compact_node`.
//!
//! ## How to fix it
//! Remove the job that writes to compact_memory, or run it when nobody is served. Lower
//! `vm.compaction_proactiveness` (20 by default; 0 turns it off).
//!
//! ## Threshold
//! The request spent a tenth of its time there, and the writer did at least half of all compaction.
//!
//! ## References
//! Linux, Documentation/admin-guide/sysctl/vm.rst, "compact_memory", "compaction_proactiveness".

use crate::cause_score::CauseScore;
use crate::forced_work::{ForcedWork, ForcingTask, is_kernel_proactive, most, named};
use crate::request::RequestTime;
use crate::roles;
use crate::share::percent;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::TimeClass;
use mw_critical_path::kernel::{self, COMPACTION};
use mw_critical_path::{RunMode, TimeKind, Wait};
use mw_model::{
    Area, Cause, Finding, Missing, Quantity, Remedy, Role, Severity, Stack, Step, Subject,
};
use mw_proc::vmstat::Counter;

/// What a request spends its time on because of it.
pub(crate) const MOVED: &[TimeClass] = &[TimeClass::Compaction, TimeClass::ForcedCompaction];

const CONFIRMED: u8 = 92;

/// Of all compaction that the profile shows.
const LEAST_PERCENT: f64 = 50.0;

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let written = most(stall.incident, ForcedWork::Compaction);
    let written = written.filter(|forced| compacted_percent(stall, forced) >= LEAST_PERCENT);
    let by_kernel = is_kernel_proactive(stall.incident, stall.window);
    if written.is_none() && !by_kernel {
        return Ok(None);
    }
    let (headline, remedy) = match written.filter(|forced| !forced.is_of_kernel()) {
        Some(ForcingTask { process, .. }) => (
            format!("{} compacted memory by hand", crate::oom_words::process(&process)),
            Remedy::named(
                "remove the job that writes to compact_memory, or run it when nobody is served",
                vec![Step::manual("grep -r compact_memory /etc/cron* /etc/systemd /usr/local")],
            ),
        ),
        None => (
            "kcompactd compacted memory in advance".to_owned(),
            Remedy::named(
                "lower vm.compaction_proactiveness",
                vec![Step::manual("sysctl vm.compaction_proactiveness=0")],
            ),
        ),
    };
    let moved = stall.rate(&[Counter::PgmigrateSuccess]).unwrap_or(0.0);
    let subject = Subject::from(Area::Compaction);
    let finding = Finding::new(Severity::Critical, subject, headline)
        .with_evidence("pgmigrate_success", Quantity::PerSecond(moved), "/proc/vmstat")
        .with_impact("Tasks that touched a page under migration waited for it.")
        .with_remedy(remedy);
    match stall.request {
        Some(request) => {
            Ok(Some(Suspect::new(finding, CONFIRMED).explaining(moved_percent(request))))
        }
        None => CauseScore::new(stall)
            .profile(COMPACTION)
            .needing_a_wait()
            .blocked_in(&[kernel::MIGRATION_WAIT])
            .cause(finding),
    }
}

/// Without the compaction that tasks of the request did for their own allocations.
fn moved_percent(request: &RequestTime<'_>) -> f64 {
    let is_own = |kind: TimeKind| {
        matches!(
            kind,
            TimeKind::Waiting(Wait::Compaction) | TimeKind::Running(RunMode::In(Wait::Compaction))
        )
    };
    request.percent_where(|spent, part| MOVED.contains(&spent) && !is_own(part.kind))
}

/// Share of the compaction that a task did, however little of a CPU it has for it: a job with a quota holds the pages
/// that it moves the longer.
fn compacted_percent(stall: &StallWindow<'_>, forced: &ForcingTask) -> f64 {
    let Some(profile) = &stall.incident.profile else { return 0.0 };
    let compacts = |stack: &&Stack| {
        let names: Vec<&str> = profile.names(stack).collect();
        kernel::is_in(&names, COMPACTION)
    };
    let all: Vec<&Stack> = profile.stacks.iter().filter(compacts).collect();
    let own = all.iter().filter(|stack| stack.pid == forced.process.pid);
    let own = own.map(|stack| stack.samples).sum();
    let all = all.iter().map(|stack| stack.samples).sum();
    percent(own, all)
}

/// Task that compacted.
pub(crate) fn culprits(stall: &StallWindow<'_>, cause: &Cause) -> Vec<Role> {
    let Some(ForcingTask { process, cpu_percent, .. }) =
        most(stall.incident, ForcedWork::Compaction)
    else {
        return roles::compacting(stall, cause);
    };
    let why = format!("used {cpu_percent:.0}% of a CPU: {}", named(stall.incident, &process));
    vec![Role { pid: process.pid, task: process.name, why }]
}
