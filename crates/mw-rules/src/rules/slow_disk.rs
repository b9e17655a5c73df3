//! # slow-disk
//!
//! The service waited for a disk that completed its requests slowly.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. Where the critical path of the request was traced: for most of it a task
//! read a file or wrote to a disk, and the pages had not been reclaimed shortly before. Otherwise: tasks waited for I/O,
//! were blocked in a file system, a journal or a block device, or a disk was busy all the time, and no task reclaimed
//! memory. Memory was not the cause.
//!
//! ## Why it hurts
//! Every task that reads what is not in the page cache, or that syncs, waits for the disk. One writer with a deep queue
//! delays all others.
//!
//! ## What it looks like
//! `await` and `%util` of `iostat -x 1` are high, tasks are in state D, and `some` of /proc/pressure/io rises while
//! memory pressure does not.
//!
//! ## How to fix it
//! Find the writer (`pidstat -d 1`) and give it a smaller I/O weight: `systemctl set-property UNIT IOWeight=10`.
//!
//! ## Threshold
//! The waits take at least half of the request. Without a critical path: tasks waited for I/O for a third of the stall,
//! or one was blocked for as long, or a disk was busy for four fifths of it. Waits for fsync(2) and for a journal are
//! `journal-commit`, those at an I/O limit of the cgroup `io-limit`, and a disk that completes nothing is `hung-device`.
//!
//! ## References
//! Linux, Documentation/admin-guide/iostats.rst, Documentation/accounting/psi.rst; systemd.resource-control(5).

use crate::busy_disk::{busiest_disk, disk_of};
use crate::disk_writers::{OtherWriter, other_cgroup};
use crate::path_words::{manual, named, unit_of};
use crate::request::RequestTime;
use crate::spent_time::{CONFIRMED, SpentTime};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::TimeClass;
use mw_critical_path::kernel::BLOCK_LAYER;
use mw_model::{Area, BlockedTask, Finding, Missing, Quantity, Remedy, Resource, Severity};

/// Share of the stall that tasks waited for I/O or one was blocked, and that a disk was busy.
const IO_PERCENT: f64 = 33.0;
const BUSY_PERCENT: f64 = 80.0;

const IMPACT: &str = "Every task that read from the disk or synced to it had to wait.";

/// Waits that end when a disk completes a request.
pub(crate) const COMPLETIONS: &[TimeClass] = &[
    TimeClass::Disk,
    TimeClass::FileRead,
    TimeClass::FileWrite,
    TimeClass::Journal,
    TimeClass::Writeback,
];

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    Ok(match stall.request {
        Some(request) => by_path(stall, request),
        None => by_scores(stall),
    })
}

fn by_path(stall: &StallWindow<'_>, request: &RequestTime<'_>) -> Option<Suspect> {
    let time = SpentTime::on(request, COMPLETIONS)?;
    let disk = disk_of(stall, &time.part.task);
    let writer = other_cgroup(stall);
    let headline = match &writer {
        Some(writer) => format!("{} kept {disk} busy", mw_model::cgroup_name(writer.path)),
        None => format!("{disk} was slow"),
    };
    let waiter = Quantity::Text(named(stall, &time.part.task));
    let mut finding = Finding::new(Severity::Critical, Area::Disk, headline)
        .with_evidence("waited for it", waiter, "critical path")
        .with_impact(IMPACT)
        .with_remedy(remedy(writer.as_ref().map(|writer| writer.path)));
    if let Some(OtherWriter { path, device, bytes, .. }) = writer {
        let what = format!("written to {device} by cgroup {path}");
        finding = finding.with_evidence(what, Quantity::Bytes(bytes), "io.stat");
    }
    Some(time.cause(finding, CONFIRMED))
}

fn by_scores(stall: &StallWindow<'_>) -> Option<Suspect> {
    const LEAST: f64 = 35.0;
    const OF_STUCK: f64 = 50.0;
    const OF_PRESSURE: f64 = 30.0;
    const OF_BUSY: f64 = 15.0;
    const FURTHER: f64 = 10.0;
    let mut kinds = Vec::new();
    let mut finding = Finding::new(Severity::Critical, Area::Disk, "");
    if let Some((task, share)) = blocked_in_io(stall) {
        kinds.push(OF_STUCK * share / 100.0 * stall.weight_of(&task.task));
        let what = format!("{} blocked in {}", task.task, task.stack.first().map_or("", |f| f));
        let source = format!("/proc/{}/stack", task.pid);
        finding = finding.with_evidence(what, Quantity::Percent(share), source);
    }
    let waited = stall.pressure_percent(Resource::Io);
    if let Some(share) = waited.filter(|share| *share >= IO_PERCENT) {
        kinds.push(OF_PRESSURE * share / 100.0);
        let source = "/proc/pressure/io";
        finding = finding.with_evidence("I/O pressure, some", Quantity::Percent(share), source);
    }
    let busiest = busiest_disk(stall).filter(|(_, share)| *share >= BUSY_PERCENT);
    if let Some((name, share)) = &busiest {
        kinds.push(OF_BUSY);
        let what = format!("{name} busy");
        finding = finding.with_evidence(what, Quantity::Percent(*share), "/proc/diskstats");
    }
    let best = kinds.iter().copied().reduce(f64::max)?;
    let further = kinds.len().saturating_sub(1) as f64 * FURTHER;
    let name = busiest.map_or_else(|| "a disk".to_owned(), |(name, _)| format!("the disk {name}"));
    finding.headline = format!("{name} was slow");
    let finding = finding.with_impact(IMPACT).with_remedy(remedy(None));
    Some(Suspect::of_score(finding, LEAST + best + further))
}

/// The task that was blocked longest in a file system, a journal or a block device.
pub(crate) fn blocked_in_io<'a>(stall: &StallWindow<'a>) -> Option<(&'a BlockedTask, f64)> {
    let in_io = |task: &&BlockedTask| task.state == 'D' && BLOCK_LAYER.are_in(&task.stack);
    let tasks = stall.incident.blocked.iter().filter(in_io);
    let task = tasks.max_by_key(|task| (stall.is_probed(&task.task), task.seen))?;
    Some((task, task.seen_percent())).filter(|(_, share)| *share >= IO_PERCENT)
}

/// Where it is known who wrote, nobody has to be found.
fn remedy(writer: Option<&str>) -> Remedy {
    match writer.and_then(unit_of) {
        Some(unit) => {
            let command = format!("systemctl set-property {unit} IOWeight=10");
            manual("give the writer a smaller I/O weight", &command)
        }
        None => manual("find the writer and give it a smaller I/O weight", "pidstat -d 1"),
    }
}
