//! What does not hold of what was promised.

use super::lines::Says;
use super::phase::began_s;
use super::played::Played;

/// Each in a sentence. What the flood does without a remedy is a finding and no promise; but without any damage there
/// is nothing that a remedy prevents.
pub(super) fn wrong(played: &Played) -> Vec<String> {
    let mut wrong = Vec::new();
    for (number, phase) in played.phases.iter().enumerate() {
        if phase.name == "flood" {
            continue;
        }
        let lines: Vec<&str> = played.lines_of(number).map(|line| line.text.as_str()).collect();
        if !lines.is_empty() {
            let busy = if phase.name == "healthy" { " (this machine is too busy)" } else { "" };
            wrong.push(format!("{}{busy}: {}", phase.name, lines.join("; ")));
        }
        if phase.holder != "n1" {
            wrong.push(format!("{}: the resources are on {}", phase.name, phase.holder));
        }
    }
    wrong.extend(of_flood(played));
    wrong
}

/// The recorder warns before the cluster does, of memory.
fn of_flood(played: &Played) -> Option<String> {
    let number = played.phases.iter().position(|phase| phase.name == "flood")?;
    let flood = &played.phases[number];
    let Some(warned) = played.incidents.iter().find(|incident| flood.is_warned_of(incident)) else {
        return Some("flood: the recorder reports no stall that memory caused".to_owned());
    };
    let first = played.lines_of(number).find(|line| line.says != Says::Moved)?;
    if !played.heartbeats.contains("after a stall that memory caused") {
        return Some("flood: memwright heartbeats puts nothing down to memory".to_owned());
    }
    let late_s = first.after_s(flood.from_s) - (began_s(warned) - flood.from_s);
    (late_s < 0.0)
        .then(|| format!("flood: the cluster reported {:.1} s before the recorder", -late_s))
}
