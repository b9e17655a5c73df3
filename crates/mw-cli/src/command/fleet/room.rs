//! `memwright fleet room`: which nodes can provide a request now. Metrics make the short list, and the nodes on it are
//! asked: what they had at the last scrape may be gone.

use super::answer::{self, Answer, Verdict};
use super::prometheus::{Candidate, Server};
use super::{asking, node_set};
use crate::args::{FleetFormat, FleetRoomArgs};
use crate::{Exit, Failure, terminal};
use mw_model::{format_bytes, format_count};
use serde::Serialize;
use std::collections::HashMap;
use std::fmt::Write;
use std::net::IpAddr;

/// The version of what `--json` prints.
pub(crate) const SCHEMA: u32 = 1;

/// The column of names is no wider; a longer name moves what follows it.
const MAX_NAME_CHARS: usize = 80;

/// Of a name that is no name of a host.
const NO_HOST: &str = "not queried: invalid host name";

/// Output of `fleet room --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct FleetRoom {
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
    answers: Vec<Answer>,
}

pub(super) fn run(args: &FleetRoomArgs) -> Result<Exit, Failure> {
    let chosen = args.nodes.as_deref().map(|set| asking::nodes(set, &args.way)).transpose()?;
    let mut room = FleetRoom {
        schema: SCHEMA,
        request: args.request.argument(),
        nodes: 0,
        too_little: 0,
        not_asked: 0,
        without_metrics: Vec::new(),
        answers: Vec::new(),
    };
    match &args.prometheus {
        Some(_) if args.by_metrics && args.request.page.is_folio() => {
            let why = "--by-metrics: no metric has folios (leave it out, to ask the nodes)";
            return Err(Failure::new(Exit::Usage, why));
        }
        Some(url) => {
            let server = Server::new(args, url)?;
            let mut candidates = server.candidates(&args.request)?;
            if let Some(chosen) = chosen {
                (candidates, room.without_metrics) = of_named(chosen, &candidates);
            }
            by_metrics(args, candidates, &mut room)?;
        }
        None => {
            let chosen = chosen.unwrap_or_default();
            room.nodes = chosen.len();
            room.answers = answers(args, &chosen)?;
        }
    }
    answer::sort(&mut room.answers);
    print(args, &room)?;
    let has = |verdict| named(&room, verdict).next().is_some();
    let has_room = has(Verdict::Yes) || has(Verdict::Slowly) || has(listed(args));
    Ok(if has_room { Exit::Fine } else { Exit::Findings })
}

/// The verdict of the nodes that are the answer: without a question to them, all that have enough by their metrics.
fn listed(args: &FleetRoomArgs) -> Verdict {
    if args.by_metrics { Verdict::Unknown } else { Verdict::Yes }
}

/// The candidates with these names, and the names without one. Metrics may have the host's name with its domain, or
/// without.
fn of_named(named: Vec<String>, found: &[Candidate]) -> (Vec<Candidate>, Vec<String>) {
    let host = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let whole: HashMap<&str, u64> =
        found.iter().map(|candidate| (candidate.name.as_str(), candidate.bytes)).collect();
    let mut hosts: HashMap<String, Vec<&Candidate>> = HashMap::new();
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
            Some(bytes) => candidates.push(Candidate { name, bytes }),
            None => without.push(name),
        }
    }
    super::prometheus::sort(&mut candidates);
    (candidates, without)
}

/// Asks those that have enough by their metrics; those with the most, where they are many.
fn by_metrics(
    args: &FleetRoomArgs,
    mut candidates: Vec<Candidate>,
    room: &mut FleetRoom,
) -> Result<(), Failure> {
    room.nodes = candidates.len() + room.without_metrics.len();
    let all = candidates.len();
    candidates.retain(|candidate| candidate.bytes >= args.request.size_bytes);
    room.too_little = all.saturating_sub(candidates.len());
    if !args.by_metrics {
        let most = usize::try_from(args.ask).unwrap_or(usize::MAX);
        room.not_asked = candidates.len().saturating_sub(most);
        candidates.truncate(most);
    }
    // A name from metrics can be an option, a set of nodes, a command of a shell or several lines.
    let (hosts, others): (Vec<_>, Vec<_>) =
        candidates.into_iter().partition(|candidate| node_set::is_name(&candidate.name));
    room.answers = match args.by_metrics {
        true => hosts.iter().map(unasked).collect(),
        false => asked(args, &hosts)?,
    };
    room.answers.extend(others.iter().map(|candidate| Answer {
        by_metrics_bytes: Some(candidate.bytes),
        ..answer::failed(&asking::line(&candidate.name), NO_HOST)
    }));
    Ok(())
}

fn unasked(host: &Candidate) -> Answer {
    Answer {
        verdict: Verdict::Unknown,
        by_metrics_bytes: Some(host.bytes),
        ..answer::failed(&host.name, "enough by its metrics; not asked")
    }
}

fn asked(args: &FleetRoomArgs, hosts: &[Candidate]) -> Result<Vec<Answer>, Failure> {
    let names: Vec<String> = hosts.iter().map(|host| host.name.clone()).collect();
    let mut answers = answers(args, &names)?;
    for answer in &mut answers {
        let host = hosts.iter().find(|host| host.name == answer.node);
        answer.by_metrics_bytes = host.map(|host| host.bytes);
    }
    Ok(answers)
}

/// Asks nodes.
fn answers(args: &FleetRoomArgs, names: &[String]) -> Result<Vec<Answer>, Failure> {
    let request = args.request.argument();
    let words = ["memwright", "check", "--json", "--for", &request];
    let (answers, failed) = asking::ask_all(&args.way, names, &words, answer::read)?;
    let answered = answers.into_iter().map(|(node, said)| Answer { node, ..said });
    let failed = failed.iter().map(|silent| answer::failed(&silent.node, &silent.why));
    Ok(answered.chain(failed).collect())
}

fn print(args: &FleetRoomArgs, room: &FleetRoom) -> Result<(), Failure> {
    match if args.json { FleetFormat::Json } else { args.format } {
        FleetFormat::Json => return crate::command::print_json(room),
        FleetFormat::Text => terminal::print(&text(args, room)),
        FleetFormat::Nodeset => {
            let names: Vec<String> = named(room, listed(args)).map(str::to_owned).collect();
            terminal::print(&(node_set::fold(&names) + "\n"));
        }
    }
    Ok(())
}

fn named(room: &FleetRoom, verdict: Verdict) -> impl Iterator<Item = &str> {
    let answers = room.answers.iter().filter(move |answer| answer.verdict == verdict);
    answers.map(|answer| answer.node.as_str())
}

/// The answer in the first line, then a line for each node that was asked.
fn text(args: &FleetRoomArgs, room: &FleetRoom) -> String {
    let count = |verdict| named(room, verdict).count();
    let (yes, slowly) = (count(Verdict::Yes), count(Verdict::Slowly));
    let nodes = format_count(room.nodes, "node");
    let mut text = match (args.by_metrics, yes, slowly) {
        (true, ..) => {
            let known = count(Verdict::Unknown);
            let verb = if known == 1 { "has" } else { "have" };
            format!("{known} of {nodes} {verb}")
        }
        (_, 0, 0) => format!("0 of {nodes} can provide"),
        (_, 0, _) => format!("{slowly} of {nodes} can provide slowly"),
        (_, _, 0) => format!("{yes} of {nodes} can provide"),
        _ => format!("{yes} of {nodes} can provide, and {slowly} slowly,"),
    };
    let _ = write!(text, " {}", args.request);
    let more = [
        (room.too_little, "with too little by their metrics"),
        (room.not_asked, "not asked (--ask)"),
        (room.without_metrics.len(), "without metrics"),
        (count(Verdict::Failed), "did not answer"),
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
        let metrics = answer.by_metrics_bytes.filter(|_| args.by_metrics);
        let metrics = metrics.map_or(String::new(), |bytes| format!("{}, ", format_bytes(bytes)));
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
