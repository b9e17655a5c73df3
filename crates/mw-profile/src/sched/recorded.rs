//! The records of a scheduler trace as events.

use super::options::{MAX_GAPS, MAX_SLEEPERS, MAX_TASKS, STATES_LIMIT, TraceOptions};
use crate::process::{Stat, Text, functions, numbers};
use crate::records::{Record, Sample};
use crate::symbols::Symbols;
use crate::tracepoint::{Field, Format};
use mw_critical_path::{
    Basis, Event, EventKind, Nanos, StackId, Task, TaskState, Tid, Trace, WakeContext,
};
use mw_model::Missing;
use mw_sys::monotonic_ns;
use std::collections::{HashMap, VecDeque};
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

/// The parent of the kernel's own threads.
const KTHREADD: Tid = 2;

/// What was found of a thread.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// A program's thread sleeps, and its stack was not read.
    ProgramSleeps,
    Other,
}

/// The trace as far as it has been read.
#[derive(Debug)]
pub(super) struct Recorded {
    options: TraceOptions,
    from: Nanos,
    events: VecDeque<Event>,
    stacks: Vec<Vec<u64>>,
    stack_ids: HashMap<Vec<u64>, StackId>,
    /// Stacks that were read by name from /proc.
    named: Vec<Vec<String>>,
    tasks: HashMap<Tid, Task>,
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
        Self {
            options,
            from: 0,
            events: VecDeque::new(),
            stacks: vec![Vec::new()],
            stack_ids: HashMap::new(),
            named: Vec::new(),
            tasks: HashMap::new(),
            lost: 0,
            gaps: Vec::new(),
            last: HashMap::new(),
        }
    }

    pub(super) fn options(&self) -> TraceOptions {
        self.options
    }

    /// The trace begins; what is left of an earlier one does not count.
    pub(super) fn begin(&mut self, from: Nanos) {
        self.from = from;
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
        let stack = self.stack(sample);
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
            self.from = self.events.front().map_or(at, |first| first.at).max(self.from);
        }
        self.last.insert(cpu, at);
        self.events.push_back(Event { at, cpu, kind });
    }

    /// The kernel reports losses before the next record that finds room.
    fn lose(&mut self, cpu: u16, records: u64, time_ns: Option<u64>) {
        self.lost = self.lost.saturating_add(records);
        let since = self.last.get(&cpu).copied().unwrap_or(self.from);
        let until = time_ns.unwrap_or_else(monotonic_ns);
        if since < until && self.gaps.len() < MAX_GAPS {
            self.gaps.push((since, until));
        }
    }

    fn stack(&mut self, sample: &Sample<'_>) -> StackId {
        let addresses: Vec<u64> = sample.stack().collect();
        if addresses.is_empty() {
            return StackId::default();
        }
        if let Some(id) = self.stack_ids.get(&addresses) {
            return *id;
        }
        if self.stacks.len() >= self.options.stacks {
            return StackId::default();
        }
        let id = StackId(u32::try_from(self.stacks.len()).unwrap_or(0));
        self.stacks.push(addresses.clone());
        self.stack_ids.insert(addresses, id);
        id
    }

    fn learn(&mut self, tid: Tid, name: impl FnOnce() -> String) {
        if tid != 0 && self.tasks.len() < MAX_TASKS {
            self.tasks.entry(tid).or_insert_with(|| Task { name: name(), process: 0 });
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
        self.learn(tid, || comm(tid));
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.process = process;
        }
    }

    /// Reads what tasks wait in, from before the trace began: those of `processes`, then others that are blocked
    /// or stopped, then programs that sleep, which may serve the request.
    pub(super) fn find_states(&mut self, processes: &[Tid]) {
        let deadline = Instant::now() + STATES_LIMIT;
        let mut text = Text::default();
        let threads = |pid: Tid| numbers(&format!("/proc/{pid}/task"), deadline);
        for pid in processes {
            for tid in threads(*pid) {
                self.find_state(*pid, tid, true, &mut text);
            }
        }
        let mut sleepers: Vec<(Tid, Tid)> = Vec::new();
        for pid in numbers("/proc", deadline).filter(|pid| !processes.contains(pid)) {
            let of_process = threads(pid).map(|tid| (pid, tid));
            sleepers.extend(of_process.filter(|(pid, tid)| {
                self.find_state(*pid, *tid, false, &mut text) == Found::ProgramSleeps
            }));
        }
        for (pid, tid) in sleepers.into_iter().take(MAX_SLEEPERS) {
            if Instant::now() < deadline {
                self.find_state(pid, tid, true, &mut text);
            }
        }
    }

    /// Notes the state of a thread; of one that sleeps only where `all` are wanted.
    fn find_state(&mut self, pid: Tid, tid: Tid, all: bool, text: &mut Text) -> Found {
        let dir = format!("/proc/{pid}/task/{tid}");
        let Some(stat) = text.read(&format!("{dir}/stat")).and_then(Stat::parse) else {
            return Found::Other;
        };
        let state = match stat.state {
            'R' => TaskState::Runnable,
            'T' | 't' => TaskState::Stopped,
            'D' => TaskState::Waiting,
            _ if all => TaskState::Waiting,
            'S' if pid != KTHREADD && stat.parent != KTHREADD => return Found::ProgramSleeps,
            _ => return Found::Other,
        };
        self.learn(tid, || stat.comm);
        self.belongs(tid, pid);
        let stack = match state {
            TaskState::Runnable => Vec::new(),
            _ => text.read(&format!("{dir}/stack")).map(functions).unwrap_or_default(),
        };
        // Stacks that have names already follow those of addresses; `into_trace` numbers them anew.
        self.named.push(stack);
        let named = u32::try_from(self.named.len()).unwrap_or(0);
        let stack = StackId(u32::MAX - named + 1);
        self.push(monotonic_ns(), 0, EventKind::Found { task: tid, state, stack });
        Found::Other
    }

    /// A copy with names.
    pub(super) fn trace(&self, to: Nanos, symbols: &mut Symbols) -> Trace {
        // Without names every wait is of an unknown kind, which the path says.
        let _ = symbols.learn(self.stacks.iter().flatten().copied());
        let names = |stack: &Vec<u64>| -> Vec<String> {
            stack.iter().map(|address| symbols.name(*address).to_owned()).collect()
        };
        let mut stacks: Vec<Vec<String>> = self.stacks.iter().map(names).collect();
        let first_named = stacks.len();
        stacks.extend(self.named.iter().cloned());
        let placed = |event: &Event| {
            let mut event = *event;
            if let EventKind::Found { stack, .. } = &mut event.kind {
                let index = usize::try_from(u32::MAX - stack.0).unwrap_or(usize::MAX);
                stack.0 = u32::try_from(first_named.saturating_add(index)).unwrap_or(0);
            }
            event
        };
        Trace {
            from: self.from,
            to,
            events: self.events.iter().map(placed).collect(),
            stacks,
            tasks: self.tasks.iter().map(|(tid, task)| (*tid, task.clone())).collect(),
            lost: self.lost,
            gaps: self.gaps.clone(),
            basis: Basis::Trace,
            tracer: Some(std::process::id()),
        }
    }
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
