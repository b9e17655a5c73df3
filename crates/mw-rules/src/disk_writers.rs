//! The disks of the service: who else wrote to them, and whether they kept up.

use crate::share::{is_most, percent};
use crate::stall_window::StallWindow;
use mw_critical_path::kernel::{DIRTY_THROTTLING, FILE_SYNC};
use mw_critical_path::{PathTask, TimeClass};
use mw_model::{
    DiskMetric, FloodShare, GroupIo, GroupUse, Metric, is_cgroup_below, is_cgroup_within,
};
use mw_proc::vmstat::Counter;
use std::collections::BTreeMap;

/// Less is no flood.
const LEAST_BYTES: u64 = 4 << 20;

/// A disk that another wrote to has a backlog from what it writes in this time.
const BACKLOG_S: f64 = 2.0;

/// The same of pages that are dirty throughout the stall and not yet under writeback.
const PILED_UP_S: f64 = 1.0;

/// The same where the writer waits in fsync(2) most of the time: what it has dirtied since the last one is no flood.
const PILED_UP_UNSYNCED_S: f64 = 5.0;

/// Share of the samples from which on a writer syncs what it writes.
const SYNCING_PERCENT: f64 = 50.0;

/// A disk that makes progress completes no writes for less than this share of the stall: one that hangs does not. A
/// slow disk completes many at once.
const MOST_IDLE_PERCENT: f64 = 50.0;

/// Smallest write rate of a flooded disk, as a multiple of that before.
const FLOOD_GROWTH: f64 = 2.0;

/// Another cgroup that wrote to the service's disk.
pub(crate) struct OtherWriter<'a> {
    pub(crate) path: &'a str,
    pub(crate) device: &'a str,
    pub(crate) bytes: u64,
    bytes_per_s: f64,
}

/// The cgroup that wrote most to a disk of the service, where that is not the service's own.
pub(crate) fn other_cgroup<'a>(stall: &StallWindow<'a>) -> Option<OtherWriter<'a>> {
    let service = ServiceCgroups::of(stall);
    let others = groups(stall).filter(|group| !service.touches(&group.path));
    let written = others.flat_map(|group| group.io.iter().map(move |io| (group, io)));
    let (group, io) = written
        .filter(|(_, io)| service.uses(&io.device) && io.written_bytes > service.wrote(&io.device))
        .filter(|(_, io)| !is_swap(stall, &io.device))
        .max_by_key(|(_, io)| io.written_bytes)?;
    (io.written_bytes >= LEAST_BYTES).then(|| OtherWriter {
        path: &group.path,
        device: &io.device,
        bytes: io.written_bytes,
        bytes_per_s: io.written_bytes as f64 * 1000.0 / group.over_ms.max(1) as f64,
    })
}

/// The program that brought most pages of a file on a disk of the service into the page cache, where that is not the
/// service, and no cgroup is charged with most of what the disk wrote: version 1 charges the root with what is
/// written back, and so do file systems that do not know whose page it is.
pub(crate) fn other_program<'a>(stall: &StallWindow<'a>) -> Option<&'a FloodShare> {
    let service = ServiceCgroups::of(stall);
    let is_candidate = |share: &&FloodShare| {
        service.uses(&share.device)
            && !is_charged(stall, &share.device)
            && !is_process_of_service(stall, share.pid)
            && !is_reader(stall, share.pid)
    };
    let shares = stall.incident.flood.iter().filter(is_candidate);
    let share = shares.max_by_key(|share| share.pages)?;
    (flood_bytes(stall, share) >= LEAST_BYTES).then_some(share)
}

/// Pages that a program brought into the page cache.
pub(crate) fn flood_bytes(stall: &StallWindow<'_>, share: &FloodShare) -> u64 {
    share.pages.saturating_mul(stall.window.now.origin.page_bytes)
}

/// The cgroup other than the service's that wrote most of all that went to a disk of the service; of those one below the
/// other, the innermost.
pub(crate) fn main_cgroup<'a>(stall: &StallWindow<'a>) -> Option<&'a str> {
    let most = other_cgroup(stall)?;
    if !is_most(most.bytes, written_by_all(stall, most.device)) {
        return None;
    }
    let below = groups(stall).filter(|group| is_cgroup_within(&group.path, most.path));
    let main = below.filter(|group| is_most(written(group, most.device), most.bytes));
    main.map(|group| group.path.as_str()).max_by_key(|path| path.len())
}

/// The program of [`other_program`], where it brought most of the pages of that disk.
pub(crate) fn main_program<'a>(stall: &StallWindow<'a>) -> Option<&'a FloodShare> {
    let share = other_program(stall)?;
    let of_disk = stall.incident.flood.iter().filter(|other| other.device == share.device);
    let of_process = |process: &u32| {
        let own = of_disk.clone().filter(|other| other.pid == *process);
        own.map(|other| other.pages).fold(0, u64::saturating_add)
    };
    let all = of_disk.clone().map(|other| other.pages).fold(0, u64::saturating_add);
    is_most(of_process(&share.pid), all).then_some(share)
}

impl OtherWriter<'_> {
    /// True if what it wrote holds others up: see [`is_flooded`].
    pub(crate) fn floods(&self, stall: &StallWindow<'_>, unwritten_bytes: u64) -> bool {
        // Where the disk was not recorded, what the group wrote stands for it.
        let within = |pid: u32| {
            let group = stall.incident.cgroups.get(&pid);
            group.is_some_and(|group| is_cgroup_within(group, self.path))
        };
        is_flooded(stall, self.device, unwritten_bytes, piled_up_s(stall, within))
            .unwrap_or(unwritten_bytes as f64 >= self.bytes_per_s * BACKLOG_S)
    }
}

/// Least time for writing what piles up in a flood by these threads, in seconds: longer where one of them waits in fsync(2) in
/// most samples and none is throttled for what it dirties.
fn piled_up_s(stall: &StallWindow<'_>, is_writer: impl Fn(u32) -> bool) -> f64 {
    let mut syncing: BTreeMap<u32, f64> = BTreeMap::new();
    for task in stall.incident.blocked.iter().filter(|task| is_writer(task.pid)) {
        if DIRTY_THROTTLING.are_in(&task.stack) {
            return PILED_UP_S;
        }
        if FILE_SYNC.are_in(&task.stack) {
            *syncing.entry(task.pid).or_default() += task.seen_percent();
        }
    }
    let syncs = syncing.values().any(|percent| *percent >= SYNCING_PERCENT);
    if syncs { PILED_UP_UNSYNCED_S } else { PILED_UP_S }
}

/// True if a program's pages are a backlog of its disk: see [`is_flooded`].
pub(crate) fn is_flooded_by(
    stall: &StallWindow<'_>,
    share: &FloodShare,
    unwritten_bytes: u64,
) -> bool {
    let cgroups = &stall.incident.cgroups;
    let group = cgroups.get(&share.pid).filter(|group| *group != "/");
    let is_writer =
        |tid: u32| tid == share.pid || group.is_some_and(|group| cgroups.get(&tid) == Some(group));
    let piled_up_s = piled_up_s(stall, is_writer);
    is_flooded(stall, &share.device, unwritten_bytes, piled_up_s).unwrap_or(false)
}

/// True if a disk works off a backlog of dirty pages: it completes writes throughout, more than before or from when the
/// kernel writes because too much is dirty, and needs two seconds for what waits. A disk that became slow completes
/// less. `None` where the disk was not recorded.
fn is_flooded(
    stall: &StallWindow<'_>,
    device: &str,
    unwritten_bytes: u64,
    piled_up_s: f64,
) -> Option<bool> {
    let incident = stall.incident;
    let rates = incident.table.rates_per_s(&Metric::Disk(device.into(), DiskMetric::Written))?;
    let rows = || incident.table.at_unix_ms.iter().zip(&rates);
    let before = rows().filter(|(at, _)| **at < incident.started_unix_ms);
    let before = mean(before.filter_map(|(_, rate)| *rate)).unwrap_or(0.0);
    let stall_ms = incident.started_unix_ms..=incident.ended_unix_ms;
    let during = rows().filter(|(at, _)| stall_ms.contains(at));
    let during: Vec<(u64, f64)> = during.filter_map(|(at, rate)| Some((*at, (*rate)?))).collect();
    let rate = mean(during.iter().map(|(_, rate)| *rate))?;
    let idle_ms = longest_gap(
        (incident.started_unix_ms, incident.ended_unix_ms),
        during.iter().filter(|(_, rate)| *rate > 0.0).map(|(at, _)| *at),
    );
    let makes_progress = percent(idle_ms, incident.duration_ms().max(1)) < MOST_IDLE_PERCENT;
    let is_over_background = exceeds_background(stall, unwritten_bytes);
    // Pages that a program writes and syncs are soon under writeback: they do not pile up.
    let piles_up = is_over_background
        || dirty_throughout(stall).is_none_or(|bytes| bytes as f64 >= rate * piled_up_s);
    let has_backlog = unwritten_bytes as f64 >= rate * BACKLOG_S && piles_up;
    let has_grown = rate >= before * FLOOD_GROWTH || is_over_background;
    Some(makes_progress && has_backlog && has_grown)
}

/// Bytes that were dirty and not yet under writeback for half of the stall, beyond those of all recorded rows.
/// `None` where it was not recorded.
fn dirty_throughout(stall: &StallWindow<'_>) -> Option<u64> {
    let values = stall.incident.table.values(&Metric::Vmstat(Counter::NrDirty))?;
    let values: Vec<Option<u64>> = values.collect();
    let always = values.iter().flatten().min().copied()?;
    let mut during: Vec<u64> = stall.during(values).flatten().collect();
    during.sort_unstable();
    let median = during.get(during.len() / 2)?;
    Some(median.saturating_sub(always).saturating_mul(stall.window.now.origin.page_bytes))
}

/// The longest time between two of these times, the beginning and the end.
fn longest_gap((begin, end): (u64, u64), times: impl Iterator<Item = u64>) -> u64 {
    let mut longest = 0;
    let mut last = begin;
    for time in times.chain([end]) {
        longest = time.saturating_sub(last).max(longest);
        last = time;
    }
    longest
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// True if so much is dirty that the kernel writes it back however young it is.
fn exceeds_background(stall: &StallWindow<'_>, unwritten_bytes: u64) -> bool {
    let snapshot = &stall.window.now;
    let vmstat = snapshot.sample.vmstat.value();
    let pages = vmstat.and_then(|vmstat| vmstat.get(Counter::NrDirtyBackgroundThreshold));
    pages.is_some_and(|pages| unwritten_bytes > pages.saturating_mul(snapshot.origin.page_bytes))
}

fn groups<'a>(stall: &StallWindow<'a>) -> impl Iterator<Item = &'a GroupUse> {
    stall.incident.groups.iter().filter(|group| group.path != "/")
}

/// The innermost cgroups of the service: one above them may be that of others, too.
struct ServiceCgroups<'a> {
    paths: Vec<&'a str>,
    /// They, and those above and below them.
    groups: Vec<&'a GroupUse>,
    /// Devices of the journals that the request waited for.
    journals: Vec<&'a str>,
}

impl<'a> ServiceCgroups<'a> {
    fn of(stall: &StallWindow<'a>) -> Self {
        let mut paths: Vec<&str> = match server(stall) {
            Some(server) => {
                server.cgroup.iter().chain(&server.other_cgroups).map(|p| &**p).collect()
            }
            None => groups(stall).filter(|group| group.of_service).map(|g| &*g.path).collect(),
        };
        let all = paths.clone();
        paths.retain(|path| *path != "/" && !all.iter().any(|other| is_cgroup_below(other, path)));
        let mut service = Self { paths, groups: Vec::new(), journals: journals(stall) };
        service.groups = groups(stall).filter(|group| service.touches(&group.path)).collect();
        service
    }

    /// True for a cgroup of the service, and one above or below.
    fn touches(&self, path: &str) -> bool {
        let mut own = self.paths.iter();
        own.any(|own| is_cgroup_within(own, path) || is_cgroup_within(path, own))
    }

    fn own(&self) -> impl Iterator<Item = &&'a GroupUse> {
        self.groups.iter().filter(|group| self.paths.contains(&&*group.path))
    }

    /// True if it waited for a journal on a disk, or read from the disk or wrote to it during the stall, or, where it moved
    /// nothing, before; where nothing is known of it, one above it did.
    fn uses(&self, device: &str) -> bool {
        if self.journals.contains(&device) {
            return true;
        }
        let is_known = self.own().next().is_some();
        let groups: Vec<&GroupUse> =
            if is_known { self.own().copied().collect() } else { self.groups.clone() };
        let used: Vec<&GroupIo> = groups.iter().flat_map(|group| &group.io).collect();
        let has_moved = used.iter().any(|io| has_data(io));
        used.iter().any(|io| io.device == device && (has_data(io) || !has_moved))
    }

    /// Bytes that it wrote to a disk.
    fn wrote(&self, device: &str) -> u64 {
        self.own().map(|group| written(group, device)).fold(0, u64::saturating_add)
    }
}

/// The devices of the journals that the request waited for, by the names of their threads (`jbd2/sda1-8`): version 1
/// counts no writes of a service that only syncs.
fn journals<'a>(stall: &StallWindow<'a>) -> Vec<&'a str> {
    const JOURNAL: &str = "jbd2/";
    let path = stall.incident.path.iter();
    let parts = path.flat_map(|path| &path.parts);
    let names = parts.filter_map(|part| part.task.name.strip_prefix(JOURNAL));
    names.filter_map(|name| Some(name.rsplit_once('-')?.0)).collect()
}

/// Cgroup of a service that is not known, as behind a command that asks it: the first task of the path in a cgroup that is
/// not that of the request's own task.
pub(crate) fn server<'a>(stall: &StallWindow<'a>) -> Option<&'a PathTask> {
    let path = stall.incident.path.as_ref().filter(|_| stall.incident.service.is_none())?;
    let client = path.task.cgroup.as_deref();
    let is_server = |task: &&PathTask| {
        task.cgroup.as_deref().is_some_and(|cgroup| cgroup != "/" && Some(cgroup) != client)
    };
    let of_chain = path.chain.iter().map(|link| &link.other);
    of_chain.chain(path.parts.iter().map(|part| &part.task)).find(is_server)
}

fn is_process_of_service(stall: &StallWindow<'_>, pid: u32) -> bool {
    let service = stall.incident.service.as_ref();
    let is_known =
        service.is_some_and(|service| service.processes.iter().any(|known| known.pid == pid));
    is_known || server(stall).is_some_and(|server| server.process == pid)
}

/// True if the request waits for what this process reads: it asked a service that reads its own files.
fn is_reader(stall: &StallWindow<'_>, pid: u32) -> bool {
    stall.request.is_some_and(|request| {
        request.on(&[TimeClass::FileRead]).any(|part| part.task.process == pid)
    })
}

/// The disks that the cgroup of a task read from or wrote to.
pub(crate) fn disks_of<'a>(stall: &StallWindow<'a>, task: &PathTask) -> Vec<&'a str> {
    let is_own = |group: &&GroupUse| task.cgroup.as_deref() == Some(group.path.as_str());
    let io = groups(stall).filter(is_own).flat_map(|group| &group.io);
    io.filter(|io| has_data(io)).map(|io| io.device.as_str()).collect()
}

/// True if anything was read or written.
fn has_data(io: &GroupIo) -> bool {
    io.read_bytes > 0 || io.written_bytes > 0
}

/// Bytes that a cgroup wrote to a disk.
fn written(group: &GroupUse, device: &str) -> u64 {
    let on_device = group.io.iter().filter(|io| io.device == device);
    on_device.map(|io| io.written_bytes).sum()
}

/// Bytes that cgroups below the root wrote to a disk.
fn charged(stall: &StallWindow<'_>, device: &str) -> u64 {
    // What is below another counts there as well.
    let is_part =
        |group: &GroupUse| groups(stall).any(|other| is_cgroup_below(&group.path, &other.path));
    groups(stall).filter(|group| !is_part(group)).map(|group| written(group, device)).sum()
}

/// Bytes that were written to a disk.
fn written_by_all(stall: &StallWindow<'_>, device: &str) -> u64 {
    let root = stall.incident.groups.iter().find(|group| group.path == "/");
    root.map_or(0, |root| written(root, device)).max(charged(stall, device))
}

/// True if cgroups below the root are charged with most of what all wrote to a disk.
fn is_charged(stall: &StallWindow<'_>, device: &str) -> bool {
    const MOST_PERCENT: f64 = 50.0;
    percent(charged(stall, device), written_by_all(stall, device)) >= MOST_PERCENT
}

/// Pages are swapped out to it.
fn is_swap(stall: &StallWindow<'_>, device: &str) -> bool {
    let swaps = stall.window.now.swaps.value().map_or(&[][..], Vec::as_slice);
    swaps.iter().any(|swap| swap.path.strip_prefix("/dev/") == Some(device))
}
