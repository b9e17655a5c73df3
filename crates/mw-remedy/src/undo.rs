//! Reverts changes, unless another program has changed the setting since.

use crate::history::{Change, PersistedLine};
use crate::journal::{Journal, JournalError};
use crate::kernel::{Kernel, KernelError, setting_of};
use crate::persist::{FileStanding, PersistError};
use crate::point::{ChangeProgress, ChangeStep, Observer};
use crate::record::{ChangeEvent, UndoMethod};
use crate::restore::{
    Drift, KernelFileState, file_drift, file_standing, former_sides, remove_line, restore, standing,
};
use serde::Serialize;
use std::borrow::Cow;
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UndoSelection {
    /// All that were not reverted yet.
    All,
    Ids(Vec<u64>),
}

/// Outcome of one change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UndoResult {
    pub id: u64,
    /// The rule whose remedy it is.
    pub rule: String,
    pub path: String,
    #[serde(flatten)]
    pub outcome: UndoOutcome,
    /// The reason why the journal does not say so; the kernel's file is as `outcome` says nevertheless.
    pub not_recorded: Option<String>,
}

/// Outcome of one change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum UndoOutcome {
    /// The former value is back.
    Restored { to: String },
    /// The former value was there already: memwright was killed before the write, the machine was
    /// restarted, or a program set it.
    AlreadyBefore,
    /// It was an action, of which nothing remains.
    #[serde(rename = "nothing-to-take-back")]
    NothingToRevert,
    /// It had been reverted before.
    AlreadyUndone,
    /// This kernel has no such file; left as it is.
    Missing,
    /// Another program has set something since; left as it is.
    Drifted { drift: Vec<Drift> },
    /// Newer changes lie on top of it; left as it is.
    Blocked { by: Vec<u64> },
    /// It could not be reverted.
    Failed {
        why: String,
        /// True if more privilege would help: exit code 4.
        privilege: bool,
    },
}

impl UndoOutcome {
    /// True if nothing of the change is left.
    pub fn is_gone(&self) -> bool {
        match self {
            Self::Restored { .. }
            | Self::AlreadyBefore
            | Self::NothingToRevert
            | Self::AlreadyUndone => true,
            Self::Missing | Self::Drifted { .. } | Self::Blocked { .. } | Self::Failed { .. } => {
                false
            }
        }
    }

    /// True if more privilege would help: exit code 4.
    pub fn is_privilege(&self) -> bool {
        matches!(self, Self::Failed { privilege: true, .. })
    }
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, now, ours, before } = self;
        write!(
            f,
            "{path} is now '{now}'; memwright set '{ours}', and it was '{before}' before that"
        )
    }
}

impl fmt::Display for UndoOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Restored { to } => write!(f, "restored to {to}"),
            Self::AlreadyBefore => f.write_str("already had its former value"),
            Self::NothingToRevert => f.write_str("a one-time action; nothing to revert"),
            Self::AlreadyUndone => f.write_str("already reverted"),
            Self::Missing => f.write_str(
                "left as it is: no such file: another kernel is booted, or the device is gone; \
                 --force discards the change",
            ),
            Self::Drifted { drift } => {
                let all: Vec<String> = drift.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "left as it is: changed by another program ({}); --force overwrites that",
                    all.join("; ")
                )
            }
            Self::Blocked { by } => {
                let all: Vec<String> = by.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "left as it is: revert {} first, made later to the same setting",
                    all.join(", ")
                )
            }
            Self::Failed { why, .. } => write!(f, "failed: {why}"),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// There is no such change.
    #[error("no change {id}; {}", match newest { 0 => "the journal has no changes".to_owned(), newest => format!("the newest is {newest}; 'memwright changes' lists them") })]
    NoSuchChange {
        id: u64,
        /// The newest change there is.
        newest: u64,
    },
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl UndoError {
    /// True if more privilege would help: exit code 4.
    pub fn is_privilege(&self) -> bool {
        matches!(self, Self::Journal(error) if error.is_privilege())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RevertMode {
    /// The user; `force` overwrites what another program has set.
    Asked { force: bool },
    /// Its own run failed. Whatever the change that failed holds now is our own doing and is
    /// written over.
    RollBack { failed: bool },
}

impl RevertMode {
    fn overwrites(self) -> bool {
        matches!(self, Self::Asked { force: true } | Self::RollBack { failed: true })
    }
}

/// Reverts changes, newest first. `force` overwrites what another program has set since, and goes
/// on despite damaged lines in the journal.
///
/// # Errors
/// A change that does not exist, or a journal that cannot be used; nothing was done then. What
/// becomes of each change is no error here, see [`UndoOutcome`].
pub fn undo(
    kernel: &Kernel,
    journal: &mut Journal,
    which: &UndoSelection,
    force: bool,
    observer: Observer<'_>,
) -> Result<Vec<UndoResult>, UndoError> {
    journal.history().usable(force)?;
    let mut wanted = chosen(journal, which)?;
    wanted.sort_by_key(|change| std::cmp::Reverse(change.id));
    wanted.dedup_by_key(|change| change.id);
    let mode = RevertMode::Asked { force };
    Ok(wanted.iter().map(|change| revert(kernel, journal, change, mode, observer)).collect())
}

fn chosen(journal: &Journal, which: &UndoSelection) -> Result<Vec<Change>, UndoError> {
    let history = journal.history();
    match which {
        UndoSelection::All => {
            Ok(history.changes.iter().filter(|change| change.is_active()).cloned().collect())
        }
        UndoSelection::Ids(ids) => ids
            .iter()
            .map(|&id| {
                let newest = history.newest_change();
                history.change(id).cloned().ok_or(UndoError::NoSuchChange { id, newest })
            })
            .collect(),
    }
}

/// Reverts one change and records it in the journal.
pub(crate) fn revert(
    kernel: &Kernel,
    journal: &mut Journal,
    change: &Change,
    mode: RevertMode,
    observer: Observer<'_>,
) -> UndoResult {
    let as_newest = journal.history().as_newest(change);
    let blocked_by = as_newest.as_ref().err().cloned().unwrap_or_default();
    let change = &*as_newest.unwrap_or(Cow::Borrowed(change));
    let mut reversal = Reversal { kernel, journal, change, mode, observer };
    let outcome = reversal.outcome(blocked_by).unwrap_or_else(|error| error.into());
    let not_recorded = reversal.record(&outcome).err().map(|error| error.to_string());
    if not_recorded.is_none() && outcome.is_gone() && change.is_active() {
        (reversal.observer)(ChangeProgress { change: change.id, moment: ChangeStep::Closed });
    }
    UndoResult {
        id: change.id,
        rule: change.rule.clone(),
        path: change.path.clone(),
        outcome,
        not_recorded,
    }
}

/// Errors of a revert.
enum RevertError {
    Kernel(KernelError),
    Persist(PersistError),
}

impl From<KernelError> for RevertError {
    fn from(error: KernelError) -> Self {
        Self::Kernel(error)
    }
}

impl From<PersistError> for RevertError {
    fn from(error: PersistError) -> Self {
        Self::Persist(error)
    }
}

impl From<RevertError> for UndoOutcome {
    fn from(error: RevertError) -> Self {
        let (why, privilege) = match error {
            RevertError::Kernel(error) => (error.to_string(), error.is_privilege()),
            RevertError::Persist(error) => (error.to_string(), error.is_privilege()),
        };
        Self::Failed { why, privilege }
    }
}

struct Reversal<'a> {
    kernel: &'a Kernel,
    journal: &'a mut Journal,
    change: &'a Change,
    mode: RevertMode,
    observer: Observer<'a>,
}

impl Reversal<'_> {
    fn outcome(&mut self, blocked_by: Vec<u64>) -> Result<UndoOutcome, RevertError> {
        let change = self.change;
        if !change.is_active() {
            return Ok(UndoOutcome::AlreadyUndone);
        }
        if !blocked_by.is_empty() {
            return Ok(UndoOutcome::Blocked { by: blocked_by });
        }
        let standing = standing(self.kernel, self.journal.history(), change)?;
        let file = match &change.persist {
            Some(kept) => Some((kept, file_standing(self.kernel, change, kept)?)),
            None => None,
        };
        if !self.mode.overwrites() {
            if matches!(standing, KernelFileState::Missing) {
                return Ok(UndoOutcome::Missing);
            }
            let drift = drifts(&standing, file.as_ref());
            if !drift.is_empty() {
                return Ok(UndoOutcome::Drifted { drift });
            }
        }
        let outcome = self.restore(standing)?;
        if let Some((kept, standing)) = &file {
            remove_line(self.kernel, change, kept, standing, self.observer)?;
        }
        Ok(outcome)
    }

    fn restore(&mut self, standing: KernelFileState) -> Result<UndoOutcome, RevertError> {
        let targets = match standing {
            KernelFileState::Action | KernelFileState::Missing => {
                return Ok(UndoOutcome::NothingToRevert);
            }
            KernelFileState::Before => return Ok(UndoOutcome::AlreadyBefore),
            KernelFileState::Ours(targets) => targets,
            KernelFileState::Drifted(_) => former_sides(self.change),
        };
        self.announce();
        restore(self.kernel, self.change, &targets, self.observer)?;
        let to = self.change.before.as_deref().map(setting_of).unwrap_or_default();
        Ok(UndoOutcome::Restored { to })
    }

    /// Says in the journal that affected files may hold something in between from now on. Where it
    /// cannot be written the way back goes on: the kernel's file comes first.
    fn announce(&mut self) {
        if self.change.sides.is_empty() {
            return;
        }
        if self.journal.append(self.change.id, ChangeEvent::Restoring).is_ok() {
            (self.observer)(ChangeProgress {
                change: self.change.id,
                moment: ChangeStep::Restoring,
            });
        }
    }

    fn record(&mut self, outcome: &UndoOutcome) -> Result<(), JournalError> {
        let id = self.change.id;
        if !self.change.is_active() {
            return Ok(());
        }
        if !outcome.is_gone() {
            let why = outcome.to_string();
            return match &self.change.left {
                Some(last) if *last == why => Ok(()),
                _ => self.journal.append(id, ChangeEvent::Left { why }),
            };
        }
        let how = match outcome {
            UndoOutcome::AlreadyBefore => UndoMethod::AlreadyBefore,
            UndoOutcome::NothingToRevert => UndoMethod::Nothing,
            _ if self.mode.overwrites() => UndoMethod::Forced,
            _ => UndoMethod::Restored,
        };
        let event = match self.mode {
            RevertMode::RollBack { .. } => ChangeEvent::RolledBack,
            RevertMode::Asked { .. } => ChangeEvent::Undone { how },
        };
        // Also where it cannot be written: the changes below this one are free to go.
        self.journal.append_or_remember(id, event)
    }
}

fn drifts(standing: &KernelFileState, file: Option<&(&PersistedLine, FileStanding)>) -> Vec<Drift> {
    let own = match standing {
        KernelFileState::Drifted(drift) => Some(drift.clone()),
        _ => None,
    };
    own.into_iter().chain(file.and_then(|(kept, standing)| file_drift(kept, standing))).collect()
}
