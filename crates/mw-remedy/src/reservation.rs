//! Huge pages that a command reserves for a while. The reservation stands in the journal like any other
//! change, so that `memwright undo` releases what a command that was killed has left.

use crate::apply::{ChangeWriter, apply_by};
use crate::failure::ApplyError;
use crate::journal::{Journal, JournalError, LOCK_WAIT};
use crate::kernel::Kernel;
use crate::plan::{Plan, PlanError};
use crate::point::nobody;
use crate::undo::{UndoSelection, undo};
use mw_model::Step;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// A change of a pool; reverted when it is dropped.
#[derive(Debug)]
pub struct PoolReservation {
    state_dir: PathBuf,
    /// The change's number in the journal; none where the pool was large enough.
    change: Option<u64>,
    report_remaining: fn(&dyn Display),
}

/// For whom pages are reserved.
#[derive(Debug, Clone, Copy)]
pub struct Reserver {
    /// As the journal has it.
    pub owner: &'static str,
    /// As the user knows it.
    pub name: &'static str,
    /// Takes the reason where pages remain reserved although they were to be released.
    pub report_remaining: fn(&dyn Display),
}

/// The reason why huge pages were not reserved.
#[derive(Debug, thiserror::Error)]
pub enum ReservationError {
    #[error("cannot reserve huge pages for {name}: {cause}")]
    Plan { name: &'static str, cause: PlanError },
    #[error(
        "cannot reserve huge pages for {name}: {path} not found: this kernel has no such pages"
    )]
    Absent { name: &'static str, path: String },
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("cannot reserve huge pages for {name}: {cause}")]
    Apply { name: &'static str, cause: ApplyError },
}

impl PoolReservation {
    /// Nothing is reserved.
    #[must_use]
    pub fn nothing() -> Self {
        Self { state_dir: PathBuf::new(), change: None, report_remaining: |_| () }
    }

    /// Sets the size of the pool of this file to `pages`; `writer` writes it.
    ///
    /// # Errors
    /// The kernel has no such pool, the journal cannot be used, or the pool was not set.
    pub fn pages(
        path: &str,
        pages: u64,
        reserver: Reserver,
        state_dir: &Path,
        writer: ChangeWriter<'_>,
    ) -> Result<Self, ReservationError> {
        let Reserver { owner, name, report_remaining } = reserver;
        let kernel = Kernel::live();
        let step = Step::Write { path: path.to_owned(), value: pages.to_string() };
        let plan = Plan::from_step(&kernel, owner, &step)
            .map_err(|cause| ReservationError::Plan { name, cause })?;
        if !plan.absent.is_empty() {
            return Err(ReservationError::Absent { name, path: path.to_owned() });
        }
        let mut journal = Journal::lock(state_dir, LOCK_WAIT)?;
        let applied = apply_by(&kernel, &mut journal, &plan, false, &mut nobody, writer)
            .map_err(|cause| ReservationError::Apply { name, cause })?;
        let change = applied.changes.first().map(|change| change.id);
        Ok(Self { state_dir: state_dir.to_owned(), change, report_remaining })
    }

    /// Leaves the pages reserved; the change's number.
    #[must_use]
    pub fn leave(mut self) -> Option<u64> {
        self.change.take()
    }
}

impl Drop for PoolReservation {
    fn drop(&mut self) {
        let Some(id) = self.change else { return };
        let mut journal = match Journal::lock(&self.state_dir, LOCK_WAIT) {
            Ok(journal) => journal,
            Err(error) => return (self.report_remaining)(&error),
        };
        match undo(&Kernel::live(), &mut journal, &UndoSelection::Ids(vec![id]), false, &mut nobody)
        {
            Ok(undone) => {
                let kept = undone.iter().filter(|change| !change.outcome.is_gone());
                kept.for_each(|change| {
                    (self.report_remaining)(&format_args!("{} {}", change.path, change.outcome));
                });
            }
            Err(error) => (self.report_remaining)(&error),
        }
    }
}
