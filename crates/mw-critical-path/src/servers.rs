//! Finds the thread that holds a request where no wake-up shows it: it is still under way, or a time limit ended the
//! wait for it.
//!
//! The caller may know which processes have the other end of the connection. Of their threads, the one that
//! was stuck for most of the wait is the likely reason; those that wait for work are not.

use crate::request::RequestSpan;
use crate::timeline::{Activity, Timelines};
use crate::trace::{EventKind, Nanos, Tid, Trace};
use crate::wait::Wait;
use std::collections::BTreeSet;

/// Threads that are looked at.
const MAX_THREADS: usize = 4096;
/// A wait for less than this part of the request is given to the thread that held most of the request, which
/// bounds how often the threads are looked at.
const LEAST_PART: Nanos = 16;
/// Times that differ by less than this part of the interval are about even.
const EVEN_PART: Nanos = 50;

/// The threads that may hold the request.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    threads: Vec<Tid>,
    /// These, and the threads of a command that asks: it holds the request where it is stuck, and not where it waits.
    may_be_stuck: Vec<Tid>,
    /// The one that last exchanged a wake-up with the request's task.
    handler: Option<Tid>,
    /// The one that held most of the request.
    holder: Option<Tid>,
    /// The first thread of a command that asks.
    command: Option<Tid>,
    /// A wait of at least this length has a holder of its own.
    least: Nanos,
}

/// Times of a thread over an interval that show if it held a request.
#[derive(Debug, Clone, Copy, Default)]
struct HoldTimes {
    /// It waited for a resource or in a kernel lock, had no CPU, or was stopped.
    stuck: Nanos,
    ran: Nanos,
    /// Its longest sleep: who sleeps for short times only has work to look for.
    slept: Nanos,
}

impl Servers {
    /// The threads of the processes that the request names, and of those that they created.
    pub(crate) fn new(trace: &Trace, timelines: &Timelines, request: &RequestSpan) -> Self {
        let mut processes: BTreeSet<Tid> = request.servers.iter().copied().collect();
        processes.remove(&trace.process(request.task));
        if processes.is_empty() && request.command.is_none() {
            return Self::default();
        }
        for (child, parent) in timelines.births() {
            if processes.contains(&parent) || processes.contains(&trace.process(parent)) {
                processes.insert(child);
            }
        }
        let is_theirs =
            |tid: &Tid| processes.contains(tid) || processes.contains(&trace.process(*tid));
        let mut threads: Vec<Tid> = timelines.tasks().filter(is_theirs).take(MAX_THREADS).collect();
        if threads.is_empty() {
            // They did nothing at all, which the path says of the first.
            threads.extend(request.servers.iter().copied().find(|tid| processes.contains(tid)));
        }
        let handler = handler(trace, request, &threads);
        let least = request.to.saturating_sub(request.from) / LEAST_PART;
        let is_command = |tid: &Tid| request.command == Some(trace.process(*tid));
        let may_be_stuck =
            threads.iter().copied().chain(timelines.tasks().filter(is_command)).collect();
        let command = request.command.filter(|command| timelines.has(*command));
        let mut servers = Self { threads, may_be_stuck, handler, holder: None, command, least };
        servers.holder = servers.choose(trace, timelines, (request.from, request.to));
        servers
    }

    /// The thread that likely held the request over an interval.
    pub(crate) fn holder(
        &self,
        trace: &Trace,
        timelines: &Timelines,
        (from, to): (Nanos, Nanos),
    ) -> Option<Tid> {
        if to.saturating_sub(from) < self.least {
            return self.holder;
        }
        self.choose(trace, timelines, (from, to))
    }

    /// The command that asks in the stead of the request's task.
    pub(crate) fn command(&self) -> Option<Tid> {
        self.command
    }

    pub(crate) fn has(&self, thread: Tid) -> bool {
        self.threads.binary_search(&thread).is_ok()
    }

    fn choose(&self, trace: &Trace, timelines: &Timelines, span: (Nanos, Nanos)) -> Option<Tid> {
        let stuck = || most_stuck(trace, timelines, (&self.may_be_stuck, self.handler), span);
        match self.threads[..] {
            [only] => stuck().or(Some(only)),
            _ => stuck().or(self.handler),
        }
    }
}

/// The thread that was stuck, running or asleep for at least half of an interval; the longest such, where being
/// stuck counts twice as much as running, and a sleep only where nobody was either. Of threads that are about
/// even, `preferred` or the main one: where a process is stopped, all of them are.
pub(crate) fn most_stuck(
    trace: &Trace,
    timelines: &Timelines,
    (threads, preferred): (&[Tid], Option<Tid>),
    (from, to): (Nanos, Nanos),
) -> Option<Tid> {
    let length = to.saturating_sub(from);
    let (half, even) = (length / 2, length / EVEN_PART + 1);
    let rank = |tid: Tid, time: Nanos| {
        (time / even, preferred == Some(tid), trace.process(tid) == tid, time)
    };
    let held = threads.iter().map(|tid| (*tid, HoldTimes::new(timelines, *tid, (from, to))));
    let held: Vec<(Tid, HoldTimes)> = held.collect();
    let busy = held.iter().filter(|(_, held)| held.stuck.saturating_add(held.ran) > half);
    let weight = |held: &HoldTimes| held.stuck.saturating_mul(2).saturating_add(held.ran);
    let busiest = busy.max_by_key(|(tid, held)| rank(*tid, weight(held)));
    let asleep = held.iter().filter(|(_, held)| held.slept > half);
    busiest.or_else(|| asleep.max_by_key(|(tid, held)| rank(*tid, held.slept))).map(|(tid, _)| *tid)
}

impl HoldTimes {
    fn new(timelines: &Timelines, thread: Tid, (from, to): (Nanos, Nanos)) -> Self {
        let mut held = Self::default();
        for interval in timelines.within(thread, from, to) {
            let length = interval.to - interval.from;
            match interval.activity {
                Activity::Running => held.ran += length,
                Activity::Runnable { .. } | Activity::Blocked { stopped: true, .. } => {
                    held.stuck += length;
                }
                Activity::Blocked { stack, .. } if timelines.is_idle_thread(stack) => {}
                Activity::Blocked { stack, .. } => match timelines.wait(stack) {
                    Some(Wait::Sleep) => held.slept = held.slept.max(length),
                    Some(wait) if wait.is_for_resource() || wait.is_held_in_kernel() => {
                        held.stuck += length;
                    }
                    _ => {}
                },
            }
        }
        held
    }
}

/// The thread that the request's task last woke, or that last woke it, before the request ended.
fn handler(trace: &Trace, request: &RequestSpan, threads: &[Tid]) -> Option<Tid> {
    let exchanged = trace.events.iter().filter_map(|event| match event.kind {
        EventKind::Waking { task, by, .. } if event.at <= request.to => {
            let other = match request.task {
                client if client == by => task,
                client if client == task => by,
                _ => return None,
            };
            threads.binary_search(&other).ok().map(|_| (event.at, other))
        }
        _ => None,
    });
    exchanged.max().map(|(_, thread)| thread)
}

#[cfg(test)]
#[path = "servers_tests.rs"]
mod tests;
