//! `memwright undo`: the former bytes back.

use super::fix::{journal_exit, lock};
use crate::args::UndoArgs;
use crate::config::Config;
use crate::{Exit, Failure, terminal};
use mw_remedy::{Kernel, Outcome, UndoError, Undone, Which, nobody, undo};
use std::fmt::Write;

pub(crate) fn run(args: &UndoArgs, config: &Config) -> Result<Exit, Failure> {
    let state_dir = config.state_dir(args.state_dir.as_deref());
    let mut journal = lock(&state_dir)
        .map_err(|error| Failure::new(journal_exit(&error), with_sudo(args, &error)))?;
    let which = if args.changes.is_empty() { Which::All } else { Which::Ids(args.changes.clone()) };
    let undone = undo(&Kernel::live(), &mut journal, &which, args.force, &mut nobody)
        .map_err(|error| Failure::new(exit_of(&error), with_sudo(args, &error)))?;
    if args.format.is_json() {
        super::print_json(&undone)?;
    } else {
        terminal::print(&text(&undone));
    }
    Ok(match () {
        () if undone.iter().any(|change| change.outcome.is_privilege()) => Exit::PermissionDenied,
        () if undone.iter().all(|change| change.outcome.is_gone()) => Exit::Fine,
        () if undone.iter().any(|c| matches!(c.outcome, Outcome::Failed { .. })) => {
            Exit::RolledBack
        }
        () => Exit::Findings,
    })
}

fn exit_of(error: &UndoError) -> Exit {
    match error {
        UndoError::NoSuchChange { .. } => Exit::Usage,
        UndoError::Journal(error) => journal_exit(error),
    }
}

fn with_sudo(args: &UndoArgs, error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    if rustix::process::geteuid().is_root() {
        return text;
    }
    let ids: String = args.changes.iter().map(|id| format!(" {id}")).collect();
    format!("{text}; run: sudo memwright undo{ids}{}", if args.force { " --force" } else { "" })
}

fn text(undone: &[Undone]) -> String {
    // An action leaves nothing to revert, which its line says.
    let settings = || undone.iter().filter(|c| !matches!(c.outcome, Outcome::NothingToTakeBack));
    let gone = settings().filter(|change| change.outcome.is_gone()).count();
    let all = settings().count();
    let mut out = match (all, all - gone) {
        (0, _) => "nothing to take back\n".to_owned(),
        (1, 0) => "taken back: 1 change\n".to_owned(),
        (all, 0) => format!("taken back: {all} changes\n"),
        (all, left) => format!("taken back: {gone} of {all} changes, {left} left\n"),
    };
    for change in undone {
        let _ = writeln!(out, "  {}: {} {}", change.id, change.path, change.outcome);
        if let Some(why) = &change.not_recorded {
            let _ = writeln!(out, "     but the journal does not say so: {why}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_is_not_counted_as_taken_back() {
        let undone = |outcome| Undone {
            id: 1,
            rule: "rule".to_owned(),
            path: "/proc/sys/vm/compact_memory".to_owned(),
            outcome,
            not_recorded: None,
        };
        let action = || undone(Outcome::NothingToTakeBack);
        assert!(text(&[action()]).starts_with("nothing to take back\n  1: "));
        let restored = undone(Outcome::Restored { to: "7".to_owned() });
        assert!(text(&[action(), restored]).starts_with("taken back: 1 change\n"));
    }
}
