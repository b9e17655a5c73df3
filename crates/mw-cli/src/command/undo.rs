//! `memwright undo`: reverts changes.

use super::fix::journal_exit;
use crate::args::UndoArgs;
use crate::config::Config;
use crate::{Exit, Failure, advice, terminal};
use mw_remedy::{
    Journal, Kernel, LOCK_WAIT, UndoError, UndoOutcome, UndoResult, UndoSelection, nobody, undo,
};
use mw_render::text;
use std::path::Path;

pub(crate) fn run(args: &UndoArgs, config: &Config) -> Result<Exit, Failure> {
    let state_dir = config.state_dir(args.state_dir.as_deref());
    let undone = revert(args, &state_dir).map_err(|error| {
        Failure::new(exit_of(&error), advice::with_sudo(&error, error.is_privilege()))
    })?;
    if args.format.is_json() {
        super::print_json(&undone)?;
    } else {
        terminal::print(&text::undone(&undone));
    }
    Ok(exit(&undone))
}

fn revert(args: &UndoArgs, state_dir: &Path) -> Result<Vec<UndoResult>, UndoError> {
    let Some(mut journal) = Journal::lock_existing(state_dir, LOCK_WAIT)? else {
        let no_such_change = |&id| Err(UndoError::NoSuchChange { id, newest: 0 });
        return args.changes.first().map_or(Ok(Vec::new()), no_such_change);
    };
    let which = if args.changes.is_empty() {
        UndoSelection::All
    } else {
        UndoSelection::Ids(args.changes.clone())
    };
    undo(&Kernel::live(), &mut journal, &which, args.force, &mut nobody)
}

fn exit(undone: &[UndoResult]) -> Exit {
    if undone.iter().any(|change| change.outcome.is_privilege()) {
        Exit::PermissionDenied
    } else if undone.iter().all(|change| change.outcome.is_gone()) {
        Exit::Fine
    } else if undone.iter().any(|change| matches!(change.outcome, UndoOutcome::Failed { .. })) {
        Exit::RolledBack
    } else {
        Exit::Findings
    }
}

fn exit_of(error: &UndoError) -> Exit {
    match error {
        UndoError::NoSuchChange { .. } => Exit::Usage,
        UndoError::Journal(error) => journal_exit(error),
    }
}
