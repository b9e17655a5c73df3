//! Findings and the remedies that they carry.

use crate::Quantity;
use crate::visible::shell_word;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Stalls under load.
    Warning,
    /// Stalls now, or at the next large request.
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

/// A hazard or a cause, with what was seen, what it does to a service, and what mends it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// The rule's id in kebab-case, such as `zone-reclaim`.
    pub rule: String,
    /// How bad it is.
    pub severity: Severity,
    /// What it concerns: `node 0 zone Normal`, `/dev/shm`, `vm.zone_reclaim_mode`.
    pub subject: String,
    /// One sentence with the numbers that matter.
    pub headline: String,
    /// What was seen, each with the file that said it.
    pub evidence: Vec<Evidence>,
    /// What it does to a service that wants memory.
    pub impact: String,
    /// What mends it.
    pub remedy: Option<Remedy>,
}

impl Finding {
    /// A finding without evidence or remedy yet; the registry fills in which rule found it.
    pub fn new(
        severity: Severity,
        subject: impl Into<String>,
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

    /// Adds one thing that was seen.
    #[must_use]
    pub fn seen(
        mut self,
        what: impl Into<String>,
        quantity: Quantity,
        source: impl Into<String>,
    ) -> Self {
        self.evidence.push(Evidence { what: what.into(), quantity, source: source.into() });
        self
    }

    /// Says what it does to a service that wants memory.
    #[must_use]
    pub fn hurts(mut self, impact: impl Into<String>) -> Self {
        self.impact = impact.into();
        self
    }

    /// Says what mends it.
    #[must_use]
    pub fn mended_by(mut self, remedy: Remedy) -> Self {
        self.remedy = Some(remedy);
        self
    }
}

/// One thing that was seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// What the number is, in the kernel's own words where it has them.
    pub what: String,
    /// The number.
    pub quantity: Quantity,
    /// The kernel file that said it, or the files that it was computed from.
    pub source: String,
}

/// A change that removes a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Remedy {
    /// What it does, in the imperative: `set vm.zone_reclaim_mode to 0`.
    pub summary: String,
    /// Whether `fix` may apply it without being asked for the rule by name.
    pub consent: Consent,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// Whether a remedy needs to be asked for by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Consent {
    /// `memwright fix` applies it: it only brings a setting back to what suits every workload.
    Automatic,
    /// Only `memwright fix RULE` applies it: it takes something that somebody may have wanted.
    Named,
}

/// One step of a remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Step {
    /// Write a setting; the former value can be put back.
    Write {
        /// The kernel's file, such as `/proc/sys/vm/zone_reclaim_mode`.
        path: String,
        /// What is written, without a newline.
        value: String,
    },
    /// Make the kernel do something once; there is nothing to take back.
    Once {
        /// The kernel's file, such as `/proc/sys/vm/compact_memory`.
        path: String,
        /// What is written, without a newline.
        value: String,
    },
    /// Something that only a person can decide; memwright prints it.
    Manual {
        /// A command line, or a sentence where there is no command.
        command: String,
    },
    /// Something that only a boot parameter does; memwright prints it.
    BootParameter {
        /// The parameter, such as `hugepagesz=1G hugepages=16`.
        parameter: String,
    },
}

impl Step {
    /// A setting of the kernel.
    pub fn write(path: impl Into<String>, value: impl fmt::Display) -> Self {
        Self::Write { path: path.into(), value: value.to_string() }
    }

    /// Something for a person to run or decide.
    pub fn manual(command: impl Into<String>) -> Self {
        Self::Manual { command: command.into() }
    }

    /// A command for a person to run on what somebody else has named: the name is its last word,
    /// quoted for the shell. Where it has characters that cannot be seen there is no command, since
    /// nobody could see what it does.
    pub fn manual_on(command: &str, name: &str) -> Self {
        Self::manual(match shell_word(name) {
            Some(word) => format!("{command} {word}"),
            None => format!(
                "no command to copy: the name \"{}\" has invisible characters",
                crate::visible::line(name)
            ),
        })
    }

    /// Whether memwright carries this step out itself.
    pub fn is_ours(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::Once { .. })
    }
}

impl Remedy {
    /// A remedy that `fix` applies without being asked for the rule by name.
    pub fn automatic(summary: impl Into<String>, steps: Vec<Step>) -> Self {
        Self { summary: summary.into(), consent: Consent::Automatic, steps }
    }

    /// A remedy that is applied only when the rule is named.
    pub fn named(summary: impl Into<String>, steps: Vec<Step>) -> Self {
        Self { summary: summary.into(), consent: Consent::Named, steps }
    }

    /// Whether at least one step is carried out by memwright.
    pub fn is_ours(&self) -> bool {
        self.steps.iter().any(Step::is_ours)
    }
}
