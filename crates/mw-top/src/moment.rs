//! What one screen shows: plain data, made from a window and from what the rules say of it.

use crate::trail::Trail;
use mw_model::{
    Cgroup, Cgroups, Finding, Incident, Missing, Node, Process, Processes, Reading, Report, Sample,
    Severity, SkippedRule, Snapshot, Window, derived, zones,
};
use mw_proc::meminfo::Meminfo;
use mw_proc::pressure::Pressure;
use mw_proc::vmstat::Counter;
use mw_proc::zoneinfo::Zone;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Limit of tasks and groups on the screen.
const MAX_ROWS: usize = 200;

/// Everything that one screen shows.
#[derive(Debug, Clone, Default)]
pub struct Screen {
    /// The machine at one instant.
    pub moment: Moment,
    pub trail: Trail,
    /// Moments before and after it.
    pub timeline: Timeline,
    /// The incident that it lies in.
    pub incident: Option<Incident>,
    /// Rules that could not be checked just now, in one line.
    pub trouble: Option<String>,
}

/// The time that can be moved through.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    /// The first sample, in milliseconds since the epoch.
    pub first_ms: u64,
    pub last_ms: u64,
    /// Incidents, oldest first.
    pub incidents: Vec<IncidentMark>,
}

/// An incident on the line of time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IncidentMark {
    /// Its number in the recording.
    pub id: u64,
    /// Its beginning, in milliseconds since the epoch.
    pub started_ms: u64,
    pub ended_ms: u64,
    /// Its headline, in one line.
    pub verdict: String,
}

/// The machine at one instant.
#[derive(Debug, Clone, Default)]
pub struct Moment {
    /// Time of the sample, in milliseconds since the epoch.
    pub unix_ms: Option<u64>,
    /// Age of the sample of the slow parts (tasks, cgroups, settings), in milliseconds.
    pub slow_age_ms: Option<u64>,
    pub kernel: Option<String>,
    /// The verdict in one line, as in `check`.
    pub verdict: String,
    pub worst: Option<Severity>,
    /// Findings, worst first.
    pub findings: Vec<Finding>,
    pub quiet: usize,
    /// Rules that could not be checked.
    pub skipped: Vec<SkippedRule>,
    /// Use of memory.
    pub memory: Reading<MemoryBar>,
    /// Pressure of CPU, memory and devices.
    pub pressure: Vec<PressureRow>,
    /// The reason why there is none of memory.
    pub pressure_missing: Option<Missing>,
    /// From where on writers are throttled, and where writeback begins, in bytes.
    pub dirty_limits: Option<(u64, u64)>,
    pub nodes: Vec<NodeRow>,
    /// Zones that have memory, by node.
    pub zones: Reading<Vec<ZoneRow>>,
    /// Size of a huge page in bytes.
    pub huge_bytes: u64,
    /// The order of the free blocks that a huge page needs.
    pub huge_order: usize,
    /// Size of a base page in bytes.
    pub page_bytes: u64,
    /// Groups by how near they are to their limits, the nearest first.
    pub groups: Reading<Vec<GroupRow>>,
    /// Tasks: blocked ones first, then by size.
    pub tasks: Reading<Vec<TaskRow>>,
    /// Number of tasks, and of those that were not sampled.
    pub tasks_unseen: (usize, usize),
}

/// Use of memory, in bytes. The four parts of the bar add up to the total.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemoryBar {
    pub total: u64,
    /// Not reclaimable as file pages.
    pub used: u64,
    /// Page cache that must be written first.
    pub dirty: u64,
    /// Page cache and caches of the kernel that can be reclaimed at once.
    pub cache: u64,
    pub free: u64,
    /// Available memory, the kernel's estimate.
    pub available: Option<u64>,
    pub further: Vec<(&'static str, u64)>,
    /// Swap in use, and its size.
    pub swap: Option<(u64, u64)>,
}

/// The pressure of one resource, in percent of the last 10 s.
#[derive(Debug, Clone, PartialEq)]
pub struct PressureRow {
    /// `cpu`, `memory` or `io`.
    pub name: &'static str,
    /// Some task waited.
    pub some: Option<f64>,
    /// All tasks waited; kernels before 5.13 do not say so of the CPU.
    pub full: Option<f64>,
}

/// One node, in bytes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeRow {
    pub id: u32,
    /// Use of its memory.
    pub memory: MemoryBar,
    /// Number of its CPUs, if known.
    pub cpus: Option<usize>,
}

/// One zone, in bytes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ZoneRow {
    pub node: u32,
    pub name: String,
    pub managed: u64,
    pub free: u64,
    /// Below it, programs that allocate wait and reclaim.
    pub min: u64,
    /// Below it, kswapd works.
    pub low: u64,
    /// Above it, kswapd rests.
    pub high: u64,
    /// The share of free memory in blocks too small for a huge page, in thousandths.
    pub unusable_milli: Option<u32>,
    /// Free blocks by order.
    pub blocks: Vec<u64>,
}

/// A memory cgroup with a limit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GroupRow {
    pub path: String,
    /// Bytes charged to it.
    pub current: u64,
    /// The lower of `memory.high` and `memory.max`, in bytes.
    pub limit: u64,
    /// Size of it that was swapped out.
    pub swap: Option<u64>,
    /// Number of times that it reached `memory.high`, `memory.max` and the OOM killer.
    pub met: [Option<u64>; 3],
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskRow {
    pub pid: u32,
    pub name: String,
    /// Its state, as /proc/PID/status says.
    pub state: char,
    pub resident: u64,
    /// Growth in bytes a second; needs two samples.
    pub growth_per_s: Option<f64>,
    pub swap: u64,
    pub locked: u64,
}

impl Screen {
    /// The incident's place among all, from 0.
    pub fn incident_at(&self, unix_ms: u64) -> Option<usize> {
        self.timeline.incident_at(unix_ms)
    }
}

impl Timeline {
    /// The incident that lies over this time, as its place in the list.
    pub fn incident_at(&self, unix_ms: u64) -> Option<usize> {
        self.incidents.iter().rposition(|incident| incident.covers(unix_ms))
    }
}

impl IncidentMark {
    fn covers(&self, unix_ms: u64) -> bool {
        (self.started_ms..=self.ended_ms).contains(&unix_ms)
    }
}

impl Moment {
    /// Values of a window and its report.
    pub fn new(window: &Window, report: Report) -> Self {
        let now = &window.now;
        let sample = &now.sample;
        let page_bytes = now.origin.page_bytes.max(1);
        let huge_bytes = derived::huge_page_bytes(now);
        let huge_order = derived::order_of(huge_bytes, page_bytes);
        Self {
            unix_ms: report.taken_unix_ms,
            slow_age_ms: None,
            kernel: report.kernel,
            verdict: report.verdict,
            worst: report.worst,
            findings: report.findings,
            quiet: report.quiet.len(),
            skipped: report.skipped,
            memory: sample
                .meminfo
                .required()
                .map(|meminfo| MemoryBar::from_snapshot(now, meminfo))
                .into(),
            pressure: pressure(sample),
            pressure_missing: sample.pressure.memory.missing().cloned(),
            dirty_limits: dirty_limits(sample, page_bytes),
            nodes: nodes(now),
            zones: zone_rows(sample, page_bytes, huge_order).into(),
            huge_bytes,
            huge_order,
            page_bytes,
            groups: now.cgroups.required().map(groups).into(),
            tasks: now.processes.required().map(tasks).into(),
            tasks_unseen: now.processes.value().map_or((0, 0), |all| (all.present, all.unseen)),
        }
    }

    /// Computes the growth of tasks since an earlier sample, `seconds` before.
    pub fn grown_since(&mut self, before: &Processes, seconds: f64) {
        let Reading::Value(tasks) = &mut self.tasks else { return };
        if seconds <= 0.0 {
            return;
        }
        let resident =
            |process: &Process| Some((process.status.pid?, process.status.vm_rss_bytes?));
        let before: BTreeMap<u32, u64> = before.list.iter().filter_map(resident).collect();
        for task in tasks {
            let growth = |before: &u64| (task.resident as f64 - *before as f64) / seconds;
            task.growth_per_s = before.get(&task.pid).map(growth);
        }
    }
}

impl MemoryBar {
    fn from_snapshot(now: &Snapshot, meminfo: &Meminfo) -> Self {
        let swap = meminfo
            .swap_total_bytes
            .filter(|total| *total > 0)
            .map(|total| (total.saturating_sub(meminfo.swap_free_bytes.unwrap_or(total)), total));
        let available = meminfo.mem_available_bytes.and(derived::available_bytes(now).ok());
        Self { swap, available, ..Self::from_meminfo(meminfo) }
    }

    fn from_meminfo(meminfo: &Meminfo) -> Self {
        let total = meminfo.mem_total_bytes.unwrap_or(0);
        let free = meminfo.mem_free_bytes.unwrap_or(0).min(total);
        let files = derived::file_cache_bytes(meminfo)
            .saturating_add(meminfo.sreclaimable_bytes.unwrap_or(0))
            .min(total - free);
        let dirty = derived::unwritten_bytes(meminfo).min(files);
        let pools = meminfo.hugepagesize_bytes.zip(meminfo.hugepages_total_pages);
        let pools = pools.map(|(bytes, pages)| bytes.saturating_mul(pages));
        let further = [
            ("anon", meminfo.anon_pages_bytes),
            ("shmem", meminfo.shmem_bytes),
            ("locked", meminfo.unevictable_bytes),
            ("slab", meminfo.sunreclaim_bytes),
            ("page tables", meminfo.page_tables_bytes),
            ("huge pool", meminfo.hugetlb_bytes.or(pools)),
            ("thp", meminfo.anon_huge_pages_bytes),
        ];
        Self {
            total,
            used: total - free - files,
            dirty,
            cache: files - dirty,
            free,
            available: None,
            further: further.into_iter().filter_map(|(name, bytes)| Some((name, bytes?))).collect(),
            swap: None,
        }
    }
}

fn pressure(sample: &Sample) -> Vec<PressureRow> {
    let of = &sample.pressure;
    [("cpu", &of.cpu), ("memory", &of.memory), ("io", &of.io)]
        .map(|(name, look): (_, &Reading<Pressure>)| {
            let seen = look.value();
            let some = seen.map(|pressure| pressure.some.avg10_percent);
            let full = seen.and_then(|pressure| Some(pressure.full?.avg10_percent));
            PressureRow { name, some, full }
        })
        .into()
}

fn dirty_limits(sample: &Sample, page_bytes: u64) -> Option<(u64, u64)> {
    let vmstat = sample.vmstat.value()?;
    let bytes = |counter| Some(vmstat.get(counter)?.saturating_mul(page_bytes));
    Some((bytes(Counter::NrDirtyThreshold)?, bytes(Counter::NrDirtyBackgroundThreshold)?))
}

fn nodes(now: &Snapshot) -> Vec<NodeRow> {
    let known: &[Node] = now.nodes.value().map_or(&[], Vec::as_slice);
    let cpus = |id: u32| known.iter().find(|node| node.id == id).map(|node| node.cpus.len());
    let row = |id: u32, meminfo: &Meminfo| NodeRow {
        id,
        memory: MemoryBar::from_meminfo(meminfo),
        cpus: cpus(id),
    };
    zones::node_meminfos(now).iter().map(|(id, meminfo)| row(*id, meminfo)).collect()
}

fn zone_rows(sample: &Sample, page_bytes: u64, order: usize) -> Result<Vec<ZoneRow>, Missing> {
    let zoneinfo = sample.zoneinfo.required()?;
    let deferred = zones::deferred(sample, page_bytes);
    let row = |zone: &Zone| {
        let buddy = sample.buddyinfo.value().and_then(|buddyinfo| {
            let same =
                |b: &&mw_proc::buddyinfo::BuddyZone| b.node == zone.node && b.name == zone.name;
            buddyinfo.zones.iter().find(same)
        });
        let bytes = |pages: u64| pages.saturating_mul(page_bytes);
        let deferred = deferred.map_or(0, |deferred| deferred.zone_bytes(zone));
        let unusable = |buddy| zones::unusable_milli(sample, page_bytes, buddy, order);
        ZoneRow {
            node: zone.node,
            name: zone.name.as_str().to_owned(),
            managed: bytes(zone.managed_or_present_pages()).saturating_add(deferred),
            free: bytes(zone.free_pages).saturating_add(deferred),
            min: bytes(zone.min_pages),
            low: bytes(zone.low_pages),
            high: bytes(zone.high_pages),
            unusable_milli: buddy.map(unusable),
            blocks: buddy.map_or_else(Vec::new, |buddy| buddy.values().to_vec()),
        }
    };
    let with_memory = zoneinfo.zones.iter().filter(|zone| zone.managed_or_present_pages() > 0);
    Ok(with_memory.take(MAX_ROWS).map(row).collect())
}

fn groups(cgroups: &Cgroups) -> Vec<GroupRow> {
    let mut rows: Vec<GroupRow> = Vec::new();
    for group in cgroups.limited.iter().chain(&cgroups.own) {
        if rows.iter().all(|row| row.path != group.path) {
            rows.extend(group_row(group));
        }
    }
    rows.sort_by(|a, b| b.share().total_cmp(&a.share()));
    rows.truncate(MAX_ROWS);
    rows
}

/// A group's row; a group without a limit has none.
fn group_row(group: &Cgroup) -> Option<GroupRow> {
    let limit = group.max_bytes.into_iter().chain(group.high_bytes).min()?;
    let events = &group.events;
    Some(GroupRow {
        path: group.path.clone(),
        current: group.current_bytes?,
        limit,
        swap: group.stat.swap_bytes,
        met: [events.high, events.max, events.oom_kill],
    })
}

impl GroupRow {
    /// Share of the limit that is taken, 0 to 1 and beyond.
    pub fn share(&self) -> f64 {
        if self.limit == 0 { 1.0 } else { self.current as f64 / self.limit as f64 }
    }
}

fn tasks(processes: &Processes) -> Vec<TaskRow> {
    let row = |process: &Process| {
        let status = &process.status;
        Some(TaskRow {
            pid: status.pid?,
            name: status.name.clone(),
            state: status.state.unwrap_or('?'),
            resident: status.vm_rss_bytes?,
            growth_per_s: None,
            swap: status.vm_swap_bytes.unwrap_or(0),
            locked: status.vm_lck_bytes.unwrap_or(0),
        })
    };
    let mut rows: Vec<TaskRow> = processes.list.iter().filter_map(row).collect();
    rows.sort_by_key(|task| (task.state != 'D', Reverse(task.resident)));
    rows.truncate(MAX_ROWS);
    rows
}
