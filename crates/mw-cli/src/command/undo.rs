//! `memwright undo`: reverts changes.

use super::fix::journal_exit;
use crate::args::UndoArgs;
use crate::config::Config;
use crate::{Exit, Failure, advice, terminal};
use mw_model::format_count;
use mw_remedy::{
    Journal, Kernel, LOCK_WAIT, UndoError, UndoOutcome, UndoResult, UndoSelection, nobody, undo,
};
use std::fmt::Write;
use std::path::Path;

pub(crate) fn run(args: &UndoArgs, config: &Config) -> Result<Exit, Failure> {
    let state_dir = config.state_dir(args.state_dir.as_deref());
    let undone = revert(args, &state_dir).map_err(|error| {
        Failure::new(exit_of(&error), advice::with_sudo(&error, error.is_privilege()))
    })?;
    if args.format.is_json() {
        super::print_json(&undone)?;
    } else {
        terminal::print(&text(&undone));
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

fn text(undone: &[UndoResult]) -> String {
    // An action leaves nothing to revert, which its line says.
    let settings = || undone.iter().filter(|c| !matches!(c.outcome, UndoOutcome::NothingToRevert));
    let gone = settings().filter(|change| change.outcome.is_gone()).count();
    let all = settings().count();
    let mut out = match (all, all - gone) {
        (0, _) => "nothing to revert\n".to_owned(),
        (all, 0) => format!("reverted: {}\n", format_count(all, "change")),
        (all, left) => {
            format!(
                "reverted: {gone} of {}, {left} left as they are\n",
                format_count(all, "change")
            )
        }
    };
    for change in undone {
        let _ = writeln!(out, "  {}: {} {}", change.id, change.path, change.outcome);
        if let Some(why) = &change.not_recorded {
            let _ = writeln!(out, "     but the journal could not be updated: {why}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_is_not_counted_as_reverted() {
        let undone = |outcome| UndoResult {
            id: 1,
            rule: "rule".to_owned(),
            path: "/proc/sys/vm/compact_memory".to_owned(),
            outcome,
            not_recorded: None,
        };
        let action = || undone(UndoOutcome::NothingToRevert);
        assert!(text(&[action()]).starts_with("nothing to revert\n  1: "));
        let restored = undone(UndoOutcome::Restored { to: "7".to_owned() });
        assert!(text(&[action(), restored]).starts_with("reverted: 1 change\n"));
    }
}
