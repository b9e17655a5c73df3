//! A copy of what was recorded.

use crate::symbols::{Symbols, UNKNOWN};
use crate::task_numbers::TaskNumbers;
use hashbrown::{HashMap, HashSet};
use mw_critical_path::{
    Basis, CodeMapping, Event, EventKind, Nanos, NeededEvents, StackId, Task, Tid, Trace,
    UserStack, UserStackId, outside_tid,
};
use std::collections::{BTreeMap, BTreeSet};

/// Events that are copied at a time: within 100 µs, or a few milliseconds on an emulated CPU.
const PIECE: usize = 1 << 12;

/// Times that a copy begins again with pieces twice as large: in the end all is one.
const MAX_DOUBLINGS: u32 = 8;

pub(super) const NO_EVENT: Event =
    Event { at: 0, cpu: 0, user_stack: UserStackId(0), kind: EventKind::SwitchIn { task: 0 } };

/// Copy of a trace so far, in pieces ([`super::SchedTracer::copy`]), so that reading the rings is
/// held up for as long as one piece takes. Names come afterwards.
#[derive(Debug, Default)]
pub struct TraceCopy {
    pub(super) from: Nanos,
    pub(super) to: Nanos,
    pub(super) complete_from: Nanos,
    pub(super) thinned: BTreeSet<Tid>,
    pub(super) events: Vec<Event>,
    pub(super) stacks: CopiedStacks,
    /// Number of times that events had made room.
    pub(super) compactions: u64,
    /// Number of times that it began again.
    begun_again: u32,
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
    pub(super) fn begin_again(&mut self, compactions: u64) {
        if !self.events.is_empty() {
            self.begun_again += 1;
        }
        self.events.clear();
        self.stacks.addresses.clear();
        self.stacks.ends.clear();
        self.compactions = compactions;
    }

    /// Events of the next piece: the more, the more often it had to begin again.
    pub(super) fn piece(&self) -> usize {
        PIECE << self.begun_again.min(MAX_DOUBLINGS)
    }

    /// Has the memory of the next piece present before somebody waits for it to be written.
    pub fn make_room(&mut self) {
        let filled = self.events.len();
        self.events.resize(filled + self.piece(), NO_EVENT);
        self.events.truncate(filled);
    }

    /// The trace of what happened in that time, and of what went on at its beginning, with the names of functions: 50 to
    /// 200 ms of CPU time where some are new. Names of stacks take most of the time, so that others have none.
    pub fn into_trace(self, (since, until): (Nanos, Nanos), symbols: &mut Symbols) -> Trace {
        let (mut events, first_named) = (self.events, self.stacks.count());
        for event in &mut events {
            if let EventKind::Found { stack, .. } = &mut event.kind {
                *stack = placed(*stack, first_named);
            }
            for task in tasks_of(&mut event.kind) {
                *task = TaskNumbers::resolved(&self.pairs, *task);
            }
        }
        let needed = NeededEvents::new(events.iter(), since);
        events.retain(|event| event.at <= until && needed.has(event));
        let mut stacks = named(&self.stacks, &mut events, symbols);
        let thinned = self.thinned.iter().map(|task| TaskNumbers::resolved(&self.pairs, *task));
        let (thinned, mut tasks) = (thinned.collect(), self.tasks);
        for (initial, own) in &self.pairs {
            // It was known by its number in the initial namespace first.
            if let Some(task) = tasks.remove(&outside_tid(*initial)) {
                tasks.entry(*own).or_insert(task);
            }
        }
        stacks.extend(self.named);
        Trace {
            from: self.from,
            complete_from: self.complete_from,
            thinned,
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

/// The functions of the stacks that events have; others are empty.
fn named(stacks: &CopiedStacks, events: &mut [Event], symbols: &mut Symbols) -> Vec<Vec<String>> {
    let mut used = vec![false; stacks.count()];
    for id in events.iter_mut().filter_map(|event| stack_of(&mut event.kind)) {
        if let Some(used) = used.get_mut(index(*id)) {
            *used = true;
        }
    }
    let stacks =
        || used.iter().zip(stacks.iter()).map(|(used, stack)| if *used { stack } else { &[] });
    // Each address is in many stacks.
    let addresses: HashSet<u64> = stacks().flatten().copied().collect();
    // Without names every wait is of an unknown kind, which the path says.
    let _ = symbols.learn(addresses.iter().copied());
    let known: HashMap<u64, &str> =
        addresses.into_iter().map(|address| (address, symbols.name(address))).collect();
    let name = |address: &u64| known.get(address).copied().unwrap_or(UNKNOWN).to_owned();
    stacks().map(|stack| stack.iter().map(name).collect()).collect()
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

/// The stack of an event, but for those that were read by name.
pub(super) fn stack_of(kind: &mut EventKind) -> Option<&mut StackId> {
    match kind {
        EventKind::SwitchOut { stack, .. }
        | EventKind::Waking { stack, .. }
        | EventKind::Sample { stack, .. } => Some(stack),
        EventKind::SwitchIn { .. } | EventKind::Fork { .. } | EventKind::Found { .. } => None,
    }
}

pub(super) fn index(id: StackId) -> usize {
    usize::try_from(id.0).unwrap_or(usize::MAX)
}

/// Stacks that were read by name are numbered from the end on while the trace is recorded.
pub(super) fn named_id(number: usize) -> StackId {
    StackId(u32::MAX - u32::try_from(number).unwrap_or(0))
}

fn placed(id: StackId, first_named: usize) -> StackId {
    let number = usize::try_from(u32::MAX - id.0).unwrap_or(usize::MAX);
    StackId(u32::try_from(first_named.saturating_add(number)).unwrap_or(0))
}
