//! Changes to the kernel's settings: planned, journalled, applied, verified, persisted, and reverted to
//! the exact former values.
//!
//! ```text
//! findings ─ Plan::new ─→ Plan ─ apply ─→ journal: planned │ kernel's file │ journal: applied
//!                                          undo ─────────→ kernel's file │ journal: undone
//! ```
//! The rule of the whole crate: a change is in the journal, synced, *before* the kernel's file
//! is touched, so that whatever kills memwright, [`undo`] finds what was there before. Whoever changes
//! anything holds the journal's lock ([`Journal::lock`]); looking ([`History::read`], [`changes`])
//! takes none.
//!
//! What is absent on purpose: no write to anybody else's file under /etc, no write outside
//! `/proc/sys` and `/sys`, and no guess about a value that another program has set since.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod added_pages;
mod apply;
mod coupling;
mod device;
mod failure;
mod fix;
mod history;
mod journal;
mod kernel;
mod persist;
mod plan;
mod point;
mod record;
mod reservation;
mod restore;
mod shadow;
mod status;
mod tuners;
mod undo;

pub use apply::{
    AppliedChange, ApplyOutcome, ChangeWriter, DONE_ONCE, PersistedChange, apply, apply_by, keep,
};
pub use coupling::{PARTNERS, affected_by, partner_of};
pub use device::DeviceId;
pub use failure::{ApplyError, ChangeError, UnrevertedChange};
pub use fix::{CheckFindings, FixError, FixReport, FixSettings, Recheck};
pub use history::{Damage, History};
pub use journal::{JOURNAL_BYTES_MAX, JOURNAL_FILE, Journal, JournalError, LOCK_WAIT, STATE_DIR};
pub use kernel::{Access, Kernel, KernelError, SETTING_BYTES_MAX, same_setting, setting_of};
pub use persist::{PersistError, PersistTarget, SYSCTL_FILE, TMPFILES_FILE, UDEV_FILE, target_of};
pub use plan::{Conflict, Plan, PlanError, PlannedChange, UnchangedSetting};
pub use point::{ChangeProgress, ChangeStep, Observer, nobody};
pub use record::{FORMAT_VERSION, RECORD_BYTES_MAX, UndoMethod};
pub use reservation::{PoolReservation, ReservationError, Reserver};
pub use restore::Drift;
pub use shadow::ShadowedLine;
pub use status::{ChangeState, ChangeStatus, Changes, changes};
pub use undo::{UndoError, UndoOutcome, UndoResult, UndoSelection, undo};
