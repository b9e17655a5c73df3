//! Whom a proxy asked before the trace began: no wake-up says so, but the connections that it opened do.

use crate::request::RequestSpan;
use crate::timeline::Timelines;
use crate::trace::{Nanos, Tid, Trace};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// Threads of the upstreams of one process that are looked at.
const MAX_THREADS: usize = 4096;
/// Parts of a request: the threads are looked at once for all waits in a part that are shorter than it, which bounds
/// how often they are.
const PARTS: Nanos = 16;
/// Parts, of all processes and hops, over which the threads are looked at.
const MAX_LOOKS: usize = 256;

/// The processes to which a process has opened connections, with their threads.
#[derive(Debug, Default)]
pub(crate) struct Upstreams {
    of_process: BTreeMap<Tid, Upstream>,
    /// Beginning of the request, and the length of a part of it.
    from: Nanos,
    part: Nanos,
    /// Threads that were stuck over parts of the request: by hop, process, beginning of the part.
    stuck: RefCell<BTreeMap<(usize, Tid, Nanos), Option<Tid>>>,
}

#[derive(Debug, Default)]
struct Upstream {
    processes: BTreeSet<Tid>,
    threads: Vec<Tid>,
}

impl Upstreams {
    pub(crate) fn new(trace: &Trace, timelines: &Timelines, request: &RequestSpan) -> Self {
        let mut of_process: BTreeMap<Tid, Upstream> = BTreeMap::new();
        for (proxy, upstream) in request.upstreams.iter().filter(|(proxy, other)| proxy != other) {
            of_process.entry(*proxy).or_default().processes.insert(*upstream);
        }
        for Upstream { processes, threads } in of_process.values_mut() {
            let is_theirs =
                |tid: &Tid| processes.contains(tid) || processes.contains(&trace.process(*tid));
            threads.extend(timelines.tasks().filter(is_theirs).take(MAX_THREADS));
        }
        let part = request.to.saturating_sub(request.from) / PARTS;
        Self { of_process, from: request.from, part, stuck: RefCell::default() }
    }

    /// The part of the request in which a wait ends that is shorter than a part.
    pub(crate) fn part(&self, (from, to): (Nanos, Nanos)) -> Option<(Nanos, Nanos)> {
        if to.saturating_sub(from) >= self.part {
            return None;
        }
        let index = to.saturating_sub(self.from + 1) / self.part;
        let begins = self.from + index * self.part;
        Some((begins, begins + self.part))
    }

    /// Result of `find` for a hop, a process and the beginning of a part; it is called once for each of them, and for
    /// [`MAX_LOOKS`] at most.
    pub(crate) fn once(
        &self,
        key: (usize, Tid, Nanos),
        find: impl FnOnce() -> Option<Tid>,
    ) -> Option<Tid> {
        if let Some(known) = self.stuck.borrow().get(&key) {
            return *known;
        }
        if self.stuck.borrow().len() >= MAX_LOOKS {
            return None;
        }
        let found = find();
        self.stuck.borrow_mut().insert(key, found);
        found
    }

    /// Threads of those that a process asks, and of those that they ask: for each distance, nearest first.
    pub(crate) fn levels(&self, process: Tid) -> [Vec<Tid>; 2] {
        let Some(first) = self.of_process.get(&process) else { return Default::default() };
        let behind = first.processes.iter().filter_map(|process| self.of_process.get(process));
        [first.threads.clone(), behind.flat_map(|upstream| &upstream.threads).copied().collect()]
    }

    /// True if a process asks that of a thread.
    pub(crate) fn has(&self, process: Tid, thread: Tid) -> bool {
        let upstream = self.of_process.get(&process);
        upstream.is_some_and(|upstream| upstream.threads.binary_search(&thread).is_ok())
    }

    /// The processes that have opened connections.
    pub(crate) fn proxies(&self) -> impl Iterator<Item = Tid> {
        self.of_process.keys().copied()
    }

    /// True if connections of `process` are known, and none of them is to the process of another.
    pub(crate) fn excludes(&self, process: Tid, other: Tid) -> bool {
        self.of_process.get(&process).is_some_and(|upstream| !upstream.processes.contains(&other))
    }
}

#[cfg(test)]
#[path = "upstreams_tests.rs"]
mod tests;
