//! `memwright changes`: lists the changes and their state.

use super::fix::journal_exit;
use crate::args::ChangesArgs;
use crate::config::Config;
use crate::{Exit, Failure, advice, terminal};
use mw_remedy::{ChangeState, ChangeStatus, Changes, History, Kernel, changes};
use std::fmt::Write;

pub(crate) fn run(args: &ChangesArgs, config: &Config) -> Result<Exit, Failure> {
    let state_dir = config.state_dir(args.state_dir.as_deref());
    let history = History::read(&state_dir).map_err(|error| {
        Failure::new(journal_exit(&error), advice::with_sudo(&error, error.is_privilege()))
    })?;
    let mut all = changes(&Kernel::live(), &history);
    if !args.all {
        all.changes.retain(|change| !is_over(&change.state));
    }
    if args.format.is_json() {
        super::print_json(&all)?;
    } else {
        terminal::print(&text(&all));
    }
    Ok(if all.damage.is_empty() { Exit::Fine } else { Exit::CouldNotCheck })
}

fn is_over(state: &ChangeState) -> bool {
    matches!(state, ChangeState::Undone { .. } | ChangeState::RolledBack | ChangeState::Done)
}

fn text(all: &Changes) -> String {
    let mut out = summary(all) + "\n";
    for change in &all.changes {
        line(&mut out, change);
    }
    for damage in &all.damage {
        let _ = writeln!(out, "damaged: journal line {}: {}", damage.line, damage.why);
    }
    out
}

/// Numbers of changes by state, in one line.
fn summary(all: &Changes) -> String {
    let count = |is: fn(&ChangeState) -> bool| all.changes.iter().filter(|c| is(&c.state)).count();
    let in_force = count(|state| matches!(state, ChangeState::InForce));
    let over = count(is_over);
    let odd = all.changes.len() - in_force - over;
    let parts: Vec<String> =
        [(in_force, "in force"), (odd, "no longer in force as set"), (over, "reverted or done")]
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
    if parts.is_empty() { "no changes in force".to_owned() } else { parts.join(", ") }
}

fn line(out: &mut String, change: &ChangeStatus) {
    let when = i64::try_from(change.time_ms)
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok())
        .map(|time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
        .unwrap_or_default();
    let before = change.before.as_deref().unwrap_or("-");
    let _ = writeln!(
        out,
        "  {}: {} {before} -> {}   {}   {}   {when}",
        change.id, change.path, change.value, change.rule, change.state
    );
    if let Some(file) = &change.kept_in {
        let _ = writeln!(out, "     persisted in {file}");
    }
    if let Some(drift) = &change.file_drift {
        let _ = writeln!(out, "     {drift}");
    }
    if let Some(why) = &change.left {
        let _ = writeln!(out, "     last undo: {why}");
    }
}
