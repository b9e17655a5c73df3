//! Time of the threads of a running program: the idle share, and the slowest requests.
//!
//! A thread of a server waits for work, does it, and waits again. The time between two such waits is a *cycle*:
//! a request, where the thread serves one at a time. A wait within a cycle is not idle: for a disk, a lock, or
//! another program while the one that asked still waits for its answer.

use crate::path::CriticalPath;
use crate::timeline::{Activity, Interval, Timelines, WakeCause, Wakeup};
use crate::trace::{EventKind, Nanos, Tid, Trace};
use crate::wait::Wait;
use crate::walk::own_time;
use std::collections::{BTreeMap, BTreeSet};

/// Cycles that are kept: the slowest.
const MAX_CYCLES: usize = 32;

/// A program to look at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TracedProgram {
    /// Those that were there when tracing began; their children belong to it too.
    pub processes: Vec<Tid>,
    /// It listens: what other programs wake it for is work. A program that does not listen waits for them.
    pub listens: bool,
}

/// Time of a program while it was traced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramTime {
    pub threads: usize,
    /// Of all threads together.
    pub idle: Nanos,
    /// Time of the threads when they were not idle, without that of tasks they waited for: its parts are of all
    /// threads, a hop a thread, and its duration is their sum.
    pub busy: CriticalPath,
    pub cycle_count: usize,
    /// The slowest first.
    pub cycles: Vec<Cycle>,
}

/// Time of a thread from the end of one idle wait to the beginning of the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cycle {
    pub task: Tid,
    pub from: Nanos,
    pub to: Nanos,
}

impl Cycle {
    pub fn duration(&self) -> Nanos {
        self.to.saturating_sub(self.from)
    }
}

impl TracedProgram {
    /// Time of its threads.
    pub fn time(&self, trace: &Trace) -> ProgramTime {
        let timelines = Timelines::new(trace);
        let processes = self.with_children(trace, &timelines);
        let threads: BTreeSet<Tid> =
            timelines.tasks().filter(|task| processes.contains(&trace.process(*task))).collect();
        let looks = ProgramView { trace, timelines: &timelines, threads, listens: self.listens };
        let sent = looks.sent();
        let mut cycles: Vec<Cycle> = Vec::new();
        let mut idle = 0;
        for thread in &looks.threads {
            let sent = sent.get(thread).map_or(&[][..], Vec::as_slice);
            idle += looks.cycles(*thread, sent, &mut cycles);
        }
        let spans: Vec<_> = cycles.iter().map(|cycle| (cycle.task, cycle.from, cycle.to)).collect();
        let (parts, hops) = own_time(trace, &timelines, &spans);
        let total: Nanos = parts.iter().map(crate::PathPiece::duration).sum();
        let busy =
            CriticalPath { from: trace.from, to: trace.from + total, parts, hops, sibling: None };
        cycles.sort_by_key(|cycle| std::cmp::Reverse(cycle.duration()));
        let cycle_count = cycles.len();
        cycles.truncate(MAX_CYCLES);
        ProgramTime { threads: looks.threads.len(), idle, busy, cycle_count, cycles }
    }

    fn with_children(&self, trace: &Trace, timelines: &Timelines) -> BTreeSet<Tid> {
        let mut processes: BTreeSet<Tid> = self.processes.iter().copied().collect();
        for (child, parent) in timelines.births() {
            if processes.contains(&trace.process(parent)) {
                processes.insert(trace.process(child));
            }
        }
        processes
    }
}

/// Source of the work that a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asker {
    /// A task of another program.
    Other(Tid),
    /// A thread of the same program.
    Own(Tid),
    /// Another machine.
    Remote,
    /// A timer, or what is not known.
    Unseen,
}

/// A cycle that has not ended.
#[derive(Debug, Clone, Copy)]
struct OpenCycle {
    from: Nanos,
    asker: Asker,
}

struct ProgramView<'a> {
    trace: &'a Trace,
    timelines: &'a Timelines,
    threads: BTreeSet<Tid>,
    listens: bool,
}

impl ProgramView<'_> {
    /// Wake-ups by which the program's threads sent something, in the order of time.
    fn sent(&self) -> BTreeMap<Tid, Vec<(Nanos, Tid)>> {
        let mut sent: BTreeMap<Tid, Vec<(Nanos, Tid)>> = BTreeMap::new();
        for event in &self.trace.events {
            let EventKind::Waking { task, by, context, stack } = event.kind else { continue };
            let is_by_task = self.timelines.is_sent_by_task(context, stack);
            let is_sent = is_by_task && !self.timelines.is_for_room(stack);
            if is_sent && self.threads.contains(&by) {
                sent.entry(by).or_default().push((event.at, task));
            }
        }
        sent.values_mut().for_each(|sent| sent.sort_unstable());
        sent
    }

    /// Adds the cycles of a thread; how long it was idle.
    fn cycles(&self, thread: Tid, sent: &[(Nanos, Tid)], cycles: &mut Vec<Cycle>) -> Nanos {
        let mut idle = 0;
        let mut open: Option<OpenCycle> = None;
        let mut end = self.trace.from;
        let mut close = |open: Option<OpenCycle>, to: Nanos| {
            let cycle = open.map(|open| Cycle { task: thread, from: open.from, to });
            cycles.extend(cycle.filter(|cycle| cycle.duration() > 0));
        };
        for interval in self.timelines.within(thread, self.trace.from, self.trace.to) {
            end = interval.to;
            match self.idle_wakeup(thread, open, interval, sent) {
                Some(wakeup) => {
                    close(open, interval.from);
                    idle += interval.to - interval.from;
                    open = Some(OpenCycle { from: interval.to, asker: self.asker(wakeup) });
                }
                None if open.is_none() => {
                    open = Some(OpenCycle { from: interval.from, asker: Asker::Unseen });
                }
                None => {}
            }
        }
        close(open, end);
        idle
    }

    fn asker(&self, wakeup: Option<Wakeup>) -> Asker {
        match wakeup.map(|wakeup| wakeup.waker) {
            Some(WakeCause::Task(task)) if self.threads.contains(&task) => Asker::Own(task),
            Some(WakeCause::Task(task)) => Asker::Other(task),
            Some(WakeCause::Network) => Asker::Remote,
            _ => Asker::Unseen,
        }
    }

    /// Wake-up that ended an interval in which the thread was idle; `None` where it was not.
    fn idle_wakeup(
        &self,
        thread: Tid,
        open: Option<OpenCycle>,
        interval: Interval,
        sent: &[(Nanos, Tid)],
    ) -> Option<Option<Wakeup>> {
        let Activity::Blocked { stopped: false, stack, wakeup } = interval.activity else {
            return None;
        };
        let wait = self.timelines.wait(stack).unwrap_or(Wait::Unknown);
        let owes = open.is_some_and(|open| self.owes(thread, open, interval, sent));
        let is_idle = match wait {
            Wait::Sleep | Wait::Terminal => !owes,
            Wait::Child => wakeup.is_none(),
            Wait::Futex | Wait::Unknown => !owes && !self.is_lock(open, wakeup),
            wait if wait.is_for_work() => !owes && self.is_for_work(thread, open, wakeup),
            _ => false,
        };
        is_idle.then_some(wakeup)
    }

    /// The one that asked has been waiting since, and it is for this thread to answer.
    fn owes(
        &self,
        thread: Tid,
        open: OpenCycle,
        interval: Interval,
        sent: &[(Nanos, Tid)],
    ) -> bool {
        let Asker::Other(asker) = open.asker else { return false };
        let process = self.trace.process(asker);
        let since = sent.partition_point(|(at, _)| *at < open.from);
        let is_answered = sent
            .get(since..)
            .unwrap_or_default()
            .iter()
            .take_while(|(at, _)| *at < interval.to)
            .any(|(_, task)| self.trace.process(*task) == process);
        let mut of_asker = self.timelines.within(asker, interval.from, interval.to);
        // It may run a little longer than the request takes to arrive.
        let last = of_asker.by_ref().last().map(|last| last.activity);
        let waits = match last {
            Some(Activity::Blocked {
                wakeup: Some(Wakeup { waker: WakeCause::Task(by), .. }),
                ..
            }) => by == thread || !self.threads.contains(&by),
            Some(Activity::Blocked { .. }) => !self.has_child_since(thread, open.from),
            _ => false,
        };
        !is_answered && waits && !self.goes_on(asker, open.from, interval)
    }

    /// True if a task that has asked `since` did something else during the interval. That its request was read wakes
    /// it, too, and it goes on waiting.
    fn goes_on(&self, asker: Tid, since: Nanos, interval: Interval) -> bool {
        let mut is_for_room = false;
        self.timelines.within(asker, since, interval.to).any(|of_asker| match of_asker.activity {
            Activity::Blocked { wakeup, .. } => {
                is_for_room = wakeup.is_some_and(|wakeup| self.timelines.is_for_room(wakeup.stack));
                false
            }
            Activity::Running => !is_for_room && of_asker.from > interval.from,
            _ => false,
        })
    }

    /// A thread that creates another one for each request hands it over.
    fn has_child_since(&self, thread: Tid, since: Nanos) -> bool {
        let children = self.threads.iter().filter_map(|task| self.timelines.birth(*task));
        children.into_iter().any(|(born, parent)| parent == thread && born >= since)
    }

    /// A wait within work that a sibling gave, which another one ended, is for a lock.
    fn is_lock(&self, open: Option<OpenCycle>, wakeup: Option<Wakeup>) -> bool {
        let giver = match open.map(|open| open.asker) {
            Some(Asker::Own(giver)) => Some(giver),
            Some(Asker::Other(_) | Asker::Remote) => None,
            Some(Asker::Unseen) | None => return false,
        };
        match self.asker(wakeup) {
            Asker::Own(waker) => giver != Some(waker),
            Asker::Other(_) => !self.listens,
            Asker::Remote | Asker::Unseen => false,
        }
    }

    /// True if the end of a wait for input brought work, and not an answer to the thread.
    fn is_for_work(&self, thread: Tid, open: Option<OpenCycle>, wakeup: Option<Wakeup>) -> bool {
        match self.asker(wakeup) {
            // An answer to another machine is not seen, so that the thread may owe one still.
            Asker::Own(_) => open.is_none_or(|open| {
                open.asker != Asker::Remote || self.has_child_since(thread, open.from)
            }),
            Asker::Other(_) | Asker::Remote => self.listens,
            Asker::Unseen => true,
        }
    }
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
