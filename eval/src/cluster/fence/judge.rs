//! What does not hold of what was promised.

use super::played::{Played, ROWS};
use crate::cluster::lines::Says;
use crate::cluster::phase;

/// The recorder loses three seconds at most, and the clocks of the nodes differ by one.
const LOST_S: f64 = 4.0;

/// Each in a sentence.
pub(super) fn wrong(played: &Played) -> Vec<String> {
    let mut wrong = Vec::new();
    for number in 0..played.phases.len() {
        wrong.extend(phase::wrong(&played.phases, &played.lines, number));
    }
    wrong.extend(of_flood(played));
    wrong
}

/// n1 is fenced, n2 takes over, and the recording tells why.
fn of_flood(played: &Played) -> Vec<String> {
    let mut wrong = Vec::new();
    match (played.first(&[Says::Fencing]), played.reset_s()) {
        (Some(wanted_s), Some(reset_s)) if wanted_s < reset_s => {}
        (wanted, reset) => {
            wrong.push(format!("n1 is to be fenced at {wanted:?}, and was reset at {reset:?}"));
        }
    }
    if (played.holder.as_str(), played.entries.as_str()) != ("n2", &ROWS.to_string()) {
        let Played { holder, entries, .. } = played;
        wrong.push(format!("the database is on {holder}, and has {entries} of {ROWS} entries"));
    }
    let reported = played.of_flood().next().map(|line| line.after_s(played.flood_s));
    let warned = played.warned_s();
    match (warned, reported) {
        (Some(warned_s), Some(reported_s)) if warned_s < reported_s => {}
        _ => wrong.push(format!(
            "the recorder reports memory at {warned:?}, the cluster something at {reported:?}"
        )),
    }
    match played.lost_s() {
        Some(lost_s) if lost_s <= LOST_S => {}
        lost => wrong.push(format!("seconds before the reset that are not recorded: {lost:?}")),
    }
    if !played.heartbeats.contains("after a memory stall") {
        wrong.push("memwright heartbeats puts nothing down to memory".to_owned());
    }
    wrong
}
