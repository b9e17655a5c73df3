//! Contents of the recording for the seconds before a line: a stall with its cause, or how much of the time tasks waited for
//! memory, disks and CPUs.

use super::known::{KnownLine, LONGEST_DELAY_MS};
use super::logs::{FoundLine, FoundLines, TimeRange};
use mw_model::{HeartbeatKind, HeartbeatReport, Incident, IncidentRow, Tick};
use mw_record::{RecordError, Recording};
use serde::Serialize;
use std::fmt::Write;

/// The version of what is printed as JSON.
pub const HEARTBEATS_SCHEMA: u32 = 1;

/// A heartbeat is late by seconds: what ended longer before a line, or before the delay that it reports, does not explain
/// it.
const BEFORE_MS: u64 = 15_000;

/// A stall may be noticed after the line.
const AFTER_MS: u64 = 2_000;

/// Lines of one software that follow each other within this time are one report,
const TOGETHER_MS: u64 = 10_000;

/// which is no longer than this: it is explained by one stall.
const LONGEST_MS: u64 = 60_000;

/// Output of `heartbeats --json`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct LateHeartbeats {
    /// The version of the format.
    schema: u32,
    /// The reports, by time.
    pub lines: Vec<ExplainedReport>,
    /// Number of lines beyond a limit; they are the oldest.
    left_out: usize,
    /// Logs that were not read, in words.
    not_read: Vec<String>,
}

/// A report, and what is recorded of the time before it.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct ExplainedReport {
    #[serde(flatten)]
    report: HeartbeatReport,
    /// The number of the incident that was recorded then.
    incident: Option<u64>,
    /// The first cause of that incident: a rule.
    cause: Option<String>,
    /// The shares of its time and of that before it in which tasks waited, in percent.
    waited: Option<WaitShares>,
    /// The same in one line.
    explanation: String,
}

/// Shares of time in which some task waited, in percent, as of /proc/pressure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
struct WaitShares {
    /// For memory.
    memory_percent: f64,
    /// For disks.
    io_percent: f64,
    /// For CPUs.
    cpu_percent: f64,
}

/// The event that a report follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Precedent {
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

impl ExplainedReport {
    fn precedent(&self) -> Precedent {
        match (&self.cause, self.incident, self.waited) {
            (Some(cause), ..) => match mw_rules::find(cause) {
                Some(rule) if rule.is_of_memory() => Precedent::Memory,
                Some(_) => Precedent::Other,
                None => Precedent::Unexplained,
            },
            (None, Some(_), _) => Precedent::Unexplained,
            (None, None, Some(_)) => Precedent::Nothing,
            (None, None, None) => Precedent::Unrecorded,
        }
    }
}

impl LateHeartbeats {
    /// The answer in the first line, then the lines, each with what is recorded of the time before it.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { lines, left_out, not_read, .. } = self;
        let mut text = match lines.len() {
            0 => "no line reports a late heartbeat".to_owned(),
            1 => "1 report of a late heartbeat: ".to_owned(),
            count => format!("{count} reports of a late heartbeat: "),
        };
        let count = |after| lines.iter().filter(|line| line.precedent() == after).count();
        let parts = [
            (Precedent::Memory, "after a memory stall"),
            (Precedent::Other, "after another stall"),
            (Precedent::Unexplained, "after a stall of unknown cause"),
            (Precedent::Nothing, "without a stall"),
            (Precedent::Unrecorded, "at times without a recording"),
        ];
        let parts = parts.iter().map(|(after, what)| (count(*after), what));
        let parts = parts.filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts.map(|(count, what)| format!("{count} {what}")).collect();
        text += &parts.join(", ");
        if *left_out > 0 {
            let _ = write!(text, "; {left_out} earlier lines were left out");
        }
        if !not_read.is_empty() {
            let _ = write!(text, "; not read: {}", not_read.join(", "));
        }
        text.push('\n');
        for line in lines {
            let HeartbeatReport { unix_ms, software, says, line: said, times, .. } = &line.report;
            let times = if *times > 1 { format!(" ({times} times)") } else { String::new() };
            let _ = writeln!(text, "  {}  {software}{times}: {said}", shown(*unix_ms));
            let _ = writeln!(text, "    {}", line.explanation);
            if *says == HeartbeatKind::Unheard {
                let _ = writeln!(
                    text,
                    "    the line is about another machine: ask there, too; the network may have lost the heartbeat"
                );
            }
        }
        text
    }
}

/// Explains lines by a recording, where there is one.
///
/// # Errors
/// The recording cannot be read.
pub fn join(
    lines: FoundLines,
    recording: Option<&Recording>,
    wanted: &[KnownLine],
) -> Result<LateHeartbeats, RecordError> {
    let incidents = recording.map(Recording::incidents).transpose()?;
    let incidents = incidents.unwrap_or_default();
    let explained = reports(&lines.found, wanted)
        .into_iter()
        .map(|report| explain(report, &incidents, recording));
    let reports = explained.collect::<Result<Vec<_>, _>>()?;
    Ok(LateHeartbeats {
        schema: HEARTBEATS_SCHEMA,
        lines: reports,
        left_out: lines.left_out,
        not_read: lines.not_read,
    })
}

/// The time of lines that may report what was late during an incident.
#[must_use]
pub fn around(incident: &Incident) -> TimeRange {
    TimeRange {
        since: incident.started_unix_ms.saturating_sub(AFTER_MS),
        until: incident.ended_unix_ms.saturating_add(LONGEST_DELAY_MS),
    }
}

/// True if a stall of that time may be what a report is of.
#[must_use]
pub fn is_of(report: &HeartbeatReport, started_unix_ms: u64, ended_unix_ms: u64) -> bool {
    let TimeRange { since, until } = looked_at(report);
    ended_unix_ms >= since && started_unix_ms <= until
}

/// The time in which a report has its cause.
fn looked_at(report: &HeartbeatReport) -> TimeRange {
    let delayed = report.since_unix_ms.saturating_sub(AFTER_MS);
    TimeRange {
        since: report.unix_ms.saturating_sub(BEFORE_MS).min(delayed),
        until: report.last_unix_ms.saturating_add(AFTER_MS),
    }
}

/// Reports: lines of one software that follow each other closely are one.
#[must_use]
pub fn reports(found: &[FoundLine], wanted: &[KnownLine]) -> Vec<HeartbeatReport> {
    let mut reports: Vec<HeartbeatReport> = Vec::new();
    for found in found {
        let Some(known) = wanted.get(found.known) else { continue };
        let delay_ms = known.delay_ms(&found.text).unwrap_or_default();
        let since_unix_ms = found.unix_ms.saturating_sub(delay_ms);
        let is_same = |report: &&mut HeartbeatReport| {
            (&report.software, report.says) == (&known.software, known.says)
        };
        let is_near = |report: &&mut HeartbeatReport| {
            // What is shown is the first line: the others may be explained by the same.
            since_unix_ms.saturating_add(BEFORE_MS) >= report.since_unix_ms
                && found.unix_ms.saturating_sub(report.last_unix_ms) <= TOGETHER_MS
                && found.unix_ms.saturating_sub(report.unix_ms) <= LONGEST_MS
        };
        match reports.iter_mut().rev().find(is_same).filter(is_near) {
            Some(report) => {
                report.times += 1;
                report.last_unix_ms = found.unix_ms;
            }
            None => reports.push(HeartbeatReport {
                unix_ms: found.unix_ms,
                software: known.software.clone(),
                says: known.says,
                // Pacemaker separates by tabs.
                line: mw_model::visible::line(&found.text.replace('\t', " ")).to_string(),
                times: 1,
                last_unix_ms: found.unix_ms,
                since_unix_ms,
            }),
        }
    }
    reports
}

fn explain(
    report: HeartbeatReport,
    incidents: &[IncidentRow],
    recording: Option<&Recording>,
) -> Result<ExplainedReport, RecordError> {
    let since = looked_at(&report).since;
    let overlaps = |row: &&IncidentRow| is_of(&report, row.started_unix_ms, row.ended_unix_ms);
    // A cause before none, then the longest.
    let by_weight = |a: &&IncidentRow, b: &&IncidentRow| {
        let weight = |row: &IncidentRow| (row.cause.is_some(), row.worst_ms);
        weight(a).partial_cmp(&weight(b)).unwrap_or(std::cmp::Ordering::Equal)
    };
    let incident = incidents.iter().filter(overlaps).max_by(by_weight);
    let waited = match recording {
        Some(recording) => waited(&recording.ticks(since, report.last_unix_ms)?),
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
        (None, Some(WaitShares { memory_percent, io_percent, cpu_percent })) => format!(
            "no stall recorded; from {} s before, tasks waited for memory {memory_percent:.0}%, for disks \
             {io_percent:.0}%, for CPUs {cpu_percent:.0}% of the time",
            report.unix_ms.saturating_sub(since) / 1000
        ),
        (None, None) => "nothing recorded of that time".to_owned(),
    };
    let cause = incident.and_then(|row| row.cause.clone());
    Ok(ExplainedReport { report, incident: incident.map(|row| row.id), cause, waited, explanation })
}

/// Shares between the first and the last tick.
fn waited(ticks: &[Tick]) -> Option<WaitShares> {
    let (first, last) = (ticks.first()?, ticks.last()?);
    let us = last.unix_ms.checked_sub(first.unix_ms).filter(|ms| *ms > 0)?.saturating_mul(1000);
    let percent = |of: fn(&Tick) -> Option<u64>| {
        let waited = of(last)?.saturating_sub(of(first)?);
        Some((waited as f64 / us as f64 * 100.0).min(100.0))
    };
    Some(WaitShares {
        memory_percent: percent(|tick| some_us(&tick.sample.pressure.memory))?,
        io_percent: percent(|tick| some_us(&tick.sample.pressure.io))?,
        cpu_percent: percent(|tick| some_us(&tick.sample.pressure.cpu))?,
    })
}

fn some_us(pressure: &mw_model::Reading<mw_proc::pressure::Pressure>) -> Option<u64> {
    pressure.value().map(|pressure| pressure.some.total_us)
}

/// A time as local time.
fn shown(unix_ms: u64) -> String {
    let time = i64::try_from(unix_ms).ok();
    let time = time.and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok()).unwrap_or_default();
    time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}
