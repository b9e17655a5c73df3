//! `memwright slurm health`: slurmd runs it at an interval, and kills it after 60 s.
//!
//! The state of the node is read anew right before it is changed. Between that and the change lie milliseconds in which
//! an administrator's drain would be lost: Slurm has no change with a condition.

use crate::args::{FailOn, SlurmHealthArgs};
use crate::command::lasting::SightingsFile;
use crate::config::Config;
use crate::output::without_interruption;
use crate::{Exit, Failure, live, terminal};
use mw_cluster::slurm::{
    DrainDecision, DrainPolicy, DrainReason, Inaction, Judgement, MemoryOffer, Permissions,
    SlurmNode, decide, scontrol,
};
use mw_model::{Answer, Report, Severity, Window};
use std::time::{Duration, Instant};

/// In which it ends: slurmd allows 60 s.
const TIME: Duration = Duration::from_secs(50);

pub(super) fn run(args: &SlurmHealthArgs, config: &Config) -> Result<Exit, Failure> {
    let begun = Instant::now();
    for rule in &args.drain_on {
        crate::command::rule(rule)?;
    }
    let name = node_name(args)?;
    let health = Health { args, config, name: &name };
    let mut window = health.window()?;
    // A healthy node costs slurmctld one question.
    let mut node = ask(|| scontrol::node(&name))?;
    let mut decision = health.decide(&node, &window, args.make_room.is_some())?;
    if let (DrainDecision::Remedy(_), false) = (&decision, args.dry_run) {
        health.make_room(begun)?;
        window = health.window()?;
        node = ask(|| scontrol::node(&name))?;
        decision = health.decide(&node, &window, false)?;
    }
    let exit = health.act(&decision)?;
    if args.extra {
        health.offer(&node, &window)?;
    }
    Ok(exit)
}

fn node_name(args: &SlurmHealthArgs) -> Result<String, Failure> {
    let given = args.node.clone().or_else(|| std::env::var("SLURMD_NODENAME").ok());
    let name = given.unwrap_or_else(|| {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        host.split('.').next().unwrap_or_default().to_owned()
    });
    // scontrol takes lists such as n[1-9], and ALL.
    let is_one = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || !name.chars().all(is_one) || name.eq_ignore_ascii_case("all") {
        return Err(Failure::new(Exit::Usage, format!("invalid name of a node '{name}'")));
    }
    Ok(name)
}

/// Asks slurmctld, while signals wait.
fn ask<T>(question: impl FnOnce() -> Result<T, String>) -> Result<T, Failure> {
    without_interruption(|| question().map_err(|why| Failure::new(Exit::CouldNotCheck, why)))
}

struct Health<'a> {
    args: &'a SlurmHealthArgs,
    config: &'a Config,
    name: &'a str,
}

impl Health<'_> {
    fn window(&self) -> Result<Window, Failure> {
        match &self.args.root {
            Some(root) => crate::command::tree::read(root, mw_collect::window),
            None => live::window(),
        }
    }

    fn severity(&self) -> Option<Severity> {
        let default =
            if self.args.drain_on.is_empty() { FailOn::Critical } else { FailOn::Warning };
        let severities = [Severity::Note, Severity::Warning, Severity::Critical];
        let least = self.args.severity.unwrap_or(default);
        severities.into_iter().find(|severity| least.is_reached_by(*severity))
    }

    /// Checks the machine, and decides.
    fn decide(
        &self,
        node: &SlurmNode,
        window: &Window,
        can_remedy: bool,
    ) -> Result<DrainDecision, Failure> {
        let policy = DrainPolicy {
            rules: &self.args.drain_on,
            severity: self.severity(),
            is_job_served: self.is_job_served(window),
        };
        let report = mw_rules::check(window, None);
        let judgement = policy.judge(&report);
        let drain = self.lasts(&judgement, &report)?;
        decide(node, &judgement, Permissions { drain, remedy: can_remedy })
            .ok_or_else(|| self.failure("could not be checked: see memwright check"))
    }

    /// True if the hazard has been there for as long as a drain needs. A rehearsal keeps nothing.
    fn lasts(&self, judgement: &Judgement, report: &Report) -> Result<bool, Failure> {
        let least = self.args.after;
        if least.is_zero() {
            return Ok(true);
        }
        let mut kept = SightingsFile::open(&self.config.state_dir(self.args.state_dir.as_deref()));
        if !self.args.dry_run {
            kept.note(report)?;
        }
        Ok(match judgement {
            Judgement::Hazard(reason) => kept.sightings.lasts(&reason.rule, reason.severity, least),
            Judgement::Fine { .. } | Judgement::Unknown => false,
        })
    }

    /// True if a job of the usual size gets its memory without a wait.
    fn is_job_served(&self, window: &Window) -> bool {
        let assessed = self.args.job.as_ref().map(|job| mw_rules::preflight::assess(window, job));
        assessed.is_some_and(|job| job.is_ok_and(|job| job.answer() == Answer::Yes))
    }

    /// Does it, and says it.
    fn act(&self, decision: &DrainDecision) -> Result<Exit, Failure> {
        let would = if self.args.dry_run { "would be " } else { "" };
        let (exit, line) = match decision {
            DrainDecision::Drain(reason) => {
                let line = reason.line();
                if !self.args.dry_run {
                    ask(|| scontrol::drain(self.name, &line))?;
                }
                (Exit::Findings, format!("{would}drained: {line}"))
            }
            DrainDecision::Resume => {
                if !self.args.dry_run {
                    ask(|| scontrol::resume(self.name))?;
                }
                (Exit::Fine, format!("{would}resumed: the hazard is gone"))
            }
            DrainDecision::Remedy(reason) => {
                (Exit::Findings, format!("{}; room would be made", still_there(reason)))
            }
            DrainDecision::Nothing(why) => nothing(why),
        };
        terminal::print(&format!("node {}: {line}\n", self.name));
        Ok(exit)
    }

    /// Has the node say what it offers.
    fn offer(&self, node: &SlurmNode, window: &Window) -> Result<(), Failure> {
        let offer = MemoryOffer::new(&window.now).map_err(|missing| self.failure(missing))?;
        let update = offer.update(node.extra.as_deref());
        let Some(extra) = update.map_err(|why| self.failure(why))? else { return Ok(()) };
        if !self.args.dry_run {
            ask(|| scontrol::set_extra(self.name, &extra))?;
        }
        let would = if self.args.dry_run { "would be " } else { "" };
        terminal::print(&format!("node {}: Extra {would}set: {extra}\n", self.name));
        Ok(())
    }

    fn failure(&self, why: impl std::fmt::Display) -> Failure {
        Failure::new(Exit::CouldNotCheck, format_args!("node {}: {why}", self.name))
    }

    /// Makes room in the time that is left; two or three commands of Slurm follow.
    fn make_room(&self, begun: Instant) -> Result<(), Failure> {
        let Some(request) = &self.args.make_room else { return Ok(()) };
        let commands = if self.args.extra { 3 } else { 2 };
        let reserved = begun.elapsed() + scontrol::LIMIT * commands;
        let mut max_cost = self.args.max_cost;
        max_cost.time = max_cost.time.min(TIME.saturating_sub(reserved));
        let state_dir = self.args.state_dir.clone();
        match super::room::make(request, max_cost, state_dir, self.config) {
            // It was interrupted, and so is the rest.
            Err(failure) if failure.exit == Exit::RolledBack => Err(failure),
            // The node stays drained: what is wrong with it is judged by the check alone.
            Err(failure) => {
                terminal::tell(format_args!("memwright: {failure}"));
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }
}

fn still_there(reason: &DrainReason) -> String {
    format!("stays drained: {}", reason.line())
}

fn nothing(why: &Inaction) -> (Exit, String) {
    match why {
        Inaction::Healthy => (Exit::Fine, "no hazard".to_owned()),
        Inaction::TakenOut { reason, hazard } => {
            let reason = reason.as_deref().unwrap_or("no reason given");
            let line = format!("drained or down by others, left alone: {reason}");
            match hazard {
                Some(hazard) => (Exit::Findings, format!("{line}; found: {}", hazard.line())),
                None => (Exit::Fine, line),
            }
        }
        Inaction::StillThere(reason) => (Exit::Findings, still_there(reason)),
        Inaction::NotYet(reason) => {
            (Exit::Findings, format!("found, to be drained if it lasts: {}", reason.line()))
        }
        Inaction::Busy => {
            (Exit::Fine, "the hazard is gone; stays drained until it is idle".to_owned())
        }
        Inaction::Unchecked(rule) => {
            (Exit::CouldNotCheck, format!("stays drained: {rule} could not be checked"))
        }
    }
}
