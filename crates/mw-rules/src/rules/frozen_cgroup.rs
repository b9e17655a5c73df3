//! # frozen-cgroup
//!
//! The cgroup of the service was frozen.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. A task of the critical path was frozen with its cgroup (the freezer), or a
//! cgroup was found frozen during the stall. Memory was not the cause.
//!
//! ## Why it hurts
//! No task of a frozen cgroup runs until it is thawed. A backup, a checkpoint or a container runtime that fails between
//! the two leaves it frozen.
//!
//! ## What it looks like
//! `frozen 1` in the cgroup's cgroup.events; `systemctl status` says `(frozen)`; `docker ps` says `(Paused)`.
//!
//! ## How to fix it
//! Thaw it: `systemctl thaw UNIT`, `docker unpause CONTAINER`, or write 0 to cgroup.freeze.
//!
//! ## Threshold
//! It takes at least half of the request. Without a critical path, the score is 95 for the cgroup of the probed service
//! and 60 for another one.
//!
//! ## References
//! Linux, Documentation/admin-guide/cgroup-v2.rst, "cgroup.freeze"; systemctl(1), `freeze`.

use crate::path_words::{named, unit_of};
use crate::request::{RequestTime, is_task_within};
use crate::spent_time::{CONFIRMED, SpentTime};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::{TimeClass, TimeKind, Wait};
use mw_model::{Area, Finding, Missing, Quantity, Remedy, Severity, Step};

pub(crate) const FROZEN: &[TimeClass] = &[TimeClass::Frozen];

const IMPACT: &str = "No task of a frozen cgroup runs; connections stay open.";

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    Ok(match stall.request {
        Some(request) => by_path(stall, request),
        None => by_scores(stall),
    })
}

fn by_path(stall: &StallWindow<'_>, request: &RequestTime<'_>) -> Option<Suspect> {
    let time = SpentTime::on(request, FROZEN)?;
    let task = &time.part.task;
    let frozen = || stall.frozen_group().map(|group| group.path.clone());
    let own = frozen().filter(|path| is_task_within(task, path));
    // Else the time is that of who thawed it.
    let is_member = time.part.kind == TimeKind::Waiting(Wait::CgroupFrozen);
    let path = own.or_else(|| task.cgroup.clone().filter(|_| is_member)).or_else(frozen);
    let name = path.as_deref().map_or_else(|| "a cgroup".to_owned(), mw_model::cgroup_name);
    let member = Quantity::Text(named(stall, task));
    let finding =
        Finding::new(Severity::Critical, Area::FrozenCgroup, format!("{name} was frozen"))
            .with_evidence("frozen with it", member, "critical path")
            .with_impact(IMPACT)
            .with_remedy(remedy(path.as_deref()));
    Some(time.cause(finding, CONFIRMED))
}

fn by_scores(stall: &StallWindow<'_>) -> Option<Suspect> {
    const OF_THE_SERVICE: f64 = 95.0;
    const OF_ANOTHER: f64 = 60.0;
    let group = stall.frozen_group()?;
    let (sure, perhaps) = match group.of_service {
        true => (OF_THE_SERVICE, ""),
        false => (OF_ANOTHER, ", perhaps the service"),
    };
    let headline = format!("{} was frozen{perhaps}", mw_model::cgroup_name(&group.path));
    let finding = Finding::new(Severity::Critical, Area::FrozenCgroup, headline)
        .with_impact(IMPACT)
        .with_remedy(remedy(Some(&group.path)));
    Some(Suspect::of_score(finding, sure))
}

/// The systemd unit is thawed by its name, a cgroup of another manager by its own file.
fn remedy(path: Option<&str>) -> Remedy {
    let step = match (path.and_then(unit_of), path) {
        (Some(unit), _) => Step::manual(format!("systemctl thaw {unit}")),
        (None, Some(path)) => {
            Step::manual_on("echo 0 | tee", &format!("/sys/fs/cgroup{path}/cgroup.freeze"))
        }
        (None, None) => Step::manual("grep -rl 'frozen 1' /sys/fs/cgroup --include=cgroup.events"),
    };
    Remedy::named("thaw the cgroup", vec![step])
}
