//! The severity of findings that count.

use clap::ValueEnum;
use mw_model::Severity;

/// The severity from which on `check` exits with 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailOn {
    /// Any finding
    Note,
    /// Stalls under load
    Warning,
    /// Stalls now or at the next large request
    Critical,
    /// Never
    Never,
}

impl FailOn {
    /// True if a severity is at or above it.
    pub fn is_reached_by(self, severity: Severity) -> bool {
        match self {
            Self::Note => true,
            Self::Warning => severity >= Severity::Warning,
            Self::Critical => severity >= Severity::Critical,
            Self::Never => false,
        }
    }
}
