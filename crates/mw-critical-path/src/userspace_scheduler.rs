//! Run-times that schedule tasks of their own over a few threads (Go, Tokio, Java's virtual threads).
//!
//! They hand a request from thread to thread without a wake-up, so that the walk ends in a thread that idled in
//! poll or on a futex until a timer woke it, while a sibling of the same process held the request in the kernel.

use crate::path::{CriticalPath, SiblingWait, TimeKind};
use crate::timeline::{Activity, Timelines};
use crate::trace::{Nanos, Tid, Trace};
use crate::wait::Wait;
use std::collections::BTreeMap;

/// The longest wait for a resource of a sibling thread, where the path mostly ends in idling threads and the
/// sibling waited for at least half of the request. It is likely, not certain, that the request was in it.
pub(crate) fn sibling_wait(
    trace: &Trace,
    timelines: &Timelines,
    path: &CriticalPath,
) -> Option<SiblingWait> {
    let idle: Nanos =
        path.parts.iter().filter(|part| is_idle(part.kind)).map(crate::PathPiece::duration).sum();
    if idle.saturating_mul(3) < path.duration() {
        return None;
    }
    let last =
        path.parts.iter().filter(|part| is_idle(part.kind)).max_by_key(|part| part.duration())?;
    let idler = path.hops.get(last.hop)?.task;
    let process = trace.process(idler);
    let mut sums: BTreeMap<(Tid, Wait), Nanos> = BTreeMap::new();
    let siblings =
        timelines.tasks().filter(|task| *task != idler && trace.process(*task) == process);
    for task in siblings {
        for interval in timelines.within(task, path.from, path.to) {
            let Activity::Blocked { stopped: false, stack, .. } = interval.activity else {
                continue;
            };
            let resource =
                timelines.wait(stack).filter(|wait| wait.is_for_resource() && *wait != Wait::Sleep);
            if let Some(wait) = resource {
                *sums.entry((task, wait)).or_default() += interval.to - interval.from;
            }
        }
    }
    let ((task, wait), total) = sums.into_iter().max_by_key(|(_, total)| *total)?;
    (total.saturating_mul(2) >= path.duration()).then_some(SiblingWait { task, wait, total })
}

fn is_idle(kind: TimeKind) -> bool {
    matches!(
        kind,
        TimeKind::TimedOut(Wait::Poll | Wait::Futex | Wait::AsyncIo)
            | TimeKind::Waiting(Wait::Poll | Wait::Futex | Wait::AsyncIo)
            | TimeKind::Idle(_)
    )
}
