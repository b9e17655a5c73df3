//! What the recording has of the seconds before a line: a stall with its cause, or how much of the time tasks waited for
//! memory, disks and CPUs.

use super::known::{Known, Says};
use super::logs::{Found, Lines};
use crate::{Exit, Failure};
use mw_model::{IncidentRow, Tick};
use mw_record::{RecordError, Recording};
use serde::Serialize;

/// The version of what is printed as JSON.
pub(super) const SCHEMA: u32 = 1;

/// A heartbeat is late by seconds: what ended longer before a line does not explain it.
const BEFORE_MS: u64 = 15_000;

/// A stall may be noticed after the line.
const AFTER_MS: u64 = 2_000;

/// Lines of one software that follow each other within this time are one report,
const TOGETHER_MS: u64 = 10_000;

/// which is no longer than this: it is explained by one stall.
const LONGEST_MS: u64 = 60_000;

/// What `heartbeats --json` prints.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Heartbeats {
    /// The version of the format.
    schema: u32,
    /// The reports, by time.
    pub(super) lines: Vec<Explained>,
    /// How many lines there were beyond a limit; they are the oldest.
    pub(super) left_out: usize,
    /// What was not read, in words.
    pub(super) not_read: Vec<String>,
}

/// A report, and what is recorded of the time before it.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Explained {
    /// When, in milliseconds since 1970.
    pub(super) unix_ms: u64,
    /// The software.
    pub(super) software: String,
    /// Whether this machine was late, or another one was not heard.
    pub(super) says: Says,
    /// Its line.
    pub(super) line: String,
    /// How many lines follow each other closely, this one included.
    pub(super) times: usize,
    /// When the last of them was written.
    last_unix_ms: u64,
    /// The number of the incident that was recorded then.
    incident: Option<u64>,
    /// The first cause of that incident: a rule.
    cause: Option<String>,
    /// The shares of its time and of that before it in which tasks waited, in percent.
    waited: Option<Waited>,
    /// The same in one line.
    pub(super) explanation: String,
}

/// Shares of time in which some task waited, in percent, as of /proc/pressure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Waited {
    /// For memory.
    memory_percent: f64,
    /// For disks.
    io_percent: f64,
    /// For CPUs.
    cpu_percent: f64,
}

/// What a report follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// A stall that memory caused.
    Memory,
    /// A stall with another cause.
    Other,
    /// A stall whose cause is not known.
    Unexplained,
    /// No stall, though that time was recorded.
    Nothing,
    Unrecorded,
}

impl Explained {
    pub(super) fn after(&self) -> After {
        match (&self.cause, self.incident, self.waited) {
            (Some(cause), ..) => match mw_rules::find(cause) {
                Some(rule) if rule.is_of_memory() => After::Memory,
                Some(_) => After::Other,
                None => After::Unexplained,
            },
            (None, Some(_), _) => After::Unexplained,
            (None, None, Some(_)) => After::Nothing,
            (None, None, None) => After::Unrecorded,
        }
    }
}

/// Lines of one kind that follow each other closely.
struct Group<'a> {
    first: &'a Found,
    known: &'a Known,
    last_unix_ms: u64,
    times: usize,
}

/// Explains lines by a recording, where there is one.
pub(super) fn join(
    lines: Lines,
    recording: Option<&Recording>,
    wanted: &[Known],
) -> Result<Heartbeats, Failure> {
    let could_not = |error: RecordError| Failure::new(Exit::CouldNotCheck, error);
    let incidents = recording.map(Recording::incidents).transpose().map_err(could_not)?;
    let incidents = incidents.unwrap_or_default();
    let explained = groups(&lines.found, wanted)
        .into_iter()
        .map(|group| explain(&group, &incidents, recording));
    let reports = explained.collect::<Result<Vec<_>, _>>().map_err(could_not)?;
    Ok(Heartbeats {
        schema: SCHEMA,
        lines: reports,
        left_out: lines.left_out,
        not_read: lines.not_read,
    })
}

fn groups<'a>(found: &'a [Found], wanted: &'a [Known]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for found in found {
        let Some(known) = wanted.get(found.known) else { continue };
        let is_same = |group: &&mut Group<'_>| {
            (&group.known.software, group.known.says) == (&known.software, known.says)
        };
        let is_near = |group: &&mut Group<'_>| {
            found.unix_ms.saturating_sub(group.last_unix_ms) <= TOGETHER_MS
                && found.unix_ms.saturating_sub(group.first.unix_ms) <= LONGEST_MS
        };
        match groups.iter_mut().rev().find(is_same).filter(is_near) {
            Some(group) => {
                group.times += 1;
                group.last_unix_ms = found.unix_ms;
            }
            None => {
                groups.push(Group { first: found, known, last_unix_ms: found.unix_ms, times: 1 })
            }
        }
    }
    groups
}

fn explain(
    group: &Group<'_>,
    incidents: &[IncidentRow],
    recording: Option<&Recording>,
) -> Result<Explained, RecordError> {
    let Group { first: found, known, .. } = group;
    let since = found.unix_ms.saturating_sub(BEFORE_MS);
    let until = group.last_unix_ms.saturating_add(AFTER_MS);
    let overlaps = |row: &&IncidentRow| row.ended_unix_ms >= since && row.started_unix_ms <= until;
    // A cause before none, then the longest.
    let by_weight = |a: &&IncidentRow, b: &&IncidentRow| {
        let weight = |row: &IncidentRow| (row.cause.is_some(), row.worst_ms);
        weight(a).partial_cmp(&weight(b)).unwrap_or(std::cmp::Ordering::Equal)
    };
    let incident = incidents.iter().filter(overlaps).max_by(by_weight);
    let waited = match recording {
        Some(recording) => waited(&recording.ticks(since, group.last_unix_ms)?),
        None => None,
    };
    let explanation = match (incident, waited) {
        (Some(row), _) => format!(
            "incident {} ({} to {}): {}",
            row.id,
            shown(row.started_unix_ms),
            shown(row.ended_unix_ms),
            row.verdict
        ),
        (None, Some(Waited { memory_percent, io_percent, cpu_percent })) => format!(
            "no stall recorded; from {} s before, tasks waited for memory {memory_percent:.0}%, for disks \
             {io_percent:.0}%, for CPUs {cpu_percent:.0}% of the time",
            BEFORE_MS / 1000
        ),
        (None, None) => "nothing recorded of that time".to_owned(),
    };
    Ok(Explained {
        unix_ms: found.unix_ms,
        software: known.software.clone(),
        says: known.says,
        line: mw_model::visible::line(&found.text).to_string(),
        times: group.times,
        last_unix_ms: group.last_unix_ms,
        incident: incident.map(|row| row.id),
        cause: incident.and_then(|row| row.cause.clone()),
        waited,
        explanation,
    })
}

/// Between the first and the last tick.
fn waited(ticks: &[Tick]) -> Option<Waited> {
    let (first, last) = (ticks.first()?, ticks.last()?);
    let us = last.unix_ms.checked_sub(first.unix_ms).filter(|ms| *ms > 0)?.saturating_mul(1000);
    let percent = |of: fn(&Tick) -> Option<u64>| {
        let waited = of(last)?.saturating_sub(of(first)?);
        Some((waited as f64 / us as f64 * 100.0).min(100.0))
    };
    Some(Waited {
        memory_percent: percent(|tick| some_us(&tick.sample.pressure.memory))?,
        io_percent: percent(|tick| some_us(&tick.sample.pressure.io))?,
        cpu_percent: percent(|tick| some_us(&tick.sample.pressure.cpu))?,
    })
}

fn some_us(pressure: &mw_model::Reading<mw_proc::pressure::Pressure>) -> Option<u64> {
    pressure.value().map(|pressure| pressure.some.total_us)
}

/// In local time.
pub(super) fn shown(unix_ms: u64) -> String {
    let time = i64::try_from(unix_ms).ok();
    let time = time.and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok()).unwrap_or_default();
    time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}
