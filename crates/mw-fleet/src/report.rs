//! The stalls of nodes as a page for people who decide.

use crate::asking::NodeAccess;
use crate::incidents::{self, IncidentsOfNodes, JoinedIncidents, NodeIncident, UNKNOWN};
use crate::{fixes, forecasts, lost, node_set};
use mw_model::format_count;
use mw_render::html::{FleetEvent, FleetPage, FleetRow};
use std::collections::BTreeMap;
use std::time::Duration;

/// Number of rows of a table.
const MAX_ROWS: usize = 50;
const MAX_EVENTS: usize = 100;

/// The page, and the number of nodes that answered.
pub struct FleetReport {
    pub page: FleetPage,
    pub nodes: usize,
}

impl FleetReport {
    /// Asks nodes for their incidents of a period, in milliseconds since 1970, for their fixes and forecasts. Incidents
    /// with the same cause are one event while none begins later than `gap` after the others.
    #[must_use]
    pub fn ask(
        access: NodeAccess<'_>,
        nodes: &[String],
        period: (u64, u64),
        gap: Duration,
    ) -> Self {
        let asked = incidents::ask(access, nodes, Some(period.0));
        // The others would not answer the next question either.
        let answered: Vec<String> = asked.of_nodes.iter().map(|(node, _)| node.clone()).collect();
        let changes = fixes::ask(access, &answered);
        let mut fixes = fixes::rows(&asked.of_nodes, &changes, period);
        fixes.truncate(MAX_ROWS);
        let mut forecasts = forecasts::ask(access, &answered);
        let more_forecasts = forecasts.len().saturating_sub(MAX_ROWS);
        forecasts.truncate(MAX_ROWS);
        let page = FleetPage {
            fixes,
            forecasts,
            more_forecasts,
            ..page(&asked, period, incidents::milliseconds(gap))
        };
        Self { page, nodes: answered.len() }
    }
}

/// Incidents of a cause or of a node.
#[derive(Default)]
struct LostTime<'a> {
    incidents: usize,
    /// Begin and end of incidents, by node.
    spans: BTreeMap<&'a str, Vec<(u64, u64)>>,
    /// Number of incidents by cause.
    causes: BTreeMap<&'a str, usize>,
}

impl<'a> LostTime<'a> {
    /// Only what lies within the period counts.
    fn add(&mut self, node: &'a str, incident: &'a NodeIncident, period: (u64, u64)) {
        self.incidents += 1;
        self.spans.entry(node).or_default().push(lost::within(incident, period));
        *self.causes.entry(incident.cause()).or_default() += 1;
    }

    /// Lost time in milliseconds. Incidents that overlap on a node count once.
    fn lost_ms(&self) -> u64 {
        self.spans.values().fold(0, |sum, spans| sum.saturating_add(lost::union(spans)))
    }
}

fn page(asked: &IncidentsOfNodes, period: (u64, u64), gap_ms: u64) -> FleetPage {
    let IncidentsOfNodes { of_nodes, failed, left_out } = asked;
    let (mut all, mut by_cause, mut by_node) = (
        LostTime::default(),
        BTreeMap::<&str, LostTime<'_>>::new(),
        BTreeMap::<&str, LostTime<'_>>::new(),
    );
    for (node, incidents) in of_nodes {
        for incident in incidents {
            all.add(node, incident, period);
            by_cause.entry(incident.cause()).or_default().add(node, incident, period);
            by_node.entry(node).or_default().add(node, incident, period);
        }
    }
    let mut causes = rows(&by_cause, |sum| format_count(sum.spans.len(), "node"));
    let mut nodes = rows(&by_node, |sum| {
        let most = sum.causes.iter().max_by_key(|(_, count)| **count);
        most.map_or(UNKNOWN, |(cause, _)| cause).to_owned()
    });
    let mut events = incidents::events(of_nodes, gap_ms);
    events.reverse();
    let more_nodes = nodes.len().saturating_sub(MAX_ROWS);
    let more_causes = causes.len().saturating_sub(MAX_ROWS);
    let more_events = events.len().saturating_sub(MAX_EVENTS);
    nodes.truncate(MAX_ROWS);
    causes.truncate(MAX_ROWS);
    events.truncate(MAX_EVENTS);
    let verdict = match causes.first() {
        None if of_nodes.is_empty() => "no node answered".to_owned(),
        None => format!("no stalls on {}", format_count(of_nodes.len(), "node")),
        Some(first) => format!(
            "{} lost on {} of {}, {} of it to {}",
            words(all.lost_ms()),
            by_node.len(),
            format_count(of_nodes.len(), "node"),
            first.lost,
            first.name
        ),
    };
    let facts = [
        ("Nodes", of_nodes.len()),
        ("With stalls", by_node.len()),
        ("Incidents", all.incidents),
        ("Without an answer", failed.len()),
    ];
    let left_out = (*left_out > 0).then_some(("Left out for impossible times", *left_out));
    let facts = facts.into_iter().chain(left_out);
    FleetPage {
        verdict,
        period: format!("{} to {}", shown(period.0), shown(period.1)),
        facts: facts.map(|(name, count)| (name.to_owned(), count.to_string())).collect(),
        causes,
        more_causes,
        nodes,
        more_nodes,
        events: events.iter().map(event).collect(),
        more_events,
        silent: failed
            .iter()
            .take(MAX_ROWS)
            .map(|silent| (silent.node.clone(), silent.why.clone()))
            .collect(),
        more_silent: failed.len().saturating_sub(MAX_ROWS),
        ..FleetPage::default()
    }
}

/// The most time lost first.
fn rows(
    sums: &BTreeMap<&str, LostTime<'_>>,
    about: impl Fn(&LostTime<'_>) -> String,
) -> Vec<FleetRow> {
    let mut lost: Vec<(u64, &str, &LostTime<'_>)> =
        sums.iter().map(|(name, sum)| (sum.lost_ms(), *name, sum)).collect();
    lost.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    let most = lost.first().map_or(1, |(ms, ..)| *ms).max(1);
    let row = |(ms, name, sum): &(u64, &str, &LostTime<'_>)| FleetRow {
        name: (*name).to_owned(),
        incidents: sum.incidents,
        about: about(sum),
        lost: words(*ms),
        share_percent: *ms as f64 / most as f64 * 100.0,
    };
    lost.iter().map(row).collect()
}

fn event(event: &JoinedIncidents) -> FleetEvent {
    let nodes: Vec<String> = event.nodes.iter().cloned().collect();
    FleetEvent {
        began: shown(event.started_unix_ms),
        lasted: words(event.ended_unix_ms.saturating_sub(event.started_unix_ms)),
        cause: event.cause.clone(),
        nodes: node_set::fold(&nodes),
        incidents: event.incidents,
        worst: format!("{:.1} s on {}", event.worst_ms / 1000.0, event.worst_node),
        verdict: event.verdict.clone(),
    }
}

fn shown(unix_ms: u64) -> String {
    incidents::time(unix_ms, "%Y-%m-%d %H:%M")
}

/// A time in its two largest units.
fn words(ms: u64) -> String {
    let seconds = ms.div_ceil(1000);
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_their_two_largest_units() {
        for (ms, expected) in
            [(0, "0 s"), (900, "1 s"), (61_000, "1 min 1 s"), (7_260_000, "2 h 1 min")]
        {
            assert_eq!(words(ms), expected);
        }
    }
}
