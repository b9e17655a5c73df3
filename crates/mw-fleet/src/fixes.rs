//! Effect of fixes: of changes that nodes made within a period, how much of the time was lost to their cause before and
//! after.

use crate::asking::{self, NodeAccess, line};
use crate::incidents::{self, NodeIncident};
use crate::{lost, node_set};
use mw_render::html::FleetFix;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// A shorter time before or after a fix says nothing.
const LEAST_MS: u64 = 3_600_000;

/// Number of settings that are named of a fix.
const MAX_SETTINGS: usize = 4;

/// Fields that are read of the output of `changes --all --json`, of whichever version.
#[derive(Deserialize)]
struct ChangesAnswer {
    changes: Vec<NodeChange>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct NodeChange {
    time_ms: u64,
    rule: String,
    path: String,
    value: String,
    state: String,
}

impl NodeChange {
    /// True unless it was reverted, which was at an unknown time.
    fn lasts(&self) -> bool {
        ["in-force", "covered", "done"].contains(&self.state.as_str())
    }
}

/// The changes of nodes; of one that does not say, none.
pub(crate) fn ask(access: NodeAccess<'_>, nodes: &[String]) -> BTreeMap<String, Vec<NodeChange>> {
    let words = ["memwright", "changes", "--all", "--json"];
    let (answers, _) = asking::ask_all(access, nodes, &words, |output| {
        let answer: ChangesAnswer = asking::json(output, "the answer is no list of changes")?;
        Ok(answer.changes)
    });
    answers.into_iter().collect()
}

/// Time before or after a fix, and how much of it was lost, in milliseconds.
#[derive(Debug, Clone, Copy, Default)]
struct LostShare {
    lost_ms: u64,
    of_ms: u64,
}

impl LostShare {
    fn add(&mut self, incidents: &[NodeIncident], cause: &str, (since, until): (u64, u64)) {
        let of_ms = until.saturating_sub(since);
        if of_ms < LEAST_MS {
            return;
        }
        let spans = incidents.iter().filter(|incident| incident.cause() == cause);
        let spans: Vec<(u64, u64)> =
            spans.map(|incident| lost::within(incident, (since, until))).collect();
        self.lost_ms = self.lost_ms.saturating_add(lost::union(&spans));
        self.of_ms = self.of_ms.saturating_add(of_ms);
    }

    fn percent(self) -> Option<f64> {
        (self.of_ms > 0).then(|| self.lost_ms as f64 / self.of_ms as f64 * 100.0)
    }

    fn words(self) -> String {
        self.percent()
            .map_or_else(|| "too short to say".to_owned(), |percent| format!("{percent:.3}%"))
    }
}

/// A rule's fix on the nodes that have it.
#[derive(Default)]
struct RuleFix<'a> {
    nodes: Vec<String>,
    settings: BTreeSet<String>,
    times: Vec<u64>,
    before: LostShare,
    after: LostShare,
    rule: &'a str,
}

/// The fixes of a period: those that gained the most first.
pub(crate) fn rows(
    of_nodes: &[(String, Vec<NodeIncident>)],
    changes: &BTreeMap<String, Vec<NodeChange>>,
    period: (u64, u64),
) -> Vec<FleetFix> {
    let mut fixes: BTreeMap<&str, RuleFix<'_>> = BTreeMap::new();
    for (node, incidents) in of_nodes {
        let within = |change: &&NodeChange| (period.0..=period.1).contains(&change.time_ms);
        let lasting = changes.get(node).into_iter().flatten();
        let mut of_rules: BTreeMap<&str, Vec<&NodeChange>> = BTreeMap::new();
        for change in lasting.filter(|change| change.lasts()).filter(within) {
            of_rules.entry(&change.rule).or_default().push(change);
        }
        for (rule, changes) in of_rules {
            let fix = fixes.entry(rule).or_insert_with(|| RuleFix { rule, ..RuleFix::default() });
            fix.add(node, incidents, &changes, period);
        }
    }
    let mut fixes: Vec<RuleFix<'_>> = fixes.into_values().collect();
    let gain =
        |fix: &RuleFix<'_>| fix.before.percent().zip(fix.after.percent()).map(|(b, a)| b - a);
    fixes.sort_by(|a, b| {
        let (a, b) = (gain(a).unwrap_or(f64::MIN), gain(b).unwrap_or(f64::MIN));
        b.total_cmp(&a)
    });
    fixes.iter().map(RuleFix::row).collect()
}

impl RuleFix<'_> {
    /// A node with the changes of this rule: it counts as fixed from the first on.
    fn add(
        &mut self,
        node: &str,
        incidents: &[NodeIncident],
        changes: &[&NodeChange],
        period: (u64, u64),
    ) {
        let Some(fixed) = changes.iter().map(|change| change.time_ms).min() else { return };
        self.nodes.push(node.to_owned());
        self.times.push(fixed);
        self.settings.extend(
            changes.iter().map(|change| line(&format!("{} = {}", change.path, change.value))),
        );
        self.before.add(incidents, self.rule, (period.0, fixed));
        self.after.add(incidents, self.rule, (fixed, period.1));
    }

    fn row(&self) -> FleetFix {
        let shown: Vec<&str> =
            self.settings.iter().take(MAX_SETTINGS).map(String::as_str).collect();
        let more = self.settings.len().saturating_sub(MAX_SETTINGS);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let time = |unix_ms: Option<&u64>| {
            unix_ms.map_or(String::new(), |ms| incidents::time(*ms, "%Y-%m-%d %H:%M"))
        };
        let (first, last) = (time(self.times.iter().min()), time(self.times.iter().max()));
        FleetFix {
            rule: line(self.rule),
            settings: shown.join(", ") + &more,
            nodes: node_set::fold(&self.nodes),
            applied: if first == last { first } else { format!("{first} to {last}") },
            before: self.before.words(),
            after: self.after.words(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    fn incident(started_unix_ms: u64, lasted_ms: u64, cause: &str) -> NodeIncident {
        let ended_unix_ms = started_unix_ms + lasted_ms;
        let json = serde_json::json!({
            "started_unix_ms": started_unix_ms, "ended_unix_ms": ended_unix_ms, "worst_ms": 1.0, "cause": cause,
        });
        serde_json::from_value(json).unwrap()
    }

    fn change(time_ms: u64, state: &str) -> NodeChange {
        NodeChange {
            time_ms,
            rule: "zone-reclaim".to_owned(),
            path: "/proc/sys/vm/zone_reclaim_mode".to_owned(),
            value: "0".to_owned(),
            state: state.to_owned(),
        }
    }

    #[test]
    fn time_lost_before_and_after_a_fix_is_compared() {
        let incidents = |late_ms| {
            vec![
                incident(HOUR, 360_000, "zone-reclaim"),
                incident(2 * HOUR, HOUR, "thp-compaction"),
                incident(15 * HOUR, late_ms, "zone-reclaim"),
            ]
        };
        let of_nodes = vec![("n1".to_owned(), incidents(36_000)), ("n2".to_owned(), incidents(0))];
        let changes = BTreeMap::from([
            ("n1".to_owned(), vec![change(10 * HOUR, "in-force")]),
            ("n2".to_owned(), vec![change(10 * HOUR, "in-force"), change(11 * HOUR, "done")]),
        ]);
        let rows = rows(&of_nodes, &changes, (0, 20 * HOUR));
        assert_eq!(rows.len(), 1);
        let row = &rows[0];
        assert_eq!((row.nodes.as_str(), row.rule.as_str()), ("n[1-2]", "zone-reclaim"));
        assert_eq!((row.before.as_str(), row.after.as_str()), ("1.000%", "0.050%"));
        assert_eq!(row.settings, "/proc/sys/vm/zone_reclaim_mode = 0");
    }

    #[test]
    fn what_was_reverted_or_is_older_is_no_fix_of_the_period() {
        let of_nodes = vec![("n1".to_owned(), Vec::new())];
        for (time_ms, state) in
            [(5 * HOUR, "undone"), (5 * HOUR, "drifted"), (HOUR - 1, "in-force")]
        {
            let changes = BTreeMap::from([("n1".to_owned(), vec![change(time_ms, state)])]);
            assert!(rows(&of_nodes, &changes, (HOUR, 20 * HOUR)).is_empty(), "{state}");
        }
        let fresh = BTreeMap::from([("n1".to_owned(), vec![change(20 * HOUR - 1, "in-force")])]);
        let rows = rows(&of_nodes, &fresh, (HOUR, 20 * HOUR));
        assert_eq!(
            (rows[0].before.as_str(), rows[0].after.as_str()),
            ("0.000%", "too short to say")
        );
    }
}
