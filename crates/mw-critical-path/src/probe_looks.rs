//! The looks of a probe at its socket, four a second while it waits: each ends a wait by a timer.

use crate::path::{CriticalPath, PathPiece, TimeKind};
use crate::timeline::{Activity, Interval, Timelines, WakeCause};
use crate::trace::{Nanos, Tid};
use crate::wait::Wait;

/// Treatment of the waits between looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProbeLooks {
    /// They are one wait, which the last wake-up ended.
    Joined,
    /// Each is a wait of its own, which a timer ended.
    Apart,
}

/// Time of a path in which a task waited as it does for work, or was not seen.
pub(crate) fn unexplained(path: &CriticalPath) -> Nanos {
    let is_unexplained = |part: &&PathPiece| match part.kind {
        TimeKind::Waiting(wait) => wait.is_for_work(),
        TimeKind::TimedOut(_) | TimeKind::Idle(_) | TimeKind::Unseen(_) => true,
        TimeKind::Running(_) | TimeKind::Runnable(_) | TimeKind::Stopped => false,
    };
    path.parts.iter().filter(is_unexplained).map(PathPiece::duration).sum()
}

/// The intervals of a probe, with the waits between its looks joined up to the last, unless it sent something in between.
pub(crate) fn joined_looks(
    timelines: &Timelines,
    task: Tid,
    intervals: &[Interval],
) -> Vec<Interval> {
    let mut joined: Vec<Interval> = Vec::new();
    // The wait that a timer ended, by its place in the joined intervals.
    let mut open: Option<usize> = None;
    for interval in intervals {
        let Some(is_look) = ended_by_look(timelines, interval) else {
            joined.push(*interval);
            continue;
        };
        let before = open.and_then(|place| Some((place, *joined.get(place)?)));
        let place = match before {
            Some((place, before))
                if timelines.woken_by(task, before.to, interval.from).is_empty() =>
            {
                joined.truncate(place);
                joined.push(Interval { from: before.from, ..*interval });
                place
            }
            _ => {
                joined.push(*interval);
                joined.len() - 1
            }
        };
        open = is_look.then_some(place);
    }
    joined
}

/// Whether a timer ended a wait for the socket; `None` for what is no such wait.
fn ended_by_look(timelines: &Timelines, interval: &Interval) -> Option<bool> {
    match interval.activity {
        Activity::Blocked { stopped: false, stack, wakeup } => (timelines.wait(stack)
            == Some(Wait::Poll))
        .then(|| wakeup.is_some_and(|wakeup| wakeup.waker == WakeCause::Timer)),
        _ => None,
    }
}

#[cfg(test)]
#[path = "probe_looks_tests.rs"]
mod tests;
