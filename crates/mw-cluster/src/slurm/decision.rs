//! The decision that follows from the check and from the state that slurmctld has of the node. Who drained a node is told by its
//! reason: only a drain whose reason begins with [`LEADER`] is changed or ended here.

use super::node::SlurmNode;
use mw_model::Severity;
use mw_model::{Finding, Report};

/// Beginning of a reason that was given here: monitoring matches on it.
pub(super) const LEADER: &str = "memwright: ";

/// Longest reason in bytes; `sinfo -R` shows 20 characters unless it is given a format.
const MAX_REASON_BYTES: usize = 200;

const CUT: &str = "...";

/// Result of the check for scheduling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// The node is to be drained, with this reason.
    Hazard(DrainReason),
    /// It has no such hazard. These rules could not be checked.
    Fine { unchecked: Vec<String> },
    /// The machine could not be checked.
    Unknown,
}

/// The reason of a drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainReason {
    pub rule: String,
    pub severity: Severity,
    text: String,
}

impl DrainReason {
    fn new(finding: &Finding) -> Self {
        Self {
            rule: finding.rule.clone(),
            severity: finding.severity,
            text: plain(&finding.headline),
        }
    }

    /// `memwright: RULE: text`, which scontrol takes as it is.
    #[must_use]
    pub fn line(&self) -> String {
        let mut line = format!("{LEADER}{}: {}", self.rule, self.text);
        if line.len() > MAX_REASON_BYTES {
            line.truncate(MAX_REASON_BYTES - CUT.len());
            line += CUT;
        }
        line
    }
}

/// ASCII without what scontrol, shells or readers of `Key=value` lines could take for their own.
fn plain(text: &str) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || " .,:;/()%+-_<>*".contains(*c);
    let plain = |c: char| match c {
        '=' => ':',
        c if c.is_whitespace() => ' ',
        c if is_plain(&c) => c,
        _ => '_',
    };
    text.chars().map(plain).collect()
}

/// Findings that drain a node: those about the machine, never those about a process, a cgroup or a mount.
#[derive(Debug)]
pub struct DrainPolicy<'a> {
    /// These rules only, unless there is none.
    pub rules: &'a [String],
    /// Never without it.
    pub severity: Option<Severity>,
    /// A job of the usual size gets its memory without a wait: nothing drains.
    pub is_job_served: bool,
}

impl DrainPolicy<'_> {
    /// Judges a node by a report.
    #[must_use]
    pub fn judge(&self, report: &Report) -> Judgement {
        let drains = |finding: &&Finding| {
            let is_named = self.rules.is_empty() || self.rules.contains(&finding.rule);
            is_named
                && finding.subject.is_machine()
                && !self.is_job_served
                && self.severity.is_some_and(|least| finding.severity >= least)
        };
        match report.findings.iter().find(drains) {
            Some(finding) => Judgement::Hazard(DrainReason::new(finding)),
            None if report.is_unknown() => Judgement::Unknown,
            None => {
                let unchecked = report.skipped.iter().map(|skipped| skipped.rule.clone());
                Judgement::Fine { unchecked: unchecked.collect() }
            }
        }
    }
}

/// Change of the node's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DrainDecision {
    /// Drain it, or say the new reason.
    Drain(DrainReason),
    /// It was drained here and is idle: try to remove the hazard.
    Remedy(DrainReason),
    /// End the drain that was begun here.
    Resume,
    Nothing(Inaction),
}

/// The reason that nothing is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inaction {
    Healthy,
    /// It is drained, down or failing for another reason.
    TakenOut {
        reason: Option<String>,
        hazard: Option<DrainReason>,
    },
    StillThere(DrainReason),
    /// The hazard has not been there for long enough.
    NotYet(DrainReason),
    /// The hazard is gone, and jobs are still on the node.
    Busy,
    /// The rule for which it was drained could not be checked.
    Unchecked(String),
}

/// Permitted actions.
#[derive(Debug, Clone, Copy)]
pub struct Permissions {
    /// The hazard has lasted: the node may be drained for it.
    pub drain: bool,
    /// Making room is allowed, and was not yet tried.
    pub remedy: bool,
}

/// The decision; `None` where the machine could not be checked.
#[must_use]
pub fn decide(
    node: &SlurmNode,
    judgement: &Judgement,
    leave: Permissions,
) -> Option<DrainDecision> {
    let reason = node.reason.as_deref();
    let own_rule = reason.filter(|_| node.is_drained()).and_then(rule_of);
    let hazard = match judgement {
        Judgement::Hazard(reason) => Some(reason),
        Judgement::Fine { .. } => None,
        Judgement::Unknown => return None,
    };
    let is_taken_out = node.is_drained() || (node.is_out() && reason.is_some());
    Some(match (own_rule, hazard) {
        (None, _) if is_taken_out => DrainDecision::Nothing(Inaction::TakenOut {
            reason: reason.map(str::to_owned),
            hazard: hazard.cloned(),
        }),
        (None, Some(hazard)) if leave.drain => DrainDecision::Drain(hazard.clone()),
        (None, Some(hazard)) => DrainDecision::Nothing(Inaction::NotYet(hazard.clone())),
        (None, None) => DrainDecision::Nothing(Inaction::Healthy),
        (Some(rule), Some(hazard)) if rule != hazard.rule && leave.drain => {
            DrainDecision::Drain(hazard.clone())
        }
        (Some(_), Some(hazard)) if leave.remedy && node.is_idle() => {
            DrainDecision::Remedy(hazard.clone())
        }
        (Some(_), Some(hazard)) => DrainDecision::Nothing(Inaction::StillThere(hazard.clone())),
        (Some(rule), None) => after(node, rule, judgement),
    })
}

/// The hazard is not found any more.
fn after(node: &SlurmNode, rule: &str, judgement: &Judgement) -> DrainDecision {
    match judgement {
        Judgement::Fine { unchecked } if unchecked.iter().any(|id| id == rule) => {
            DrainDecision::Nothing(Inaction::Unchecked(rule.to_owned()))
        }
        _ if node.is_idle() => DrainDecision::Resume,
        _ => DrainDecision::Nothing(Inaction::Busy),
    }
}

/// The rule of a reason that was given here.
fn rule_of(reason: &str) -> Option<&str> {
    reason.strip_prefix(LEADER)?.split(':').next()
}

#[cfg(test)]
#[path = "decision/tests.rs"]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
