//! # io-limit
//!
//! A cgroup reached its I/O limit, and its reads and writes waited.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. For most of the request a task waited for a disk, its cgroup has a limit of
//! bytes or operations a second (`io.max`), and tasks of that cgroup waited for I/O; or the block layer held it back
//! for the share of its cgroup (io.cost, io.latency). Memory was not the cause.
//!
//! ## Why it hurts
//! The kernel delays the requests of the cgroup until its rate is below the limit, however idle the disk is.
//!
//! ## What it looks like
//! `some` of the cgroup's io.pressure is high while `%util` of the disk is low.
//!
//! ## How to fix it
//! Raise the limit, or remove it: `systemctl set-property UNIT IOReadBandwidthMax= IOWriteBandwidthMax=`.
//!
//! ## Threshold
//! The waits take at least half of the request, and some task of the cgroup waited for I/O for 30% of the stall. Without
//! a critical path, this rule finds nothing.
//!
//! ## References
//! Linux, Documentation/admin-guide/cgroup-v2.rst, "IO Interface Files"; systemd.resource-control(5).

use crate::path_words::{manual, named, unit_of_cgroup};
use crate::spent_time::{CONFIRMED, SpentTime};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::TimeClass;
use mw_model::{Area, Finding, Missing, Quantity, Severity};

pub(crate) const LIMITED: &[TimeClass] = &[TimeClass::IoLimit];

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let Some(request) = stall.request else { return Ok(None) };
    let Some(time) = SpentTime::on(request, LIMITED) else { return Ok(None) };
    let group = stall.incident.groups.iter().find(|group| !group.io_limits.is_empty());
    let name = group.map_or("a cgroup".to_owned(), |group| mw_model::cgroup_name(&group.path));
    let headline = format!("{name} reached its I/O limit");
    let waiter = Quantity::Text(named(stall, &time.part.task));
    let limits = group.map(|group| group.io_limits.join("; ")).unwrap_or_default();
    let unit = unit_of_cgroup(group.map(|group| group.path.as_str()));
    let command = format!("systemctl set-property {unit} IOReadBandwidthMax= IOWriteBandwidthMax=");
    let finding = Finding::new(Severity::Critical, Area::IoLimit, headline)
        .with_evidence("io.max", Quantity::Text(limits), "io.max")
        .with_evidence("waited for it", waiter, "critical path")
        .with_impact("Reads and writes of this group waited, however idle the disk was.")
        .with_remedy(manual("raise the I/O limit of the group", &command));
    Ok(Some(time.cause(finding, CONFIRMED)))
}
