//! Facts that differ between nodes. The value that most nodes have is taken for the usual one.

use crate::asking::{self, NodeAccess, SilentNode, line};
use crate::facts::NodeFacts;
use crate::node_set;
use mw_model::{bounded_json, format_count};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The version of what `--json` prints.
pub const DRIFT_SCHEMA: u32 = 1;

/// Numbers that differ by less than this share are the same: the kernel derives some settings from the size of memory,
/// which differs by what firmware keeps.
const SAME: f64 = 0.02;

/// Memory limit of the facts of a node; a node has some hundred, of 40 KiB.
const MAX_NODE_BYTES: usize = 1 << 20;

/// Number of facts that are compared, those that the most nodes have.
const MAX_FACTS: usize = 8192;

/// Number of nodes that are listed, of all facts and values together: of the facts that the most nodes have.
const MAX_LISTED: usize = 1 << 20;

/// Number of values of a fact that are listed in the text.
const MAX_VALUES: usize = 6;

/// Output of `fleet drift --json`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct FleetDrift {
    /// The version of the format.
    schema: u32,
    /// Number of nodes that answered.
    pub nodes: usize,
    /// Number of facts that were compared.
    facts: usize,
    /// The facts that differ, those of the fewest nodes first.
    differ: Vec<FactDifference>,
    /// Number of facts that were left out: they are more than are compared, or differ and are more than are listed.
    left_out: usize,
    /// The nodes that did not answer.
    failed: Vec<SilentNode>,
}

/// A fact that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub(crate) struct FactDifference {
    /// Its name, see `fleet facts`.
    fact: String,
    /// Its values, that of the most nodes first.
    values: Vec<FactValue>,
}

/// A value, and the nodes that have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub(crate) struct FactValue {
    /// Absent where these nodes lack the fact.
    value: Option<String>,
    /// The nodes.
    nodes: Vec<String>,
}

impl FleetDrift {
    /// Asks nodes for their facts, and compares them.
    #[must_use]
    pub fn ask(access: NodeAccess<'_>, nodes: &[String]) -> Self {
        let words = ["memwright", "fleet", "facts", "--json"];
        let (answers, failed) = asking::ask_all(access, nodes, &words, |output| {
            let facts: NodeFacts =
                bounded_json::from_slice(output, MAX_NODE_BYTES).map_err(|error| {
                    asking::not_read(&error, "unexpected output, not a memwright report")
                })?;
            Ok(facts.facts.iter().map(|(name, value)| (line(name), line(value))).collect())
        });
        compare(&answers.into_iter().collect(), failed)
    }

    /// True if no fact differs.
    #[must_use]
    pub fn is_uniform(&self) -> bool {
        self.differ.is_empty()
    }

    /// The answer in the first line, then a line for each fact.
    #[must_use]
    pub fn text(&self) -> String {
        text(self)
    }
}

/// The facts of each node.
type FactsOfNodes = BTreeMap<String, BTreeMap<String, String>>;

/// Differences between nodes.
fn compare(of_nodes: &FactsOfNodes, failed: Vec<SilentNode>) -> FleetDrift {
    let mut nodes_with: BTreeMap<&str, usize> = BTreeMap::new();
    for fact in of_nodes.values().flat_map(BTreeMap::keys) {
        *nodes_with.entry(fact).or_default() += 1;
    }
    let mut facts: Vec<(&str, usize)> = nodes_with.into_iter().collect();
    facts.sort_by_key(|(fact, nodes)| (std::cmp::Reverse(*nodes), *fact));
    let all = facts.len();
    facts.truncate(MAX_FACTS);
    let (mut differ, mut unlisted, mut left) = (Vec::new(), 0, MAX_LISTED);
    for difference in facts.iter().filter_map(|(fact, _)| difference(fact, of_nodes)) {
        let nodes: usize = difference.values.iter().map(|value| value.nodes.len()).sum();
        match left.checked_sub(nodes) {
            Some(rest) => {
                left = rest;
                differ.push(difference);
            }
            None => unlisted += 1,
        }
    }
    differ.sort_by_key(|difference| (others(difference), difference.fact.clone()));
    FleetDrift {
        schema: DRIFT_SCHEMA,
        nodes: of_nodes.len(),
        facts: facts.len(),
        left_out: all - facts.len() + unlisted,
        differ,
        failed,
    }
}

/// Number of nodes with another value than the most have.
fn others(difference: &FactDifference) -> usize {
    difference.values.iter().skip(1).map(|value| value.nodes.len()).sum()
}

fn difference(fact: &str, of_nodes: &FactsOfNodes) -> Option<FactDifference> {
    let mut groups: BTreeMap<Option<&String>, Vec<String>> = BTreeMap::new();
    for (node, facts) in of_nodes {
        groups.entry(facts.get(fact)).or_default().push(node.clone());
    }
    if groups.len() < 2 {
        return None;
    }
    let mut values: Vec<FactValue> = groups
        .into_iter()
        .map(|(value, nodes)| FactValue { value: value.cloned(), nodes })
        .collect();
    values.sort_by_key(|value| std::cmp::Reverse(value.nodes.len()));
    let values = joined(values);
    (values.len() > 1).then(|| FactDifference { fact: fact.to_owned(), values })
}

/// Numbers that hardly differ as one value, that of the most nodes among them; the value of the most nodes first.
fn joined(values: Vec<FactValue>) -> Vec<FactValue> {
    let mut joined: Vec<FactValue> = Vec::new();
    for value in values {
        match joined.iter_mut().find(|other| is_same(other, &value)) {
            Some(same) => same.nodes.extend(value.nodes),
            None => joined.push(value),
        }
    }
    joined.sort_by_key(|value| std::cmp::Reverse(value.nodes.len()));
    joined
}

/// True if two values are numbers that hardly differ.
fn is_same(a: &FactValue, b: &FactValue) -> bool {
    let number = |value: &FactValue| value.value.as_ref()?.parse::<f64>().ok();
    let (Some(a), Some(b)) = (number(a), number(b)) else { return false };
    // Small numbers are switches and counts.
    const LEAST: f64 = 1000.0;
    a.min(b) >= LEAST && (a - b).abs() < SAME * a.max(b)
}

fn text(drift: &FleetDrift) -> String {
    let FleetDrift { nodes, facts, differ, left_out, failed, .. } = drift;
    let mut text = match differ.len() {
        _ if *nodes == 0 => "no node answered".to_owned(),
        count => {
            let verb = if count == 1 || *facts == 1 { "differs" } else { "differ" };
            let (facts, nodes) = (format_count(*facts, "fact"), format_count(*nodes, "node"));
            format!("{count} of {facts} {verb} on {nodes}")
        }
    };
    if *left_out > 0 {
        let _ = write!(text, "; {left_out} more facts are left out");
    }
    if !failed.is_empty() && *nodes > 0 {
        let _ = write!(text, "; {} did not answer", failed.len());
    }
    text.push('\n');
    for difference in differ {
        let mut parts: Vec<String> = difference
            .values
            .iter()
            .enumerate()
            .take(MAX_VALUES)
            .map(|(place, value)| part(place, value))
            .collect();
        let more = difference.values.len().saturating_sub(MAX_VALUES);
        if more > 0 {
            parts.push(format_count(more, "more value"));
        }
        let _ = writeln!(text, "  {}: {}", difference.fact, parts.join("; "));
    }
    for silent in failed {
        let _ = writeln!(text, "  {} did not answer: {}", silent.node, silent.why);
    }
    text
}

/// The usual value with the number of its nodes, another with their names.
fn part(place: usize, FactValue { value, nodes }: &FactValue) -> String {
    let value = value.as_deref().unwrap_or("absent");
    match (place, nodes.len()) {
        (0, 1) => format!("{value} on {}", node_set::fold(nodes)),
        (0, count) => format!("{value} on {count} nodes"),
        _ => format!("{value} on {}", node_set::fold(nodes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet(rows: &[(&str, &[(&str, &str)])]) -> BTreeMap<String, BTreeMap<String, String>> {
        let facts = |facts: &[(&str, &str)]| {
            facts.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        rows.iter().map(|(node, row)| ((*node).to_owned(), facts(row))).collect()
    }

    fn lines(rows: &[(&str, &[(&str, &str)])]) -> String {
        text(&compare(&fleet(rows), vec![]))
    }

    #[test]
    fn the_value_of_most_nodes_is_the_usual_one() {
        let said = lines(&[
            ("n1", &[("a", "0"), ("kernel", "6.1.0")]),
            ("n2", &[("a", "0"), ("kernel", "6.12.0")]),
            ("n3", &[("a", "1"), ("kernel", "6.12.0")]),
            ("n4", &[("kernel", "6.1.0")]),
            ("n5", &[("a", "0"), ("kernel", "6.12.0")]),
        ]);
        let expected = "2 of 2 facts differ on 5 nodes\n  a: 0 on 3 nodes; absent on n4; 1 on n3\n  \
                        kernel: 6.12.0 on 3 nodes; 6.1.0 on n[1,4]\n";
        assert_eq!(said, expected);
    }

    #[test]
    fn sizes_that_hardly_differ_are_the_same() {
        let same = lines(&[("n1", &[("memory", "16384000")]), ("n2", &[("memory", "16380000")])]);
        assert_eq!(same, "0 of 1 fact differs on 2 nodes\n");
        // Three that each differ a little outnumber two that are equal.
        let sizes = ["8000000", "8000000", "16384000", "16380000", "16378000"];
        let rows: Vec<_> = sizes.iter().map(|size| [("a", *size)]).collect();
        let names = ["n1", "n2", "n3", "n4", "n5"];
        let rows: Vec<_> = names.into_iter().zip(rows.iter().map(|row| row.as_slice())).collect();
        let said = lines(&rows);
        assert!(said.contains("on 3 nodes; 8000000 on n[1-2]"), "{said}");
        // A ratio or a switch is not a size.
        for (a, b) in [("100", "101"), ("0", "1"), ("16384000", "8192000"), ("x", "y")] {
            assert!(
                lines(&[("n1", &[("a", a)]), ("n2", &[("a", b)])]).starts_with("1 of"),
                "{a} {b}"
            );
        }
    }

    #[test]
    fn a_fact_with_a_value_for_each_node_is_cut() {
        let names: Vec<(String, String)> =
            (0..20).map(|place| (format!("n{place}"), format!("{}", place * 1_000_000))).collect();
        let of_nodes: BTreeMap<String, BTreeMap<String, String>> = names
            .iter()
            .map(|(node, value)| (node.clone(), [("a".to_owned(), value.clone())].into()))
            .collect();
        let text = text(&compare(&of_nodes, vec![]));
        assert!(text.contains("14 more values"), "{text}");
    }

    #[test]
    fn a_node_with_many_facts_is_not_listed_with_each_other_node() {
        let many = |node: usize| -> BTreeMap<String, String> {
            (0..5000).map(|fact| (format!("f{node}.{fact}"), "1".to_owned())).collect()
        };
        let usual = BTreeMap::from([("kernel".to_owned(), "6.1".to_owned())]);
        let mut of_nodes: FactsOfNodes =
            (0..200).map(|node| (format!("n{node}"), usual.clone())).collect();
        of_nodes.insert("m1".to_owned(), many(1));
        of_nodes.insert("m2".to_owned(), many(2));
        let drift = compare(&of_nodes, vec![]);
        assert_eq!(drift.facts, MAX_FACTS);
        // What the most nodes have is compared first.
        assert!(drift.differ.iter().any(|difference| difference.fact == "kernel"));
        let listed = |difference: &FactDifference| -> usize {
            difference.values.iter().map(|value| value.nodes.len()).sum()
        };
        assert!(drift.differ.iter().map(listed).sum::<usize>() <= MAX_LISTED);
        assert_eq!(drift.left_out, 10_001 - drift.differ.len());
    }
}
