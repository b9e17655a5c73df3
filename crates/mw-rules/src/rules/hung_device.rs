//! # hung-device
//!
//! A disk had requests in flight and completed none of them.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The request, or a task that was found blocked, waited for a disk; and one
//! that the service uses moved no byte for seconds, while requests were in flight in every row of the recording. That is
//! no slow disk: a path, a controller or a virtual disk's host does not answer. Memory was not the cause.
//!
//! ## Why it hurts
//! All tasks that need the disk wait until it answers or its requests time out: 30 s for SCSI, and each may be repeated.
//!
//! ## What it looks like
//! `%util` of `iostat -x 1` is 100 with no reads or writes a second. The kernel's log has timeouts and resets, or `task
//! blocked for more than 120 seconds`.
//!
//! ## How to fix it
//! Look at the device's state and the kernel's log (`cat /sys/block/NAME/device/state`; `journalctl -k`), then at the
//! path, the controller or the storage behind it.
//!
//! ## Threshold
//! The waits take at least half of the request. For two seconds and four fifths of the stall no byte was read or written
//! and requests were in flight. The counters move when a request completes: one request that takes so long looks the
//! same. A suspended device mapper device holds its requests back before they count as in flight.
//!
//! Or the kernel says that the disk is held still: `dm/suspended` is 1, or `device/state` of SCSI and NVMe is neither
//! `running` nor `live`, when the connections of the service are read during the stall, and it completes nothing for half of
//! the stall: a change of its table suspends a device for a moment.
//!
//! ## References
//! Linux, Documentation/block/stat.rst, `in_flight`; Documentation/scsi/scsi_eh.rst.

use crate::disk_writers::disks_of;
use crate::path_words::named;
use crate::rules::slow_disk::blocked_in_io;
use crate::spent_time::{CONFIRMED, SpentTime};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::TimeClass;
use mw_model::{
    Area, DiskMetric, Finding, Metric, Missing, Quantity, Remedy, Severity, Step, StoppedDevice,
};

/// A slow disk completes something in this time.
const LEAST_MS: u64 = 2000;
const LEAST_PERCENT: f64 = 80.0;

/// Of the stall, the time in which a device that was held still completes nothing: requests are slow when it goes on.
const STILL_PERCENT: f64 = 50.0;

/// Waits for requests of a disk, whichever reason they have: what had been reclaimed or dropped is read from it as well.
pub(crate) const REQUESTS: &[TimeClass] = &[
    TimeClass::Disk,
    TimeClass::FileRead,
    TimeClass::Refault,
    TimeClass::GroupRefault,
    TimeClass::DroppingCaches,
    TimeClass::FileWrite,
    TimeClass::Journal,
    TimeClass::Writeback,
];

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    Ok(match stall.request {
        Some(request) => SpentTime::on(request, REQUESTS).and_then(|time| {
            let used = disks_of(stall, &time.part.task);
            if let Some(device) = stopped(stall, &used) {
                let waiter = named(stall, &time.part.task);
                return Some(time.cause(held_still(device, waiter, "critical path"), CONFIRMED));
            }
            let device = hung(stall, |name| used.is_empty() || used.contains(&name))?;
            let waiter = named(stall, &time.part.task);
            Some(time.cause(finding(&device, waiter, "critical path"), CONFIRMED))
        }),
        None => blocked_in_io(stall).and_then(|(task, _)| {
            let waiter = format!("{} ({})", task.task, task.pid);
            let source = format!("/proc/{}/stack", task.pid);
            let finding = match stopped(stall, &[]) {
                Some(device) => held_still(device, waiter, &source),
                None => finding(&hung(stall, |_| true)?, waiter, &source),
            };
            Some(Suspect::new(finding, CONFIRMED))
        }),
    })
}

/// A device that was held still for half of the stall, of those that the task used or that one of them consists of. Where
/// those are not known, one that is suspended, which none is for long; a disk may be offline for good.
fn stopped<'a>(stall: &StallWindow<'a>, used: &[&str]) -> Option<&'a StoppedDevice> {
    let is_used = |device: &&StoppedDevice| {
        let mut names = device.below.iter().chain([&device.name]);
        let is_suspended = used.is_empty() && device.mapped_name.is_some();
        is_suspended || names.any(|name| used.contains(&name.as_str()))
    };
    // A change of its table suspends a device for a moment.
    let is_still = |device: &&StoppedDevice| {
        longest_ms(stall, &device.name, |_| true)
            .is_none_or(|ms| stall.cover_percent(ms.saturating_mul(1000)) >= STILL_PERCENT)
    };
    stall.incident.stopped_devices.iter().filter(is_used).find(is_still)
}

fn held_still(device: &StoppedDevice, waiter: String, source: &str) -> Finding {
    let StoppedDevice { name, mapped_name, state, below } = device;
    let label = mapped_name.as_ref().map_or(String::new(), |mapped| format!(" ({mapped})"));
    let headline = format!("the disk {name}{label} was {state}");
    let (file, step) = match mapped_name {
        Some(mapped) => ("dm/suspended", Step::manual_on("dmsetup resume", mapped)),
        None => {
            ("device/state", Step::manual_on("cat", &format!("/sys/block/{name}/device/state")))
        }
    };
    let finding = Finding::new(Severity::Critical, Area::Disk, headline)
        .with_evidence(
            format!("state of {name}"),
            Quantity::Text(state.clone()),
            format!("/sys/block/{name}/{file}"),
        )
        .with_evidence("waited for it", Quantity::Text(waiter), source)
        .with_impact("Every task that needs the disk waits until it is resumed.")
        .with_remedy(Remedy::named(
            "find out what holds it still (a snapshot, a change of its table, a lost path), and resume it",
            vec![step, Step::manual("journalctl -k -n 50")],
        ));
    match below.is_empty() {
        true => finding,
        false => finding.with_evidence(
            "it consists of",
            Quantity::Text(below.join(", ")),
            format!("/sys/block/{name}/slaves"),
        ),
    }
}

/// A disk that completed nothing, and for how long.
struct HungDisk {
    name: String,
    ms: u64,
}

fn finding(device: &HungDisk, waiter: String, source: &str) -> Finding {
    let HungDisk { name, ms } = device;
    let state = format!("/sys/block/{name}/device/state");
    Finding::new(Severity::Critical, Area::Disk, format!("the disk {name} completed nothing"))
        .with_evidence(
            format!("requests of {name} in flight, and no byte read or written"),
            Quantity::Milliseconds(*ms as f64),
            "/proc/diskstats",
        )
        .with_evidence("waited for it", Quantity::Text(waiter), source)
        .with_impact(
            "Every task that needs the disk waits until it answers or its requests time out.",
        )
        .with_remedy(Remedy::named(
            "see why the device does not answer",
            vec![Step::manual_on("cat", &state), Step::manual("journalctl -k -n 50")],
        ))
}

/// The disk that hung for longest, of those that are wanted.
fn hung(stall: &StallWindow<'_>, is_wanted: impl Fn(&str) -> bool) -> Option<HungDisk> {
    let disks = stall.incident.table.columns.iter().filter_map(|column| match column.metric() {
        Metric::Disk(name, DiskMetric::InFlight) => Some(name),
        _ => None,
    });
    let hung = disks.filter(|name| is_wanted(name)).filter_map(|name| {
        let ms =
            longest_ms(stall, &name, |in_flight| in_flight > 0).filter(|ms| *ms >= LEAST_MS)?;
        let is_most = stall.cover_percent(ms.saturating_mul(1000)) >= LEAST_PERCENT;
        is_most.then(|| HungDisk { name: name.to_string(), ms })
    });
    hung.max_by_key(|device| device.ms)
}

/// The longest time within the stall in which so many requests were in flight and none completed. `None` where the disk was
/// not recorded.
fn longest_ms(stall: &StallWindow<'_>, name: &str, counts: impl Fn(u64) -> bool) -> Option<u64> {
    let table = &stall.incident.table;
    let column = |metric| -> Option<Vec<Option<u64>>> {
        Some(table.values(&Metric::Disk(name.into(), metric))?.collect())
    };
    let in_flight = column(DiskMetric::InFlight)?;
    let moved = column(DiskMetric::Read)?.into_iter().zip(column(DiskMetric::Written)?);
    let rows = in_flight.into_iter().zip(moved).zip(&table.at_unix_ms);
    let rows = rows.map(|((in_flight, moved), at)| Some((in_flight, moved, *at))).collect();
    let (mut longest, mut began) = (0, None);
    for (in_flight, moved, at) in stall.during(rows).flatten() {
        let (Some(in_flight), (Some(read), Some(written))) = (in_flight, moved) else {
            began = None;
            continue;
        };
        match began.filter(|(before, _)| *before == (read, written) && counts(in_flight)) {
            Some((_, from)) => longest = longest.max(at.saturating_sub(from)),
            None => began = counts(in_flight).then_some(((read, written), at)),
        }
    }
    Some(longest)
}
