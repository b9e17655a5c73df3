//! What does not hold of what was promised.

use super::played::Played;
use crate::cluster::phase::{self, began_s};

/// Each in a sentence. What the flood does without a remedy is a finding and no promise; but without any damage there
/// is nothing that a remedy prevents.
pub(super) fn wrong(played: &Played) -> Vec<String> {
    let mut wrong = Vec::new();
    for (number, phase) in played.phases.iter().enumerate() {
        if phase.name != "flood" {
            wrong.extend(phase::wrong(&played.phases, &played.lines, number));
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
    let Some(first) = played.lines_of(number).next() else {
        return Some("flood: the cluster reports nothing: there is nothing to prevent".to_owned());
    };
    if !played.heartbeats.contains("after a memory stall") {
        return Some("flood: memwright heartbeats puts nothing down to memory".to_owned());
    }
    let late_s = first.after_s(flood.from_s) - (began_s(warned) - flood.from_s);
    (late_s < 0.0)
        .then(|| format!("flood: the cluster reported {:.1} s before the recorder", -late_s))
}
