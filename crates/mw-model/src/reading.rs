//! A reading: the outcome of reading a kernel file, its value or why there is none.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The outcome of reading a kernel file or a group of files.
///
/// "Could not be checked" is never "passed": every consumer decides what it does if the value is not
/// [`Reading::Value`], usually by passing the [`Missing`] on with `?`.
#[derive(Debug, Clone, PartialEq)]
pub enum Reading<T> {
    /// It was read and parsed.
    Value(T),
    /// There is no value, and why.
    Missing(Missing),
}

/// The reason why there is no value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Missing {
    /// The kind of absence.
    pub absence: Absence,
    /// The file, with the line where that is known: `/proc/zoneinfo line 12`.
    pub what: String,
    /// The reason, and what would make it work where that is known.
    pub why: String,
}

/// The kinds of absence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Absence {
    /// This kernel, or this captured tree, does not have it.
    Absent,
    /// It exists but was not read: a privilege or a precondition is missing.
    Skipped,
    /// It exists, and reading or parsing it failed.
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
    pub fn absent(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { absence: Absence::Absent, what: what.into(), why: why.into() }
    }

    pub fn skipped(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { absence: Absence::Skipped, what: what.into(), why: why.into() }
    }

    pub fn failed(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { absence: Absence::Failed, what: what.into(), why: why.into() }
    }

    pub fn masked(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { absence: Absence::Masked, what: what.into(), why: why.into() }
    }
}

impl<T> Reading<T> {
    /// The value, or why there is none, for `?` in a rule.
    ///
    /// # Errors
    /// Why there is no value.
    pub fn required(&self) -> Result<&T, Missing> {
        match self {
            Self::Value(value) => Ok(value),
            Self::Missing(missing) => Err(missing.clone()),
        }
    }

    /// The value, for consumers that treat all kinds of absence alike.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Missing(_) => None,
        }
    }

    /// The reason why there is no value.
    pub fn missing(&self) -> Option<&Missing> {
        match self {
            Self::Value(_) => None,
            Self::Missing(missing) => Some(missing),
        }
    }
}

impl<T> Default for Reading<T> {
    fn default() -> Self {
        Self::Missing(Missing::skipped("snapshot", "not collected"))
    }
}

impl<T> From<Result<T, Missing>> for Reading<T> {
    fn from(result: Result<T, Missing>) -> Self {
        match result {
            Ok(value) => Self::Value(value),
            Err(missing) => Self::Missing(missing),
        }
    }
}
