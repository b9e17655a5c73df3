//! The tables of the data set: their columns, and the rows of a day.

use crate::frame::{Cell, ColumnType, Frame, FrameColumn};
use crate::hours::{self, HOUR_MS};
use crate::minutes::{self, LONGEST_GAP_MS, MinuteRow, Minutes};
use mw_model::{BlameShare, Host, IncidentRow, IncidentState, SizeHistory};
use mw_record::{RecordError, Recording, word};
use std::collections::BTreeMap;
use std::ops::Range;

/// A table of the data set.
#[derive(Debug, Clone, Copy)]
pub struct TableSpec {
    pub name: &'static str,
    /// Meaning of a row.
    pub about: &'static str,
    /// Its columns after `recorded_at` and `host`.
    columns: fn() -> Vec<FrameColumn>,
}

/// All tables.
pub const TABLES: [TableSpec; 6] = [MINUTES, HOURS, INCIDENTS, BLAME, HOLDERS, FACTS];

pub(crate) const MINUTES: TableSpec = TableSpec {
    name: "minutes",
    about: "a minute of a machine; `recorded_at` is its beginning",
    columns: || minutes::columns().collect(),
};

const HOURS: TableSpec = TableSpec {
    name: "hours",
    about: "an hour of a machine, made of its minutes; `recorded_at` is its beginning",
    columns: || hours::columns().collect(),
};

const INCIDENTS: TableSpec = TableSpec {
    name: "incidents",
    about: "a stall or failure; `recorded_at` is when it began",
    columns: || {
        vec![
            number("incident", "its number in the recording"),
            text("state", "open, closed or interrupted"),
            number("lasted_ms", "from its beginning to its end"),
            text("trigger_kind", "what kind of look showed it"),
            text("trigger_name", "the probe, or the kind"),
            number("worst_us", "what that look came to at worst"),
            text("cause", "the rule of the first cause"),
            number("confidence_percent", "confidence of that cause"),
            text("subject", "what the cause is about"),
            text("failure", "how the probe failed"),
            text("verdict", "the answer in one line"),
            text("kernel", "the release of the kernel"),
            text("memwright", "the version that recorded"),
            number("cpus", "CPUs"),
            number("memory_bytes", "memory that the kernel manages"),
        ]
    },
};

const BLAME: TableSpec = TableSpec {
    name: "blame",
    about: "time that the victim of an incident lost to a culprit; `recorded_at` is when the incident began",
    columns: || {
        vec![
            number("incident", "its number in the recording"),
            text("victim", "a unit, pod, container, cgroup or process; `machine` without a probe"),
            text(
                "culprit",
                "the same; `kernel`, `hypervisor`, `device`; `unknown` where none is proven",
            ),
            text("culprit_cgroup", "the cgroup of the culprit, where it is known"),
            text("culprit_process", "the process that the evidence is of, where it is known"),
            text("cause", "the rule of the cause; none where no cause explains the time"),
            number("lost_ms", "the time; the rows of an incident add up to its duration"),
        ]
    },
};

const HOLDERS: TableSpec = TableSpec {
    name: "holders",
    about: "the last size in an hour of what held memory",
    columns: || {
        vec![
            text(
                "holder",
                "what it is: `cgroup./system.slice`, `process.PID.START.NAME`, `slab.NAME`",
            ),
            text("kind", "the part before the first dot"),
            text("name", "the path of a cgroup, the name of a process or of a cache"),
            number("bytes", "its size"),
            number("limit_bytes", "how large it may become"),
        ]
    },
};

const FACTS: TableSpec = TableSpec {
    name: "facts",
    about: "a fact of `memwright fleet facts`, as it was when the day was last shipped",
    columns: || vec![text("fact", "its name"), text("value", "its value")],
};

const AT: FrameColumn =
    FrameColumn { name: "recorded_at", kind: ColumnType::Time, about: "when, in UTC" };

const HOST: FrameColumn = text("host", "the name of the machine");

const fn number(name: &'static str, about: &'static str) -> FrameColumn {
    FrameColumn { name, kind: ColumnType::Number, about }
}

const fn text(name: &'static str, about: &'static str) -> FrameColumn {
    FrameColumn { name, kind: ColumnType::Text, about }
}

impl TableSpec {
    /// All columns, in their order.
    #[must_use]
    pub fn columns(&self) -> Vec<FrameColumn> {
        [AT, HOST].into_iter().chain((self.columns)()).collect()
    }

    /// A table without rows.
    pub(crate) fn empty(&self) -> Frame {
        Frame { columns: self.columns(), rows: Vec::new() }
    }

    /// Rows of one machine, each with its time.
    fn frame(&self, host: &str, rows: impl IntoIterator<Item = (u64, Vec<Cell>)>) -> Frame {
        let row = |(at, cells): (u64, Vec<Cell>)| {
            let first = [Cell::from(at), Cell::Text(host.to_owned())];
            first.into_iter().chain(cells).collect()
        };
        Frame { columns: self.columns(), rows: rows.into_iter().map(row).collect() }
    }
}

/// The rows of a day, by table, and whether all of its incidents have ended.
pub(crate) fn of_day(
    recording: &Recording,
    incidents: &[IncidentRow],
    host: &str,
    day: &Range<u64>,
) -> Result<(Vec<(TableSpec, Frame)>, bool), RecordError> {
    let incidents: Vec<&IncidentRow> =
        incidents.iter().filter(|incident| day.contains(&incident.started_unix_ms)).collect();
    let has_ended = incidents.iter().all(|incident| incident.state != IncidentState::Open);
    let sizes = recording.sizes(day.start, day.end.saturating_sub(1))?;
    let minutes = minutes_of(recording, day)?;
    let frames = vec![
        (HOURS, HOURS.frame(host, hours::rows(&minutes))),
        (MINUTES, MINUTES.frame(host, minutes::rows(minutes))),
        (
            INCIDENTS,
            INCIDENTS.frame(host, incidents.iter().map(|row| incident(row, recording.host()))),
        ),
        (BLAME, BLAME.frame(host, blame(recording, &incidents)?)),
        (HOLDERS, HOLDERS.frame(host, holders(&sizes))),
    ];
    Ok((frames, has_ended))
}

/// Current settings of the machine.
pub(crate) fn facts(host: &str, facts: &BTreeMap<String, String>, now: u64) -> (TableSpec, Frame) {
    let row =
        |(fact, value): (&String, &String)| (now, vec![fact.clone().into(), value.clone().into()]);
    (FACTS, FACTS.frame(host, facts.iter().map(row)))
}

fn minutes_of(
    recording: &Recording,
    day: &Range<u64>,
) -> Result<BTreeMap<u64, MinuteRow>, RecordError> {
    let mut minutes = Minutes::new(match recording.host().page_bytes {
        0 => mw_model::derived::USUAL_PAGE_BYTES,
        bytes => bytes,
    });
    // The counters' values before midnight.
    let since = day.start.saturating_sub(LONGEST_GAP_MS);
    recording.stream(since, day.end.saturating_sub(1), |table| {
        minutes.add(&table);
        Ok::<(), RecordError>(())
    })?;
    Ok(minutes.within(day))
}

fn incident(row: &IncidentRow, host: &Host) -> (u64, Vec<Cell>) {
    let cells = vec![
        row.id.into(),
        word(row.state).into(),
        row.ended_unix_ms.saturating_sub(row.started_unix_ms).into(),
        word(row.trigger_kind).into(),
        row.trigger_name.clone().into(),
        // Saturates.
        ((row.worst_ms * 1000.0) as u64).into(),
        row.cause.clone().into(),
        row.confidence_percent.map(u64::from).into(),
        row.subject.as_ref().map(ToString::to_string).into(),
        row.failure_kind.map(word).into(),
        row.verdict.clone().into(),
        host.kernel.clone().into(),
        host.memwright.clone().into(),
        u64::from(host.cpus).into(),
        host.memory_bytes.into(),
    ];
    (row.started_unix_ms, cells)
}

/// The shares of incidents.
fn blame(
    recording: &Recording,
    incidents: &[&IncidentRow],
) -> Result<Vec<(u64, Vec<Cell>)>, RecordError> {
    let mut rows = Vec::new();
    for row in incidents {
        let incident = match recording.incident(row.id) {
            // The list has it whose evidence is damaged.
            Err(RecordError::Damaged { .. }) => None,
            read => read?,
        };
        let shares = incident.iter().flat_map(mw_rules::blame);
        rows.extend(shares.map(|share| {
            let BlameShare { victim, culprit, cause, lost_ms } = share;
            let cells = vec![
                row.id.into(),
                victim.to_string().into(),
                culprit.to_string().into(),
                culprit.cgroup.into(),
                culprit.process.map(|process| process.name).into(),
                cause.into(),
                lost_ms.into(),
            ];
            (row.started_unix_ms, cells)
        }));
    }
    Ok(rows)
}

/// The last size of each holder in each hour.
fn holders(sizes: &SizeHistory) -> Vec<(u64, Vec<Cell>)> {
    let mut rows = Vec::new();
    for series in &sizes.series {
        let holder = series.holder.to_string();
        let (kind, rest) = holder.split_once('.').unwrap_or((&holder, ""));
        let name = match kind {
            // What tells a process from a later one comes before its name.
            "process" => rest.splitn(3, '.').last().unwrap_or(rest),
            _ => rest,
        };
        let by_hour: BTreeMap<u64, &(u64, u64)> =
            series.sizes.iter().map(|size| (size.0 / HOUR_MS, size)).collect();
        for (at, bytes) in by_hour.into_values() {
            let cells = [holder.as_str(), kind, name].map(|text| Cell::Text(text.to_owned()));
            let numbers = [Cell::from(*bytes), series.limit_bytes.into()];
            rows.push((*at, cells.into_iter().chain(numbers).collect()));
        }
    }
    rows.sort_by_key(|(at, _)| *at);
    rows
}
