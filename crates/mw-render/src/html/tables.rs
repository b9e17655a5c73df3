//! Who suffered, who waited for what, who used how much: the tables of a report.

use super::safe::shown;
use crate::path_words::unit;
use mw_model::{
    BlockedTask, Delays, FloodShare, Incident, KernelWait, Role, Shift, TaskUse, format_bytes,
    format_duration_ms,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// Rows of one table; what is beyond is counted.
const MOST_ROWS: usize = 15;
/// Functions of the difference that are listed.
const MOST_FUNCTIONS: usize = 10;
/// Frames of a blocked task that are shown.
const MOST_FRAMES: usize = 24;

/// By the number of the process or thread.
type CgroupNames = BTreeMap<u32, String>;

/// A table as it is shown.
#[derive(Debug, Serialize)]
pub(super) struct TableView {
    title: &'static str,
    about: String,
    heads: Vec<ColumnHead>,
    rows: Vec<Vec<String>>,
    /// Rows that were left out.
    more: usize,
    /// The text shown if there are no rows.
    empty: &'static str,
}

/// The head of a column.
#[derive(Debug, Clone, Copy, Serialize)]
struct ColumnHead {
    name: &'static str,
    kind: ColumnKind,
}

/// Typesetting of a column.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
enum ColumnKind {
    Text,
    Number,
    /// The kernel's name of a task.
    Name,
    /// Longer names: a file's path, functions.
    Path,
}

use ColumnKind::{Name, Number, Path, Text};

impl TableView {
    fn new<T>(
        title: &'static str,
        empty: &'static str,
        heads: &[(&'static str, ColumnKind)],
        items: &[T],
        row: impl Fn(&T) -> Vec<String>,
    ) -> Self {
        Self {
            title,
            about: String::new(),
            heads: heads.iter().map(|(name, kind)| ColumnHead { name, kind: *kind }).collect(),
            rows: items.iter().take(MOST_ROWS).map(row).collect(),
            more: items.len().saturating_sub(MOST_ROWS),
            empty,
        }
    }
}

/// The tables about tasks, in the order in which they are read.
pub(super) fn of_tasks(incident: &Incident) -> Vec<TableView> {
    let page_bytes = incident.host.page_bytes_or_usual();
    let cgroups = &incident.cgroups;
    vec![
        roles("Victims", "No victims found.", &incident.suffering, cgroups),
        roles("Culprits", "No culprits found.", &incident.causing, cgroups),
        waits(&incident.waits, cgroups),
        blocked(&incident.blocked, cgroups),
        tasks(&incident.tasks, cgroups),
        flood(&incident.flood, page_bytes, cgroups),
    ]
}

/// The functions whose share changed most.
pub(super) fn difference(shifts: &[Shift]) -> TableView {
    let heads = [
        ("function", Path),
        ("before", Number),
        ("during", Number),
        ("change", Number),
        ("self, before", Number),
        ("self, during", Number),
    ];
    let row = |shift: &Shift| {
        let percent = |percent: f64| format!("{percent:.1}%");
        vec![
            shown(&shift.function),
            percent(shift.before_percent),
            percent(shift.during_percent),
            format!("{:+.1}", shift.during_percent - shift.before_percent).replace('-', "−"),
            percent(shift.before_self_percent),
            percent(shift.during_self_percent),
        ]
    };
    let first = &shifts[..shifts.len().min(MOST_FUNCTIONS)];
    let mut table = TableView::new(
        "What the kernel did more of",
        "No comparison: the profile or its baseline is missing.",
        &heads,
        first,
        row,
    );
    table.about = "share of total CPU time: including callees, and self".into();
    table
}

fn roles(
    title: &'static str,
    empty: &'static str,
    roles: &[Role],
    cgroups: &CgroupNames,
) -> TableView {
    let heads = [("task", Name), ("pid", Number), ("unit", Name), ("evidence", Text)];
    TableView::new(title, empty, &heads, roles, |role| {
        vec![shown(&role.task), role.pid.to_string(), unit_of(cgroups, role.pid), shown(&role.why)]
    })
}

fn waits(waits: &[KernelWait], cgroups: &CgroupNames) -> TableView {
    let heads = [
        ("task", Name),
        ("thread", Number),
        ("unit", Name),
        ("waited for", Text),
        ("order", Number),
        ("node", Number),
        ("times", Number),
        ("total", Number),
        ("longest", Number),
    ];
    let known = |number: Option<u32>| number.map_or("–".to_owned(), |number| number.to_string());
    let length = |us: u64| if us > 0 { duration(us) } else { "–".to_owned() };
    let row = |wait: &KernelWait| {
        vec![
            shown(&wait.task),
            wait.pid.to_string(),
            unit_of(cgroups, wait.pid),
            wait.kind.to_string(),
            known(wait.order),
            known(wait.node),
            grouped(wait.count),
            length(wait.total_us),
            length(wait.max_us),
        ]
    };
    let told: Vec<_> = waits.iter().filter(|wait| wait.is_worth_telling()).cloned().collect();
    TableView::new("Waits in the kernel", "No waits for memory in the kernel.", &heads, &told, row)
}

fn blocked(tasks: &[BlockedTask], cgroups: &CgroupNames) -> TableView {
    let heads = [
        ("task", Name),
        ("thread", Number),
        ("unit", Name),
        ("state", Number),
        ("seen", Text),
        ("where, innermost first", Path),
    ];
    let row = |task: &BlockedTask| {
        let mut stack: Vec<String> =
            task.stack.iter().take(MOST_FRAMES).map(|frame| shown(frame)).collect();
        if task.stack.len() > MOST_FRAMES {
            stack.push("…".to_owned());
        }
        let stack = match stack.is_empty() {
            true => "stack unavailable".to_owned(),
            false => stack.join(" ← "),
        };
        let state = shown(task.state.encode_utf8(&mut [0; 4]));
        let seen = format!("{} of {} samples", task.seen, task.looks);
        vec![
            shown(&task.task),
            task.pid.to_string(),
            unit_of(cgroups, task.pid),
            state,
            seen,
            stack,
        ]
    };
    let mut table = TableView::new(
        "Blocked and stopped tasks",
        "No blocked or stopped tasks.",
        &heads,
        tasks,
        row,
    );
    table.about = "D: uninterruptible, T: stopped, t: stopped by a tracer".to_owned();
    table
}

fn tasks(tasks: &[TaskUse], cgroups: &CgroupNames) -> TableView {
    let mut heads = vec![
        ("task", Name),
        ("pid", Number),
        ("unit", Name),
        ("user", Number),
        ("system", Number),
        ("minor faults", Number),
        ("major faults", Number),
        ("resident", Number),
        ("growth", Number),
        ("written", Number),
    ];
    let accounted = tasks.iter().any(|task| task.delays.is_some());
    if accounted {
        heads.push(("delays", Text));
    }
    let row = |task: &TaskUse| {
        let mut row = vec![
            shown(&task.task),
            task.pid.to_string(),
            unit_of(cgroups, task.pid),
            duration(task.user_ms.saturating_mul(1000)),
            duration(task.system_ms.saturating_mul(1000)),
            grouped(task.minor_faults),
            grouped(task.major_faults),
            format_bytes(task.resident_bytes),
            growth(task.resident_growth_bytes),
            task.written_bytes.map_or("–".to_owned(), format_bytes),
        ];
        if accounted {
            row.push(task.delays.map_or("–".to_owned(), delays));
        }
        row
    };
    let mut table = TableView::new(
        "Resource use of tasks",
        "Resource use of tasks was not recorded.",
        &heads,
        tasks,
        row,
    );
    table.about = "from shortly before the stall to its end".to_owned();
    table
}

fn flood(shares: &[FloodShare], page_bytes: u64, cgroups: &CgroupNames) -> TableView {
    let heads =
        [("task", Name), ("pid", Number), ("unit", Name), ("file", Path), ("added", Number)];
    let row = |share: &FloodShare| {
        vec![
            shown(&share.task),
            share.pid.to_string(),
            unit_of(cgroups, share.pid),
            shown(&share.path),
            format_bytes(share.pages.saturating_mul(page_bytes)),
        ]
    };
    TableView::new(
        "Who filled the page cache",
        "No task added pages to the page cache.",
        &heads,
        shares,
        row,
    )
}

/// The unit of a process or thread, as far as it is known.
fn unit_of(cgroups: &CgroupNames, pid: u32) -> String {
    let unit = cgroups.get(&pid).and_then(|cgroup| unit(cgroup));
    unit.map_or("–".to_owned(), |unit| shown(&unit))
}

/// The delays that are not zero, the longest first.
fn delays(delays: Delays) -> String {
    let mut named = [
        ("CPU", delays.cpu_us),
        ("block I/O", delays.block_io_us),
        ("swap", delays.swap_in_us),
        ("reclaim", delays.free_pages_us),
        ("thrashing", delays.thrashing_us),
        ("compaction", delays.compact_us),
        ("copy on write", delays.write_copy_us),
    ];
    named.sort_by_key(|(_, us)| std::cmp::Reverse(*us));
    let text = |(name, us): &(&str, u64)| format!("{name} {}", duration(*us));
    let long = named.iter().filter(|(_, us)| *us > 0).map(text).collect::<Vec<_>>();
    if long.is_empty() { "none".to_owned() } else { long.join(", ") }
}

fn duration(us: u64) -> String {
    match us {
        0 => "0".to_owned(),
        us => format_duration_ms(us as f64 / 1000.0),
    }
}

fn growth(bytes: i64) -> String {
    let sign = match bytes {
        0 => return "0".to_owned(),
        ..0 => '−',
        _ => '+',
    };
    format!("{sign}{}", format_bytes(bytes.unsigned_abs()))
}

/// A count with thousands separators: `1,234,567`.
pub(super) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped_and_growth_has_a_sign() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 2048, -2048].map(growth), ["0", "+2 KiB", "−2 KiB"]);
    }

    #[test]
    fn rows_beyond_the_limit_are_counted() {
        let table = roles("t", "e", &vec![Role::default(); MOST_ROWS + 7], &CgroupNames::new());
        assert_eq!((table.rows.len(), table.more), (MOST_ROWS, 7));
    }

    #[test]
    fn every_table_of_tasks_names_the_unit() {
        let pid = 7;
        let incident = Incident {
            suffering: vec![Role { pid, ..Role::default() }],
            causing: vec![Role { pid, ..Role::default() }],
            waits: vec![KernelWait { pid, total_us: 1_000, ..KernelWait::default() }],
            blocked: vec![BlockedTask { pid, ..BlockedTask::default() }],
            tasks: vec![TaskUse { pid, ..TaskUse::default() }],
            flood: vec![FloodShare { pid, ..FloodShare::default() }],
            cgroups: [(pid, "/system.slice/db.service".to_owned())].into(),
            ..Incident::default()
        };
        for table in of_tasks(&incident) {
            let unit = table.heads.iter().position(|head| head.name == "unit").unwrap();
            let row = &table.rows[0];
            assert_eq!(row.len(), table.heads.len(), "{}", table.title);
            assert_eq!((row[1].as_str(), row[unit].as_str()), ("7", "db.service"), "{row:?}");
        }
    }

    #[test]
    fn only_delays_that_were_are_named() {
        let some = Delays { compact_us: 2_100_000, cpu_us: 300_000, ..Delays::default() };
        assert_eq!(delays(some), "compaction 2.1 s, CPU 300 ms");
        assert_eq!(delays(Delays::default()), "none");
    }
}
