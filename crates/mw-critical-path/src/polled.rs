//! A trace made from states of tasks that were read many times a second, where scheduler events cannot be traced.
//!
//! Between two readings the kernel's own clocks say for how long the task ran and waited for a CPU; the rest it was
//! blocked, as one of the two readings found it. Which task sent a wake-up is not known, so that the walk follows
//! only what it can infer.

use crate::trace::{
    Basis, Event, EventKind, Nanos, StackId, Task, TaskState, Tid, Trace, UserStackId, WakeContext,
};
use std::collections::BTreeMap;

/// Readings that are kept; those that say the same as the two before them count as one.
const MAX_READINGS: usize = 1 << 17;
const MAX_STACKS: usize = 1 << 12;
/// Time on a CPU or waiting for one below this part of the time between two readings is left out.
const NEGLIGIBLE_PART: Nanos = 50;
/// Ticks between two readings that are counted.
const MAX_TICKS: u64 = 10;

/// State of one task at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskReading {
    pub at: Nanos,
    pub state: TaskState,
    /// Stack in the kernel where it is blocked.
    pub stack: StackId,
    /// Time on a CPU and runnable without one so far, as `/proc/PID/task/TID/schedstat` has them.
    pub ran: Nanos,
    pub delayed: Nanos,
    /// Ticks in user mode and in the kernel so far.
    pub ticks: (u64, u64),
}

/// Readings of several tasks, in the order of time for each.
#[derive(Debug, Clone, Default)]
pub struct TaskReadings {
    from: Nanos,
    tasks: BTreeMap<Tid, (Task, Vec<TaskReading>)>,
    stacks: Vec<Vec<String>>,
    stack_ids: BTreeMap<Vec<String>, StackId>,
    kept: usize,
    lost: u64,
}

impl TaskReadings {
    pub fn new(from: Nanos) -> Self {
        Self { from, stacks: vec![Vec::new()], ..Self::default() }
    }

    /// The number of a stack, the innermost function first.
    pub fn stack(&mut self, functions: Vec<String>) -> StackId {
        if functions.is_empty() {
            return StackId::default();
        }
        if let Some(id) = self.stack_ids.get(&functions) {
            return *id;
        }
        if self.stacks.len() >= MAX_STACKS {
            self.lost = self.lost.saturating_add(1);
            return StackId::default();
        }
        let id = StackId(u32::try_from(self.stacks.len()).unwrap_or(0));
        self.stacks.push(functions.clone());
        self.stack_ids.insert(functions, id);
        id
    }

    pub fn push(&mut self, tid: Tid, task: impl FnOnce() -> Task, reading: TaskReading) {
        let (_, readings) = self.tasks.entry(tid).or_insert_with(|| (task(), Vec::new()));
        if let [.., before, last] = readings.as_mut_slice()
            && before.says_as(&reading)
            && last.says_as(&reading)
        {
            last.at = reading.at;
            return;
        }
        if self.kept >= MAX_READINGS {
            self.lost = self.lost.saturating_add(1);
            return;
        }
        self.kept += 1;
        readings.push(reading);
    }

    /// The last reading of a task.
    pub fn last(&self, tid: Tid) -> Option<&TaskReading> {
        self.tasks.get(&tid).and_then(|(_, readings)| readings.last())
    }

    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// Converts the readings to the scheduler events that would give them.
    pub fn into_trace(mut self, to: Nanos) -> Trace {
        // Where a task that runs is in the kernel cannot be read.
        let in_kernel = self.stack(vec!["kernel".to_owned()]);
        let mut events = Vec::new();
        for (tid, (_, readings)) in &self.tasks {
            let Some(first) = readings.first() else { continue };
            let mut told = StateEvents {
                task: *tid,
                in_kernel,
                now: PolledActivity::Runnable,
                events: &mut events,
            };
            told.begins(self.from, first);
            for pair in readings.windows(2) {
                if let [before, after] = pair {
                    told.between(before, after);
                }
            }
        }
        let tasks = self.tasks.into_iter().map(|(tid, (task, _))| (tid, task)).collect();
        let Self { from, stacks, lost, .. } = self;
        Trace {
            from,
            to,
            events,
            stacks,
            tasks,
            parents: BTreeMap::new(),
            lost,
            gaps: Vec::new(),
            basis: Basis::Polling,
            tracer: None,
            ..Trace::default()
        }
    }
}

impl TaskReading {
    /// The task did nothing between this reading and another.
    fn says_as(&self, other: &Self) -> bool {
        Self { at: other.at, ..*self } == *other
    }

    fn doing(&self) -> PolledActivity {
        match self.state {
            TaskState::Runnable => PolledActivity::Runnable,
            state => PolledActivity::Off(state, self.stack),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PolledActivity {
    Running,
    Runnable,
    /// Blocked, stopped or gone.
    Off(TaskState, StackId),
}

/// Converts the states of a task to events.
struct StateEvents<'a> {
    task: Tid,
    in_kernel: StackId,
    now: PolledActivity,
    events: &'a mut Vec<Event>,
}

impl StateEvents<'_> {
    fn begins(&mut self, at: Nanos, first: &TaskReading) {
        let TaskReading { state, stack, .. } = *first;
        self.push(at, EventKind::Found { task: self.task, state, stack });
        self.now = first.doing();
    }

    fn between(&mut self, before: &TaskReading, after: &TaskReading) {
        let length = after.at.saturating_sub(before.at);
        let ran = after.ran.saturating_sub(before.ran).min(length);
        let delayed = after.delayed.saturating_sub(before.delayed).min(length - ran);
        let is_negligible = ran + delayed <= length / NEGLIGIBLE_PART;
        let (ran, delayed) = if is_negligible { (0, 0) } else { (ran, delayed) };
        let rest = length - ran - delayed;
        let (was, is) = (before.doing(), after.doing());
        // What is left of the time, before and after the task was ready.
        let (first, delayed, last) = match (was, is) {
            // The kernel counts a wait for a CPU when it ends.
            (PolledActivity::Runnable, PolledActivity::Runnable) => (0, delayed + rest, 0),
            (PolledActivity::Runnable, _) => (0, delayed, rest),
            (_, PolledActivity::Runnable) => (rest, delayed, 0),
            _ if was == is => (rest, delayed, 0),
            _ => (rest - rest / 2, delayed, rest / 2),
        };
        let mut at = before.at;
        for (doing, time) in [
            (was, first),
            (PolledActivity::Runnable, delayed),
            (PolledActivity::Running, ran),
            (is, last),
        ] {
            if time > 0 {
                self.does(doing, at);
                if doing == PolledActivity::Running {
                    self.samples(at, before, after);
                }
                at += time;
            }
        }
        if after.state == TaskState::Dead {
            self.does(is, after.at);
        }
    }

    /// The task does something else from a time on.
    fn does(&mut self, doing: PolledActivity, at: Nanos) {
        let task = self.task;
        if doing == self.now {
            return;
        }
        let stack = StackId::default();
        match (self.now, doing) {
            (_, PolledActivity::Running) => self.push(at, EventKind::SwitchIn { task }),
            (PolledActivity::Running, PolledActivity::Runnable) => {
                let state = TaskState::Runnable;
                self.push(at, EventKind::SwitchOut { task, state, stack, next: 0 });
            }
            (_, PolledActivity::Runnable) => {
                let context = WakeContext::HardIrq;
                self.push(at, EventKind::Waking { task, by: 0, context, stack });
            }
            (_, PolledActivity::Off(state, stack)) => {
                // Between two waits it ran for less than could be told.
                self.push(at, EventKind::SwitchIn { task });
                self.push(at, EventKind::SwitchOut { task, state, stack, next: 0 });
            }
        }
        self.now = doing;
    }

    /// One sample a tick that passed while it ran.
    fn samples(&mut self, at: Nanos, before: &TaskReading, after: &TaskReading) {
        let user = after.ticks.0.saturating_sub(before.ticks.0).min(MAX_TICKS);
        let system = after.ticks.1.saturating_sub(before.ticks.1).min(MAX_TICKS);
        for (ticks, stack) in [(user, StackId::default()), (system, self.in_kernel)] {
            for _ in 0..ticks {
                self.push(at, EventKind::Sample { task: self.task, stack });
            }
        }
    }

    fn push(&mut self, at: Nanos, kind: EventKind) {
        self.events.push(Event { at, cpu: 0, user_stack: UserStackId::default(), kind });
    }
}

#[cfg(test)]
#[path = "polled_tests.rs"]
mod tests;
