//! The result of making room: the answer, the steps, and what stood in the way.

use crate::room_words;
use mw_model::{Answer, RoomReport, format_bytes};
use std::fmt::Write;

/// Maximum number of holders that are listed.
const MOST_HOLDERS: usize = 6;

/// `undo` is the command that releases what stays reserved.
pub fn room(report: &RoomReport, undo: &str) -> String {
    let mut out = report.summary.clone() + "\n";
    for step in &report.steps {
        let _ = writeln!(out, "  {}", room_words::step(step));
    }
    if let Some(cost) = report.cost.as_ref().filter(|_| report.answer != Answer::Yes) {
        let _ = writeln!(out, "took {}", room_words::cost(cost));
    }
    for share in report.unreclaimable.iter().take(MOST_HOLDERS) {
        let _ = writeln!(out, "not reclaimable: {} {}", format_bytes(share.bytes), share.holder);
    }
    for missing in &report.unseen {
        let _ = writeln!(out, "not used: {missing}");
    }
    if !report.changes.is_empty() {
        let _ = writeln!(out, "release with: {undo}");
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use mw_model::{Missing, RoomCost, RoomEnd, RoomOutcome, RoomStop, Share};

    /// What changed nothing is not to be released, and the cost stands once.
    #[test]
    fn the_page_has_what_was_missed_or_what_to_release() {
        let mut outcome = RoomOutcome {
            request: "1G".parse().unwrap(),
            dry_run: false,
            answer: Answer::No,
            available_bytes: 0,
            end: RoomEnd::Stopped(RoomStop::NoStepRemains, RoomCost::default()),
            steps: Vec::new(),
            changes: Vec::new(),
            unreclaimable: vec![Share { holder: "ramfs".to_owned(), bytes: 1 << 20 }],
            unseen: vec![Missing::absent("/proc/kpageflags", "not in this kernel")],
        };
        let text = room(&room_words::describe(outcome.clone()), "memwright undo 1");
        assert_eq!(
            text,
            "not reached: 1 GiB: 0 B could be provided, 1 GiB missing: no step remains\n\
             took 0 ms, stalls of others not known (no PSI)\n\
             not reclaimable: 1 MiB ramfs\n\
             not used: /proc/kpageflags: not in this kernel\n"
        );
        outcome.answer = Answer::Yes;
        outcome.end = RoomEnd::Provided(RoomCost::default());
        outcome.changes = vec![1];
        (outcome.unreclaimable, outcome.unseen) = (Vec::new(), Vec::new());
        let text = room(&room_words::describe(outcome), "memwright undo 1");
        assert_eq!(
            text,
            "ready: 1 GiB, in 0 ms, stalls of others not known (no PSI)\nrelease with: memwright undo 1\n"
        );
    }
}
