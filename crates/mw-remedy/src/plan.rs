//! What would be changed: the steps of findings, against the present values.

use crate::coupling::{moves_min_free, same_limit};
use crate::device::identify;
use crate::kernel::{Kernel, KernelError, is_one_line, same_setting, setting_of};
use crate::persist::{PersistTarget, target_of};
use crate::shadow::{ShadowedLine, known_as};
use crate::tuners::others;
use mw_model::{Finding, Step};
use serde::Serialize;
use std::fmt;

/// Changes that would be made, and steps that memwright cannot take itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// Changes that memwright would write, in order.
    pub changes: Vec<PlannedChange>,
    /// Steps for a person.
    pub manual: Vec<String>,
    /// Parameters that only the boot line can set.
    pub boot: Vec<String>,
    /// Settings that have the wanted value already.
    pub already: Vec<UnchangedSetting>,
    /// Settings that this kernel does not have.
    pub absent: Vec<String>,
    /// Wishes that another finding's proposal overrode.
    pub conflicts: Vec<Conflict>,
}

/// One write that memwright would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedChange {
    /// The rule whose remedy it is; of several, the one with the worst finding.
    pub rule: String,
    /// Further rules that ask for the same.
    pub also: Vec<String>,
    pub path: String,
    /// Its present content; absent for an action.
    pub before: Option<String>,
    pub value: String,
    /// True if it is an action that is done once and cannot be reverted.
    pub once: bool,
    /// File in which `--persist` stores it; absent for an action and where it cannot be persisted.
    pub persist: Option<PersistTarget>,
    /// The reason why it cannot be persisted.
    pub not_kept: Option<String>,
    /// Other files that set the same.
    pub shadowed: Vec<ShadowedLine>,
}

/// A setting that has the wanted value already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnchangedSetting {
    /// The rule whose remedy it is.
    pub rule: String,
    pub path: String,
    pub value: String,
}

/// Two findings that want different values for one limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Conflict {
    /// The rule that gets its will: the worse finding's, or the first of two equally bad ones.
    pub taken_rule: String,
    /// The kernel's file that it wants to write.
    pub taken_path: String,
    /// The value that it wants.
    pub taken_value: String,
    /// The rule that does not.
    pub dropped_rule: String,
    /// The kernel's file that it wanted to write.
    pub dropped_path: String,
    /// The value that it wanted.
    pub dropped_value: String,
}

/// The reason why no plan could be made.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A setting cannot be read.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A remedy's value is not one line of text.
    #[error(
        "rule {rule} would write {value:?} to {path}, which is not one line of text; this is a bug in the rule; nothing was changed"
    )]
    BadValue { rule: String, path: String, value: String },
}

impl PlanError {
    /// True if more privilege would help: exit code 4.
    pub fn is_privilege(&self) -> bool {
        matches!(self, Self::Kernel(error) if error.is_privilege())
    }
}

/// One proposal of a finding.
struct ProposedChange<'a> {
    rule: &'a str,
    path: &'a str,
    value: &'a str,
    once: bool,
}

impl Plan {
    /// Changes that would fix these findings. The caller decides which ones to hand in (see
    /// [`mw_model::Consent`]).
    ///
    /// # Errors
    /// A setting cannot be read, or holds what could not be put back.
    pub fn new(kernel: &Kernel, findings: &[Finding]) -> Result<Self, PlanError> {
        let mut worst_first: Vec<&Finding> = findings.iter().collect();
        worst_first.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        let mut plan = Self::default();
        for finding in worst_first {
            let steps = finding.remedy.iter().flat_map(|remedy| &remedy.steps);
            for step in steps {
                plan.take(kernel, &finding.rule, step)?;
            }
        }
        // What recomputes min_free_kbytes comes first, lest it undo a value planned for that.
        plan.changes.sort_by_key(|change| !moves_min_free(&change.path));
        Ok(plan)
    }

    /// Adds what one step of `rule` would change.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn from_step(kernel: &Kernel, rule: &str, step: &Step) -> Result<Self, PlanError> {
        let mut plan = Self::default();
        plan.take(kernel, rule, step)?;
        Ok(plan)
    }

    /// True if there is nothing for memwright to write.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    fn take(&mut self, kernel: &Kernel, rule: &str, step: &Step) -> Result<(), PlanError> {
        match step {
            Step::Write { path, value } => {
                self.proposal(kernel, &ProposedChange { rule, path, value, once: false })
            }
            Step::Once { path, value } => {
                self.proposal(kernel, &ProposedChange { rule, path, value, once: true })
            }
            Step::Manual { command } => {
                add_once(&mut self.manual, command);
                Ok(())
            }
            Step::BootParameter { parameter } => {
                add_once(&mut self.boot, parameter);
                Ok(())
            }
        }
    }

    fn proposal(
        &mut self,
        kernel: &Kernel,
        proposal: &ProposedChange<'_>,
    ) -> Result<(), PlanError> {
        if !is_one_line(proposal.value) {
            return Err(PlanError::BadValue {
                rule: proposal.rule.to_owned(),
                path: proposal.path.to_owned(),
                value: proposal.value.to_owned(),
            });
        }
        if self.is_settled(proposal) {
            return Ok(());
        }
        if proposal.once {
            self.changes.push(proposal.planned(None));
            return Ok(());
        }
        let before = match kernel.read_setting(proposal.path) {
            Ok(content) => content,
            Err(error) if error.is_absent() => {
                add_once(&mut self.absent, proposal.path);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        if same_setting(&setting_of(&before), proposal.value) {
            self.already.push(UnchangedSetting {
                rule: proposal.rule.to_owned(),
                path: proposal.path.to_owned(),
                value: proposal.value.to_owned(),
            });
            return Ok(());
        }
        let mut change = proposal.planned(Some(String::from_utf8_lossy(&before).into_owned()));
        change.keep_in(kernel);
        self.changes.push(change);
        Ok(())
    }

    /// True if a worse finding has already planned this setting.
    fn is_settled(&mut self, proposal: &ProposedChange<'_>) -> bool {
        let already = self.already.iter().find(|already| same_limit(&already.path, proposal.path));
        if let Some(already) = already.filter(|_| !proposal.once) {
            if already.path != proposal.path || !same_setting(&already.value, proposal.value) {
                let (rule, path, value) = (&already.rule, &already.path, &already.value);
                let conflict = Conflict::new(rule, path, value, proposal);
                self.conflicts.push(conflict);
            }
            return true;
        }
        let same = |change: &&mut PlannedChange| {
            change.once == proposal.once && same_limit(&change.path, proposal.path)
        };
        let Some(change) = self.changes.iter_mut().find(same) else { return false };
        if change.path == proposal.path && same_setting(&change.value, proposal.value) {
            if change.rule != proposal.rule {
                add_once(&mut change.also, proposal.rule);
            }
        } else {
            self.conflicts.push(Conflict::new(&change.rule, &change.path, &change.value, proposal));
        }
        true
    }
}

impl ProposedChange<'_> {
    fn planned(&self, before: Option<String>) -> PlannedChange {
        PlannedChange {
            rule: self.rule.to_owned(),
            also: Vec::new(),
            path: self.path.to_owned(),
            before,
            value: self.value.to_owned(),
            once: self.once,
            persist: None,
            not_kept: None,
            shadowed: Vec::new(),
        }
    }
}

impl Conflict {
    fn new(rule: &str, path: &str, value: &str, dropped: &ProposedChange<'_>) -> Self {
        Self {
            taken_rule: rule.to_owned(),
            taken_path: path.to_owned(),
            taken_value: value.to_owned(),
            dropped_rule: dropped.rule.to_owned(),
            dropped_path: dropped.path.to_owned(),
            dropped_value: dropped.value.to_owned(),
        }
    }
}

impl PlannedChange {
    /// The present value; absent for an action.
    pub fn present(&self) -> Option<String> {
        self.before.as_ref().map(|before| setting_of(before.as_bytes()))
    }

    fn keep_in(&mut self, kernel: &Kernel) {
        let device = identify(kernel, &self.path);
        match target_of(kernel, &self.path, &self.value, device.as_ref()) {
            Ok(target) => {
                self.shadowed = others(kernel, &target, &self.path, &self.value);
                self.persist = Some(target);
            }
            Err(why) => self.not_kept = Some(why),
        }
    }
}

fn add_once(list: &mut Vec<String>, item: &str) {
    if !list.iter().any(|known| known == item) {
        list.push(item.to_owned());
    }
}

impl fmt::Display for PlannedChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = known_as(&self.path);
        match self.present() {
            Some(present) => write!(f, "{name}: {present} -> {}", self.value)?,
            None => write!(f, "{name}: write {} once", self.value)?,
        }
        if name == self.path { Ok(()) } else { write!(f, "   ({})", self.path) }
    }
}

impl fmt::Display for UnchangedSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is already {}", known_as(&self.path), self.value)
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} needs {} = {}, but {} needs {} = {} and takes precedence",
            self.dropped_rule,
            known_as(&self.dropped_path),
            self.dropped_value,
            self.taken_rule,
            known_as(&self.taken_path),
            self.taken_value,
        )
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.changes.is_empty() {
            writeln!(f, "nothing to change")?;
        }
        lines(f, "", &self.changes)?;
        lines(f, "already: ", &self.already)?;
        lines(f, "not on this kernel: ", &self.absent)?;
        lines(f, "dropped: ", &self.conflicts)?;
        lines(f, "by hand: ", &self.manual)?;
        lines(f, "only on the boot line: ", &self.boot)
    }
}

fn lines(f: &mut fmt::Formatter<'_>, label: &str, items: &[impl fmt::Display]) -> fmt::Result {
    items.iter().try_for_each(|item| writeln!(f, "{label}{item}"))
}
