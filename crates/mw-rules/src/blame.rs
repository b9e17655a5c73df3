//! The time of a stall, divided among those who took it.
//!
//! The critical path divides the time of the slowest request into parts that add up. A part has a culprit if a cause of
//! the incident explains it, and evidence of the same stall singles out one party; all other time has the culprit
//! *unknown*. The shares of a stall add up to its duration.

mod actors;
mod parties;

use crate::accusation::Accusation;
use crate::registry::{Rule, find};
use crate::request::{RequestTime, wants_cpu};
use crate::rules::service_failure;
use crate::stall_window::StallWindow;
use crate::suspect::PLAUSIBLE_PERCENT;
use actors::{Actors, BlamedTime};
use mw_critical_path::kernel::is_in;
use mw_critical_path::{PathPart, TimeClass};
use mw_model::derived::total as total_of;
use mw_model::{
    BlameParty, BlameShare, Cause, EndKind, Incident, Killer, Layout, PartyKind, Snapshot, Subject,
    Table, Tick, TriggerKind, Window,
};
use mw_proc::version::KernelVersion;
use parties::Parties;
use std::cmp::Reverse;

const NS_PER_MS: u64 = 1_000_000;

/// Shares of one stall; the smaller ones have an unknown culprit.
const MAX_SHARES: usize = 16;

/// Shares of an incident as it was recorded, also by a version that did not keep them.
#[must_use]
pub fn blame(incident: &Incident) -> Vec<BlameShare> {
    if !incident.blame.is_empty() {
        return incident.blame.clone();
    }
    let window = recorded_window(incident);
    let request = RequestTime::new(incident, &window);
    let stall = StallWindow { incident, window: &window, calm: None, request: request.as_ref() };
    shares(&stall, &incident.causes, &incident.contributed)
}

/// The counters of the stall as far as the rows of the incident have them.
fn recorded_window(incident: &Incident) -> Window {
    let mut now = Snapshot::default();
    now.origin.page_bytes = incident.host.page_bytes_or_usual();
    now.origin.kernel = KernelVersion::parse(incident.host.kernel.as_bytes()).ok();
    let before = tick_until(&incident.table, incident.started_unix_ms);
    if let Some(end) = tick_until(&incident.table, incident.ended_unix_ms) {
        now.sample = end.sample;
    }
    Window::since(before.map(|tick| tick.sample), now)
}

fn tick_until(table: &Table, unix_ms: u64) -> Option<Tick> {
    let at = table.at_unix_ms.iter().rposition(|at| *at <= unix_ms)?;
    let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    let mut row = Vec::new();
    table.row(at, &mut row);
    Some(Layout::from_names(&names).read(*table.at_unix_ms.get(at)?, &row))
}

/// Shares of a stall of which these are the causes.
pub(crate) fn shares(
    stall: &StallWindow<'_>,
    causes: &[Cause],
    contributed: &[Cause],
) -> Vec<BlameShare> {
    let incident = stall.incident;
    if incident.trigger.kind == TriggerKind::Requested || incident.duration_ms() == 0 {
        return Vec::new();
    }
    let first = causes.first().filter(|cause| is_plausible(cause));
    let mut parties = Parties::new(stall);
    let mut ledger = Ledger::new(incident.duration_ms().saturating_mul(NS_PER_MS));
    match (by_kill(&mut parties, first), stall.request) {
        (Some(culprit), _) => ledger.add(culprit, first.map(rule_id), ledger.left_ns),
        (None, Some(request)) => {
            let others = contributed.iter().filter(|cause| is_plausible(cause));
            let explained: Vec<&Cause> = first.into_iter().chain(others).collect();
            add_parts(&mut ledger, &parties, request, &explained);
        }
        (None, None) => {}
    }
    // Requests beside the slowest one were not traced.
    ledger.add(BlameParty::default(), first.map(rule_id), ledger.left_ns);
    ledger.shares(&parties.victim)
}

fn is_plausible(cause: &Cause) -> bool {
    cause.score() >= PLAUSIBLE_PERCENT
}

fn rule_id(cause: &Cause) -> String {
    cause.finding.rule.clone()
}

/// Adds the parts of the slowest request. One that lasted longer than the stall is scaled down to it.
fn add_parts(
    ledger: &mut Ledger,
    parties: &Parties<'_>,
    request: &RequestTime<'_>,
    causes: &[&Cause],
) {
    let actors = Actors { stall: parties.stall, parties };
    let (total, stall_ns) = (request.path.total_ns, ledger.left_ns);
    let scaled = |ns: u64| match total > stall_ns {
        true => (ns as f64 / total as f64 * stall_ns as f64) as u64,
        false => ns,
    };
    for (spent, part) in request.parts() {
        let cause = causes.iter().find(|cause| covers(request, cause, *spent, part));
        let name = cause.map(|cause| rule_id(cause));
        let taken = cause.map_or_else(Vec::new, |cause| taken(&actors, cause, *spent, part));
        let mut left = part.total_ns;
        for BlamedTime { culprit, ns } in taken {
            let ns = ns.min(left);
            left = left.saturating_sub(ns);
            ledger.add(culprit, name.clone(), scaled(ns));
        }
        ledger.add(BlameParty::default(), name, scaled(left));
    }
    let named = total_of(request.parts().iter().map(|(_, part)| part.total_ns));
    ledger.add(BlameParty::default(), None, scaled(total.saturating_sub(named)));
}

/// True if a cause explains a part of the request.
fn covers(request: &RequestTime<'_>, cause: &Cause, spent: TimeClass, part: &PathPart) -> bool {
    let Some(rule) = find(&cause.finding.rule) else { return false };
    if rule.accuses == Accusation::Hypervisor {
        return wants_cpu(spent, part);
    }
    request.is_explained_by(rule.blamed(), spent) || is_in(&part.stack, rule.functions)
}

/// The parties that took a part of the request that a cause explains.
fn taken(actors: &Actors<'_>, cause: &Cause, spent: TimeClass, part: &PathPart) -> Vec<BlamedTime> {
    let accusation =
        find(&cause.finding.rule).map_or(Accusation::ByPath, |rule: &Rule| rule.accuses);
    match accusation {
        Accusation::ByPath => actors.by_path(spent, part),
        Accusation::Takers => actors.takers(spent, part),
        Accusation::Writers => actors.writers(spent, part),
        Accusation::Forced(work) => actors.forced(work, part),
        Accusation::Kernel => BlamedTime::all(BlameParty::of_kind(PartyKind::Kernel), part),
        Accusation::Disk => actors.disk(part),
        Accusation::Device => actors.device(part),
        Accusation::Hypervisor => actors.hypervisor(part),
        Accusation::Dependency => actors.dependency(part),
        Accusation::Nobody => Vec::new(),
    }
}

/// The culprit of an outage by a kill, or of kills at a limit: the kernel's log and the signal prove it, no path does.
fn by_kill(parties: &mut Parties<'_>, cause: Option<&Cause>) -> Option<BlameParty> {
    let incident = parties.stall.incident;
    if incident.trigger.kind == TriggerKind::OomKill {
        let Subject::Cgroup(Some(path)) = &cause?.finding.subject else { return None };
        parties.victim = BlameParty::of_cgroup(path);
        return Some(parties.victim.clone());
    }
    let end = incident.outage.as_ref()?.ended.as_ref()?;
    if end.how == EndKind::OomKilled {
        return Some(parties.at_limit(end.limit_of.as_ref()?));
    }
    let kill =
        service_failure::kill_of(incident, end).filter(|kill| kill.killer == Killer::Process)?;
    parties.of_sender(kill.sender.as_ref()?)
}

/// Time of a stall that is given to culprits until none is left.
struct Ledger {
    left_ns: u64,
    entries: Vec<(BlameParty, Option<String>, u64)>,
}

impl Ledger {
    fn new(stall_ns: u64) -> Self {
        Self { left_ns: stall_ns, entries: Vec::new() }
    }

    fn add(&mut self, culprit: BlameParty, cause: Option<String>, ns: u64) {
        let ns = ns.min(self.left_ns);
        self.left_ns = self.left_ns.saturating_sub(ns);
        let is_same = |(known, of, _): &&mut (BlameParty, Option<String>, u64)| {
            known.is_same(&culprit) && *of == cause
        };
        match self.entries.iter_mut().find(is_same) {
            Some((.., sum)) => *sum = sum.saturating_add(ns),
            None => self.entries.push((culprit, cause, ns)),
        }
    }

    /// The shares in whole milliseconds, the largest first. What rounding leaves, and what is beyond [`MAX_SHARES`], has
    /// an unknown culprit.
    fn shares(mut self, victim: &BlameParty) -> Vec<BlameShare> {
        let total_ns = total_of(self.entries.iter().map(|(.., ns)| *ns));
        let mut left_ms = total_ns / NS_PER_MS;
        self.entries
            .sort_by_key(|(culprit, _, ns)| (culprit.kind == PartyKind::Unknown, Reverse(*ns)));
        let mut shares: Vec<BlameShare> = Vec::new();
        for (culprit, cause, ns) in self.entries.into_iter().take(MAX_SHARES) {
            let lost_ms = (ns / NS_PER_MS).min(left_ms);
            left_ms = left_ms.saturating_sub(lost_ms);
            shares.push(BlameShare { victim: victim.clone(), culprit, cause, lost_ms });
        }
        let rest = BlameShare { victim: victim.clone(), lost_ms: left_ms, ..BlameShare::default() };
        let is_rest = |share: &&mut BlameShare| !share.is_proven() && share.cause.is_none();
        match shares.iter_mut().find(is_rest) {
            Some(share) => share.lost_ms = share.lost_ms.saturating_add(left_ms),
            None => shares.push(rest),
        }
        shares.retain(|share| share.lost_ms > 0);
        shares.sort_by_key(|share| Reverse(share.lost_ms));
        shares
    }
}
