//! The changes and their present state.

use crate::device::{SettingLocation, locate};
use crate::history::{Change, ChangeStage, Damage, History};
use crate::kernel::{Kernel, setting_of};
use crate::record::UndoMethod;
use crate::restore::{Drift, KernelFileState, file_drift, file_standing, standing};
use serde::Serialize;
use std::fmt;

/// All changes that the journal knows, and what of it could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Changes {
    /// The changes, oldest first.
    pub changes: Vec<ChangeStatus>,
    /// Lines of the journal that cannot be used.
    pub damage: Vec<Damage>,
}

/// One change and its present state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangeStatus {
    /// Its number, for `memwright undo`.
    pub id: u64,
    /// Time at which it was planned, in milliseconds since the epoch.
    pub time_ms: u64,
    /// The rule whose remedy it is.
    pub rule: String,
    pub path: String,
    /// The value before; absent for an action.
    pub before: Option<String>,
    /// The value that memwright set.
    pub value: String,
    #[serde(flatten)]
    pub state: ChangeState,
    /// The file of ours that persists it.
    pub kept_in: Option<String>,
    /// Difference of that file from what memwright wrote there.
    pub file_drift: Option<Drift>,
    /// The reason why the last attempt to take it back did not.
    pub left: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum ChangeState {
    /// Its value is in force.
    InForce,
    /// Neither its value nor the former one is in force: another program has set another.
    Drifted {
        drift: Drift,
    },
    /// The former value is in force: the machine was rebooted, or a program set it.
    AlreadyBefore,
    /// A newer change of memwright lies on top of it.
    Covered {
        by: Vec<u64>,
    },
    /// It was an action, and it was done.
    Done,
    /// memwright was killed in the middle of it; `memwright undo` brings the former value back.
    Interrupted {
        /// The value now; absent for an action, which may have been done or not.
        now: Option<String>,
    },
    /// It was reverted because the same run failed.
    RolledBack,
    Undone {
        how: UndoMethod,
    },
    /// This kernel has no such file.
    Missing,
    /// The kernel's file cannot be read.
    Unreadable {
        why: String,
    },
}

impl ChangeState {
    /// True if nothing of the change is left to revert.
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Undone { .. } | Self::RolledBack | Self::Done)
    }
}

impl fmt::Display for ChangeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InForce => f.write_str("in force"),
            Self::Drifted { drift } => write!(f, "changed by another program: {drift}"),
            Self::AlreadyBefore => f.write_str("has its former value"),
            Self::Covered { by } => {
                let all: Vec<String> = by.iter().map(ToString::to_string).collect();
                write!(f, "superseded by change {}", all.join(", "))
            }
            Self::Done => f.write_str("done, nothing to revert"),
            Self::Interrupted { now: Some(now) } => {
                write!(f, "interrupted, now {now}; 'memwright undo' restores the former value")
            }
            Self::Interrupted { now: None } => f.write_str("interrupted"),
            Self::RolledBack => f.write_str("rolled back because the same run failed"),
            Self::Undone { .. } => f.write_str("reverted"),
            Self::Missing => f.write_str("not found on this kernel"),
            Self::Unreadable { why } => write!(f, "could not be checked: {why}"),
        }
    }
}

/// The changes and their present state. Takes no lock.
pub fn changes(kernel: &Kernel, history: &History) -> Changes {
    let status = |change: &Change| status_of(kernel, history, change);
    Changes {
        changes: history.changes.iter().map(status).collect(),
        damage: history.damage.clone(),
    }
}

fn status_of(kernel: &Kernel, history: &History, change: &Change) -> ChangeStatus {
    let kept = change.persist.as_ref().filter(|_| change.is_active());
    ChangeStatus {
        id: change.id,
        time_ms: change.time_ms,
        rule: change.rule.clone(),
        path: change.path.clone(),
        before: change.before.as_deref().map(setting_of),
        value: change.value.clone(),
        state: state_of(kernel, history, change),
        kept_in: kept.filter(|kept| kept.done).map(|kept| kept.file.clone()),
        file_drift: kept
            .and_then(|kept| file_drift(kept, &file_standing(kernel, change, kept).ok()?)),
        left: change.left.clone().filter(|_| change.is_active()),
    }
}

fn state_of(kernel: &Kernel, history: &History, change: &Change) -> ChangeState {
    match change.stage {
        ChangeStage::RolledBack => return ChangeState::RolledBack,
        ChangeStage::Undone(how) => return ChangeState::Undone { how },
        ChangeStage::Planned | ChangeStage::Applied => {}
    }
    let change = match history.as_newest(change) {
        Ok(change) => change,
        Err(by) => return ChangeState::Covered { by },
    };
    let standing = match standing(kernel, history, &change) {
        Ok(standing) => standing,
        Err(error) => return ChangeState::Unreadable { why: error.to_string() },
    };
    if change.stage == ChangeStage::Planned && !matches!(standing, KernelFileState::Missing) {
        let location = locate(kernel, &change.path, change.device.as_ref());
        let content = match location {
            SettingLocation::At(path) if !change.is_once() => kernel.read(&path).ok(),
            _ => None,
        };
        let now = content.map(|content| setting_of(&content));
        return ChangeState::Interrupted { now };
    }
    match standing {
        KernelFileState::Ours(_) => ChangeState::InForce,
        KernelFileState::Before => ChangeState::AlreadyBefore,
        KernelFileState::Drifted(drift) => ChangeState::Drifted { drift },
        KernelFileState::Missing => ChangeState::Missing,
        KernelFileState::Action => ChangeState::Done,
    }
}
