//! A copy of what was recorded.

use crate::symbols::Symbols;
use crate::task_numbers::TaskNumbers;
use mw_critical_path::{
    Basis, CodeMapping, Event, EventKind, Nanos, StackId, Task, Tid, Trace, UserStack, UserStackId,
    outside_tid,
};
use std::collections::BTreeMap;

/// Events that are copied at a time: within 100 µs, or a few milliseconds on an emulated CPU.
pub(super) const PIECE: usize = 1 << 12;

pub(super) const NO_EVENT: Event =
    Event { at: 0, cpu: 0, user_stack: UserStackId(0), kind: EventKind::SwitchIn { task: 0 } };

/// Copy of a trace so far, in pieces ([`super::SchedTracer::copy`]), so that reading the rings is
/// held up for as long as one piece takes. Names come afterwards.
#[derive(Debug, Default)]
pub struct TraceCopy {
    pub(super) from: Nanos,
    pub(super) to: Nanos,
    pub(super) events: Vec<Event>,
    /// The number of the next event.
    pub(super) next: u64,
    pub(super) stacks: CopiedStacks,
    /// Number of times that stacks had been renumbered.
    pub(super) renumbered: u64,
    /// Stacks that were read by name from /proc.
    pub(super) named: Vec<Vec<String>>,
    pub(super) user_stacks: Vec<UserStack>,
    pub(super) code: BTreeMap<Tid, Vec<CodeMapping>>,
    pub(super) tasks: BTreeMap<Tid, Task>,
    pub(super) parents: BTreeMap<Tid, Tid>,
    /// Own numbers of tasks by those in the initial PID namespace, where that is another.
    pub(super) pairs: BTreeMap<Tid, Tid>,
    pub(super) lost: u64,
    pub(super) gaps: Vec<(Nanos, Nanos)>,
}

/// The addresses of all stacks, and where each ends.
#[derive(Debug, Default)]
pub(super) struct CopiedStacks {
    addresses: Vec<u64>,
    ends: Vec<usize>,
}

impl CopiedStacks {
    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn extend<'a>(&mut self, stacks: impl Iterator<Item = &'a [u64]>) {
        for stack in stacks {
            self.addresses.extend_from_slice(stack);
            self.ends.push(self.addresses.len());
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u64]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        let spans = begins.zip(&self.ends);
        spans.map(|(begin, end)| self.addresses.get(begin..*end).unwrap_or_default())
    }
}

impl TraceCopy {
    /// Forgets the events and stacks so far, and keeps their memory.
    pub(super) fn begin_again(&mut self, renumbered: u64) {
        self.events.clear();
        self.stacks.addresses.clear();
        self.stacks.ends.clear();
        (self.next, self.renumbered) = (0, renumbered);
    }

    /// Has the memory of the next piece present before somebody waits for it to be written.
    pub fn make_room(&mut self) {
        let filled = self.events.len();
        self.events.resize(filled + PIECE, NO_EVENT);
        self.events.truncate(filled);
    }

    /// The trace, with the names of functions: 50 to 200 ms of CPU time where some are new.
    pub fn into_trace(self, symbols: &mut Symbols) -> Trace {
        // Without names every wait is of an unknown kind, which the path says.
        let _ = symbols.learn(self.stacks.addresses.iter().copied());
        let names = |stack: &[u64]| -> Vec<String> {
            stack.iter().map(|address| symbols.name(*address).to_owned()).collect()
        };
        let mut stacks: Vec<Vec<String>> = self.stacks.iter().map(names).collect();
        let (mut events, first_named) = (self.events, stacks.len());
        for event in &mut events {
            if let EventKind::Found { stack, .. } = &mut event.kind {
                *stack = placed(*stack, first_named);
            }
            for task in tasks_of(&mut event.kind) {
                *task = TaskNumbers::resolved(&self.pairs, *task);
            }
        }
        let mut tasks = self.tasks;
        for (initial, own) in &self.pairs {
            // It was known by its number in the initial namespace first.
            if let Some(task) = tasks.remove(&outside_tid(*initial)) {
                tasks.entry(*own).or_insert(task);
            }
        }
        stacks.extend(self.named);
        Trace {
            from: self.from,
            to: self.to,
            events,
            stacks,
            user_stacks: self.user_stacks,
            code: self.code,
            tasks,
            parents: self.parents,
            lost: self.lost,
            gaps: self.gaps,
            basis: Basis::Trace,
            tracer: Some(std::process::id()),
        }
    }
}

/// The tasks of an event that a tracepoint may have numbered.
fn tasks_of(kind: &mut EventKind) -> impl Iterator<Item = &mut Tid> {
    let (first, second) = match kind {
        EventKind::SwitchOut { task, next: other, .. }
        | EventKind::Waking { task, by: other, .. } => (Some(task), Some(other)),
        EventKind::SwitchIn { task } | EventKind::Sample { task, .. } => (Some(task), None),
        EventKind::Fork { .. } | EventKind::Found { .. } => (None, None),
    };
    first.into_iter().chain(second)
}

/// Stacks that were read by name are numbered from the end on while the trace is recorded.
pub(super) fn named_id(number: usize) -> StackId {
    StackId(u32::MAX - u32::try_from(number).unwrap_or(0))
}

fn placed(id: StackId, first_named: usize) -> StackId {
    let number = usize::try_from(u32::MAX - id.0).unwrap_or(usize::MAX);
    StackId(u32::try_from(first_named.saturating_add(number)).unwrap_or(0))
}
