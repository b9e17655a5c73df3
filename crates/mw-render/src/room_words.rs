//! Words of making room: the answer in one line, the steps and their cost.

use mw_model::{
    Answer, ROOM_SCHEMA, RoomCost, RoomEnd, RoomOutcome, RoomReport, RoomStep, RoomStepKind,
    RoomStop, format_bytes, format_count, format_duration_ms,
};
use std::fmt::Write;

/// The outcome in words.
pub fn describe(outcome: RoomOutcome) -> RoomReport {
    let summary = summary(&outcome);
    let cost = match outcome.end {
        RoomEnd::Planned { .. } => None,
        RoomEnd::Provided(cost) | RoomEnd::Stopped(_, cost) => Some(cost),
    };
    RoomReport {
        schema: ROOM_SCHEMA,
        summary,
        request: outcome.request,
        dry_run: outcome.dry_run,
        answer: outcome.answer,
        available_bytes: outcome.available_bytes,
        steps: outcome.steps,
        cost,
        changes: outcome.changes,
        unreclaimable: outcome.unreclaimable,
        unseen: outcome.unseen,
    }
}

fn summary(outcome: &RoomOutcome) -> String {
    let request = &outcome.request;
    let available = format_bytes(outcome.available_bytes);
    match &outcome.end {
        RoomEnd::Planned { possible_bytes } => forecast(outcome, *possible_bytes),
        RoomEnd::Provided(spent) => format!("ready: {request}, in {}", cost(spent)),
        RoomEnd::Stopped(why, _) => {
            let missing = format_bytes(request.size_bytes.saturating_sub(outcome.available_bytes));
            let why = reason(*why);
            format!(
                "not reached: {request}: {available} could be provided, {missing} missing: {why}"
            )
        }
    }
}

fn forecast(outcome: &RoomOutcome, possible_bytes: u64) -> String {
    let RoomOutcome { request, steps, .. } = outcome;
    let possible = format_bytes(possible_bytes);
    match outcome.answer {
        Answer::Yes | Answer::Slowly if steps.is_empty() => {
            format!("ready: {request}: nothing to do")
        }
        Answer::Yes | Answer::Slowly => {
            format!("possible: {request} in {}", format_count(steps.len(), "step"))
        }
        Answer::Unknown => {
            let certain = format_bytes(outcome.available_bytes);
            format!("uncertain: {request}; at least {certain}, at most {possible}")
        }
        Answer::No => format!("not possible: {request}; at most {possible}; nothing changed"),
    }
}

fn reason(stop: RoomStop) -> String {
    match stop {
        RoomStop::NoStepRemains => "no step remains".to_owned(),
        RoomStop::StallLimit { stalled_ms, limit_ms } => format!(
            "others stalled for {stalled_ms:.0} ms, more than --max-cost stall={limit_ms:.0}ms"
        ),
        RoomStop::TimeLimit { limit_s } => {
            format!("it took longer than --max-cost time={limit_s:.1}s")
        }
        RoomStop::DropLimit => "no more page cache may be dropped (--max-cost drop)".to_owned(),
        RoomStop::Interrupted => "interrupted".to_owned(),
    }
}

/// A step, with what it provided once it was taken.
pub fn step(step: &RoomStep) -> String {
    let kind = kind(step.kind);
    let mut line = format!("{kind} on node {}: {}", step.node, format_bytes(step.bytes));
    if let Some(gained) = step.gained_bytes {
        let _ = write!(line, ", provided {}", format_bytes(gained));
    }
    if let Some(ms) = step.took_ms {
        let _ = write!(line, " in {}", format_duration_ms(ms));
    }
    line
}

fn kind(kind: RoomStepKind) -> &'static str {
    match kind {
        RoomStepKind::GrowPool => "grow the pool from free blocks",
        RoomStepKind::DropRead => "drop cache behind sequential readers",
        RoomStepKind::Reclaim => "reclaim page cache",
        RoomStepKind::Migrate => "move memory to other nodes",
        RoomStepKind::Swap => "swap out",
        RoomStepKind::Compact => "compact",
        RoomStepKind::ForcePool => "grow the pool with kernel compaction and reclaim",
    }
}

/// What it cost.
pub(crate) fn cost(cost: &RoomCost) -> String {
    let mut line = format_duration_ms(cost.took_ms);
    for (bytes, fate) in [
        (cost.dropped_bytes, "of cache dropped"),
        (cost.refaulted_bytes, "read again"),
        (cost.swapped_bytes, "swapped out"),
        (cost.migrated_bytes, "moved"),
    ] {
        if bytes > 0 {
            let _ = write!(line, ", {} {fate}", format_bytes(bytes));
        }
    }
    if cost.paused_ms > 0.0 {
        let _ = write!(line, ", paused for {}", format_duration_ms(cost.paused_ms));
    }
    let _ = match cost.stall_ms {
        Some(ms) => write!(line, ", others stalled for about {ms:.0} ms"),
        None => write!(line, ", stalls of others not known (no PSI)"),
    };
    line
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn outcome(answer: Answer, available_bytes: u64, end: RoomEnd) -> RoomOutcome {
        RoomOutcome {
            request: "4G,huge=2M".parse().unwrap(),
            dry_run: false,
            answer,
            available_bytes,
            end,
            steps: Vec::new(),
            changes: Vec::new(),
            unreclaimable: Vec::new(),
            unseen: Vec::new(),
        }
    }

    fn spent() -> RoomCost {
        RoomCost { took_ms: 500.0, stall_ms: Some(3.0), ..RoomCost::default() }
    }

    #[test]
    fn a_plan_says_what_is_certain_and_what_is_possible() {
        let plan = |answer, certain: u64, possible: u64| {
            let end = RoomEnd::Planned { possible_bytes: possible * GIB };
            describe(outcome(answer, certain * GIB, end))
        };
        let request = "4 GiB on 2 MiB huge pages";
        let report = plan(Answer::Yes, 4, 4);
        assert_eq!(report.summary, format!("ready: {request}: nothing to do"));
        assert_eq!(report.cost, None);
        assert_eq!(
            plan(Answer::Unknown, 1, 5).summary,
            format!("uncertain: {request}; at least 1 GiB, at most 5 GiB")
        );
        assert_eq!(
            plan(Answer::No, 0, 2).summary,
            format!("not possible: {request}; at most 2 GiB; nothing changed")
        );
        let end = RoomEnd::Planned { possible_bytes: 4 * GIB };
        let mut with_steps = outcome(Answer::Yes, 4 * GIB, end);
        with_steps.steps = vec![RoomStep {
            kind: RoomStepKind::Compact,
            node: 0,
            bytes: GIB,
            gained_bytes: None,
            took_ms: None,
        }];
        assert_eq!(describe(with_steps).summary, format!("possible: {request} in 1 step"));
    }

    #[test]
    fn what_was_provided_or_missed_has_its_cost_and_its_reason() {
        let report = describe(outcome(Answer::Yes, 4 * GIB, RoomEnd::Provided(spent())));
        assert_eq!(
            report.summary,
            "ready: 4 GiB on 2 MiB huge pages, in 500 ms, others stalled for about 3 ms"
        );
        assert_eq!(report.cost, Some(spent()));
        let why = RoomStop::StallLimit { stalled_ms: 1200.4, limit_ms: 1000.0 };
        let report = describe(outcome(Answer::No, GIB, RoomEnd::Stopped(why, spent())));
        assert_eq!(
            report.summary,
            "not reached: 4 GiB on 2 MiB huge pages: 1 GiB could be provided, 3 GiB missing: others stalled for \
             1200 ms, more than --max-cost stall=1000ms"
        );
    }

    #[test]
    fn only_what_it_cost_is_listed() {
        let none = RoomCost { took_ms: 500.0, ..RoomCost::default() };
        assert_eq!(cost(&none), "500 ms, stalls of others not known (no PSI)");
        let some =
            RoomCost { dropped_bytes: GIB, migrated_bytes: 2 * GIB, paused_ms: 100.0, ..spent() };
        assert_eq!(
            cost(&some),
            "500 ms, 1 GiB of cache dropped, 2 GiB moved, paused for 100 ms, others stalled for about 3 ms"
        );
    }

    #[test]
    fn a_step_that_was_taken_has_its_gain() {
        let mut taken = RoomStep {
            kind: RoomStepKind::Reclaim,
            node: 1,
            bytes: GIB,
            gained_bytes: None,
            took_ms: None,
        };
        assert_eq!(step(&taken), "reclaim page cache on node 1: 1 GiB");
        (taken.gained_bytes, taken.took_ms) = (Some(GIB / 2), Some(20.0));
        assert_eq!(step(&taken), "reclaim page cache on node 1: 1 GiB, provided 512 MiB in 20 ms");
    }
}
