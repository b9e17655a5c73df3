//! Findings and the remedies that they carry.

use crate::visible::shell_word;
use crate::{Quantity, Subject};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Severity of a finding.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A condition worth knowing that stalls nothing by itself.
    Note,
    /// It causes stalls under load.
    Warning,
    /// It causes stalls now, or at the next large request.
    Critical,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Critical => "critical",
        })
    }
}

/// A hazard or a cause: its evidence, its impact on services and its remedy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Finding {
    /// The rule's id in kebab-case, such as `zone-reclaim`.
    pub rule: String,
    /// Its severity.
    pub severity: Severity,
    /// Its subject: `node 0 zone Normal`, `/dev/shm`, `vm.zone_reclaim_mode`.
    #[schemars(with = "String")]
    pub subject: Subject,
    /// One sentence with the numbers that matter.
    pub headline: String,
    /// The evidence, each value with its source.
    pub evidence: Vec<Evidence>,
    /// Its impact on a service that needs memory.
    pub impact: String,
    /// Its remedy.
    pub remedy: Option<Remedy>,
}

impl Finding {
    /// A finding without evidence or remedy yet; the registry fills in which rule found it.
    pub fn new(
        severity: Severity,
        subject: impl Into<Subject>,
        headline: impl Into<String>,
    ) -> Self {
        Self {
            rule: String::new(),
            severity,
            subject: subject.into(),
            headline: headline.into(),
            evidence: Vec::new(),
            impact: String::new(),
            remedy: None,
        }
    }

    /// Adds one piece of evidence.
    #[must_use]
    pub fn with_evidence(
        mut self,
        what: impl Into<String>,
        quantity: Quantity,
        source: impl Into<String>,
    ) -> Self {
        self.evidence.push(Evidence { what: what.into(), quantity, source: source.into() });
        self
    }

    #[must_use]
    pub fn with_impact(mut self, impact: impl Into<String>) -> Self {
        self.impact = impact.into();
        self
    }

    #[must_use]
    pub fn with_remedy(mut self, remedy: Remedy) -> Self {
        self.remedy = Some(remedy);
        self
    }
}

/// One piece of evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Evidence {
    /// Name of the value, the kernel's name if it has one.
    pub what: String,
    /// The value.
    pub quantity: Quantity,
    /// The kernel file with the value, or the files that it was computed from.
    pub source: String,
}

/// A change that removes a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Remedy {
    /// Effect, in the imperative: `set vm.zone_reclaim_mode to 0`.
    pub summary: String,
    /// Whether `fix` applies it only if the rule is named.
    pub consent: Consent,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// Whether the user has to name the rule to apply its remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Consent {
    /// `memwright fix` applies it: it only sets a setting to a value that suits every workload.
    Automatic,
    /// Only `memwright fix RULE` applies it: it changes something that may be intended.
    Named,
}

/// One step of a remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Step {
    /// Writes a setting; the former value can be restored.
    Write {
        /// The kernel's file, such as `/proc/sys/vm/zone_reclaim_mode`.
        path: String,
        /// Text to write, without a newline.
        value: String,
    },
    /// Makes the kernel do something once; there is nothing to revert.
    Once {
        /// The kernel's file, such as `/proc/sys/vm/compact_memory`.
        path: String,
        /// Text to write, without a newline.
        value: String,
    },
    /// An action that only an administrator can decide on; memwright prints it.
    Manual {
        /// A command line, or a sentence where there is no command.
        command: String,
    },
    /// A boot parameter; memwright prints it.
    BootParameter {
        /// The parameter, such as `hugepagesz=1G hugepages=16`.
        parameter: String,
    },
}

impl Step {
    /// Writes a setting of the kernel.
    pub fn write(path: impl Into<String>, value: impl fmt::Display) -> Self {
        Self::Write { path: path.into(), value: value.to_string() }
    }

    /// An action for an administrator.
    pub fn manual(command: impl Into<String>) -> Self {
        Self::Manual { command: command.into() }
    }

    /// A command for an administrator with a name from outside as its last word, quoted for the
    /// shell. There is no command if the name contains invisible characters, since the reader could
    /// not see what it does.
    pub fn manual_on(command: &str, name: &str) -> Self {
        Self::manual(match shell_word(name) {
            Some(word) => format!("{command} {word}"),
            None => format!(
                "no command to copy: the name \"{}\" contains invisible characters",
                crate::visible::line(name)
            ),
        })
    }

    /// True if memwright performs this step itself.
    pub fn is_ours(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::Once { .. })
    }
}

impl Remedy {
    /// A remedy that `fix` applies by default.
    pub fn automatic(summary: impl Into<String>, steps: Vec<Step>) -> Self {
        Self { summary: summary.into(), consent: Consent::Automatic, steps }
    }

    /// A remedy that `fix` applies only if the rule is named.
    pub fn named(summary: impl Into<String>, steps: Vec<Step>) -> Self {
        Self { summary: summary.into(), consent: Consent::Named, steps }
    }

    /// True if memwright performs at least one step itself.
    pub fn is_ours(&self) -> bool {
        self.steps.iter().any(Step::is_ours)
    }
}
