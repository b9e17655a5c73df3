//! The records of a scheduler trace as events.

use super::copy::{NO_EVENT, TraceCopy, index, named_id, stack_of};
use super::left_stacks::{LeftStack, LeftStacks};
use super::options::{MAX_GAPS, MAX_SAMPLED, MAX_SLEEPERS, MAX_TASKS, STATES_LIMIT, TraceOptions};
use super::stacks::Stacks;
use super::states::{StackChoice, StateReader, Thread};
use super::user_stacks::UserStackTable;
use crate::process::numbers;
use crate::records::{PerfRecord, PerfSample};
use crate::task_numbers::{RELEASED, TaskNumbers};
use crate::tracepoint::{Field, TracepointFormat};
use hashbrown::HashMap;
use mw_critical_path::{
    Event, EventKind, Nanos, StackId, Task, TaskState, Thinning, Tid, UNKNOWN_OUTSIDE, UserStackId,
    WakeContext, outside_number,
};
use mw_model::Missing;
use mw_sys::monotonic_ns;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

/// `common_flags` of a tracepoint (include/linux/trace_events.h).
const IN_HARDIRQ: i64 = 0x08;
const IN_SOFTIRQ: i64 = 0x10;
/// `prev_state` of `sched_switch` (include/linux/sched.h): stopped or traced, and dead or a zombie.
const STATES_STOPPED: i64 = 0x04 | 0x08;
const STATES_DEAD: i64 = 0x10 | 0x20;
const STATES_REPORTED: i64 = 0xff;

/// Subject of a sample.
#[derive(Debug, Clone, Copy)]
pub(super) enum SampleKind {
    Clock,
    Switch(SwitchFields),
    Waking(WakingFields),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct SwitchFields {
    current: Field,
    task: Field,
    state: Field,
    next: Field,
    next_name: Field,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct WakingFields {
    current: Field,
    flags: Field,
    task: Field,
    name: Field,
}

/// Stacks that are copied at a time.
const PIECE_STACKS: usize = 1 << 9;

/// The trace as far as it has been read.
#[derive(Debug)]
pub(super) struct TraceRecorder {
    options: TraceOptions,
    from: Nanos,
    events: VecDeque<Event>,
    /// All events since then are there, and of those before the ones of tasks that were not thinned.
    complete_from: Nanos,
    thinned: BTreeSet<Tid>,
    stacks: Stacks,
    /// Number of times that events made room for others.
    compactions: u64,
    /// The stack of the record that is being read.
    addresses: Vec<u64>,
    /// Stacks that were read by name from /proc.
    named: Vec<Vec<String>>,
    tasks: HashMap<Tid, Task>,
    /// Parents of processes that were there at the start.
    parents: BTreeMap<Tid, Tid>,
    lost: u64,
    gaps: Vec<(Nanos, Nanos)>,
    cpus: HashMap<u16, LastRecord>,
    numbers: TaskNumbers,
    user_stacks: Option<UserStackTable>,
    left_stacks: LeftStacks,
    /// Tasks that ran at ticks of the clock since they were last taken.
    sampled: BTreeSet<Tid>,
}

/// The last record of a CPU.
#[derive(Debug, Clone, Copy, Default)]
struct LastRecord {
    at: Nanos,
    /// The task that has the CPU since.
    task: Tid,
    /// Next task, of a switch, by its number in the initial PID namespace.
    next: Option<Tid>,
}

impl SampleKind {
    pub(super) fn switch(format: &TracepointFormat) -> Result<Self, Missing> {
        let need = |name| need(format, "sched_switch", name);
        Ok(Self::Switch(SwitchFields {
            current: need("common_pid")?,
            task: need("prev_pid")?,
            state: need("prev_state")?,
            next: need("next_pid")?,
            next_name: need("next_comm")?,
        }))
    }

    pub(super) fn waking(format: &TracepointFormat) -> Result<Self, Missing> {
        let need = |name| need(format, "sched_waking", name);
        Ok(Self::Waking(WakingFields {
            current: need("common_pid")?,
            flags: need("common_flags")?,
            task: need("pid")?,
            name: need("comm")?,
        }))
    }
}

impl TraceRecorder {
    pub(super) fn new(options: TraceOptions, numbers: TaskNumbers) -> Self {
        let mut events = VecDeque::with_capacity(options.events);
        // Written once, so that the memory is there.
        events.resize(options.resident_events, NO_EVENT);
        events.clear();
        Self {
            options,
            from: 0,
            events,
            complete_from: 0,
            thinned: BTreeSet::new(),
            stacks: Stacks::new(options.stacks, options.resident_stacks),
            compactions: 0,
            addresses: Vec::new(),
            named: Vec::new(),
            tasks: HashMap::new(),
            parents: BTreeMap::new(),
            lost: 0,
            gaps: Vec::new(),
            cpus: HashMap::new(),
            numbers,
            user_stacks: options.user_stacks.map(UserStackTable::new),
            left_stacks: LeftStacks::default(),
            sampled: BTreeSet::new(),
        }
    }

    pub(super) fn take_sampled(&mut self) -> BTreeSet<Tid> {
        std::mem::take(&mut self.sampled)
    }

    /// Forgets everything. Memory beyond what is kept from the start is released.
    pub(super) fn clear(&mut self) {
        self.left_stacks.clear();
        let is_resident = self.compactions == 0
            && self.events.len() <= self.options.resident_events
            && self.stacks.len() <= self.options.resident_stacks;
        if !is_resident {
            self.numbers.clear();
            *self = Self::new(self.options, std::mem::take(&mut self.numbers));
            return;
        }
        (self.from, self.complete_from, self.lost) = (0, 0, 0);
        self.events.clear();
        self.thinned.clear();
        self.stacks.clear();
        self.named.clear();
        self.tasks.clear();
        self.parents.clear();
        self.gaps.clear();
        self.cpus.clear();
        self.numbers.clear();
        self.user_stacks.iter_mut().for_each(UserStackTable::clear);
    }

    /// The trace begins, and what is left of an earlier one does not count; or one that ended at `ended` goes on.
    pub(super) fn begin(&mut self, from: Nanos, ended: Nanos) {
        if self.from == 0 {
            self.from = from;
        } else {
            self.gap(ended, from);
        }
    }

    pub(super) fn take(
        &mut self,
        cpu: u16,
        record: &PerfRecord<'_>,
        origins: &HashMap<u64, SampleKind>,
    ) {
        let next = self.cpus.get_mut(&cpu).and_then(|last| last.next.take());
        match *record {
            PerfRecord::Lost { records, time_ns } => self.lose(cpu, records, time_ns),
            PerfRecord::Name { tid, name, is_exec } => {
                self.rename(tid, name);
                if let Some(user_stacks) = self.user_stacks.as_mut().filter(|_| is_exec) {
                    user_stacks.unmap_all(tid);
                }
            }
            PerfRecord::Mapping(mapping) => {
                if let Some(user_stacks) = &mut self.user_stacks {
                    user_stacks.map(&mapping);
                }
            }
            PerfRecord::SwitchIn { pid, tid, time_ns } => {
                let Some(task) = self.numbers.entering(next, tid) else { return };
                self.belongs(task, pid);
                // The tracepoint before has told it, unless it was silent.
                if next.is_none() {
                    self.push(time_ns, cpu, EventKind::SwitchIn { task });
                }
                self.cpus.entry(cpu).or_default().task = task;
            }
            PerfRecord::Fork { pid, tid, parent_tid, time_ns } => {
                self.fork(cpu, (pid, tid), parent_tid, time_ns)
            }
            PerfRecord::Sample(sample) => {
                let Some(origin) = origins.get(&sample.event).copied() else { return };
                if let Some(kind) = self.kind(origin, cpu, &sample) {
                    let user_stack = self.user_stack(origin, cpu, &sample);
                    self.push_at(sample.time_ns, cpu, user_stack, kind);
                }
            }
        }
    }

    /// A new task; one outside of this PID namespace has no number in the record.
    fn fork(&mut self, cpu: u16, (process, task): (Tid, Tid), parent: Tid, at: Nanos) {
        let parent = match parent {
            0 if self.numbers.is_nested() => UNKNOWN_OUTSIDE,
            parent => parent,
        };
        if task != 0 {
            let name = self.tasks.get(&parent).map(|parent| parent.name.clone());
            self.learn(task, || name.unwrap_or_default());
            self.belongs(task, process);
            self.push(at, cpu, EventKind::Fork { parent, child: task });
        }
    }

    fn kind(&mut self, origin: SampleKind, cpu: u16, sample: &PerfSample<'_>) -> Option<EventKind> {
        let fields = sample.fields_after_stack();
        match origin {
            SampleKind::Clock => {
                let stack = self.stack(sample.stack(), false);
                let task = self.running(cpu, sample)?;
                if self.sampled.len() < MAX_SAMPLED && outside_number(task).is_none() {
                    self.sampled.insert(task);
                }
                Some(EventKind::Sample { task, stack })
            }
            SampleKind::Switch(of) => {
                self.current(of.current, sample);
                let (initial, state) = (tid(of.next.read(fields)?)?, state(of.state.read(fields)?));
                // A task that was preempted is anywhere, and waits for nothing but a CPU.
                let stack = match state {
                    TaskState::Runnable | TaskState::Dead => StackId::default(),
                    TaskState::Waiting | TaskState::Stopped => self.stack(sample.stack(), true),
                };
                let (task, next) = (self.task(of.task, fields)?, self.numbers.task(initial));
                self.learn(next, || text(of.next_name.text(fields)));
                let last = self.cpus.entry(cpu).or_default();
                (last.task, last.next) = (next, Some(initial));
                Some(EventKind::SwitchOut { task, state, stack, next })
            }
            SampleKind::Waking(of) => {
                let stack = self.stack(sample.stack(), false);
                let by = self.current(of.current, sample);
                let task = self.task(of.task, fields)?;
                self.learn(task, || text(of.name.text(fields)));
                let context = context(of.flags.read(fields)?);
                Some(EventKind::Waking { task, by, context, stack })
            }
        }
    }

    /// The task in whose context a tracepoint was recorded.
    fn current(&mut self, number: Field, sample: &PerfSample<'_>) -> Tid {
        let initial = number.read(sample.fields_after_stack()).and_then(tid);
        let task = self.numbers.current(initial, sample.tid);
        if sample.tid != RELEASED {
            self.belongs(task, sample.pid);
        }
        task
    }

    /// The task of a field of a tracepoint.
    fn task(&self, number: Field, fields: &[u8]) -> Option<Tid> {
        Some(self.numbers.task(tid(number.read(fields)?)?))
    }

    /// The task that ran at a tick of the clock, which does not number tasks outside of this PID namespace; none on an
    /// idle CPU.
    fn running(&mut self, cpu: u16, sample: &PerfSample<'_>) -> Option<Tid> {
        let task = match sample.tid {
            0 | RELEASED if self.numbers.is_nested() => {
                self.cpus.get(&cpu).map_or(0, |last| last.task)
            }
            0 | RELEASED => 0,
            task => {
                self.belongs(task, sample.pid);
                task
            }
        };
        let is_known = |task: &Tid| *task != 0 && *task != UNKNOWN_OUTSIDE;
        Some(task).filter(is_known)
    }

    fn user_stack(&mut self, origin: SampleKind, cpu: u16, sample: &PerfSample<'_>) -> UserStackId {
        match origin {
            SampleKind::Clock => {
                let table = self.user_stacks.as_mut().filter(|_| sample.tid != RELEASED);
                table.map(|table| table.of_running(sample)).unwrap_or_default()
            }
            SampleKind::Switch(_) => self.left_stacks.take(cpu, sample.tid, sample.time_ns),
            SampleKind::Waking(_) => UserStackId::default(),
        }
    }

    /// Keeps the user stack of a task that leaves a CPU, until the switch is read.
    pub(super) fn keep_user_stack(&mut self, cpu: u16, record: &PerfRecord<'_>) {
        let PerfRecord::Sample(sample) = record else { return };
        let Some(table) = self.user_stacks.as_mut().filter(|_| sample.tid != RELEASED) else {
            return;
        };
        let id = table.id(sample);
        self.left_stacks.add(cpu, LeftStack { task: sample.tid, at: sample.time_ns, id });
    }

    fn push(&mut self, at: Nanos, cpu: u16, kind: EventKind) {
        self.push_at(at, cpu, UserStackId::default(), kind);
    }

    fn push_at(&mut self, at: Nanos, cpu: u16, user_stack: UserStackId, kind: EventKind) {
        if at < self.from {
            return;
        }
        self.cpus.entry(cpu).or_default().at = at;
        self.events.push_back(Event { at, cpu, user_stack, kind });
        // Afterwards, since its stack gets another number.
        if self.events.len() >= self.options.events {
            self.compact();
        }
    }

    /// The kernel reports losses before the next record that finds room.
    fn lose(&mut self, cpu: u16, records: u64, time_ns: Option<u64>) {
        self.lost = self.lost.saturating_add(records);
        let since = self.cpus.get(&cpu).map_or(0, |last| last.at).max(self.from);
        self.gap(since, time_ns.unwrap_or_else(monotonic_ns));
    }

    fn gap(&mut self, since: Nanos, until: Nanos) {
        if since < until && self.gaps.len() < MAX_GAPS {
            self.gaps.push((since, until));
        }
    }

    fn stack(&mut self, addresses: impl Iterator<Item = u64>, is_wait: bool) -> StackId {
        self.addresses.clear();
        self.addresses.extend(addresses);
        self.stacks.id(&self.addresses, is_wait)
    }

    /// Makes room in the older half of the events. Where nearly all of them are needed, as of a machine that forks all the
    /// time, the oldest go.
    fn compact(&mut self) {
        self.compactions += 1;
        let half = self.options.events / 2;
        let until = self.events.get(half).map_or(0, |event| event.at).max(self.complete_from);
        let (room, thinned) = (self.options.events / 8, std::mem::take(&mut self.thinned));
        let thinning = Thinning::new(self.events.iter(), until, room, thinned);
        self.events.retain(|event| thinning.keeps(event));
        (self.complete_from, self.thinned) = (until, thinning.into_thinned());
        if self.events.len() > half + half / 2 {
            self.events.drain(..half);
            self.from = self.events.front().map_or(until, |first| first.at).max(self.from);
        }
        self.forget_stacks();
    }

    /// Stacks of events that have gone make room.
    fn forget_stacks(&mut self) {
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

    /// Adds the next piece to a copy; whether there are more. Where events made room since the last piece, it begins again.
    pub(super) fn copy(&self, copy: &mut TraceCopy) -> bool {
        if copy.compactions != self.compactions {
            copy.begin_again(self.compactions);
        }
        let from = copy.events.len();
        let to = from.saturating_add(copy.piece()).min(self.events.len());
        if from < to {
            copy.events.extend(self.events.range(from..to));
            return true;
        }
        let known = copy.stacks.count();
        if known < self.stacks.len() {
            let ids = known..self.stacks.len().min(known + PIECE_STACKS);
            let ids = ids.filter_map(|id| u32::try_from(id).ok());
            copy.stacks.extend(ids.map(|id| self.stacks.get(StackId(id))));
            return true;
        }
        if let Some(user_stacks) = &self.user_stacks {
            user_stacks.copy(&mut copy.user_stacks, &mut copy.code);
        }
        copy.named.clone_from(&self.named);
        copy.parents.clone_from(&self.parents);
        copy.tasks = self.tasks.iter().map(|(tid, task)| (*tid, task.clone())).collect();
        copy.pairs = self.numbers.pairs();
        (copy.from, copy.complete_from, copy.lost) = (self.from, self.complete_from, self.lost);
        copy.thinned.clone_from(&self.thinned);
        copy.gaps.clone_from(&self.gaps);
        false
    }
}

fn need(format: &TracepointFormat, event: &str, field: &str) -> Result<Field, Missing> {
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
    let comm = mw_sys::kernel_file::read(format!("/proc/{tid}/comm")).unwrap_or_default();
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
#[path = "recorded_tests.rs"]
mod tests;
