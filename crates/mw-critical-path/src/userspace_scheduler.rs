//! Run-times that schedule tasks of their own over a few threads (Go, Tokio, Java's virtual threads, Node's pool).
//!
//! They hand a request from thread to thread without a wake-up, so that the walk ends in a thread that idled in poll or
//! on a futex, while another thread of the same process held the request in the kernel. Where such waits cover most
//! of the idle time, and the process ran little meanwhile, they explain it: likely, not certain.

use crate::path::{CriticalPath, Hop, PathPiece, RunMode, SiblingWait, TimeKind, UnseenReason};
use crate::timeline::{Activity, Interval, Timelines};
use crate::trace::{Nanos, StackId, Tid, Trace};
use crate::wait::{self, Wait};
use std::collections::BTreeMap;

/// Idle time of a process below this part of the request is not explained.
const LEAST_IDLE_PART: Nanos = 3;
/// Waits have to cover more than this part of the idle time, and its running time may not exceed this part of them.
const HALF: Nanos = 2;
/// Threads of a process that are looked at, and those whose waits are followed: the longest.
const MAX_THREADS: usize = 4096;
const MAX_FOLLOWED: usize = 16;

/// Replaces idle time of the process that the path mostly ends in by the waits of its other threads.
pub(crate) fn follow_hand_over(trace: &Trace, timelines: &Timelines, path: &mut CriticalPath) {
    let Some((process, idle)) = idle_process(trace, path) else { return };
    let span = (path.from, path.to);
    let threads = timelines.tasks().filter(|task| trace.process(*task) == process);
    let threads = threads.take(MAX_THREADS).map(|task| (task, uses(trace, timelines, task, span)));
    let threads: Vec<(Tid, ThreadUse)> = threads.collect();
    let mut left = IdleSpans::new(trace, path, process);
    let ran = threads.iter().map(|(_, used)| left.overlap(&used.ran)).sum::<Nanos>();
    let mut by_length: Vec<_> =
        threads.iter().map(|(task, used)| (left.overlap(&used.held), *task, used)).collect();
    by_length.sort_by_key(|(held, task, _)| (std::cmp::Reverse(*held), *task));
    let mut explained = Vec::new();
    for (_, task, used) in by_length.into_iter().take(MAX_FOLLOWED) {
        left.take(task, &used.held, &mut explained);
    }
    let covered: Nanos = explained.iter().map(|piece| piece.held.to - piece.held.from).sum();
    if covered == 0 || covered < idle / HALF || ran > covered / HALF {
        return;
    }
    path.sibling = longest(&explained);
    replace(path, explained);
}

/// The process that was idle on the path for longest, and for how long; the one that traces asks.
fn idle_process(trace: &Trace, path: &CriticalPath) -> Option<(Tid, Nanos)> {
    let mut by_process: BTreeMap<Tid, Nanos> = BTreeMap::new();
    for part in path.parts.iter().filter(|part| idle_wait(part.kind).is_some()) {
        let task = path.hops.get(part.hop)?.task;
        *by_process.entry(trace.process(task)).or_default() += part.duration();
    }
    let others = by_process.into_iter().filter(|(process, _)| trace.tracer != Some(*process));
    let longest = others.max_by_key(|(_, idle)| *idle);
    longest.filter(|(_, idle)| idle.saturating_mul(LEAST_IDLE_PART) >= path.duration())
}

/// The wait of a thread that may have been idle in it.
fn idle_wait(kind: TimeKind) -> Option<Wait> {
    match kind {
        TimeKind::Idle(wait) => Some(wait),
        TimeKind::TimedOut(wait)
        | TimeKind::Waiting(wait)
        | TimeKind::Unseen(UnseenReason::NotWoken(wait)) => {
            matches!(wait, Wait::Poll | Wait::Futex | Wait::AsyncIo).then_some(wait)
        }
        _ => None,
    }
}

/// Time of a thread, in order.
#[derive(Debug, Default)]
struct ThreadUse {
    /// Waits for a resource, and memory work.
    held: Vec<HeldSpan>,
    /// All else that it ran.
    ran: Vec<HeldSpan>,
}

#[derive(Debug, Clone, Copy)]
struct HeldSpan {
    from: Nanos,
    to: Nanos,
    kind: TimeKind,
    stack: StackId,
    waker_stack: StackId,
}

fn uses(trace: &Trace, timelines: &Timelines, task: Tid, (from, to): (Nanos, Nanos)) -> ThreadUse {
    let mut used = ThreadUse::default();
    for Interval { from, to, activity } in timelines.within(task, from, to) {
        let empty = StackId::default();
        let span = |kind, stack, waker_stack| HeldSpan { from, to, kind, stack, waker_stack };
        match activity {
            Activity::Running => match memory_work(timelines, task, (from, to)) {
                Some((wait, stack)) => {
                    used.held.push(span(TimeKind::Running(RunMode::In(wait)), stack, empty));
                }
                None => {
                    used.ran.push(span(TimeKind::Running(RunMode::Unsampled), empty, empty));
                }
            },
            Activity::Blocked { stopped: false, stack, wakeup } => {
                let waker_stack = wakeup.map_or(empty, |wakeup| wakeup.stack);
                let wait = timelines.wait(stack);
                let wait = wait.map(|wait| wait::told_by_waker(wait, trace.stack(waker_stack)));
                let held = wait.filter(|wait| is_held(*wait));
                used.held
                    .extend(held.map(|wait| span(TimeKind::Waiting(wait), stack, waker_stack)));
            }
            Activity::Runnable { .. } | Activity::Blocked { .. } => {}
        }
    }
    used
}

/// True for a wait in which a thread may hold a request: it does not sleep for itself, and reads no terminal.
fn is_held(wait: Wait) -> bool {
    let is_own = matches!(wait, Wait::Sleep | Wait::Terminal);
    !is_own && (wait.is_for_resource() || wait.is_held_in_kernel())
}

/// Memory work that a thread mostly ran in, with its stack.
fn memory_work(
    timelines: &Timelines,
    task: Tid,
    (from, to): (Nanos, Nanos),
) -> Option<(Wait, StackId)> {
    let samples = timelines.samples(task, from, to);
    let work = samples.iter().filter_map(|(_, stack)| {
        let wait = timelines.wait(*stack).filter(|wait| wait.is_memory_work());
        wait.map(|wait| (wait, *stack))
    });
    let work: Vec<_> = work.collect();
    work.first().copied().filter(|_| work.len() * 2 > samples.len())
}

/// A part of an idle part of the path, explained by what another thread did.
#[derive(Debug, Clone, Copy)]
struct ExplainedPiece {
    /// Index of the idle part.
    part: usize,
    task: Tid,
    held: HeldSpan,
}

/// Idle parts of a path, as far as nothing explains them, in order.
#[derive(Debug)]
struct IdleSpans {
    spans: Vec<(Nanos, Nanos, usize)>,
}

impl IdleSpans {
    fn new(trace: &Trace, path: &CriticalPath, process: Tid) -> Self {
        let is_of_process = |part: &PathPiece| {
            path.hops.get(part.hop).is_some_and(|hop| trace.process(hop.task) == process)
        };
        let parts = path.parts.iter().enumerate();
        let idle = parts.filter(|(_, part)| idle_wait(part.kind).is_some() && is_of_process(part));
        Self { spans: idle.map(|(at, part)| (part.from, part.to, at)).collect() }
    }

    /// Time of spans, which are in order, that is idle as well.
    fn overlap(&self, held: &[HeldSpan]) -> Nanos {
        let mut total = 0;
        self.meet(held, |(from, to, _), _| total += to - from);
        total
    }

    /// Explains idle time by spans of a thread.
    fn take(&mut self, task: Tid, held: &[HeldSpan], explained: &mut Vec<ExplainedPiece>) {
        let mut taken = Vec::new();
        self.meet(held, |(from, to, part), held| {
            taken.push(ExplainedPiece { part, task, held: HeldSpan { from, to, ..held } });
        });
        let mut rest = Vec::with_capacity(self.spans.len() + taken.len());
        let mut next = taken.iter().peekable();
        for (from, to, part) in std::mem::take(&mut self.spans) {
            let mut at = from;
            while let Some(piece) = next.next_if(|piece| piece.held.to <= to) {
                rest.push((at, piece.held.from, part));
                at = piece.held.to;
            }
            rest.push((at, to, part));
        }
        rest.retain(|(from, to, _)| from < to);
        self.spans = rest;
        explained.append(&mut taken);
    }

    /// Calls `each` with the common time of an idle span and a held one, in order.
    fn meet(&self, held: &[HeldSpan], mut each: impl FnMut((Nanos, Nanos, usize), HeldSpan)) {
        let mut first = 0;
        for (from, to, part) in &self.spans {
            let rest = held.get(first..).unwrap_or_default();
            first += rest.iter().take_while(|held| held.to <= *from).count();
            let rest = held.get(first..).unwrap_or_default();
            for held in rest.iter().take_while(|held| held.from < *to) {
                each((held.from.max(*from), held.to.min(*to), *part), *held);
            }
        }
    }
}

/// The wait of one thread that explains most.
fn longest(explained: &[ExplainedPiece]) -> Option<SiblingWait> {
    let mut sums: BTreeMap<(Tid, Wait), Nanos> = BTreeMap::new();
    for ExplainedPiece { task, held, .. } in explained {
        let (TimeKind::Waiting(wait) | TimeKind::Running(RunMode::In(wait))) = held.kind else {
            continue;
        };
        *sums.entry((*task, wait)).or_default() += held.to - held.from;
    }
    let ((task, wait), total) = sums.into_iter().max_by_key(|(_, total)| *total)?;
    Some(SiblingWait { task, wait, total })
}

/// Puts the pieces in the place of the idle time that they explain, each as a hop of its own.
fn replace(path: &mut CriticalPath, mut explained: Vec<ExplainedPiece>) {
    explained.sort_by_key(|piece| piece.held.from);
    let mut hops: BTreeMap<(usize, Tid), usize> = BTreeMap::new();
    let mut next = explained.into_iter().peekable();
    let mut parts = Vec::with_capacity(path.parts.len());
    for (index, part) in std::mem::take(&mut path.parts).into_iter().enumerate() {
        let mut at = part.from;
        while let Some(ExplainedPiece { task, held, .. }) =
            next.next_if(|piece| piece.part == index)
        {
            let hop = *hops.entry((part.hop, task)).or_insert_with(|| {
                let wait = idle_wait(part.kind).unwrap_or(Wait::Unknown);
                let waited_for_by = Some((part.hop, wait));
                path.hops.push(Hop {
                    task,
                    waited_for_by,
                    waiter_stack: part.stack,
                    inferred: true,
                });
                path.hops.len() - 1
            });
            parts.push(PathPiece { to: held.from, from: at, ..part });
            let HeldSpan { from, to, kind, stack, waker_stack } = held;
            parts.push(PathPiece { from, to, kind, hop, stack, waker_stack, samples: 0 });
            at = held.to;
        }
        parts.push(PathPiece { from: at, ..part });
    }
    parts.retain(|part| part.from < part.to);
    path.parts = parts;
}

#[cfg(test)]
#[path = "userspace_scheduler_tests.rs"]
mod tests;
