//! Scheduler trace: who ran, waited and woke whom, with kernel stacks, for the critical path of a request.
//!
//! On each CPU one ring takes `sched_switch`, `sched_waking`, a sampling clock, and the kernel's own records of
//! switches, forks and names. The records of switches are needed beside the tracepoint: on some virtual machines
//! the tracepoints of an idle task are silent, and with them every switch that begins in it.
//!
//! Tracing costs 10 to 20% of a program that switches 50,000 times a second, so that events are opened
//! disabled and enabled for as long as something is to be explained.

use crate::blocked::functions;
use crate::open::{cpus, raise_descriptors, refused, ring_bytes, tracefs, wake_bytes};
use crate::process::{Stat, Text, numbers};
use crate::profiler::now_ns;
use crate::records::{Record, Sample, records};
use crate::symbols::Symbols;
use crate::tracepoint::{Field, Format};
use mw_critical_path::{
    Event, EventKind, Nanos, StackId, Task, TaskState, Tid, Trace, WakeContext,
};
use mw_model::Missing;
use mw_sys::{PerfAttr, PerfEvent, PerfRing, PerfSource, SamplePeriod};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Rate of the sampling clock, which tells how a task ran; prime, so that it follows no periodic task.
const SAMPLES_HZ: u32 = 97;
/// Frames of a stack; deeper ones lose their outermost.
const STACK_FRAMES: u16 = 40;
/// Memory of all rings, and of one.
const RINGS_BYTES: usize = 64 << 20;
const MAX_RING_BYTES: usize = 4 << 20;
/// Events that are kept, of 32 bytes; older ones are dropped.
const MAX_EVENTS: usize = 1 << 20;
const MAX_STACKS: usize = 1 << 16;
const MAX_TASKS: usize = 1 << 16;
/// How long reading the states of all tasks may take at the start.
const STATES_LIMIT: Duration = Duration::from_millis(100);
/// `common_flags` of a tracepoint (include/linux/trace_events.h).
const IN_HARDIRQ: i64 = 0x08;
const IN_SOFTIRQ: i64 = 0x10;
/// `prev_state` of `sched_switch` (include/linux/sched.h): stopped or traced, and dead or a zombie.
const STATES_STOPPED: i64 = 0x04 | 0x08;
const STATES_DEAD: i64 = 0x10 | 0x20;
const STATES_REPORTED: i64 = 0xff;

/// Traces the scheduler of all CPUs from [`Self::start`] to [`Self::finish`].
#[derive(Debug)]
pub struct SchedTracer {
    cpus: Vec<Cpu>,
    origins: HashMap<u64, Origin>,
    bytes: Vec<u8>,
    recorded: Recorded,
}

/// What is open on one CPU.
#[derive(Debug)]
struct Cpu {
    number: u16,
    ring: PerfRing,
    /// The first owns the ring.
    events: Vec<PerfEvent>,
}

/// What a sample is of.
#[derive(Debug, Clone, Copy)]
enum Origin {
    Clock,
    Switch(SwitchFields),
    Waking(WakingFields),
}

#[derive(Debug, Clone, Copy)]
struct SwitchFields {
    task: Field,
    state: Field,
    next: Field,
    next_name: Field,
}

#[derive(Debug, Clone, Copy)]
struct WakingFields {
    flags: Field,
    task: Field,
    name: Field,
}

/// The trace as far as it has been read.
#[derive(Debug, Default)]
struct Recorded {
    from: Nanos,
    events: VecDeque<Event>,
    stacks: Vec<Vec<u64>>,
    stack_ids: HashMap<Vec<u64>, StackId>,
    /// Stacks that were read by name from /proc.
    named: Vec<Vec<String>>,
    tasks: HashMap<Tid, Task>,
    lost: u64,
}

impl SchedTracer {
    /// Opens all events, disabled.
    ///
    /// # Errors
    /// What this machine or the caller lacks, and what would make it work.
    pub fn open() -> Result<Self, Missing> {
        let numbers = cpus()?;
        let (switch, waking) = (format("sched_switch")?, format("sched_waking")?);
        let points = [Origin::switch(&switch)?, Origin::waking(&waking)?];
        raise_descriptors(numbers.len(), 3);
        let bytes = ring_bytes(numbers.len(), RINGS_BYTES, MAX_RING_BYTES);
        let mut tracer = Self {
            cpus: Vec::new(),
            origins: HashMap::new(),
            bytes: Vec::new(),
            recorded: Recorded { stacks: vec![Vec::new()], ..Recorded::default() },
        };
        let refused = |error| refused("scheduler events", &error);
        for number in numbers {
            let clock = PerfEvent::open(&clock_attr(bytes), number).map_err(refused)?;
            let ring = PerfRing::map(&clock, bytes).map_err(refused)?;
            tracer.origins.insert(clock.id(), Origin::Clock);
            let mut events = vec![clock];
            for (id, origin) in [switch.id, waking.id].into_iter().zip(points) {
                let event = PerfEvent::open(&point_attr(id, bytes), number).map_err(refused)?;
                if let Some(owner) = events.first() {
                    event.record_into(owner).map_err(refused)?;
                }
                tracer.origins.insert(event.id(), origin);
                events.push(event);
            }
            let number = u16::try_from(number).unwrap_or(u16::MAX);
            tracer.cpus.push(Cpu { number, ring, events });
        }
        Ok(tracer)
    }

    /// Begins to trace. States and stacks that were there before are read from /proc: of tasks that are
    /// blocked or stopped, and of all threads of `processes`.
    pub fn start(&mut self, processes: &[Tid]) {
        self.recorded.from = now_ns();
        for event in self.cpus.iter().flat_map(|cpu| &cpu.events) {
            // An event that is open can be enabled.
            let _ = event.enable();
        }
        self.recorded.find_states(processes);
    }

    /// Waits until `other` is readable, a ring is half full or the time is over, and reads the rings. Whether
    /// `other` is readable.
    pub fn wait(&mut self, other: Option<BorrowedFd<'_>>, limit: Duration) -> bool {
        let owners = self.cpus.iter().filter_map(|cpu| cpu.events.first()).map(AsFd::as_fd);
        let mut fds: Vec<_> = other
            .into_iter()
            .chain(owners)
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let timeout = Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(1),
            tv_nsec: limit.subsec_nanos().into(),
        };
        // A signal ends it early, which harms nothing.
        let _ = poll(&mut fds, Some(&timeout));
        let ready = other.is_some() && fds.first().is_some_and(|fd| !fd.revents().is_empty());
        self.drain();
        ready
    }

    /// Ends the trace and looks up the names of functions, which takes 50 to 200 ms of CPU time.
    pub fn finish(mut self) -> Trace {
        for event in self.cpus.iter().flat_map(|cpu| &cpu.events) {
            // An event that is open can be disabled.
            let _ = event.disable();
        }
        self.drain();
        self.recorded.into_trace(now_ns())
    }

    fn drain(&mut self) {
        for Cpu { number, ring, .. } in &mut self.cpus {
            self.bytes.clear();
            ring.drain(&mut self.bytes);
            for record in records(&self.bytes) {
                self.recorded.take(*number, &record, &self.origins);
            }
        }
    }
}

impl Origin {
    fn switch(format: &Format) -> Result<Self, Missing> {
        let need = |name| need(format, "sched_switch", name);
        Ok(Self::Switch(SwitchFields {
            task: need("prev_pid")?,
            state: need("prev_state")?,
            next: need("next_pid")?,
            next_name: need("next_comm")?,
        }))
    }

    fn waking(format: &Format) -> Result<Self, Missing> {
        let need = |name| need(format, "sched_waking", name);
        Ok(Self::Waking(WakingFields {
            flags: need("common_flags")?,
            task: need("pid")?,
            name: need("comm")?,
        }))
    }
}

impl Recorded {
    fn take(&mut self, cpu: u16, record: &Record<'_>, origins: &HashMap<u64, Origin>) {
        match *record {
            Record::Lost(records) => self.lost = self.lost.saturating_add(records),
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
            Record::Sample(sample) => {
                self.belongs(sample.tid, sample.pid);
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
        if self.events.len() >= MAX_EVENTS {
            self.events.pop_front();
            self.from = self.events.front().map_or(at, |first| first.at).max(self.from);
        }
        self.events.push_back(Event { at, cpu, kind });
    }

    fn stack(&mut self, sample: &Sample<'_>) -> StackId {
        let addresses: Vec<u64> = sample.stack().collect();
        if addresses.is_empty() {
            return StackId::default();
        }
        if let Some(id) = self.stack_ids.get(&addresses) {
            return *id;
        }
        if self.stacks.len() >= MAX_STACKS {
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

    /// Reads what tasks wait in, from before the trace began.
    fn find_states(&mut self, processes: &[Tid]) {
        let deadline = Instant::now() + STATES_LIMIT;
        let mut text = Text::default();
        for pid in numbers("/proc", deadline) {
            let all = processes.contains(&pid);
            for tid in numbers(&format!("/proc/{pid}/task"), deadline) {
                self.find_state(pid, tid, all, &mut text);
            }
        }
    }

    fn find_state(&mut self, pid: Tid, tid: Tid, all: bool, text: &mut Text) {
        let dir = format!("/proc/{pid}/task/{tid}");
        let Some(stat) = text.read(&format!("{dir}/stat")).and_then(Stat::parse) else { return };
        let state = match stat.state {
            'R' => TaskState::Runnable,
            'T' | 't' => TaskState::Stopped,
            'D' => TaskState::Waiting,
            _ if all => TaskState::Waiting,
            _ => return,
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
        self.push(self.from, 0, EventKind::Found { task: tid, state, stack });
    }

    fn into_trace(mut self, to: Nanos) -> Trace {
        let mut symbols = Symbols::default();
        // Without names every wait is of an unknown kind, which the path says.
        let _ = symbols.learn(self.stacks.iter().flatten().copied());
        let names = |stack: &Vec<u64>| -> Vec<String> {
            stack.iter().map(|address| symbols.name(*address).to_owned()).collect()
        };
        let mut stacks: Vec<Vec<String>> = self.stacks.iter().map(names).collect();
        let first_named = stacks.len();
        stacks.append(&mut self.named);
        let place = |stack: &mut StackId| {
            if usize::try_from(stack.0).is_ok_and(|id| id >= first_named) {
                let index = usize::try_from(u32::MAX - stack.0).unwrap_or(usize::MAX);
                stack.0 = u32::try_from(first_named.saturating_add(index)).unwrap_or(0);
            }
        };
        for event in &mut self.events {
            if let EventKind::Found { stack, .. } = &mut event.kind {
                place(stack);
            }
        }
        Trace {
            from: self.from,
            to,
            events: self.events.into(),
            stacks,
            tasks: self.tasks.into_iter().collect(),
            lost: self.lost,
        }
    }
}

fn clock_attr(ring_bytes: usize) -> PerfAttr {
    PerfAttr {
        source: PerfSource::CpuClock,
        period: SamplePeriod::Hz(SAMPLES_HZ),
        stack_frames: Some(STACK_FRAMES),
        fields: false,
        user_mode: true,
        names: true,
        scheduling: true,
        wake_bytes: wake_bytes(ring_bytes),
    }
}

fn point_attr(id: u64, ring_bytes: usize) -> PerfAttr {
    PerfAttr {
        source: PerfSource::Tracepoint(id),
        period: SamplePeriod::Occurrences(1),
        stack_frames: Some(STACK_FRAMES),
        fields: true,
        user_mode: true,
        names: false,
        scheduling: false,
        wake_bytes: wake_bytes(ring_bytes),
    }
}

fn format(name: &str) -> Result<Format, Missing> {
    let path = tracefs()?.join("events/sched").join(name).join("format");
    let what = path.display().to_string();
    let text = std::fs::read_to_string(&path)
        .map_err(|error| Missing::failed(what.clone(), error.to_string()))?;
    Format::parse(&text).ok_or_else(|| Missing::failed(what, "has no line `ID:`"))
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
