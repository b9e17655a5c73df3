//! `memwright k8s condition`: checks the node and sets its conditions, once or at an interval.

use super::tree;
use crate::args::{K8sArgs, K8sCommand, K8sConditionArgs};
use crate::{Exit, Failure, live, terminal};
use mw_cluster::Sightings;
use mw_cluster::k8s::{
    ConditionStatus, KnownConditions, NodeApi, PublishedCondition, all_unknown, conditions, patch,
    removal,
};
use mw_model::Report;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// An unchanged result is sent this often, as node-problem-detector does.
const HEARTBEAT: Duration = Duration::from_secs(300);

/// Time for which the rates of a check are counted: a burst of some milliseconds is no condition of a node.
const WINDOW: Duration = Duration::from_secs(1);

pub(crate) fn run(args: &K8sArgs) -> Result<Exit, Failure> {
    match &args.command {
        K8sCommand::Condition(args) => condition(args),
    }
}

fn condition(args: &K8sConditionArgs) -> Result<Exit, Failure> {
    let node = node_name(args)?;
    if args.dry_run {
        return dry_run(args);
    }
    let api = NodeApi::new(
        args.api_server.as_deref(),
        &args.token_file,
        args.ca_file.clone(),
        node.clone(),
    )
    .map_err(|why| Failure::new(Exit::Usage, why))?;
    let failed = |why| Failure::new(Exit::CouldNotCheck, why);
    if args.remove {
        api.patch(&removal()).map_err(failed)?;
        terminal::print(&format!("node {node}: conditions removed\n"));
        return Ok(Exit::Fine);
    }
    let publisher = ConditionPublisher { args, api, node };
    match args.every {
        None => {
            let conditions = conditions(&report(args)?);
            publisher.publish(&conditions).map_err(failed)?;
            for line in publisher.lines(&conditions) {
                terminal::print(&(line + "\n"));
            }
            Ok(exit(&conditions))
        }
        Some(interval) => publisher.go_on(interval),
    }
}

/// A name as Kubernetes allows it: it becomes a part of a path.
fn node_name(args: &K8sConditionArgs) -> Result<String, Failure> {
    let named = args.node.clone().or_else(|| std::env::var("NODE_NAME").ok());
    // The kubelet's default.
    let host = || rustix::system::uname().nodename().to_string_lossy().to_lowercase();
    let name = named.unwrap_or_else(host);
    let is_valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) || !name.chars().all(is_valid) {
        let line = format!("invalid name of a node '{name}'; see kubectl get nodes");
        return Err(Failure::new(Exit::Usage, line));
    }
    Ok(name)
}

fn dry_run(args: &K8sConditionArgs) -> Result<Exit, Failure> {
    if args.remove {
        super::print_json(&removal())?;
        return Ok(Exit::Fine);
    }
    let conditions = conditions(&report(args)?);
    super::print_json(&patch(&conditions, &KnownConditions::default(), &now()))?;
    Ok(exit(&conditions))
}

fn report(args: &K8sConditionArgs) -> Result<Report, Failure> {
    let window = match &args.root {
        Some(root) => tree::read(root, |source| mw_collect::window_of(source, WINDOW))?,
        None => live::window_of(WINDOW)?,
    };
    Ok(mw_rules::check(&window, None))
}

fn exit(conditions: &[PublishedCondition]) -> Exit {
    let has = |status| conditions.iter().any(|condition| condition.status == status);
    match (has(ConditionStatus::True), has(ConditionStatus::Unknown)) {
        (true, _) => Exit::Findings,
        (false, true) => Exit::CouldNotCheck,
        (false, false) => Exit::Fine,
    }
}

/// In RFC 3339, in seconds.
fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

struct ConditionPublisher<'a> {
    args: &'a K8sConditionArgs,
    api: NodeApi,
    node: String,
}

impl ConditionPublisher<'_> {
    fn publish(&self, conditions: &[PublishedCondition]) -> Result<(), String> {
        let known = self.api.known()?;
        self.api.patch(&patch(conditions, &known, &now()))
    }

    fn lines<'a>(
        &'a self,
        conditions: &'a [PublishedCondition],
    ) -> impl Iterator<Item = String> + 'a {
        conditions.iter().map(|PublishedCondition { name, status, reason, message }| {
            format!("node {}: {name} {} ({reason}): {message}", self.node, status.name())
        })
    }

    /// Until a signal. Whatever fails is tried again at the next interval.
    fn go_on(&self, interval: Duration) -> Result<Exit, Failure> {
        let signals = signals()
            .map_err(|error| Failure::new(Exit::CouldNotCheck, format!("signals: {error}")))?;
        let mut sent = None;
        let mut sightings = Sightings::default();
        let mut trouble = None;
        loop {
            let due = Instant::now() + interval;
            match self.step(sent.take(), &mut sightings) {
                Ok(last) => {
                    sent = Some(last);
                    trouble = None;
                }
                // An outage is one line, not one at each interval.
                Err(why) if trouble.as_ref() == Some(&why) => {}
                Err(why) => {
                    terminal::tell(format_args!("memwright: {why}; trying again"));
                    trouble = Some(why);
                }
            }
            if ends(&signals, due) {
                return Ok(Exit::Fine);
            }
        }
    }

    /// Checks, and sends what is new or due. The result is what the API server has.
    fn step(
        &self,
        sent: Option<SentConditions>,
        sightings: &mut Sightings,
    ) -> Result<SentConditions, String> {
        let at = Instant::now();
        let conditions = match report(self.args) {
            Ok(mut report) => {
                sightings.note(&report, mw_sys::boot_time_ms());
                sightings.settle(&mut report, self.args.after);
                conditions(&report)
            }
            Err(failure) => all_unknown(&failure.to_string()),
        };
        let as_sent = sent.filter(|sent| are_as(&sent.conditions, &conditions));
        if let Some(sent) = as_sent.as_ref().filter(|sent| sent.at.elapsed() < HEARTBEAT) {
            return Ok(sent.clone());
        }
        self.publish(&conditions)?;
        if as_sent.is_none() {
            self.lines(&conditions).for_each(terminal::tell);
        }
        Ok(SentConditions { conditions, at })
    }
}

/// The last conditions that were sent to the API server, and the time at which they were checked.
#[derive(Clone)]
struct SentConditions {
    conditions: Vec<PublishedCondition>,
    at: Instant,
}

fn are_as(before: &[PublishedCondition], now: &[PublishedCondition]) -> bool {
    before.len() == now.len() && before.iter().zip(now).all(|(before, now)| now.is_as(before))
}

/// Becomes readable at SIGTERM and SIGINT: as the first process of a container it has no default action for them.
fn signals() -> std::io::Result<UnixStream> {
    let (reader, writer) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT] {
        signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
    }
    Ok(reader)
}

/// Waits; whether a signal came.
fn ends(signals: &UnixStream, due: Instant) -> bool {
    loop {
        let left = due.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(signals, PollFlags::IN)], timeout.as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(0) => return false,
            _ => return true,
        }
    }
}
