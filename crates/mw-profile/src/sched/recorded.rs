//! The records of a scheduler trace as events.

use super::copy::{NO_EVENT, PIECE, TraceCopy, named_id};
use super::options::{MAX_GAPS, MAX_SLEEPERS, MAX_TASKS, STATES_LIMIT, TraceOptions};
use super::stacks::Stacks;
use super::states::{StackChoice, StateReader, Thread};
use crate::process::numbers;
use crate::records::{Record, Sample};
use crate::tracepoint::{Field, Format};
use hashbrown::HashMap;
use mw_critical_path::{Event, EventKind, Nanos, StackId, Task, TaskState, Tid, WakeContext};
use mw_model::Missing;
use mw_sys::monotonic_ns;
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

/// `common_flags` of a tracepoint (include/linux/trace_events.h).
const IN_HARDIRQ: i64 = 0x08;
const IN_SOFTIRQ: i64 = 0x10;
/// `prev_state` of `sched_switch` (include/linux/sched.h): stopped or traced, and dead or a zombie.
const STATES_STOPPED: i64 = 0x04 | 0x08;
const STATES_DEAD: i64 = 0x10 | 0x20;
const STATES_REPORTED: i64 = 0xff;

/// The number of a task that has ended, in the records of its last switch and wake-ups.
const ENDED: Tid = u32::MAX;

/// What a sample is of.
#[derive(Debug, Clone, Copy)]
pub(super) enum Origin {
    Clock,
    Switch(SwitchFields),
    Waking(WakingFields),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct SwitchFields {
    task: Field,
    state: Field,
    next: Field,
    next_name: Field,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct WakingFields {
    flags: Field,
    task: Field,
    name: Field,
}

/// Stacks that are copied at a time.
const PIECE_STACKS: usize = 1 << 9;

/// The trace as far as it has been read.
#[derive(Debug)]
pub(super) struct Recorded {
    options: TraceOptions,
    from: Nanos,
    events: VecDeque<Event>,
    /// Events that were dropped: the number of the first in `events`.
    dropped: u64,
    stacks: Stacks,
    /// How often stacks were numbered anew, and how many events had been recorded then.
    renumbered: u64,
    renumbered_at: u64,
    /// The stack of the record that is being read.
    addresses: Vec<u64>,
    /// Stacks that were read by name from /proc.
    named: Vec<Vec<String>>,
    tasks: HashMap<Tid, Task>,
    /// Parents of processes that were there at the start.
    parents: BTreeMap<Tid, Tid>,
    lost: u64,
    gaps: Vec<(Nanos, Nanos)>,
    /// The last record of each CPU.
    last: HashMap<u16, Nanos>,
}

impl Origin {
    pub(super) fn switch(format: &Format) -> Result<Self, Missing> {
        let need = |name| need(format, "sched_switch", name);
        Ok(Self::Switch(SwitchFields {
            task: need("prev_pid")?,
            state: need("prev_state")?,
            next: need("next_pid")?,
            next_name: need("next_comm")?,
        }))
    }

    pub(super) fn waking(format: &Format) -> Result<Self, Missing> {
        let need = |name| need(format, "sched_waking", name);
        Ok(Self::Waking(WakingFields {
            flags: need("common_flags")?,
            task: need("pid")?,
            name: need("comm")?,
        }))
    }
}

impl Recorded {
    pub(super) fn new(options: TraceOptions) -> Self {
        let mut events = VecDeque::with_capacity(options.events);
        // Written once, so that the memory is there.
        events.resize(options.resident_events, NO_EVENT);
        events.clear();
        Self {
            options,
            from: 0,
            events,
            dropped: 0,
            stacks: Stacks::new(options.stacks, options.resident_stacks),
            renumbered: 0,
            renumbered_at: 0,
            addresses: Vec::new(),
            named: Vec::new(),
            tasks: HashMap::new(),
            parents: BTreeMap::new(),
            lost: 0,
            gaps: Vec::new(),
            last: HashMap::new(),
        }
    }

    /// Forgets everything. Memory beyond what is kept from the start is given back.
    pub(super) fn clear(&mut self) {
        let is_resident = self.dropped == 0
            && self.events.len() <= self.options.resident_events
            && self.stacks.len() <= self.options.resident_stacks;
        if !is_resident {
            *self = Self::new(self.options);
            return;
        }
        (self.from, self.lost) = (0, 0);
        self.events.clear();
        self.stacks.clear();
        self.named.clear();
        self.tasks.clear();
        self.parents.clear();
        self.gaps.clear();
        self.last.clear();
    }

    /// The trace begins, and what is left of an earlier one does not count; or one that ended at `ended` goes on.
    pub(super) fn begin(&mut self, from: Nanos, ended: Nanos) {
        if self.from == 0 {
            self.from = from;
        } else {
            self.gap(ended, from);
        }
    }

    pub(super) fn take(&mut self, cpu: u16, record: &Record<'_>, origins: &HashMap<u64, Origin>) {
        match *record {
            Record::Lost { records, time_ns } => self.lose(cpu, records, time_ns),
            Record::Name { tid, name } => self.rename(tid, name),
            Record::SwitchIn { pid, tid, time_ns } => {
                self.belongs(tid, pid);
                self.push(time_ns, cpu, EventKind::SwitchIn { task: tid });
            }
            Record::Fork { pid, tid, parent_tid, time_ns } => {
                let name = self.tasks.get(&parent_tid).map(|parent| parent.name.clone());
                self.learn(tid, || name.unwrap_or_default());
                self.belongs(tid, pid);
                self.push(time_ns, cpu, EventKind::Fork { parent: parent_tid, child: tid });
            }
            Record::Sample(mut sample) => {
                if sample.tid == ENDED {
                    sample.tid = 0;
                } else {
                    self.belongs(sample.tid, sample.pid);
                }
                if let Some(kind) = origins.get(&sample.event).and_then(|o| self.kind(*o, &sample))
                {
                    self.push(sample.time_ns, cpu, kind);
                }
            }
        }
    }

    fn kind(&mut self, origin: Origin, sample: &Sample<'_>) -> Option<EventKind> {
        let is_wait = matches!(origin, Origin::Switch(_));
        let stack = self.stack(sample.stack(), is_wait);
        let fields = sample.fields_after_stack();
        match origin {
            Origin::Clock if sample.tid == 0 => None,
            Origin::Clock => Some(EventKind::Sample { task: sample.tid, stack }),
            Origin::Switch(of) => {
                let next = tid(of.next.read(fields)?)?;
                self.learn(next, || text(of.next_name.text(fields)));
                let (task, state) = (tid(of.task.read(fields)?)?, state(of.state.read(fields)?));
                Some(EventKind::SwitchOut { task, state, stack, next })
            }
            Origin::Waking(of) => {
                let task = tid(of.task.read(fields)?)?;
                self.learn(task, || text(of.name.text(fields)));
                let context = context(of.flags.read(fields)?);
                Some(EventKind::Waking { task, by: sample.tid, context, stack })
            }
        }
    }

    fn push(&mut self, at: Nanos, cpu: u16, kind: EventKind) {
        if at < self.from {
            return;
        }
        if self.events.len() >= self.options.events {
            self.events.pop_front();
            self.dropped += 1;
            self.from = self.events.front().map_or(at, |first| first.at).max(self.from);
        }
        self.last.insert(cpu, at);
        self.events.push_back(Event { at, cpu, kind });
    }

    /// The kernel reports losses before the next record that finds room.
    fn lose(&mut self, cpu: u16, records: u64, time_ns: Option<u64>) {
        self.lost = self.lost.saturating_add(records);
        let since = self.last.get(&cpu).copied().unwrap_or(self.from);
        self.gap(since, time_ns.unwrap_or_else(monotonic_ns));
    }

    fn gap(&mut self, since: Nanos, until: Nanos) {
        if since < until && self.gaps.len() < MAX_GAPS {
            self.gaps.push((since, until));
        }
    }

    fn stack(&mut self, addresses: impl Iterator<Item = u64>, is_wait: bool) -> StackId {
        if self.stacks.is_full() {
            self.forget_stacks();
        }
        self.addresses.clear();
        self.addresses.extend(addresses);
        self.stacks.id(&self.addresses, is_wait)
    }

    /// Makes room for stacks: those of events that were dropped go. It looks at all events, so that it is done again
    /// only when as many as a quarter of them are new.
    fn forget_stacks(&mut self) {
        let recorded = self.dropped.saturating_add(self.events.len() as u64);
        let since = recorded.saturating_sub(self.renumbered_at);
        if self.dropped == 0 || since < self.options.events as u64 / 4 {
            return;
        }
        (self.renumbered, self.renumbered_at) = (self.renumbered + 1, recorded);
        let mut used = vec![false; self.stacks.len()];
        for event in &mut self.events {
            let slot = stack_of(&mut event.kind).and_then(|id| used.get_mut(index(*id)));
            slot.into_iter().for_each(|used| *used = true);
        }
        let renumbered = self.stacks.retain(|id| used.get(index(id)).copied().unwrap_or(false));
        for event in &mut self.events {
            if let Some(id) = stack_of(&mut event.kind) {
                *id = renumbered.get(index(*id)).copied().unwrap_or_default();
            }
        }
    }

    fn learn(&mut self, tid: Tid, name: impl FnOnce() -> String) {
        if tid != 0 && !self.tasks.contains_key(&tid) && self.tasks.len() < MAX_TASKS {
            self.tasks.insert(tid, Task { name: name(), process: 0 });
        }
    }

    fn rename(&mut self, tid: Tid, name: &[u8]) {
        self.learn(tid, String::new);
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.name = text(name);
        }
    }

    fn belongs(&mut self, tid: Tid, process: Tid) {
        if process == 0 {
            return;
        }
        if !self.tasks.contains_key(&tid) {
            self.learn(tid, || comm(tid));
        }
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.process = process;
        }
    }

    /// Notes what tasks wait in, from before the trace began: those of `processes`, then others that are blocked
    /// or stopped, then programs that sleep, which may serve the request.
    pub(super) fn find_states(&mut self, states: &mut StateReader, processes: &[Tid]) {
        let deadline = Instant::now() + STATES_LIMIT;
        for (pid, threads) in states.read(processes, StackChoice::All, deadline) {
            threads.into_iter().for_each(|thread| self.note(pid, thread));
        }
        let others = numbers("/proc", deadline).filter(|pid| !processes.contains(pid));
        let others: Vec<Tid> = others.collect();
        let (mut sleepers, mut sleeping): (Vec<Tid>, usize) = (Vec::new(), 0);
        for (pid, threads) in states.read(&others, StackChoice::OfBlocked, deadline) {
            let of_process = threads.iter().filter(|thread| thread.is_sleeping_program()).count();
            if of_process > 0 && sleeping + of_process <= MAX_SLEEPERS {
                sleeping += of_process;
                sleepers.push(pid);
            }
            let others = threads.into_iter().filter(|thread| !thread.is_sleeping_program());
            others.for_each(|thread| self.note(pid, thread));
        }
        for (pid, threads) in states.read(&sleepers, StackChoice::All, deadline) {
            let sleeping = threads.into_iter().filter(Thread::is_sleeping_program);
            sleeping.for_each(|thread| self.note(pid, thread));
        }
    }

    /// Notes the state of a thread.
    fn note(&mut self, pid: Tid, thread: Thread) {
        let Thread { tid, stat, stack } = thread;
        if self.parents.len() < MAX_TASKS {
            self.parents.insert(pid, stat.parent);
        }
        let state = match stat.state {
            'R' => TaskState::Runnable,
            'T' | 't' => TaskState::Stopped,
            'D' => TaskState::Waiting,
            _ if stack.is_some() => TaskState::Waiting,
            _ => return,
        };
        self.learn(tid, || stat.comm);
        self.belongs(tid, pid);
        let id = named_id(self.named.len());
        self.named.push(stack.unwrap_or_default());
        self.push(monotonic_ns(), 0, EventKind::Found { task: tid, state, stack: id });
    }

    /// Adds the next piece to a copy; whether there are more. Where stacks were numbered anew since the last piece,
    /// it begins again.
    pub(super) fn copy(&self, copy: &mut TraceCopy) -> bool {
        if copy.renumbered != self.renumbered {
            copy.begin_again(self.renumbered);
        }
        let from = usize::try_from(copy.next.saturating_sub(self.dropped)).unwrap_or(0);
        let to = from.saturating_add(PIECE).min(self.events.len());
        if from < to {
            copy.events.extend(self.events.range(from..to));
            copy.next = self.dropped.saturating_add(to as u64);
            return true;
        }
        let known = copy.stacks.count();
        if known < self.stacks.len() {
            let ids = known..self.stacks.len().min(known + PIECE_STACKS);
            let ids = ids.filter_map(|id| u32::try_from(id).ok());
            copy.stacks.extend(ids.map(|id| self.stacks.get(StackId(id))));
            return true;
        }
        copy.named.clone_from(&self.named);
        copy.parents.clone_from(&self.parents);
        copy.tasks = self.tasks.iter().map(|(tid, task)| (*tid, task.clone())).collect();
        (copy.from, copy.lost) = (self.from, self.lost);
        copy.gaps.clone_from(&self.gaps);
        false
    }
}

/// The stack of an event, but for those that were read by name.
fn stack_of(kind: &mut EventKind) -> Option<&mut StackId> {
    match kind {
        EventKind::SwitchOut { stack, .. }
        | EventKind::Waking { stack, .. }
        | EventKind::Sample { stack, .. } => Some(stack),
        EventKind::SwitchIn { .. } | EventKind::Fork { .. } | EventKind::Found { .. } => None,
    }
}

fn index(id: StackId) -> usize {
    usize::try_from(id.0).unwrap_or(usize::MAX)
}

fn need(format: &Format, event: &str, field: &str) -> Result<Field, Missing> {
    let lacks = || Missing::failed(format!("sched/{event}"), format!("has no field {field}"));
    format.field(field).ok_or_else(lacks)
}

fn tid(number: i64) -> Option<Tid> {
    Tid::try_from(number).ok()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn comm(tid: Tid) -> String {
    let comm = std::fs::read(format!("/proc/{tid}/comm")).unwrap_or_default();
    text(comm.strip_suffix(b"\n").unwrap_or(&comm))
}

fn state(state: i64) -> TaskState {
    if state & STATES_REPORTED == 0 {
        TaskState::Runnable
    } else if state & STATES_STOPPED != 0 {
        TaskState::Stopped
    } else if state & STATES_DEAD != 0 {
        TaskState::Dead
    } else {
        TaskState::Waiting
    }
}

fn context(flags: i64) -> WakeContext {
    if flags & IN_HARDIRQ != 0 {
        WakeContext::HardIrq
    } else if flags & IN_SOFTIRQ != 0 {
        WakeContext::SoftIrq
    } else {
        WakeContext::Task
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More stacks than are kept, but few of them of events that are.
    #[test]
    fn in_a_long_trace_the_stacks_of_dropped_events_make_room() {
        let options = TraceOptions { events: 40, stacks: 64, ..TraceOptions::RECORDER };
        let options = TraceOptions { resident_events: 0, resident_stacks: 0, ..options };
        let mut recorded = Recorded::new(options);
        let mut begun = TraceCopy::default();
        for at in 1..1000 {
            let stack = recorded.stack([at, at + 1].into_iter(), false);
            recorded.push(at, 0, EventKind::Sample { task: 1, stack });
            if at == 30 {
                assert!(recorded.copy(&mut begun));
            }
        }
        assert!(recorded.renumbered > 10, "{}", recorded.renumbered);
        for mut copy in [begun, TraceCopy::default()] {
            while recorded.copy(&mut copy) {}
            let stacks: Vec<&[u64]> = copy.stacks.iter().collect();
            assert_eq!(copy.events.len(), 40);
            for event in &copy.events {
                let EventKind::Sample { stack, .. } = event.kind else { panic!("{event:?}") };
                assert_eq!(stacks[index(stack)], [event.at, event.at + 1]);
            }
        }
    }
}
