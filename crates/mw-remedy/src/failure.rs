//! Why a plan was not carried out, and what became of the changes that had been made.

use crate::journal::JournalError;
use crate::kernel::KernelError;
use crate::persist::PersistError;
use mw_model::format_count;
use serde::Serialize;

/// The reason why a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    #[error(transparent)]
    Kernel(#[from] KernelError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Our file under /etc.
    #[error(transparent)]
    Persist(#[from] PersistError),
    /// Another program wrote the setting after the plan was made.
    #[error(
        "{path} was {planned} when the change was planned and is {now} now: another program is changing it; find out which, and run memwright again"
    )]
    Moved { path: String, planned: String, now: String },
}

/// A change that could not be reverted after a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnrevertedChange {
    /// Its number, for `memwright undo`.
    pub change: u64,
    pub path: String,
    pub why: String,
}

/// The reason why a plan was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("nothing was changed: {cause}")]
    NothingChanged { cause: Box<ChangeError> },
    /// All changes were reverted.
    #[error("{cause}; reverted {}", count(rolled_back))]
    RolledBack {
        cause: Box<ChangeError>,
        /// The changes that were reverted, newest first.
        rolled_back: Vec<u64>,
    },
    /// Not all changes could be reverted.
    #[error("{cause}; not every change could be reverted: {}", list(stuck))]
    Stuck {
        cause: Box<ChangeError>,
        /// The changes that were reverted, newest first.
        rolled_back: Vec<u64>,
        stuck: Vec<UnrevertedChange>,
    },
}

impl ChangeError {
    /// True if more privilege would help.
    pub fn is_privilege(&self) -> bool {
        match self {
            Self::Kernel(error) => error.is_privilege(),
            Self::Journal(error) => error.is_privilege(),
            Self::Persist(error) => error.is_privilege(),
            Self::Moved { .. } => false,
        }
    }
}

impl ApplyError {
    /// The reason why the plan was not carried out.
    pub fn cause(&self) -> &ChangeError {
        match self {
            Self::NothingChanged { cause }
            | Self::RolledBack { cause, .. }
            | Self::Stuck { cause, .. } => cause,
        }
    }

    /// True if more privilege would help, and nothing is left changed: exit code 4.
    pub fn is_privilege(&self) -> bool {
        !matches!(self, Self::Stuck { .. }) && self.cause().is_privilege()
    }
}

fn count(changes: &[u64]) -> String {
    format_count(changes.len(), "change")
}

fn list(stuck: &[UnrevertedChange]) -> String {
    let one = |stuck: &UnrevertedChange| {
        format!("change {} of {} ({})", stuck.change, stuck.path, stuck.why)
    };
    stuck.iter().map(one).collect::<Vec<_>>().join("; ")
}
