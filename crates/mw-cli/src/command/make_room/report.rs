//! The result for people: the first line is the answer.

use super::stop::Stop;
use crate::advice;
use mw_model::{
    Answer, Request, RoomCost, RoomReport, RoomStep, format_bytes, format_count, format_duration_ms,
};
use mw_rules::room::RoomPlan;
use std::fmt::Write;
use std::path::Path;

/// Maximum number of holders that are listed.
const MOST_HOLDERS: usize = 6;

pub(super) fn ready(request: &Request, cost: &RoomCost) -> String {
    format!("ready: {request}, in {cost}")
}

pub(super) fn not_reached(request: &Request, provided_bytes: u64, stop: &Stop) -> String {
    let missing = format_bytes(request.size_bytes.saturating_sub(provided_bytes));
    let provided = format_bytes(provided_bytes);
    format!("not reached: {request}: {provided} could be provided, {missing} missing: {stop}")
}

pub(super) fn forecast(request: &Request, plan: &RoomPlan) -> String {
    let (certain, possible) = (plan.certain_bytes, plan.possible_bytes);
    match plan.answer() {
        Answer::Yes | Answer::Slowly if plan.steps.is_empty() => {
            format!("ready: {request}: nothing to do")
        }
        Answer::Yes | Answer::Slowly => {
            let count = plan.steps.len();
            let steps = format_count(count, "step");
            format!("possible: {request} in {steps}")
        }
        Answer::Unknown => format!(
            "uncertain: {request}; at least {}, at most {}",
            format_bytes(certain),
            format_bytes(possible)
        ),
        Answer::No => {
            format!("not possible: {request}; at most {}; nothing changed", format_bytes(possible))
        }
    }
}

pub(super) fn text(report: &RoomReport, state_dir: &Path) -> String {
    let mut out = report.summary.clone() + "\n";
    for step in &report.steps {
        let _ = writeln!(out, "  {}", line(step));
    }
    if let Some(cost) = report.cost.as_ref().filter(|_| report.answer != Answer::Yes) {
        let _ = writeln!(out, "took {cost}");
    }
    for share in report.unreclaimable.iter().take(MOST_HOLDERS) {
        let _ = writeln!(out, "not reclaimable: {} {}", format_bytes(share.bytes), share.holder);
    }
    for missing in &report.unseen {
        let _ = writeln!(out, "not used: {missing}");
    }
    if !report.changes.is_empty() {
        let _ = writeln!(out, "release with: {}", advice::undo(&report.changes, state_dir));
    }
    out
}

fn line(step: &RoomStep) -> String {
    let mut line = format!("{} on node {}: {}", step.kind, step.node, format_bytes(step.bytes));
    if let Some(gained) = step.gained_bytes {
        let _ = write!(line, ", provided {}", format_bytes(gained));
    }
    if let Some(ms) = step.took_ms {
        let _ = write!(line, " in {}", format_duration_ms(ms));
    }
    line
}
