//! The outcome of looking at one thing: seen, or one of the ways of not being seen.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What came of looking at one kernel file or group of files.
///
/// "I could not look" is never "nothing found": every consumer has to say what it does when the
/// value is not [`Look::Seen`], usually by passing the [`Missing`] on with `?`.
#[derive(Debug, Clone, PartialEq)]
pub enum Look<T> {
    /// It was read and understood.
    Seen(T),
    /// It could not be seen, and why.
    Missing(Missing),
}

/// Why something could not be seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Missing {
    /// How it is missing.
    pub absence: Absence,
    /// The file, with the line where that is known: `/proc/zoneinfo line 12`.
    pub what: String,
    /// The reason, and what would make it work where that is known.
    pub why: String,
}

/// The ways of not being seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Absence {
    /// This kernel, or this captured tree, does not have it.
    Absent,
    /// It is there but was not looked at: a privilege or a precondition is missing.
    Skipped,
    /// It was there, and reading or understanding it failed.
    Failed,
    /// This kernel may have it, but another mount hides it.
    Masked,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

impl std::error::Error for Missing {}

impl Missing {
    /// A thing that this kernel or tree does not have.
    pub fn absent(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { absence: Absence::Absent, what: what.into(), why: why.into() }
    }

    /// A thing that was not looked at.
    pub fn skipped(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { absence: Absence::Skipped, what: what.into(), why: why.into() }
    }

    /// A thing that could not be read or understood.
    pub fn failed(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { absence: Absence::Failed, what: what.into(), why: why.into() }
    }

    /// A thing that another mount hides.
    pub fn masked(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { absence: Absence::Masked, what: what.into(), why: why.into() }
    }
}

impl<T> Look<T> {
    /// The value, or why there is none, for `?` in a rule.
    ///
    /// # Errors
    /// The reason why the value was not seen.
    pub fn need(&self) -> Result<&T, Missing> {
        match self {
            Self::Seen(value) => Ok(value),
            Self::Missing(missing) => Err(missing.clone()),
        }
    }

    /// The value, for consumers to which its absence makes no difference.
    pub fn seen(&self) -> Option<&T> {
        match self {
            Self::Seen(value) => Some(value),
            Self::Missing(_) => None,
        }
    }

    /// Why there is no value.
    pub fn missing(&self) -> Option<&Missing> {
        match self {
            Self::Seen(_) => None,
            Self::Missing(missing) => Some(missing),
        }
    }
}

impl<T> Default for Look<T> {
    fn default() -> Self {
        Self::Missing(Missing::skipped("snapshot", "not collected"))
    }
}

impl<T> From<Result<T, Missing>> for Look<T> {
    fn from(result: Result<T, Missing>) -> Self {
        match result {
            Ok(value) => Self::Seen(value),
            Err(missing) => Self::Missing(missing),
        }
    }
}
