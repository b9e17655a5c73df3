//! `memwright slurm health`: slurmd runs it at an interval, and kills it after 60 s.
//!
//! The state of the node is read anew right before it is changed. Between that and the change lie milliseconds in which
//! an administrator's drain would be lost: Slurm has no change with a condition.

use super::decision::{Decision, Judgement, Policy, Reason, Why, decide};
use super::node::Node;
use super::scontrol;
use crate::args::{FailOn, SlurmHealthArgs};
use crate::config::Config;
use crate::{Exit, Failure, live, terminal};
use mw_model::Severity;
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
    let judgement = health.judge()?;
    // A healthy node costs slurmctld one question.
    let node = scontrol::node(&name)?;
    let decision = health.decide(&node, &judgement, args.make_room.is_some())?;
    let Decision::Remedy(_) = decision else { return health.act(&decision) };
    health.make_room(begun)?;
    let judgement = health.judge()?;
    let node = scontrol::node(&name)?;
    health.act(&health.decide(&node, &judgement, false)?)
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

struct Health<'a> {
    args: &'a SlurmHealthArgs,
    config: &'a Config,
    name: &'a str,
}

impl Health<'_> {
    /// Checks the machine.
    fn judge(&self) -> Result<Judgement, Failure> {
        let window = match &self.args.root {
            Some(root) => crate::command::tree::read(root, mw_collect::window)?,
            None => live::window()?,
        };
        let policy = Policy { rules: &self.args.drain_on, severity: self.severity() };
        Ok(policy.judge(&mw_rules::check(&window, None)))
    }

    fn severity(&self) -> Option<Severity> {
        let default = if self.args.drain_on.is_empty() { FailOn::Critical } else { FailOn::Note };
        let severities = [Severity::Note, Severity::Warning, Severity::Critical];
        let least = self.args.severity.unwrap_or(default);
        severities.into_iter().find(|severity| least.is_reached_by(*severity))
    }

    fn decide(
        &self,
        node: &Node,
        judgement: &Judgement,
        can_remedy: bool,
    ) -> Result<Decision, Failure> {
        decide(node, judgement, can_remedy).ok_or_else(|| {
            let line = format!("node {}: could not be checked: see memwright check", self.name);
            Failure::new(Exit::CouldNotCheck, line)
        })
    }

    /// Does it, and says it.
    fn act(&self, decision: &Decision) -> Result<Exit, Failure> {
        let would = if self.args.dry_run { "would be " } else { "" };
        let (exit, line) = match decision {
            Decision::Drain(reason) => {
                let line = reason.line();
                if !self.args.dry_run {
                    scontrol::drain(self.name, &line)?;
                }
                (Exit::Findings, format!("{would}drained: {line}"))
            }
            Decision::Resume => {
                if !self.args.dry_run {
                    scontrol::resume(self.name)?;
                }
                (Exit::Fine, format!("{would}resumed: the hazard is gone"))
            }
            Decision::Remedy(reason) => (Exit::Findings, still_there(reason)),
            Decision::Nothing(why) => nothing(why),
        };
        terminal::print(&format!("node {}: {line}\n", self.name));
        Ok(exit)
    }

    /// Makes room in the time that is left; two commands of Slurm follow.
    fn make_room(&self, begun: Instant) -> Result<(), Failure> {
        let Some(request) = self.args.make_room.as_ref().filter(|_| !self.args.dry_run) else {
            return Ok(());
        };
        let reserved = begun.elapsed() + scontrol::LIMIT * 2;
        let mut max_cost = self.args.max_cost;
        max_cost.time = max_cost.time.min(TIME.saturating_sub(reserved));
        let state_dir = self.args.state_dir.clone();
        match super::make_room(request, max_cost, state_dir, self.config) {
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

fn still_there(reason: &Reason) -> String {
    format!("stays drained: {}", reason.line())
}

fn nothing(why: &Why) -> (Exit, String) {
    match why {
        Why::Healthy => (Exit::Fine, "no hazard".to_owned()),
        Why::TakenOut { reason, hazard } => {
            let reason = reason.as_deref().unwrap_or("no reason given");
            let line = format!("drained or down by others, left alone: {reason}");
            match hazard {
                Some(hazard) => (Exit::Findings, format!("{line}; found: {}", hazard.line())),
                None => (Exit::Fine, line),
            }
        }
        Why::StillThere(reason) => (Exit::Findings, still_there(reason)),
        Why::Busy => (Exit::Fine, "the hazard is gone; stays drained until it is idle".to_owned()),
        Why::Unchecked(rule) => {
            (Exit::CouldNotCheck, format!("stays drained: {rule} could not be checked"))
        }
    }
}
