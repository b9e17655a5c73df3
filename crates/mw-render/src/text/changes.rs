//! Changes of the journal, and what was reverted of them.

use mw_model::format_count;
use mw_remedy::{ChangeState, ChangeStatus, Changes, UndoOutcome, UndoResult};
use std::fmt::Write;

pub fn changes(all: &Changes) -> String {
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
    let over = count(ChangeState::is_over);
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

pub fn undone(undone: &[UndoResult]) -> String {
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
        let result = |outcome| UndoResult {
            id: 1,
            rule: "rule".to_owned(),
            path: "/proc/sys/vm/compact_memory".to_owned(),
            outcome,
            not_recorded: None,
        };
        let action = || result(UndoOutcome::NothingToRevert);
        assert!(undone(&[action()]).starts_with("nothing to revert\n  1: "));
        let restored = result(UndoOutcome::Restored { to: "7".to_owned() });
        assert!(undone(&[action(), restored]).starts_with("reverted: 1 change\n"));
    }
}
