//! Whom a proxy asked before the trace began: no wake-up says so, but the connections that it opened do.

use crate::request::Request;
use crate::timeline::Timelines;
use crate::trace::{Nanos, Tid, Trace};
use std::collections::{BTreeMap, BTreeSet};

/// Threads of the upstreams of one process that are looked at.
const MAX_THREADS: usize = 4096;
/// A wait for less than this part of the request is not looked into, which bounds how often the threads are looked at.
const LEAST_PART: Nanos = 16;

/// The processes to which a process has opened connections, with their threads.
#[derive(Debug, Default)]
pub(crate) struct Upstreams {
    of_process: BTreeMap<Tid, Upstream>,
    /// The shortest wait that is looked into.
    least: Nanos,
}

#[derive(Debug, Default)]
struct Upstream {
    processes: BTreeSet<Tid>,
    threads: Vec<Tid>,
}

impl Upstreams {
    pub(crate) fn new(trace: &Trace, timelines: &Timelines, request: &Request) -> Self {
        let mut of_process: BTreeMap<Tid, Upstream> = BTreeMap::new();
        for (proxy, upstream) in request.upstreams.iter().filter(|(proxy, other)| proxy != other) {
            of_process.entry(*proxy).or_default().processes.insert(*upstream);
        }
        for Upstream { processes, threads } in of_process.values_mut() {
            let is_theirs =
                |tid: &Tid| processes.contains(tid) || processes.contains(&trace.process(*tid));
            threads.extend(timelines.tasks().filter(is_theirs).take(MAX_THREADS));
        }
        Self { of_process, least: request.to.saturating_sub(request.from) / LEAST_PART }
    }

    /// Threads of those that a process asks, and of those that they ask: for each distance, nearest first. None for a
    /// short wait.
    pub(crate) fn levels(&self, process: Tid, (from, to): (Nanos, Nanos)) -> [Vec<Tid>; 2] {
        let first = self.of_process.get(&process);
        let Some(first) = first.filter(|_| to.saturating_sub(from) >= self.least) else {
            return Default::default();
        };
        let behind = first.processes.iter().filter_map(|process| self.of_process.get(process));
        [first.threads.clone(), behind.flat_map(|upstream| &upstream.threads).copied().collect()]
    }

    /// Whether a process asks that of a thread.
    pub(crate) fn has(&self, process: Tid, thread: Tid) -> bool {
        let upstream = self.of_process.get(&process);
        upstream.is_some_and(|upstream| upstream.threads.binary_search(&thread).is_ok())
    }

    /// The processes that have opened connections.
    pub(crate) fn proxies(&self) -> impl Iterator<Item = Tid> {
        self.of_process.keys().copied()
    }

    /// Whether connections of `process` are known, and none of them is to the process of another.
    pub(crate) fn excludes(&self, process: Tid, other: Tid) -> bool {
        self.of_process.get(&process).is_some_and(|upstream| !upstream.processes.contains(&other))
    }
}

#[cfg(test)]
#[path = "upstreams_tests.rs"]
mod tests;
