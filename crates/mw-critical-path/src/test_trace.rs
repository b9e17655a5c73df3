//! Traces written by hand, and what holds of every path.

use crate::path::{CriticalPath, TimeKind, TimeShare};
use crate::request::RequestSpan;
use crate::trace::{
    Event, EventKind, Nanos, StackId, Task, TaskState, Tid, Trace, UserStackId, WakeContext,
};
use crate::walk::critical_path;

pub(crate) const CLIENT: Tid = 10;
pub(crate) const SERVER: Tid = 20;
pub(crate) const OTHER: Tid = 30;

/// Builds a trace from events at times, with stacks written as `a < b < c`.
pub(crate) struct TraceBuilder {
    pub(crate) trace: Trace,
}

impl TraceBuilder {
    pub(crate) fn new(to: Nanos) -> Self {
        let task = |name: &str| Task { name: name.to_owned(), process: 0 };
        let tasks = [(CLIENT, task("client")), (SERVER, task("server")), (OTHER, task("other"))];
        let trace = Trace {
            from: 0,
            to,
            stacks: vec![Vec::new()],
            tasks: tasks.into(),
            ..Trace::default()
        };
        Self { trace }
    }

    pub(crate) fn stack(&mut self, functions: &str) -> StackId {
        self.trace.stacks.push(functions.split(" < ").map(str::to_owned).collect());
        StackId(u32::try_from(self.trace.stacks.len() - 1).unwrap())
    }

    pub(crate) fn event(&mut self, at: Nanos, cpu: u16, kind: EventKind) -> &mut Self {
        self.trace.events.push(Event { at, cpu, user_stack: UserStackId::default(), kind });
        self
    }

    pub(crate) fn blocks(&mut self, at: Nanos, cpu: u16, task: Tid, functions: &str) -> &mut Self {
        let stack = self.stack(functions);
        self.event(
            at,
            cpu,
            EventKind::SwitchOut { task, state: TaskState::Waiting, stack, next: 0 },
        )
    }

    pub(crate) fn runs(&mut self, at: Nanos, cpu: u16, task: Tid) -> &mut Self {
        self.event(at, cpu, EventKind::SwitchIn { task })
    }

    pub(crate) fn wakes(&mut self, at: Nanos, by: Tid, task: Tid) -> &mut Self {
        let stack = StackId::default();
        self.event(at, 0, EventKind::Waking { task, by, context: WakeContext::Task, stack })
    }

    pub(crate) fn interrupt(&mut self, at: Nanos, task: Tid, functions: &str) -> &mut Self {
        let stack = self.stack(functions);
        self.event(at, 0, EventKind::Waking { task, by: 0, context: WakeContext::HardIrq, stack })
    }

    pub(crate) fn path(&self, from: Nanos, to: Nanos) -> CriticalPath {
        self.served_path(from, to, &[])
    }

    /// The path of a request to these processes.
    pub(crate) fn served_path(&self, from: Nanos, to: Nanos, servers: &[Tid]) -> CriticalPath {
        let request = RequestSpan {
            task: CLIENT,
            from,
            to,
            servers: servers.to_vec(),
            ..RequestSpan::default()
        };
        let path = critical_path(&self.trace, request);
        assert_partition(&path);
        path
    }

    /// State of a task when tracing began.
    pub(crate) fn found(&mut self, task: Tid, state: TaskState, functions: &str) -> &mut Self {
        let stack = self.stack(functions);
        self.event(self.trace.from, 0, EventKind::Found { task, state, stack })
    }

    pub(crate) fn shares(&self, from: Nanos, to: Nanos) -> Vec<(TimeKind, Nanos)> {
        let path = self.path(from, to);
        path.shares().into_iter().map(|TimeShare { kind, total, .. }| (kind, total)).collect()
    }
}

pub(crate) fn assert_partition(path: &CriticalPath) {
    let mut at = path.from;
    for part in &path.parts {
        assert_eq!(part.from, at, "no gap and no overlap: {path:?}");
        assert!(part.to > part.from && part.hop < path.hops.len(), "{part:?}");
        at = part.to;
    }
    assert_eq!(at, path.to.max(path.from), "the parts add up to the request");
    let sum: Nanos = path.shares().iter().map(|share| share.total).sum();
    assert_eq!(sum, path.duration());
}
