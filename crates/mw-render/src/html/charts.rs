//! Which charts the timeline has, and what each shows.

use super::outages::{OutageSpan, outages};
use super::safe::shown;
use super::series::{SampledRows, SeriesConversion};
use mw_model::{
    CanaryMetric, Column, DiskMetric, Incident, MeminfoLine, Metric, PressureKind, PressureMetric,
    ProbeMetric, Resource, Table, TriggerKind,
};
use mw_proc::vmstat::Counter;
use serde::Serialize;

/// Lines of one chart whose number depends on the machine: probes, devices.
const MOST_LINES: usize = 6;
/// Columns that are read for them.
const MOST_NAMED: usize = 256;
/// Percent of a time that there can be; a row that came early makes it look like more.
const WHOLE: f64 = 100.0;

/// Everything that is drawn over time.
#[derive(Debug, Serialize)]
pub(super) struct IncidentCharts {
    pub(super) charts: Vec<Chart>,
    /// Charts in which nothing happened throughout.
    #[serde(skip)]
    pub(super) quiet: Vec<String>,
    /// Charts whose numbers the recording does not have, with the columns that it would take.
    #[serde(skip)]
    pub(super) absent: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) about: String,
    unit: ChartUnit,
    /// Latencies go over five powers of ten: their axis is logarithmic.
    log: bool,
    lines: Vec<ChartLine>,
    limits: Vec<LimitLine>,
    outages: Vec<OutageSpan>,
}

#[derive(Debug, Serialize)]
struct ChartLine {
    name: String,
    dashed: bool,
    /// True if its lowest value is the bad one.
    low: bool,
    values: Vec<Option<f64>>,
}

impl ChartLine {
    fn peak(&self) -> f64 {
        self.values.iter().flatten().copied().fold(0.0, f64::max)
    }
}

#[derive(Debug, Serialize)]
struct LimitLine {
    name: String,
    at: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum ChartUnit {
    Milliseconds,
    Percent,
    Bytes,
    BytesPerSecond,
    PerSecond,
}

/// A line to be: its name, its column, and how the column is read.
struct LineSpec {
    name: String,
    metric: Metric,
    how: SeriesConversion,
    factor: f64,
    dashed: bool,
}

struct ChartPlan {
    title: &'static str,
    about: &'static str,
    unit: ChartUnit,
    wanted: Vec<LineSpec>,
    limits: Vec<LimitLine>,
    /// Requirement of the series, where the recording has none of it.
    columns: &'static str,
}

impl IncidentCharts {
    /// The charts of an incident's table.
    pub(super) fn new(incident: &Incident, rows: &SampledRows) -> Self {
        let mut timeline = Self { charts: Vec::new(), quiet: Vec::new(), absent: Vec::new() };
        for plan in plans(incident) {
            timeline.draw(plan, incident, rows);
        }
        timeline
    }

    fn draw(&mut self, plan: ChartPlan, incident: &Incident, rows: &SampledRows) {
        let (mut lines, mut all_outages) = (Vec::new(), Vec::new());
        let at_s = rows.seconds_since(incident.started_unix_ms);
        for wanted in &plan.wanted {
            let mut values = rows.line(&wanted.metric.to_string(), wanted.how, wanted.factor);
            if plan.unit == ChartUnit::Percent {
                values.iter_mut().flatten().flatten().for_each(|value| *value = value.min(WHOLE));
            }
            let (name, dashed) = (wanted.name.clone(), wanted.dashed);
            if let (Metric::Probe(probe, ProbeMetric::Worst), Some(values)) =
                (&wanted.metric, &mut values)
            {
                for outage in outages(incident, rows, probe) {
                    outage.draw_over(&at_s, values);
                    all_outages.push(OutageSpan { name: name.clone(), ..outage });
                }
            }
            let line = |values| ChartLine {
                name,
                dashed,
                low: wanted.how == SeriesConversion::Lowest,
                values,
            };
            lines.extend(values.map(line));
        }
        if lines.is_empty() {
            self.absent.push(format!("{} ({})", plan.title, plan.columns));
        } else if lines.iter().all(|line| line.peak() == 0.0) {
            self.quiet.push(plan.title.to_owned());
        } else {
            let mut about = plan.about.to_owned();
            if lines.len() > MOST_LINES {
                about = format!("{about}; the highest {MOST_LINES} of {}", lines.len());
                lines.sort_by(|a, b| b.peak().total_cmp(&a.peak()));
                lines.truncate(MOST_LINES);
            }
            self.charts.push(Chart {
                title: plan.title.to_owned(),
                about,
                unit: plan.unit,
                log: plan.unit == ChartUnit::Milliseconds,
                lines,
                limits: plan.limits,
                outages: all_outages,
            });
        }
    }
}

fn plans(incident: &Incident) -> Vec<ChartPlan> {
    let page = incident.host.page_bytes_or_usual() as f64;
    let mut plans = latencies(incident);
    plans.extend(pressures());
    plans.extend(reclaim());
    plans.extend(memory(page));
    plans.push(ChartPlan {
        title: "Disk writes",
        about: "by device",
        unit: ChartUnit::BytesPerSecond,
        wanted: each(&incident.table, SeriesConversion::Rate, 1.0, disk_writes),
        limits: Vec::new(),
        columns: "disk.*.written_bytes",
    });
    plans
}

fn latencies(incident: &Incident) -> Vec<ChartPlan> {
    let ms = |name: &str, metric, dashed| {
        let (name, metric) = (name.to_owned(), Metric::Canary(metric));
        LineSpec { name, metric, how: SeriesConversion::Measured, factor: 0.001, dashed }
    };
    let canary = vec![
        ms("page-fault latency", CanaryMetric::Touch, false),
        ms("scheduling latency", CanaryMetric::Idle, false),
        ms("woken late", CanaryMetric::Late, true),
    ];
    vec![
        ChartPlan {
            title: "Probes",
            about: "slowest response",
            unit: ChartUnit::Milliseconds,
            wanted: each(&incident.table, SeriesConversion::Measured, 0.001, probe_latency),
            limits: limit(incident, &[TriggerKind::Probe]),
            columns: "probe.*.worst_us",
        },
        ChartPlan {
            title: "Canary",
            about: "page faults slow while scheduling is not: memory stalls",
            unit: ChartUnit::Milliseconds,
            wanted: canary,
            limits: limit(incident, &[TriggerKind::Canary, TriggerKind::Heartbeat]),
            columns: "canary.*",
        },
    ]
}

/// The limit that was exceeded, in the chart of its samples.
fn limit(incident: &Incident, kinds: &[TriggerKind]) -> Vec<LimitLine> {
    let trigger = &incident.trigger;
    let is_here = kinds.contains(&trigger.kind) && trigger.limit_ms > 0.0;
    let name = format!("limit of {}", shown(&trigger.name));
    is_here.then_some(LimitLine { name, at: trigger.limit_ms }).into_iter().collect()
}

fn pressures() -> Vec<ChartPlan> {
    let share = |name: &str, resource, stalled| {
        let metric = Metric::Pressure(resource, stalled, PressureMetric::TotalUs);
        LineSpec {
            name: name.to_owned(),
            metric,
            how: SeriesConversion::Rate,
            factor: 1e-4,
            dashed: false,
        }
    };
    let average = LineSpec {
        name: "some, over 10 s".to_owned(),
        metric: Metric::Pressure(Resource::Memory, PressureKind::Some, PressureMetric::Avg10),
        how: SeriesConversion::Highest,
        factor: 0.01,
        dashed: true,
    };
    let memory = vec![
        share("some tasks wait", Resource::Memory, PressureKind::Some),
        share("all wait", Resource::Memory, PressureKind::Full),
        average,
    ];
    let others = vec![
        share("CPU", Resource::Cpu, PressureKind::Some),
        share("I/O", Resource::Io, PressureKind::Some),
    ];
    let plan = |title, about, wanted, columns| ChartPlan {
        title,
        about,
        unit: ChartUnit::Percent,
        wanted,
        limits: Vec::new(),
        columns,
    };
    vec![
        plan("Memory pressure", "share of the time", memory, "pressure.memory.*"),
        plan(
            "CPU and I/O pressure",
            "share of the time in which some tasks wait",
            others,
            "pressure.cpu.*, pressure.io.*",
        ),
    ]
}

fn reclaim() -> Vec<ChartPlan> {
    let rate = |name: &str, counter| vmstat(name, counter, SeriesConversion::Rate, 1.0);
    let plan = |title, about, wanted, columns| ChartPlan {
        title,
        about,
        unit: ChartUnit::PerSecond,
        wanted,
        limits: Vec::new(),
        columns,
    };
    vec![
        plan(
            "Pages scanned",
            "a second, to reclaim memory; from Linux 7.1 on those of tasks at cgroup limits as well",
            vec![
                rate("by kswapd", Counter::PgscanKswapd),
                rate("by allocating tasks", Counter::PgscanDirect),
                rate("by khugepaged", Counter::PgscanKhugepaged),
            ],
            "vmstat.pgscan_*",
        ),
        plan(
            "Allocation stalls and compaction",
            "a second",
            vec![
                rate("allocation stalls", Counter::Allocstall),
                rate("direct compactions", Counter::CompactStall),
                rate("failed compactions", Counter::CompactFail),
            ],
            "vmstat.allocstall, vmstat.compact_*",
        ),
    ]
}

fn memory(page: f64) -> Vec<ChartPlan> {
    let pages = |name: &str, counter| vmstat(name, counter, SeriesConversion::Highest, page);
    let plan = |title, about, unit, wanted, columns| ChartPlan {
        title,
        about,
        unit,
        wanted,
        limits: Vec::new(),
        columns,
    };
    let available = MeminfoLine::from_name("MemAvailable").map(|line| LineSpec {
        name: "available".to_owned(),
        metric: Metric::Meminfo(line),
        how: SeriesConversion::Lowest,
        factor: 1.0,
        dashed: true,
    });
    vec![
        plan(
            "Free memory",
            "",
            ChartUnit::Bytes,
            vec![vmstat("free", Counter::NrFreePages, SeriesConversion::Lowest, page)],
            "vmstat.nr_free_pages",
        ),
        plan(
            "Page cache",
            "pages of files, and available memory",
            ChartUnit::Bytes,
            [pages("page cache", Counter::NrFilePages)].into_iter().chain(available).collect(),
            "vmstat.nr_file_pages",
        ),
        plan(
            "Dirty and under writeback",
            "written by programs, not yet on disk",
            ChartUnit::Bytes,
            vec![pages("dirty", Counter::NrDirty), pages("under writeback", Counter::NrWriteback)],
            "vmstat.nr_dirty, vmstat.nr_writeback",
        ),
        plan(
            "Swap",
            "a second",
            ChartUnit::BytesPerSecond,
            vec![
                vmstat("read back", Counter::Pswpin, SeriesConversion::Rate, page),
                vmstat("written", Counter::Pswpout, SeriesConversion::Rate, page),
            ],
            "vmstat.pswpin, vmstat.pswpout",
        ),
    ]
}

fn vmstat(name: &str, counter: Counter, how: SeriesConversion, factor: f64) -> LineSpec {
    LineSpec { name: name.to_owned(), metric: Metric::Vmstat(counter), how, factor, dashed: false }
}

/// A line for every metric of the table that `name` names.
fn each(
    table: &Table,
    how: SeriesConversion,
    factor: f64,
    name: fn(&Metric) -> Option<&str>,
) -> Vec<LineSpec> {
    let wanted = |metric: Metric| {
        let name = shown(name(&metric)?);
        Some(LineSpec { name, metric, how, factor, dashed: false })
    };
    table.columns.iter().map(Column::metric).filter_map(wanted).take(MOST_NAMED).collect()
}

fn disk_writes(metric: &Metric) -> Option<&str> {
    match metric {
        Metric::Disk(name, DiskMetric::Written) => Some(name),
        _ => None,
    }
}

fn probe_latency(metric: &Metric) -> Option<&str> {
    match metric {
        Metric::Probe(name, ProbeMetric::Worst) => Some(name),
        _ => None,
    }
}
