//! The summary of an incident in a notification: small and bounded, unlike its evidence.

use crate::notice_summary::NoticeSummary;
use mw_model::fair::cgroup_tree;
use mw_model::{
    Cause, Incident, IncidentState, Severity, Subject, TriggerKind, format_duration_ms, visible,
};
use serde::Serialize;

/// Version of the JSON that commands and webhooks get.
pub const NOTICE_SCHEMA: u32 = 1;

/// Stands for the cause of an incident that has none.
pub const UNKNOWN: &str = "unknown";

/// The most causes in one notification.
const MAX_CAUSES: usize = 4;

#[derive(Debug, Clone, Serialize)]
pub struct Notice {
    pub schema: u32,
    /// Sent by `memwright notify --test`: there is no incident.
    pub test: bool,
    pub state: IncidentState,
    /// 0 where the incident could not be kept yet.
    pub incident: u64,
    pub host: String,
    /// Trigger of the stall: the probe's name, `canary`, `pressure`, `heartbeat`, `oom_kill`, `requested`.
    pub probe: String,
    pub trigger: TriggerKind,
    pub started_unix_ms: u64,
    pub ended_unix_ms: u64,
    /// The slowest answer; the length of an outage.
    pub stall_ms: f64,
    pub failure: Option<String>,
    pub verdict: String,
    /// The rule of the most likely cause, or `unknown`.
    pub cause: String,
    pub severity: Severity,
    pub causes: Vec<Cause>,
    /// The cgroup that the most likely cause is about, where it is about one.
    pub cgroup: Option<String>,
    /// Incidents of the same cause and source that were held back since the last message.
    pub others: u64,
    /// The command that shows it.
    pub report: String,
    /// Its source, in levels: `probe/db`, `canary`, `oom_kill/user.slice/user-1000.slice`.
    #[serde(skip)]
    pub(crate) source: String,
    /// Its duration so far, if it is reported while it lasts.
    #[serde(skip)]
    pub(crate) lasts_ms: Option<f64>,
    /// The notification of the open incident, if there was one.
    #[serde(skip)]
    pub(crate) opened_as: Option<NoticeSummary>,
}

impl Notice {
    pub fn new(incident: &Incident) -> Self {
        let is_plausible = |cause: &&Cause| cause.score() >= mw_rules::PLAUSIBLE_PERCENT;
        let first = incident.causes.first().filter(is_plausible);
        let failed = incident.trigger.failure.is_some();
        let unexplained = if failed { Severity::Critical } else { Severity::Warning };
        let lasted_ms = incident.duration_ms() as f64;
        let report = match incident.id {
            0 => "memwright incidents".to_owned(),
            id => format!("memwright report {id}"),
        };
        Self {
            schema: NOTICE_SCHEMA,
            test: false,
            state: incident.state,
            incident: incident.id,
            host: visible::line(&incident.host.name),
            probe: visible::line(&incident.trigger.name),
            trigger: incident.trigger.kind,
            started_unix_ms: incident.started_unix_ms,
            ended_unix_ms: incident.ended_unix_ms,
            stall_ms: incident.trigger.worst_ms.max(if failed { lasted_ms } else { 0.0 }),
            failure: incident.trigger.failure.as_deref().map(visible::line),
            verdict: visible::line(&incident.verdict),
            cause: first.map_or(UNKNOWN, |cause| cause.finding.rule.as_str()).to_owned(),
            severity: first.map_or(unexplained, |cause| cause.finding.severity),
            causes: incident.causes.iter().take(MAX_CAUSES).cloned().collect(),
            cgroup: first.and_then(cgroup).map(visible::line),
            others: 0,
            report,
            source: source(incident, first),
            lasts_ms: None,
            opened_as: None,
        }
    }

    /// A message that says that it is a test.
    pub fn test(host: &str, now_unix_ms: u64) -> Self {
        let incident = Incident {
            verdict: "test of memwright's notifications: nothing has happened".to_owned(),
            started_unix_ms: now_unix_ms,
            ended_unix_ms: now_unix_ms,
            ..Incident::default()
        };
        let notice = Self::new(&incident);
        let probe = "test".to_owned();
        Self { test: true, host: host.to_owned(), probe, severity: Severity::Note, ..notice }
    }

    /// One line for people.
    pub fn line(&self) -> String {
        let others = match self.others {
            0 => String::new(),
            1 => " (and another one like it)".to_owned(),
            count => format!(" (and {count} others like it)"),
        };
        let open = match (self.state, self.lasts_ms, &self.opened_as) {
            (IncidentState::Open, Some(ms), _) => {
                format!(" (it lasts, {} so far)", format_duration_ms(ms))
            }
            (IncidentState::Open, None, _) => " (it lasts)".to_owned(),
            (_, _, Some(_)) => " (it is over)".to_owned(),
            _ => String::new(),
        };
        format!("[{}] {}{open}{others}", self.host, self.verdict)
    }

    /// The same for the stall while it lasts and afterwards.
    pub(crate) fn key(&self) -> String {
        let Self { host, probe, started_unix_ms, incident, .. } = self;
        match self.trigger {
            // Those of several cgroups may begin at once.
            TriggerKind::OomKill => {
                format!("memwright/{host}/{probe}/{started_unix_ms}/{incident}")
            }
            _ => format!("memwright/{host}/{probe}/{started_unix_ms}"),
        }
    }

    /// True if a probed service is concerned, critically: no budget keeps that back.
    pub(crate) fn is_of_service(&self) -> bool {
        self.severity == Severity::Critical && self.source.starts_with(PROBES)
    }
}

const PROBES: &str = "probe/";

/// Source of an incident: the probe, also where the OOM killer ended its service; otherwise the trigger, and the
/// user, service or container that its cause is about.
fn source(incident: &Incident, first: Option<&Cause>) -> String {
    let trigger = &incident.trigger;
    let killed = incident.oom.as_ref().filter(|_| trigger.kind == TriggerKind::OomKill);
    let killed = killed.and_then(|oom| oom.services.first()).map(|fate| &fate.probe);
    let probe = Some(&trigger.name).filter(|_| trigger.kind == TriggerKind::Probe).or(killed);
    match probe {
        Some(probe) => format!("{PROBES}{}", visible::line(probe)),
        None => {
            let tree = first.and_then(cgroup).map(cgroup_tree).unwrap_or_default();
            format!("{}{tree}", visible::line(&trigger.name))
        }
    }
}

fn cgroup(cause: &Cause) -> Option<&str> {
    match &cause.finding.subject {
        Subject::Cgroup(path) => path.as_deref(),
        _ => None,
    }
}
