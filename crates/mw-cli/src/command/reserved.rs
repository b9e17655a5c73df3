//! Huge pages that a command reserves for a while. The reservation stands in the journal like any other
//! change, so that `memwright undo` releases what a command that was killed has left.

use super::fix::{journal_exit, lock};
use crate::{Exit, Failure, advice, terminal};
use mw_model::Step;
use mw_remedy::{ChangeWriter, Kernel, Plan, UndoSelection, apply_by, nobody, undo};
use std::path::{Path, PathBuf};

/// A change of a pool; reverted when it is dropped.
#[derive(Debug)]
pub(crate) struct PoolReservation {
    state_dir: PathBuf,
    /// The change's number in the journal; none where the pool was large enough.
    change: Option<u64>,
}

/// For whom pages are reserved.
pub(crate) struct Reserver {
    /// As the journal has it.
    pub(crate) owner: &'static str,
    /// As the user knows it.
    pub(crate) name: &'static str,
}

impl PoolReservation {
    /// Nothing is reserved.
    pub(crate) fn nothing() -> Self {
        Self { state_dir: PathBuf::new(), change: None }
    }

    /// Sets the size of the pool of this file to `pages`; `writer` writes it.
    pub(crate) fn pages(
        path: &str,
        pages: u64,
        reserver: &Reserver,
        state_dir: &Path,
        writer: ChangeWriter<'_>,
    ) -> Result<Self, Failure> {
        let refused = |error: &dyn std::fmt::Display, exit| {
            Failure::new(exit, format!("cannot reserve huge pages for {}: {error}", reserver.name))
        };
        let kernel = Kernel::live();
        let step = Step::Write { path: path.to_owned(), value: pages.to_string() };
        let plan = Plan::from_step(&kernel, reserver.owner, &step)
            .map_err(|error| refused(&error, Exit::PermissionDenied))?;
        if !plan.absent.is_empty() {
            let absent = format!("{path} not found: this kernel has no such pages");
            return Err(refused(&absent, Exit::PermissionDenied));
        }
        let mut journal = lock(state_dir).map_err(|error| {
            Failure::new(journal_exit(&error), advice::with_sudo(&error, error.is_privilege()))
        })?;
        let applied = apply_by(&kernel, &mut journal, &plan, false, &mut nobody, writer);
        let applied = applied.map_err(|error| refused(&error, Exit::PermissionDenied))?;
        let change = applied.changes.first().map(|change| change.id);
        Ok(Self { state_dir: state_dir.to_owned(), change })
    }

    /// Leaves the pages reserved; the change's number.
    pub(crate) fn leave(mut self) -> Option<u64> {
        self.change.take()
    }
}

impl Drop for PoolReservation {
    fn drop(&mut self) {
        let Some(id) = self.change else { return };
        let left = |why: &dyn std::fmt::Display| {
            terminal::tell(format_args!(
                "memwright: huge pages remain reserved: {why}; see 'memwright changes'"
            ));
        };
        let mut journal = match lock(&self.state_dir) {
            Ok(journal) => journal,
            Err(error) => return left(&error),
        };
        match undo(&Kernel::live(), &mut journal, &UndoSelection::Ids(vec![id]), false, &mut nobody)
        {
            Ok(undone) => {
                let kept = undone.iter().filter(|change| !change.outcome.is_gone());
                kept.for_each(|change| left(&format!("{} {}", change.path, change.outcome)));
            }
            Err(error) => left(&error),
        }
    }
}
