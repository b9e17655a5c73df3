//! What the template shows, in words.

use super::charts::IncidentCharts;
use super::flame::Flame;
use super::heat::Heat;
use super::path::PathView;
use super::safe::{self, shown};
use super::series::SampledRows;
use super::tables::{TableView, difference, grouped, of_tasks};
use crate::incident_words::{Section, heartbeats, sections};
use jiff::Timestamp;
use mw_model::{
    CanaryMetric, Cause, Consent, Finding, Incident, IncidentState, Metric, Missing, Remedy,
    Severity, Step, TriggerKind, format_bytes, format_count, format_duration_ms,
};
use serde::Serialize;

/// Causes that are shown; more are no explanation.
const MOST_CAUSES: usize = 12;
/// Lines of evidence, steps of a remedy, things that could not be seen.
const MOST_LINES: usize = 40;
/// Rows that a recording of ten a second may be late without being called late.
const USUAL_GAP_MS: u64 = 150;

#[derive(Debug, Serialize)]
pub(super) struct IncidentPage {
    title: String,
    id: u64,
    verdict: String,
    memwright: String,
    host: String,
    began: Option<FormattedTime>,
    facts: Vec<Fact>,
    heartbeats: Vec<String>,
    path: Option<PathView>,
    causes: Vec<CauseView>,
    sections: Vec<SectionView>,
    charts: usize,
    quiet: Vec<String>,
    absent: Vec<String>,
    zones: usize,
    zones_unchanged: Vec<String>,
    zones_left_out: usize,
    flame: Option<FlameView>,
    difference: TableView,
    tasks: Vec<TableView>,
    unseen: Vec<MissingView>,
    recorder: Vec<Fact>,
}

#[derive(Debug, Serialize)]
struct FormattedTime {
    /// For programs: RFC 3339.
    iso: String,
    text: String,
}

#[derive(Debug, Serialize)]
struct Fact {
    name: &'static str,
    text: String,
}

#[derive(Debug, Serialize)]
struct CauseView {
    rule: String,
    severity: Severity,
    is_memory: bool,
    confidence_percent: u8,
    explains_percent: Option<u8>,
    subject: String,
    headline: String,
    impact: String,
    evidence: Vec<EvidenceView>,
    remedy: Option<RemedyView>,
}

/// A list under a heading.
#[derive(Debug, Serialize)]
struct SectionView {
    heading: String,
    lines: Vec<String>,
}

#[derive(Debug, Serialize)]
struct EvidenceView {
    what: String,
    value: String,
    source: String,
}

#[derive(Debug, Serialize)]
struct RemedyView {
    summary: String,
    /// The command, where memwright fixes it.
    command: Option<String>,
    /// True if it takes something that somebody may have wanted.
    is_named: bool,
    ours: Vec<String>,
    /// Steps that are left to a person.
    theirs: Vec<StepView>,
}

#[derive(Debug, Serialize)]
struct StepView {
    before: &'static str,
    command: String,
}

#[derive(Debug, Serialize)]
struct FlameView {
    samples: String,
    span: String,
    hz: u32,
    compared: bool,
    cut: usize,
}

#[derive(Debug, Serialize)]
struct MissingView {
    what: String,
    why: String,
    absence: mw_model::Absence,
}

impl IncidentPage {
    pub(super) fn new(
        incident: &Incident,
        rows: &SampledRows,
        timeline: &IncidentCharts,
        heat: &Heat,
        flame: Option<&Flame>,
    ) -> Self {
        let host = match incident.host.name.as_str() {
            "" => "unknown host".to_owned(),
            name => shown(name),
        };
        Self {
            title: format!("Incident {} on {host}", incident.id),
            id: incident.id,
            verdict: verdict(incident),
            memwright: shown(&incident.host.memwright),
            host,
            began: moment(incident.started_unix_ms),
            facts: facts(incident),
            heartbeats: heartbeats(incident).iter().map(|line| shown(line)).collect(),
            path: incident.path.as_ref().and_then(PathView::new),
            causes: incident.causes.iter().take(MOST_CAUSES).map(cause).collect(),
            sections: sections(incident).iter().map(section).collect(),
            charts: timeline.charts.len(),
            quiet: timeline.quiet.clone(),
            absent: timeline.absent.clone(),
            zones: heat.zones.len(),
            zones_unchanged: heat.unchanged.clone(),
            zones_left_out: heat.left_out,
            flame: flame.and_then(|flame| flame_view(incident, flame)),
            difference: difference(&incident.difference),
            tasks: of_tasks(incident),
            unseen: incident.unseen.iter().take(MOST_LINES).map(missing).collect(),
            recorder: recorder(incident, rows),
        }
    }
}

fn verdict(incident: &Incident) -> String {
    match incident.verdict.as_str() {
        "" => "An unexplained stall".to_owned(),
        verdict => shown(verdict),
    }
}

/// A time of the machine, whose clock may have had any value.
fn moment(unix_ms: u64) -> Option<FormattedTime> {
    let at = i64::try_from(unix_ms).ok().filter(|ms| *ms > 0)?;
    let at = Timestamp::from_millisecond(at).ok()?;
    let text = at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
    Some(FormattedTime { iso: at.to_string(), text })
}

fn facts(incident: &Incident) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut fact = |name, text: String| facts.push(Fact { name, text });
    if incident.ended_unix_ms > incident.started_unix_ms {
        let lasted = format_duration_ms(incident.duration_ms() as f64);
        let so_far = match incident.state {
            IncidentState::Closed => "",
            IncidentState::Open => " so far; the cause is provisional",
            IncidentState::Interrupted => ", then the recorder ended",
        };
        fact("Lasted", format!("{lasted}{so_far}"));
    }
    fact("Detected by", trigger(incident));
    match incident.seen_unix_ms.checked_sub(incident.started_unix_ms) {
        None | Some(0) => {}
        Some(after) => {
            fact("Noticed", format!("{} after the start", format_duration_ms(after as f64)))
        }
    }
    let host = &incident.host;
    if !host.kernel.is_empty() {
        fact("Kernel", shown(&host.kernel));
    }
    if host.cpus > 0 {
        let cpus = format_count(host.cpus, "CPU");
        fact("Machine", format!("{cpus}, {}", format_bytes(host.memory_bytes)));
    }
    facts
}

fn trigger(incident: &Incident) -> String {
    let trigger = &incident.trigger;
    let kind = match trigger.kind {
        TriggerKind::Probe => format!("probe {}", shown(&trigger.name)),
        TriggerKind::Canary => "the recorder's canary".to_owned(),
        TriggerKind::Pressure => {
            let [waited, limit] = [trigger.worst_ms, trigger.limit_ms].map(format_duration_ms);
            return format!(
                "some task, kswapd included, that waited for memory for {waited} (trigger: {limit} of a second)"
            );
        }
        TriggerKind::Heartbeat => "a late heartbeat".to_owned(),
        TriggerKind::OomKill => "a kill of the OOM killer".to_owned(),
        TriggerKind::Requested => return "somebody asked for evidence".to_owned(),
    };
    let mut said = vec![kind.trim().to_owned()];
    if trigger.failure.is_some() {
        let outage = format_duration_ms(incident.duration_ms() as f64);
        said.push(format!("no good answer for {outage}"));
    } else if trigger.worst_ms > trigger.limit_ms {
        said.push(format!("{} at worst", format_duration_ms(trigger.worst_ms)));
        said.push(format!("limit {}", format_duration_ms(trigger.limit_ms)));
    }
    said.extend(trigger.failure.as_deref().map(shown));
    said.join(", ")
}

fn section(section: &Section) -> SectionView {
    let mut heading = section.heading.to_owned();
    if let Some(first) = heading.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    SectionView { heading, lines: section.lines.iter().map(|line| shown(line)).collect() }
}

fn cause(cause: &Cause) -> CauseView {
    let finding = &cause.finding;
    let evidence = |evidence: &mw_model::Evidence| EvidenceView {
        what: shown(&evidence.what),
        value: shown(&evidence.quantity.to_string()),
        source: shown(&evidence.source),
    };
    CauseView {
        rule: shown(&finding.rule),
        severity: finding.severity,
        is_memory: !cause.is_outside_memory,
        confidence_percent: cause.confidence_percent.min(100),
        explains_percent: cause.explains_percent.map(|percent| percent.min(100)),
        subject: shown(&finding.subject.to_string()),
        headline: shown(&finding.headline),
        impact: shown(&finding.impact),
        evidence: finding.evidence.iter().take(MOST_LINES).map(evidence).collect(),
        remedy: finding.remedy.as_ref().map(|of| remedy(finding, of)),
    }
}

fn remedy(finding: &Finding, remedy: &Remedy) -> RemedyView {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for step in remedy.steps.iter().take(MOST_LINES) {
        match step {
            Step::Write { path, value } => {
                ours.push(format!("sets {} to {}", shown(path), shown(value)));
            }
            Step::Once { path, value } => {
                ours.push(format!("writes {} to {} once", shown(value), shown(path)));
            }
            Step::Manual { command } => {
                theirs.push(StepView { before: "", command: safe::command(command) });
            }
            Step::BootParameter { parameter } => {
                theirs.push(StepView { before: "Boot with", command: safe::command(parameter) });
            }
        }
    }
    RemedyView {
        summary: shown(&remedy.summary),
        command: (remedy.is_ours() && is_id(&finding.rule))
            .then(|| format!("memwright fix {}", finding.rule)),
        is_named: remedy.consent == Consent::Named,
        ours,
        theirs,
    }
}

/// True if a rule's name is one, and not what a recording from elsewhere wants to have typed.
fn is_id(rule: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !rule.is_empty() && !rule.starts_with('-') && rule.bytes().all(is_plain)
}

fn flame_view(incident: &Incident, flame: &Flame) -> Option<FlameView> {
    let profile = incident.profile.as_ref()?;
    Some(FlameView {
        samples: grouped(flame.samples),
        span: format_duration_ms(profile.span_ms as f64),
        hz: profile.hz,
        compared: flame.compared,
        cut: flame.cut,
    })
}

fn missing(missing: &Missing) -> MissingView {
    MissingView { what: shown(&missing.what), why: shown(&missing.why), absence: missing.absence }
}

/// Punctuality of the recorder.
fn recorder(incident: &Incident, rows: &SampledRows) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut fact = |name, text: String| facts.push(Fact { name, text });
    let lost = match incident.lost_records {
        0 => "none".to_owned(),
        lost => {
            format!("{} profile and tracepoint records: shares may be inaccurate", grouped(lost))
        }
    };
    fact("Lost records", lost);
    // Before the stall was seen rows are seldom.
    let pairs = incident.table.at_unix_ms.windows(2).filter(|pair| pair[0] > incident.seen_unix_ms);
    if let Some(gap) = pairs.map(|pair| pair[1].saturating_sub(pair[0])).max() {
        let late = if gap > USUAL_GAP_MS { " (ten rows a second expected)" } else { "" };
        fact("Longest gap between two rows", format!("{}{late}", format_duration_ms(gap as f64)));
    }
    let worst = incident
        .table
        .values(&Metric::Canary(CanaryMetric::Late))
        .and_then(|late| late.flatten().max());
    if let Some(late_us) = worst {
        fact("Worst scheduling latency of the canary", format_duration_ms(late_us as f64 / 1000.0));
    }
    if rows.odd > 0 {
        let rows = grouped(rows.odd as u64);
        fact("Clock", format!("it jumped; {rows} rows are not drawn"));
    }
    facts
}
