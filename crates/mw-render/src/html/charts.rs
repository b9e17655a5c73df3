//! Which charts the timeline has, and what each shows.

use super::safe::shown;
use super::series::{How, Rows};
use mw_model::{Incident, Table, TriggerKind};
use serde::Serialize;

/// Lines of one chart whose number depends on the machine: probes, devices.
const MOST_LINES: usize = 6;
/// Columns that are looked at for them.
const MOST_NAMED: usize = 256;
/// Percent of a time that there can be; a row that came early makes it look like more.
const WHOLE: f64 = 100.0;
/// Bytes of a page where the recording does not say.
const USUAL_PAGE_BYTES: u64 = 4096;

/// Everything that is drawn over time.
#[derive(Debug, Serialize)]
pub(super) struct Timeline {
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
    unit: Unit,
    /// Latencies go over five powers of ten: their axis is logarithmic.
    log: bool,
    lines: Vec<Line>,
    limits: Vec<Limit>,
}

#[derive(Debug, Serialize)]
struct Line {
    name: String,
    dashed: bool,
    /// Whether its lowest value is the bad one.
    low: bool,
    values: Vec<Option<f64>>,
}

impl Line {
    fn peak(&self) -> f64 {
        self.values.iter().flatten().copied().fold(0.0, f64::max)
    }
}

#[derive(Debug, Serialize)]
struct Limit {
    name: String,
    at: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Unit {
    Milliseconds,
    Percent,
    Bytes,
    BytesPerSecond,
    PerSecond,
}

/// A line to be: its name, its column, and how the column is read.
struct Wanted {
    name: String,
    column: String,
    how: How,
    factor: f64,
    dashed: bool,
}

/// A chart to be.
struct Plan {
    title: &'static str,
    about: &'static str,
    unit: Unit,
    wanted: Vec<Wanted>,
    limits: Vec<Limit>,
    /// What it would take, where the recording has none of it.
    columns: &'static str,
}

impl Timeline {
    /// The charts of an incident's table.
    pub(super) fn of(incident: &Incident, rows: &Rows) -> Self {
        let mut timeline = Self { charts: Vec::new(), quiet: Vec::new(), absent: Vec::new() };
        for plan in plans(incident) {
            timeline.draw(plan, rows);
        }
        timeline
    }

    fn draw(&mut self, plan: Plan, rows: &Rows) {
        let mut lines = Vec::new();
        for wanted in &plan.wanted {
            let mut values = rows.line(&wanted.column, wanted.how, wanted.factor);
            if plan.unit == Unit::Percent {
                values.iter_mut().flatten().flatten().for_each(|value| *value = value.min(WHOLE));
            }
            let (name, dashed) = (wanted.name.clone(), wanted.dashed);
            let line = |values| Line { name, dashed, low: wanted.how == How::Lowest, values };
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
                log: plan.unit == Unit::Milliseconds,
                lines,
                limits: plan.limits,
            });
        }
    }
}

fn plans(incident: &Incident) -> Vec<Plan> {
    let page = match incident.host.page_bytes {
        0 => USUAL_PAGE_BYTES as f64,
        bytes => bytes as f64,
    };
    let mut plans = latencies(incident);
    plans.extend(pressures());
    plans.extend(reclaim());
    plans.extend(memory(page));
    plans.push(Plan {
        title: "Disk writes",
        about: "by device",
        unit: Unit::BytesPerSecond,
        wanted: named(&incident.table, "disk.", ".written_bytes", How::Rate, 1.0),
        limits: Vec::new(),
        columns: "disk.*.written_bytes",
    });
    plans
}

fn latencies(incident: &Incident) -> Vec<Plan> {
    let ms = |name: &str, column: &str, dashed| {
        let (name, column) = (name.to_owned(), column.to_owned());
        Wanted { name, column, how: How::Measured, factor: 0.001, dashed }
    };
    let canary = vec![
        ms("page-fault latency", "canary.touch_us", false),
        ms("scheduling latency", "canary.idle_us", false),
        ms("woken late", "canary.late_us", true),
    ];
    vec![
        Plan {
            title: "Probes",
            about: "slowest response",
            unit: Unit::Milliseconds,
            wanted: named(&incident.table, "probe.", ".worst_us", How::Measured, 0.001),
            limits: limit(incident, &[TriggerKind::Probe]),
            columns: "probe.*.worst_us",
        },
        Plan {
            title: "Canary",
            about: "page faults slow while scheduling is not: memory stalls",
            unit: Unit::Milliseconds,
            wanted: canary,
            limits: limit(incident, &[TriggerKind::Canary, TriggerKind::Heartbeat]),
            columns: "canary.*",
        },
    ]
}

/// The limit that was passed, in the chart of the looks that it is for.
fn limit(incident: &Incident, kinds: &[TriggerKind]) -> Vec<Limit> {
    let trigger = &incident.trigger;
    let is_here = kinds.contains(&trigger.kind) && trigger.limit_ms > 0.0;
    let name = format!("limit of {}", shown(&trigger.name));
    is_here.then_some(Limit { name, at: trigger.limit_ms }).into_iter().collect()
}

fn pressures() -> Vec<Plan> {
    let share = |name: &str, column: &str| {
        let (name, column) = (name.to_owned(), format!("pressure.{column}.total_us"));
        Wanted { name, column, how: How::Rate, factor: 1e-4, dashed: false }
    };
    let average = Wanted {
        name: "some, over 10 s".to_owned(),
        column: "pressure.memory.some.avg10_centipercent".to_owned(),
        how: How::Highest,
        factor: 0.01,
        dashed: true,
    };
    let memory =
        vec![share("some tasks wait", "memory.some"), share("all wait", "memory.full"), average];
    let others = vec![share("processor", "cpu.some"), share("input and output", "io.some")];
    let plan = |title, about, wanted, columns| Plan {
        title,
        about,
        unit: Unit::Percent,
        wanted,
        limits: Vec::new(),
        columns,
    };
    vec![
        plan("Memory pressure", "share of the time", memory, "pressure.memory.*"),
        plan(
            "Processor and I/O pressure",
            "share of the time in which some tasks wait",
            others,
            "pressure.cpu.*, pressure.io.*",
        ),
    ]
}

fn reclaim() -> Vec<Plan> {
    let rate = |name: &str, column: &str| vmstat(name, column, How::Rate, 1.0);
    let plan = |title, about, wanted, columns| Plan {
        title,
        about,
        unit: Unit::PerSecond,
        wanted,
        limits: Vec::new(),
        columns,
    };
    vec![
        plan(
            "Pages scanned",
            "a second, to reclaim memory",
            vec![
                rate("by kswapd", "pgscan_kswapd"),
                rate("by allocating tasks", "pgscan_direct"),
                rate("by khugepaged", "pgscan_khugepaged"),
            ],
            "vmstat.pgscan_*",
        ),
        plan(
            "Allocation stalls and compaction",
            "a second",
            vec![
                rate("allocation stalls", "allocstall"),
                rate("direct compactions", "compact_stall"),
                rate("failed compactions", "compact_fail"),
            ],
            "vmstat.allocstall, vmstat.compact_*",
        ),
    ]
}

fn memory(page: f64) -> Vec<Plan> {
    let pages = |name: &str, column: &str| vmstat(name, column, How::Highest, page);
    let plan = |title, about, unit, wanted, columns| Plan {
        title,
        about,
        unit,
        wanted,
        limits: Vec::new(),
        columns,
    };
    let available = Wanted {
        name: "available".to_owned(),
        column: "meminfo.MemAvailable".to_owned(),
        how: How::Lowest,
        factor: 1.0,
        dashed: true,
    };
    vec![
        plan(
            "Free memory",
            "",
            Unit::Bytes,
            vec![vmstat("free", "nr_free_pages", How::Lowest, page)],
            "vmstat.nr_free_pages",
        ),
        plan(
            "Page cache",
            "pages of files, and available memory",
            Unit::Bytes,
            vec![pages("page cache", "nr_file_pages"), available],
            "vmstat.nr_file_pages",
        ),
        plan(
            "Dirty and under writeback",
            "written by programs, not yet on disk",
            Unit::Bytes,
            vec![pages("dirty", "nr_dirty"), pages("under writeback", "nr_writeback")],
            "vmstat.nr_dirty, vmstat.nr_writeback",
        ),
        plan(
            "Swap",
            "a second",
            Unit::BytesPerSecond,
            vec![
                vmstat("read back", "pswpin", How::Rate, page),
                vmstat("written", "pswpout", How::Rate, page),
            ],
            "vmstat.pswpin, vmstat.pswpout",
        ),
    ]
}

fn vmstat(name: &str, counter: &str, how: How, factor: f64) -> Wanted {
    let (name, column) = (name.to_owned(), format!("vmstat.{counter}"));
    Wanted { name, column, how, factor, dashed: false }
}

/// A line for every column that is called so, named after the middle of its name.
fn named(table: &Table, before: &str, after: &str, how: How, factor: f64) -> Vec<Wanted> {
    let wanted = |column: &String| {
        let name = column.strip_prefix(before)?.strip_suffix(after)?;
        Some(Wanted { name: shown(name), column: column.clone(), how, factor, dashed: false })
    };
    table.columns.iter().filter_map(|column| wanted(&column.name)).take(MOST_NAMED).collect()
}
