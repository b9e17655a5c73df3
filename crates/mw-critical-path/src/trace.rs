//! Recorded events of the scheduler.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Generations of forks that are followed.
const MAX_FOREBEARS: usize = 8;

/// A point in time or a duration in nanoseconds (`CLOCK_MONOTONIC`).
pub type Nanos = u64;

/// A thread, as the PID namespace of the tracer numbers it; 0 is the idle task of every CPU. One outside of that
/// namespace has a number of [`outside_tid`].
pub type Tid = u32;

/// No task has so high a number (`PID_MAX_LIMIT`, include/linux/threads.h: 4 Mi).
const OUTSIDE: Tid = 1 << 30;

/// A task outside of the tracer's PID namespace of which not even the number in the initial one is known.
pub const UNKNOWN_OUTSIDE: Tid = OUTSIDE;

/// Stands for the task outside of the tracer's PID namespace that has this number in the initial one.
pub fn outside_tid(initial: Tid) -> Tid {
    OUTSIDE | initial
}

/// The number in the initial PID namespace of a task outside of the tracer's, 0 where it is not known; `None` for a
/// task within it.
pub fn outside_number(tid: Tid) -> Option<Tid> {
    tid.checked_sub(OUTSIDE).filter(|number| *number < OUTSIDE)
}

/// Index of a kernel stack in [`Trace::stacks`]; 0 is the empty stack.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct StackId(pub u32);

/// Index of a user stack in [`Trace::user_stacks`]; 0 where none was recorded.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct UserStackId(pub u32);

/// User stack of a task, by addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserStack {
    pub process: Tid,
    /// As the kernel found it by frame pointers, innermost first. Without them it is wrong behind the first.
    pub by_frame_pointers: Vec<u64>,
    pub registers: UserRegisters,
    /// Words of the stack from the stack pointer on. They are data of the program: they are unwound, and never stored.
    pub copy: Vec<u64>,
}

/// Registers by which a stack is unwound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct UserRegisters {
    pub instruction_pointer: u64,
    pub stack_pointer: u64,
    pub frame_pointer: u64,
    /// The link register, on CPUs that have one.
    pub link: u64,
}

/// A file that a process has mapped to execute it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CodeMapping {
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
    pub file_offset: u64,
    /// Major and minor number of the file's device, and its inode.
    pub device: (u32, u32),
    pub inode: u64,
    /// As the kernel names it; empty where it has none.
    pub path: Vec<u8>,
}

/// Scheduler events of all CPUs over an interval.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// Beginning of tracing.
    pub from: Nanos,
    /// All events since then are there. Of those before, some made room: of the tasks that had the most, all but the last.
    #[serde(default)]
    pub complete_from: Nanos,
    #[serde(default)]
    pub thinned: BTreeSet<Tid>,
    /// End of tracing.
    pub to: Nanos,
    /// In any order.
    pub events: Vec<Event>,
    /// Kernel functions, innermost first. The first stack is empty.
    pub stacks: Vec<Vec<String>>,
    /// The first is empty.
    #[serde(skip)]
    pub user_stacks: Vec<UserStack>,
    /// What processes mapped while they were traced, since they began to run their program.
    #[serde(skip)]
    pub code: BTreeMap<Tid, Vec<CodeMapping>>,
    pub tasks: BTreeMap<Tid, Task>,
    /// The parents of processes that were there when tracing began.
    #[serde(default)]
    pub parents: BTreeMap<Tid, Tid>,
    /// Records that the kernel or the reader dropped.
    pub lost: u64,
    /// From when to when the records of a CPU were lost, in any order.
    #[serde(default)]
    pub gaps: Vec<(Nanos, Nanos)>,
    #[serde(default)]
    pub basis: Basis,
    /// The process that traces: what it takes is no part of the machine's load.
    #[serde(default)]
    pub tracer: Option<Tid>,
}

/// Source of a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Scheduler events.
    #[default]
    Trace,
    /// States and stacks of tasks in /proc, read many times a second: which task sent a wake-up is not known.
    Polling,
}

/// A thread that occurs in the trace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Its `comm`: 15 bytes that the program chooses.
    pub name: String,
    /// The process that it belongs to (its thread group leader); 0 where that is not known.
    pub process: Tid,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    pub at: Nanos,
    pub cpu: u16,
    /// User stack of the task that leaves the CPU or runs.
    #[serde(skip)]
    pub user_stack: UserStackId,
    pub kind: EventKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// `task` leaves the CPU in `state`, at `stack`, to `next` (`sched:sched_switch`).
    SwitchOut { task: Tid, state: TaskState, stack: StackId, next: Tid },
    /// `task` is on the CPU (`PERF_RECORD_SWITCH`, which also occurs where the tracepoints of an idle task
    /// are silent).
    SwitchIn { task: Tid },
    /// `by`, which is the current task, wakes `task` (`sched:sched_waking`).
    Waking { task: Tid, by: Tid, context: WakeContext, stack: StackId },
    /// `parent` created `child` (`PERF_RECORD_FORK`).
    Fork { parent: Tid, child: Tid },
    /// `task` was running at a tick of the sampling clock; the stack is empty in user mode.
    Sample { task: Tid, stack: StackId },
    /// State of `task` when tracing began, read from /proc.
    Found { task: Tid, state: TaskState, stack: StackId },
}

/// State in which a task leaves the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Preempted, or it yielded.
    Runnable,
    /// Waits, interruptibly or not.
    Waiting,
    /// By a signal (SIGSTOP) or a debugger.
    Stopped,
    Dead,
}

/// Context that a wake-up was sent from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WakeContext {
    Task,
    SoftIrq,
    HardIrq,
}

impl Trace {
    /// The functions of a stack, innermost first; empty where the stack is not known.
    pub fn stack(&self, id: StackId) -> &[String] {
        usize::try_from(id.0).ok().and_then(|at| self.stacks.get(at)).map_or(&[], Vec::as_slice)
    }

    /// Adds what processes had mapped when tracing began.
    pub fn add_code(&mut self, code: BTreeMap<Tid, Vec<CodeMapping>>) {
        for (process, mappings) in code {
            self.code.entry(process).or_default().extend(mappings);
        }
    }

    /// A user stack by its number.
    pub fn user_stack(&self, id: UserStackId) -> Option<&UserStack> {
        self.user_stacks.get(usize::try_from(id.0).ok()?).filter(|_| id != UserStackId::default())
    }

    /// The name of a thread, as recorded.
    pub fn task_name(&self, tid: Tid) -> &str {
        self.tasks.get(&tid).map_or("", |task| &task.name)
    }

    /// Tasks of which a thread has the cgroups, if it has ended itself: its process, and the tasks that forked it and
    /// those before it, as long as they run the same program.
    pub fn kin(&self, tid: Tid) -> Vec<Tid> {
        let parent = |child: &Tid| {
            let born = self.events.iter().rev().find_map(|event| match event.kind {
                EventKind::Fork { parent, child: born } if born == *child => Some(parent),
                _ => None,
            });
            let parent = born.or_else(|| self.parents.get(child).copied())?;
            (self.task_name(parent) == self.task_name(*child)).then_some(parent)
        };
        let forebears = std::iter::successors(Some(self.process(tid)), parent).take(MAX_FOREBEARS);
        let mut kin: Vec<Tid> = forebears.collect();
        kin.dedup();
        kin.retain(|other| *other != tid);
        kin
    }

    /// Times of the creation and the end of a thread, as far as that was traced.
    pub fn lifetime(&self, tid: Tid) -> (Option<Nanos>, Option<Nanos>) {
        let born = self.events.iter().find_map(|event| match event.kind {
            EventKind::Fork { child, .. } if child == tid => Some(event.at),
            _ => None,
        });
        let ended = self.events.iter().rev().find_map(|event| match event.kind {
            EventKind::SwitchOut { task, state: TaskState::Dead, .. } if task == tid => {
                Some(event.at)
            }
            _ => None,
        });
        (born, ended)
    }

    /// Since when all events of a task are there.
    pub fn complete_from(&self, task: Tid) -> Nanos {
        if self.thinned.contains(&task) { self.from.max(self.complete_from) } else { self.from }
    }

    /// The process of a thread, or the thread itself where that is not known.
    pub fn process(&self, tid: Tid) -> Tid {
        self.tasks.get(&tid).map(|task| task.process).filter(|process| *process != 0).unwrap_or(tid)
    }
}

#[cfg(test)]
mod tests {
    use crate::test_trace::{CLIENT, OTHER, SERVER, TraceBuilder};
    use crate::trace::{EventKind, Task, Tid};

    /// Promise (Tracing: why): A task that has ended has the cgroup of the process that forked it, where both run the
    /// same program.
    #[test]
    fn a_worker_is_kin_of_the_server_that_forked_it_and_not_of_the_shell_before() {
        const WORKER: Tid = 40;
        let mut traced = TraceBuilder::new(1000);
        let server = Task { name: "server".to_owned(), process: WORKER };
        traced.trace.tasks.insert(WORKER, server);
        traced.event(100, 0, EventKind::Fork { parent: OTHER, child: SERVER });
        assert_eq!(traced.trace.kin(WORKER), [] as [Tid; 0]);
        traced.trace.parents.insert(WORKER, SERVER);
        assert_eq!(traced.trace.kin(WORKER), [SERVER]);
        traced.trace.parents.clear();
        traced.event(200, 0, EventKind::Fork { parent: SERVER, child: WORKER });
        assert_eq!(traced.trace.kin(WORKER), [SERVER]);
        assert_eq!(traced.trace.kin(SERVER), [] as [Tid; 0], "it runs another program");
        traced.trace.tasks.insert(CLIENT, Task { name: "pool".to_owned(), process: SERVER });
        assert_eq!(traced.trace.kin(CLIENT), [SERVER], "a thread");
    }
}
