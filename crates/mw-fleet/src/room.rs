//! Nodes that can provide a request now. Metrics make the short list, and the nodes on it are
//! asked: what they had at the last scrape may be gone.

use crate::answer::{self, NodeAnswer, NodeVerdict};
use crate::asking::{self, NodeAccess};
use crate::node_set;
use crate::prometheus::{self, FleetCandidate};
use mw_model::{Request, format_bytes, format_count};
use serde::Serialize;
use std::collections::HashMap;
use std::fmt::Write;
use std::net::IpAddr;

/// The version of what `--json` prints.
pub const FLEET_ROOM_SCHEMA: u32 = 1;

/// The column of names is no wider; a longer name moves what follows it.
const MAX_NAME_CHARS: usize = 80;

/// Answer for a name that is no name of a host.
const NO_HOST: &str = "not queried: invalid host name";

/// Output of `fleet room --json`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct FleetRoom {
    /// The version of the format.
    schema: u32,
    /// The request, as `check --for` takes it.
    request: String,
    /// Number of nodes to choose from.
    nodes: usize,
    /// Number of nodes that have too little by their metrics, and were not queried.
    too_little: usize,
    /// Number of nodes that have enough by their metrics and were not queried, because others have more.
    not_asked: usize,
    /// Those of --nodes of which the server has no metrics.
    without_metrics: Vec<String>,
    /// The answers, the best first.
    answers: Vec<NodeAnswer>,
}

/// A question to nodes for room.
pub struct RoomQuery<'a> {
    pub request: &'a Request,
    pub access: NodeAccess<'a>,
    /// Number of nodes of the short list that are asked; without it they are listed by their metrics.
    pub ask: Option<usize>,
}

impl FleetRoom {
    fn new(request: &Request) -> Self {
        Self {
            schema: FLEET_ROOM_SCHEMA,
            request: request.argument(),
            nodes: 0,
            too_little: 0,
            not_asked: 0,
            without_metrics: Vec::new(),
            answers: Vec::new(),
        }
    }
}

impl RoomQuery<'_> {
    /// Asks all of these nodes.
    #[must_use]
    pub fn of_nodes(&self, nodes: &[String]) -> FleetRoom {
        let mut room = FleetRoom::new(self.request);
        room.nodes = nodes.len();
        room.answers = self.answers(nodes);
        answer::sort(&mut room.answers);
        room
    }

    /// Asks those that have enough by their metrics: of these candidates, or of those with the names that were chosen.
    #[must_use]
    pub fn of_candidates(
        &self,
        mut candidates: Vec<FleetCandidate>,
        chosen: Option<Vec<String>>,
    ) -> FleetRoom {
        let mut room = FleetRoom::new(self.request);
        if let Some(chosen) = chosen {
            (candidates, room.without_metrics) = of_named(chosen, &candidates);
        }
        self.by_metrics(candidates, &mut room);
        answer::sort(&mut room.answers);
        room
    }

    /// True if a node can provide the request, or may by its metrics where none was asked.
    #[must_use]
    pub fn has_room(&self, room: &FleetRoom) -> bool {
        let has = |verdict| named(room, verdict).next().is_some();
        has(NodeVerdict::Yes) || has(NodeVerdict::Slowly) || has(self.listed())
    }

    /// The nodes that are the answer, as a set.
    #[must_use]
    pub fn node_set(&self, room: &FleetRoom) -> String {
        let names: Vec<String> = named(room, self.listed()).map(str::to_owned).collect();
        node_set::fold(&names)
    }

    /// The verdict of the nodes that are the answer: without a question to them, all that have enough by their metrics.
    fn listed(&self) -> NodeVerdict {
        if self.ask.is_none() { NodeVerdict::Unknown } else { NodeVerdict::Yes }
    }

    fn by_metrics(&self, mut candidates: Vec<FleetCandidate>, room: &mut FleetRoom) {
        room.nodes = candidates.len() + room.without_metrics.len();
        let all = candidates.len();
        candidates.retain(|candidate| candidate.bytes >= self.request.size_bytes);
        room.too_little = all.saturating_sub(candidates.len());
        if let Some(most) = self.ask {
            room.not_asked = candidates.len().saturating_sub(most);
            candidates.truncate(most);
        }
        // A name from metrics can be an option, a set of nodes, a command of a shell or several lines.
        let (hosts, others): (Vec<_>, Vec<_>) =
            candidates.into_iter().partition(|candidate| node_set::is_name(&candidate.name));
        room.answers = match self.ask {
            None => hosts.iter().map(unasked).collect(),
            Some(_) => self.asked(&hosts),
        };
        room.answers.extend(others.iter().map(|candidate| NodeAnswer {
            by_metrics_bytes: Some(candidate.bytes),
            ..answer::failed(&asking::line(&candidate.name), NO_HOST)
        }));
    }

    fn asked(&self, hosts: &[FleetCandidate]) -> Vec<NodeAnswer> {
        let names: Vec<String> = hosts.iter().map(|host| host.name.clone()).collect();
        let mut answers = self.answers(&names);
        for answer in &mut answers {
            let host = hosts.iter().find(|host| host.name == answer.node);
            answer.by_metrics_bytes = host.map(|host| host.bytes);
        }
        answers
    }

    fn answers(&self, names: &[String]) -> Vec<NodeAnswer> {
        let request = self.request.argument();
        let words = ["memwright", "check", "--json", "--for", &request];
        let (answers, failed) = asking::ask_all(self.access, names, &words, answer::read);
        let answered = answers.into_iter().map(|(node, said)| NodeAnswer { node, ..said });
        let failed = failed.iter().map(|silent| answer::failed(&silent.node, &silent.why));
        answered.chain(failed).collect()
    }

    /// The answer in the first line, then a line for each node that was asked.
    #[must_use]
    pub fn text(&self, room: &FleetRoom) -> String {
        let by_metrics = self.ask.is_none();
        let count = |verdict| named(room, verdict).count();
        let (yes, slowly) = (count(NodeVerdict::Yes), count(NodeVerdict::Slowly));
        let nodes = format_count(room.nodes, "node");
        let mut text = match (by_metrics, yes, slowly) {
            (true, ..) => {
                let known = count(NodeVerdict::Unknown);
                let verb = if known == 1 { "has" } else { "have" };
                format!("{known} of {nodes} {verb}")
            }
            (_, 0, 0) => format!("0 of {nodes} can provide"),
            (_, 0, _) => format!("{slowly} of {nodes} can provide slowly"),
            (_, _, 0) => format!("{yes} of {nodes} can provide"),
            _ => format!("{yes} of {nodes} can provide, and {slowly} slowly,"),
        };
        let _ = write!(text, " {}", self.request);
        let more = [
            (room.too_little, "with too little by their metrics"),
            (room.not_asked, "not asked (--ask)"),
            (room.without_metrics.len(), "without metrics"),
            (count(NodeVerdict::Failed), "did not answer"),
        ];
        let more = more.into_iter().filter(|(count, _)| *count > 0);
        let more: Vec<String> = more.map(|(count, what)| format!("{count} {what}")).collect();
        if !more.is_empty() {
            let _ = write!(text, "; {}", more.join(", "));
        }
        text.push('\n');
        let lengths = room.answers.iter().map(|answer| answer.node.chars().count());
        // The formatter panics with more than 65,535.
        let width = lengths.max().unwrap_or(0).min(MAX_NAME_CHARS);
        for answer in &room.answers {
            let (node, verdict) = (&answer.node, answer.verdict.name());
            let metrics = answer.by_metrics_bytes.filter(|_| by_metrics);
            let metrics =
                metrics.map_or(String::new(), |bytes| format!("{}, ", format_bytes(bytes)));
            let said = &answer.text;
            // The summary of a report begins with its verdict.
            let said =
                said.strip_prefix(verdict).and_then(|said| said.strip_prefix(": ")).unwrap_or(said);
            let _ = writeln!(text, "  {node:width$}  {verdict:7}  {metrics}{said}");
        }
        if !room.without_metrics.is_empty() {
            let _ = writeln!(text, "  without metrics: {}", node_set::fold(&room.without_metrics));
        }
        text
    }
}

/// The candidates with these names, and the names without one. Metrics may have the host's name with its domain, or
/// without.
fn of_named(named: Vec<String>, found: &[FleetCandidate]) -> (Vec<FleetCandidate>, Vec<String>) {
    let host = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let whole: HashMap<&str, u64> =
        found.iter().map(|candidate| (candidate.name.as_str(), candidate.bytes)).collect();
    let mut hosts: HashMap<String, Vec<&FleetCandidate>> = HashMap::new();
    for candidate in found.iter().filter(|candidate| candidate.name.parse::<IpAddr>().is_err()) {
        hosts.entry(host(&candidate.name)).or_default().push(candidate);
    }
    let bytes = |name: &str| {
        whole.get(name).copied().or_else(|| match hosts.get(&host(name)).map(Vec::as_slice) {
            // One of both has no domain; two hosts of that name in two domains cannot be told apart.
            Some([one]) if one.name.contains('.') != name.contains('.') => Some(one.bytes),
            _ => None,
        })
    };
    let (mut candidates, mut without) = (Vec::new(), Vec::new());
    for name in named {
        match bytes(&name) {
            Some(bytes) => candidates.push(FleetCandidate { name, bytes }),
            None => without.push(name),
        }
    }
    prometheus::sort(&mut candidates);
    (candidates, without)
}

fn unasked(host: &FleetCandidate) -> NodeAnswer {
    NodeAnswer {
        verdict: NodeVerdict::Unknown,
        by_metrics_bytes: Some(host.bytes),
        ..answer::failed(&host.name, "enough by its metrics; not asked")
    }
}

fn named(room: &FleetRoom, verdict: NodeVerdict) -> impl Iterator<Item = &str> {
    let answers = room.answers.iter().filter(move |answer| answer.verdict == verdict);
    answers.map(|answer| answer.node.as_str())
}
