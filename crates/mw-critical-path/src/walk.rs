//! The walk from a request's end back to what its time was spent on.

use crate::path::{CpuHolder, Hop, Kind, Part, Path, RunMode, Unseen};
use crate::timeline::{Activity, Interval, Timelines, Waker, Wakeup};
use crate::trace::{Nanos, StackId, Tid, Trace};
use crate::wait::{self, Wait};

/// Longest chain of tasks that wait for each other.
const MAX_HOPS: usize = 12;
/// Most parts of a path; neighbours of one kind are joined first.
const MAX_PARTS: usize = 200_000;

/// What is explained: the time of one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The task that waited for the answer.
    pub task: Tid,
    /// When it asked.
    pub from: Nanos,
    /// When the answer woke it.
    pub to: Nanos,
}

/// Finds where the time of a request went.
pub fn critical_path(trace: &Trace, request: Request) -> Path {
    let Request { task, from, to } = request;
    let hops = vec![Hop { task, waited_for_by: None }];
    let timelines = Timelines::new(trace);
    let mut walk = Walk { trace, timelines: &timelines, hops, parts: Vec::new() };
    walk.explain(0, from, to, 0);
    Path { from, to: to.max(from), parts: walk.parts, hops: walk.hops }
}

struct Walk<'a> {
    trace: &'a Trace,
    timelines: &'a Timelines,
    hops: Vec<Hop>,
    parts: Vec<Part>,
}

impl Walk<'_> {
    /// Explains `[from, to)` of the task of a hop.
    fn explain(&mut self, hop: usize, from: Nanos, to: Nanos, depth: usize) {
        let Some(task) = self.hops.get(hop).map(|hop| hop.task) else { return };
        let mut at = from;
        let from = match self.timelines.birth(task) {
            Some((born, parent)) if born > from => {
                self.before_birth(hop, parent, (from, born.min(to)), depth);
                at = born.min(to);
                at
            }
            _ => from,
        };
        for interval in self.timelines.within(task, from, to) {
            self.gap(hop, task, at, interval.from);
            at = interval.to;
            self.interval(hop, task, interval, depth);
        }
        self.gap(hop, task, at, to);
    }

    /// What happened before a task was created is what its parent did.
    fn before_birth(
        &mut self,
        hop: usize,
        parent: Tid,
        (from, born): (Nanos, Nanos),
        depth: usize,
    ) {
        if depth >= MAX_HOPS {
            return self.push(hop, from, born, Kind::Unseen(Unseen::TooDeep));
        }
        let parent = self.hop(parent, hop, Wait::Child);
        self.explain(parent, from, born, depth + 1);
    }

    /// Time of a task that no event covers.
    fn gap(&mut self, hop: usize, task: Tid, from: Nanos, to: Nanos) {
        if from < to {
            let why = if self.timelines.has(task) { Unseen::NotThere } else { Unseen::NeverRan };
            self.push(hop, from, to, Kind::Unseen(why));
        }
    }

    fn interval(&mut self, hop: usize, task: Tid, interval: Interval, depth: usize) {
        let Interval { from, to, activity } = interval;
        match activity {
            Activity::Running => self.running(hop, task, from, to),
            Activity::Runnable { cpu } => self.runnable(hop, cpu, from, to),
            Activity::Blocked { stopped: true, stack, .. } => {
                self.push_at(hop, from, to, Kind::Stopped, (stack, StackId::default()));
            }
            Activity::Blocked { stopped: false, stack, wakeup } => {
                self.blocked(hop, task, (from, to), (stack, wakeup), depth);
            }
        }
    }

    /// Each sample stands for an equal share of the interval.
    fn running(&mut self, hop: usize, task: Tid, from: Nanos, to: Nanos) {
        let timelines = self.timelines;
        let samples = timelines.samples(task, from, to);
        if samples.is_empty() {
            return self.push(hop, from, to, Kind::Running(RunMode::Unsampled));
        }
        let count = samples.len() as u128;
        let share = |index: usize| {
            let offset = u128::from(to - from) * index as u128 / count;
            from + u64::try_from(offset).unwrap_or(0)
        };
        for (index, (_, stack)) in samples.iter().enumerate() {
            let functions = self.trace.stack(*stack);
            let mode = match wait::wait(functions).filter(|wait| wait.is_for_resource()) {
                _ if functions.is_empty() => RunMode::User,
                Some(wait) => RunMode::In(wait),
                None => RunMode::Kernel(wait::work(functions)),
            };
            let kind = Kind::Running(mode);
            self.push_at(hop, share(index), share(index + 1), kind, (*stack, StackId::default()));
            if let Some(last) = self.parts.last_mut() {
                last.samples = last.samples.saturating_add(1);
            }
        }
    }

    /// Each piece is given to who had the CPU.
    fn runnable(&mut self, hop: usize, cpu: Option<u16>, from: Nanos, to: Nanos) {
        let Some(cpu) = cpu else {
            return self.push(hop, from, to, Kind::Runnable(CpuHolder::Unknown));
        };
        for (from, to, holder) in self.timelines.on_cpu(cpu, from, to) {
            let holder = match holder {
                None => CpuHolder::Unknown,
                Some(0) => CpuHolder::Idle,
                Some(task) => CpuHolder::Task(task),
            };
            self.push(hop, from, to, Kind::Runnable(holder));
        }
    }

    fn blocked(
        &mut self,
        hop: usize,
        task: Tid,
        (from, to): (Nanos, Nanos),
        (stack, wakeup): (StackId, Option<Wakeup>),
        depth: usize,
    ) {
        let wait = wait::wait(self.trace.stack(stack)).unwrap_or(Wait::Unknown);
        let waker_stack = wakeup.map_or_else(StackId::default, |wakeup| wakeup.stack);
        let kind = match wakeup.map(|wakeup| wakeup.waker) {
            _ if wait.is_for_resource() => Kind::Waiting(wait),
            None => Kind::Unseen(Unseen::NotWoken(wait)),
            Some(Waker::Task(waker)) if waker != task && depth < MAX_HOPS => {
                let next = self.hop(waker, hop, wait);
                return self.explain(next, from, to, depth + 1);
            }
            Some(Waker::Task(waker)) if waker != task => Kind::Unseen(Unseen::TooDeep),
            Some(Waker::Timer) if wait.may_time_out() => Kind::TimedOut(wait),
            Some(Waker::Disk) => Kind::Waiting(Wait::Disk),
            Some(Waker::Network) => Kind::Waiting(Wait::Network),
            Some(_) => Kind::Waiting(wait),
        };
        self.push_at(hop, from, to, kind, (stack, waker_stack));
    }

    /// The hop of `task` for which that of `parent` waits in `wait`.
    fn hop(&mut self, task: Tid, parent: usize, wait: Wait) -> usize {
        let hop = Hop { task, waited_for_by: Some((parent, wait)) };
        // Requests go back and forth between the same few tasks: the last hops are the likely ones.
        let known = self.hops.iter().enumerate().rev().take(64).find(|(_, known)| **known == hop);
        if let Some((at, _)) = known {
            return at;
        }
        self.hops.push(hop);
        self.hops.len() - 1
    }

    fn push(&mut self, hop: usize, from: Nanos, to: Nanos, kind: Kind) {
        self.push_at(hop, from, to, kind, (StackId::default(), StackId::default()));
    }

    fn push_at(
        &mut self,
        hop: usize,
        from: Nanos,
        to: Nanos,
        kind: Kind,
        (stack, waker_stack): (StackId, StackId),
    ) {
        if from >= to {
            return;
        }
        let full = self.parts.len() >= MAX_PARTS;
        if let Some(last) = self.parts.last_mut() {
            let same = last.kind == kind && last.hop == hop && last.stack == stack;
            if full || (same && last.waker_stack == waker_stack) {
                last.to = to;
                return;
            }
        }
        self.parts.push(Part { from, to, kind, hop, stack, waker_stack, samples: 0 });
    }
}

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
