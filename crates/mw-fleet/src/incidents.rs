//! The stalls of many nodes. Those with the same cause that follow each other closely are one
//! event, on however many nodes.

use crate::asking::{self, NodeAccess, SilentNode, line};
use crate::node_set;
use mw_model::format_count;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

/// The version of what `--json` prints.
pub const FLEET_INCIDENTS_SCHEMA: u32 = 1;

/// Substitute for the cause of incidents that have none.
pub(crate) const UNKNOWN: &str = "unknown";

/// Fields that are read of an incident, of whichever version.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct NodeIncident {
    pub(crate) started_unix_ms: u64,
    pub(crate) ended_unix_ms: u64,
    worst_ms: f64,
    cause: Option<String>,
    #[serde(default)]
    verdict: String,
}

/// A clock may be wrong by this much.
const CLOCK_ERROR_MS: u64 = 24 * 3_600_000;

/// Replies of nodes.
pub(crate) struct IncidentsOfNodes {
    /// The incidents of each node that answered.
    pub(crate) of_nodes: Vec<(String, Vec<NodeIncident>)>,
    pub(crate) failed: Vec<SilentNode>,
    /// Number of incidents with impossible times.
    pub(crate) left_out: usize,
}

/// Output of `fleet incidents --json`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct FleetIncidents {
    /// The version of the format.
    schema: u32,
    /// Number of nodes that answered.
    pub nodes: usize,
    /// The events, the latest last.
    pub(crate) events: Vec<JoinedIncidents>,
    /// Number of incidents that were left out: they end before they begin, or in the future.
    left_out: usize,
    /// The nodes that did not answer.
    failed: Vec<SilentNode>,
}

/// Incidents with the same cause that follow each other closely.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub(crate) struct JoinedIncidents {
    /// The rule of their first cause, or unknown.
    pub(crate) cause: String,
    /// Time at which the first began, in milliseconds since 1970.
    pub(crate) started_unix_ms: u64,
    /// Time at which the last ended.
    pub(crate) ended_unix_ms: u64,
    /// Number of incidents.
    pub(crate) incidents: usize,
    /// The nodes.
    pub(crate) nodes: BTreeSet<String>,
    /// The longest stall in milliseconds.
    pub(crate) worst_ms: f64,
    /// The node of that.
    pub(crate) worst_node: String,
    /// The verdict on that.
    pub(crate) verdict: String,
}

/// Asks nodes for the incidents that lasted beyond a time.
pub(crate) fn ask(
    access: NodeAccess<'_>,
    names: &[String],
    since: Option<u64>,
) -> IncidentsOfNodes {
    // A number: words with blanks would be several on the other side.
    let since = since.map(|unix_ms| unix_ms.to_string());
    let mut words = vec!["memwright", "incidents", "--all", "--json"];
    words.extend(since.iter().flat_map(|since| ["--since", since]));
    let (answers, failed) = asking::ask_all(access, names, &words, |output| {
        asking::json::<Vec<NodeIncident>>(output, "the answer is no list of incidents")
    });
    let latest = mw_sys::unix_ms().saturating_add(CLOCK_ERROR_MS);
    let mut left_out = 0;
    let mut possible = |incidents: Vec<NodeIncident>| {
        let all = incidents.len();
        let kept = incidents.into_iter().filter(|incident| incident.is_possible(latest));
        let kept: Vec<NodeIncident> = kept.map(NodeIncident::in_lines).collect();
        left_out += all.saturating_sub(kept.len());
        kept
    };
    let of_nodes = answers.into_iter().map(|(node, incidents)| (node, possible(incidents)));
    IncidentsOfNodes { of_nodes: of_nodes.collect(), failed, left_out }
}

pub(crate) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl FleetIncidents {
    /// Asks nodes for the incidents that lasted beyond a time, in milliseconds since 1970. Those with the same cause are
    /// one event while none begins later than `gap` after the others.
    #[must_use]
    pub fn ask(
        access: NodeAccess<'_>,
        nodes: &[String],
        since: Option<u64>,
        gap: Duration,
    ) -> Self {
        let IncidentsOfNodes { of_nodes, failed, left_out } = ask(access, nodes, since);
        Self {
            schema: FLEET_INCIDENTS_SCHEMA,
            nodes: of_nodes.len(),
            events: events(&of_nodes, milliseconds(gap)),
            left_out,
            failed,
        }
    }

    /// The answer in the first line, then an event in each line.
    #[must_use]
    pub fn text(&self) -> String {
        text(self)
    }
}

/// Joins the incidents of nodes.
pub(crate) fn events(
    of_nodes: &[(String, Vec<NodeIncident>)],
    gap_ms: u64,
) -> Vec<JoinedIncidents> {
    let mut by_cause: BTreeMap<&str, Vec<(&str, &NodeIncident)>> = BTreeMap::new();
    for (node, incidents) in of_nodes {
        for incident in incidents {
            by_cause.entry(incident.cause()).or_default().push((node, incident));
        }
    }
    let mut events: Vec<JoinedIncidents> = Vec::new();
    for (cause, mut incidents) in by_cause {
        incidents.sort_by_key(|(_, incident)| incident.started_unix_ms);
        for (node, incident) in incidents {
            let current = events.last_mut().filter(|event| {
                let until = event.ended_unix_ms.saturating_add(gap_ms);
                event.cause == cause && incident.started_unix_ms <= until
            });
            match current {
                Some(event) => event.add(node, incident),
                None => events.push(JoinedIncidents::new(cause, node, incident)),
            }
        }
    }
    events.sort_by_key(|event| event.started_unix_ms);
    events
}

impl NodeIncident {
    /// The rule of its first cause, or unknown.
    pub(crate) fn cause(&self) -> &str {
        self.cause.as_deref().unwrap_or(UNKNOWN)
    }

    fn is_possible(&self, latest_unix_ms: u64) -> bool {
        let times =
            self.started_unix_ms <= self.ended_unix_ms && self.ended_unix_ms <= latest_unix_ms;
        times && (0.0..=latest_unix_ms as f64).contains(&self.worst_ms)
    }

    /// Text of another machine, fit for a terminal.
    fn in_lines(self) -> Self {
        let cause = self.cause.as_deref().map(line);
        Self { cause, verdict: line(&self.verdict), ..self }
    }
}

impl JoinedIncidents {
    fn new(cause: &str, node: &str, incident: &NodeIncident) -> Self {
        Self {
            cause: cause.to_owned(),
            started_unix_ms: incident.started_unix_ms,
            ended_unix_ms: incident.ended_unix_ms,
            incidents: 1,
            nodes: BTreeSet::from([node.to_owned()]),
            worst_ms: incident.worst_ms,
            worst_node: node.to_owned(),
            verdict: incident.verdict.clone(),
        }
    }

    fn add(&mut self, node: &str, incident: &NodeIncident) {
        self.ended_unix_ms = self.ended_unix_ms.max(incident.ended_unix_ms);
        self.incidents += 1;
        self.nodes.insert(node.to_owned());
        if incident.worst_ms > self.worst_ms {
            self.worst_ms = incident.worst_ms;
            node.clone_into(&mut self.worst_node);
            self.verdict.clone_from(&incident.verdict);
        }
    }
}

fn text(fleet: &FleetIncidents) -> String {
    let incidents: usize = fleet.events.iter().map(|event| event.incidents).sum();
    // The first of those with the most.
    let most = fleet.events.iter().rev().max_by_key(|event| event.nodes.len());
    let mut text = match most {
        None if fleet.nodes == 0 => "no node answered".to_owned(),
        None => format!("no incidents on {}", format_count(fleet.nodes, "node")),
        Some(most) => format!(
            "{} in {} on {}; the most nodes, {}, had {}",
            format_count(incidents, "incident"),
            format_count(fleet.events.len(), "event"),
            format_count(fleet.nodes, "node"),
            most.nodes.len(),
            most.cause
        ),
    };
    if !fleet.failed.is_empty() && fleet.nodes > 0 {
        let _ = write!(text, "; {} did not answer", fleet.failed.len());
    }
    if fleet.left_out > 0 {
        let left_out = format_count(fleet.left_out, "incident");
        let _ = write!(text, "; left out: {left_out} with impossible times");
    }
    text.push('\n');
    for event in &fleet.events {
        let nodes: Vec<String> = event.nodes.iter().cloned().collect();
        let _ = writeln!(
            text,
            "  {} to {}  {} on {} ({}), {}, worst {:.1} s on {}: {}",
            time(event.started_unix_ms, "%Y-%m-%d %H:%M:%S"),
            time(event.ended_unix_ms, "%H:%M:%S"),
            event.cause,
            nodes.len(),
            node_set::fold(&nodes),
            format_count(event.incidents, "incident"),
            event.worst_ms / 1000.0,
            event.worst_node,
            event.verdict,
        );
    }
    for silent in &fleet.failed {
        let _ = writeln!(text, "  {} did not answer: {}", silent.node, silent.why);
    }
    text
}

/// A time as local time.
pub(crate) fn time(unix_ms: u64, format: &str) -> String {
    let time = i64::try_from(unix_ms).ok();
    let time = time.and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok()).unwrap_or_default();
    time.to_zoned(jiff::tz::TimeZone::system()).strftime(format).to_string()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000;

    fn incident(minute: u64, cause: Option<&str>, worst_ms: f64) -> NodeIncident {
        NodeIncident {
            started_unix_ms: minute * MINUTE,
            ended_unix_ms: minute * MINUTE + 5000,
            worst_ms,
            cause: cause.map(str::to_owned),
            verdict: format!("worst {worst_ms}"),
        }
    }

    #[test]
    fn the_same_cause_on_many_nodes_is_one_event() {
        let thp = Some("thp-compaction");
        let of_nodes = [
            ("n1".to_owned(), vec![incident(0, thp, 900.0), incident(8, thp, 1200.0)]),
            ("n2".to_owned(), vec![incident(5, thp, 700.0), incident(6, None, 500.0)]),
            // Long after the others.
            ("n3".to_owned(), vec![incident(60, thp, 800.0)]),
        ];
        let events = events(&of_nodes, 10 * MINUTE);
        let brief: Vec<_> = events
            .iter()
            .map(|event| (event.cause.as_str(), event.incidents, event.nodes.len(), event.worst_ms))
            .collect();
        assert_eq!(
            brief,
            [
                ("thp-compaction", 3, 2, 1200.0),
                (UNKNOWN, 1, 1, 500.0),
                ("thp-compaction", 1, 1, 800.0)
            ]
        );
        assert_eq!(events[0].verdict, "worst 1200");
    }

    #[test]
    fn what_cannot_be_is_not_joined_with_the_rest() {
        let latest = 100 * MINUTE;
        let at = |started_unix_ms, ended_unix_ms, worst_ms| NodeIncident {
            started_unix_ms,
            ended_unix_ms,
            worst_ms,
            ..incident(0, Some("a\nb\u{1b}[2J"), 1.0)
        };
        assert!(at(5, 9, 3.5).is_possible(latest));
        for wrong in [
            at(9, 5, 3.5),
            at(5, u64::MAX, 3.5),
            at(5, 9, 1e300),
            at(5, 9, f64::NAN),
            at(5, 9, -1.0),
        ] {
            assert!(!wrong.is_possible(latest), "{wrong:?}");
        }
        assert!(!at(5, 9, 3.5).in_lines().cause().contains(['\n', '\u{1b}']));
    }

    #[test]
    fn what_another_version_lists_is_read() {
        let list = r#"[{"id":1,"started_unix_ms":5,"ended_unix_ms":9,"worst_ms":3.5,"cause":null,"new":{}}]"#;
        let read: Vec<NodeIncident> = serde_json::from_str(list).unwrap();
        assert_eq!((read[0].cause.as_deref(), read[0].worst_ms), (None, 3.5));
    }
}
