//! What each task did when: running, runnable or blocked, without gaps from its first event on.

use crate::trace::{Event, EventKind, Nanos, StackId, TaskState, Tid, Trace, WakeContext};
use crate::wait::{self, Source};
use std::collections::BTreeMap;

/// One stretch of a task's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) from: Nanos,
    pub(crate) to: Nanos,
    pub(crate) activity: Activity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activity {
    Running,
    /// The CPU that it ran on next, where it did.
    Runnable {
        cpu: Option<u16>,
    },
    Blocked {
        stopped: bool,
        stack: StackId,
        wakeup: Option<Wakeup>,
    },
}

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wakeup {
    pub(crate) waker: Waker,
    pub(crate) stack: StackId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waker {
    Task(Tid),
    Timer,
    Disk,
    Network,
    Interrupt,
}

/// The timelines of all tasks of a trace.
#[derive(Debug, Default)]
pub(crate) struct Timelines {
    tasks: BTreeMap<Tid, Vec<Interval>>,
    /// Who created a task, and when.
    births: BTreeMap<Tid, (Nanos, Tid)>,
    /// Which task was on a CPU from when on.
    occupancy: BTreeMap<u16, Vec<(Nanos, Tid)>>,
    samples: BTreeMap<Tid, Vec<(Nanos, StackId)>>,
}

impl Timelines {
    pub(crate) fn new(trace: &Trace) -> Self {
        let mut events: Vec<&Event> = trace.events.iter().collect();
        events.sort_by_key(|event| event.at);
        let mut builder = Builder { trace, built: Self::default(), open: BTreeMap::new() };
        for event in events {
            builder.take(event);
        }
        builder.finish()
    }

    /// The intervals of a task that overlap `[from, to)`, in order.
    pub(crate) fn within(
        &self,
        task: Tid,
        from: Nanos,
        to: Nanos,
    ) -> impl Iterator<Item = Interval> + use<> {
        let all = self.tasks.get(&task).map_or(&[][..], Vec::as_slice);
        let first = all.partition_point(|interval| interval.to <= from);
        let rest = all.get(first..).unwrap_or_default();
        let overlapping = rest.iter().take_while(|interval| interval.from < to);
        let clip = |interval: &Interval| Interval {
            from: interval.from.max(from),
            to: interval.to.min(to),
            activity: interval.activity,
        };
        let clipped: Vec<_> = overlapping.map(clip).collect();
        clipped.into_iter()
    }

    /// Who created `task`, and when.
    pub(crate) fn birth(&self, task: Tid) -> Option<(Nanos, Tid)> {
        self.births.get(&task).copied()
    }

    /// The task was seen at all.
    pub(crate) fn has(&self, task: Tid) -> bool {
        self.tasks.contains_key(&task)
    }

    pub(crate) fn tasks(&self) -> impl Iterator<Item = Tid> {
        self.tasks.keys().copied()
    }

    /// Stacks sampled while `task` ran within `[from, to)`.
    pub(crate) fn samples(&self, task: Tid, from: Nanos, to: Nanos) -> &[(Nanos, StackId)] {
        let all = self.samples.get(&task).map_or(&[][..], Vec::as_slice);
        let begin = all.partition_point(|(at, _)| *at < from);
        let end = all.partition_point(|(at, _)| *at < to);
        all.get(begin..end).unwrap_or_default()
    }

    /// Who was on `cpu` over `[from, to)`, in pieces that cover it; `None` where that is not known.
    pub(crate) fn on_cpu(
        &self,
        cpu: u16,
        from: Nanos,
        to: Nanos,
    ) -> Vec<(Nanos, Nanos, Option<Tid>)> {
        let all = self.occupancy.get(&cpu).map_or(&[][..], Vec::as_slice);
        let mut at = all.partition_point(|(since, _)| *since <= from);
        let mut holder =
            at.checked_sub(1).and_then(|before| all.get(before)).map(|(_, task)| *task);
        let (mut pieces, mut begin) = (Vec::new(), from);
        while begin < to {
            let next = all.get(at).copied();
            let end = next.map_or(to, |(since, _)| since.min(to));
            if end > begin {
                pieces.push((begin, end, holder));
            }
            begin = end;
            if let Some((_, task)) = next {
                holder = Some(task);
                at += 1;
            }
        }
        pieces
    }
}

/// What a task is doing while the trace is read.
#[derive(Debug, Clone, Copy)]
struct Open {
    since: Nanos,
    now: Now,
}

#[derive(Debug, Clone, Copy)]
enum Now {
    Running,
    Runnable,
    Blocked { stopped: bool, stack: StackId, woken: Option<(Nanos, Wakeup)> },
    Gone,
}

struct Builder<'a> {
    trace: &'a Trace,
    built: Timelines,
    open: BTreeMap<Tid, Open>,
}

impl Builder<'_> {
    fn take(&mut self, event: &Event) {
        let at = event.at;
        match event.kind {
            EventKind::SwitchOut { task, state, stack, next } => {
                self.leaves(task, at, state, stack);
                self.enters(next, at, event.cpu);
            }
            EventKind::SwitchIn { task } => self.enters(task, at, event.cpu),
            EventKind::Waking { task, by, context, stack } => {
                self.wakes(task, at, self.wakeup(by, context, stack));
            }
            EventKind::Fork { parent, child } => {
                self.built.births.insert(child, (at, parent));
                self.open.insert(child, Open { since: at, now: Now::Runnable });
            }
            EventKind::Sample { task, stack } => {
                self.built.samples.entry(task).or_default().push((at, stack));
            }
            EventKind::Found { task, state, stack } => {
                let now = Now::from_state(state, stack);
                self.open.entry(task).or_insert(Open { since: at, now });
            }
        }
    }

    /// What `task` is doing; where nothing is known of it yet, `now` since the trace began.
    fn open(&mut self, task: Tid, now: Now) -> Open {
        *self.open.entry(task).or_insert(Open { since: self.trace.from, now })
    }

    fn enters(&mut self, task: Tid, at: Nanos, cpu: u16) {
        self.built.occupancy.entry(cpu).or_default().push((at, task));
        if task == 0 {
            return;
        }
        let open = self.open(task, Now::Runnable);
        match open.now {
            Now::Running => return,
            Now::Runnable => self.push(task, open.since, at, Activity::Runnable { cpu: Some(cpu) }),
            Now::Blocked { stopped, stack, woken } => {
                // A wake-up that was not seen was an interrupt on an idle CPU whose tracepoints are silent.
                let unseen = Wakeup { waker: Waker::Interrupt, stack: StackId::default() };
                let (until, wakeup) = woken.unwrap_or((at, unseen));
                let activity = Activity::Blocked { stopped, stack, wakeup: Some(wakeup) };
                self.push(task, open.since, until, activity);
                self.push(task, until, at, Activity::Runnable { cpu: Some(cpu) });
            }
            Now::Gone => {}
        }
        self.open.insert(task, Open { since: at, now: Now::Running });
    }

    fn leaves(&mut self, task: Tid, at: Nanos, state: TaskState, stack: StackId) {
        if task == 0 {
            return;
        }
        let open = self.open(task, Now::Running);
        self.close(task, open, at);
        self.open.insert(task, Open { since: at, now: Now::from_state(state, stack) });
    }

    fn wakes(&mut self, task: Tid, at: Nanos, wakeup: Wakeup) {
        let unknown = Now::Blocked { stopped: false, stack: StackId::default(), woken: None };
        let mut open = self.open(task, unknown);
        if let Now::Blocked { woken: woken @ None, .. } = &mut open.now {
            *woken = Some((at, wakeup));
            self.open.insert(task, open);
        }
    }

    fn wakeup(&self, by: Tid, context: WakeContext, stack: StackId) -> Wakeup {
        let functions = self.trace.stack(stack);
        let by_task = match context {
            WakeContext::Task => true,
            WakeContext::SoftIrq => wait::is_sender(functions),
            WakeContext::HardIrq => false,
        };
        let source = if by_task && by != 0 { Source::Task } else { wait::interrupt(functions) };
        let waker = match source {
            Source::Task => Waker::Task(by),
            Source::Timer => Waker::Timer,
            Source::Disk => Waker::Disk,
            Source::Network => Waker::Network,
            Source::Interrupt => Waker::Interrupt,
        };
        Wakeup { waker, stack }
    }

    /// Ends what a task has been doing at `at`.
    fn close(&mut self, task: Tid, open: Open, at: Nanos) {
        let Open { since, now } = open;
        match now {
            Now::Running => self.push(task, since, at, Activity::Running),
            Now::Runnable => self.push(task, since, at, Activity::Runnable { cpu: None }),
            Now::Blocked { stopped, stack, woken } => {
                let until = woken.map_or(at, |(woken_at, _)| woken_at);
                let wakeup = woken.map(|(_, wakeup)| wakeup);
                self.push(task, since, until, Activity::Blocked { stopped, stack, wakeup });
                self.push(task, until, at, Activity::Runnable { cpu: None });
            }
            Now::Gone => {}
        }
    }

    fn push(&mut self, task: Tid, from: Nanos, to: Nanos, activity: Activity) {
        if from < to {
            self.built.tasks.entry(task).or_default().push(Interval { from, to, activity });
        }
    }

    fn finish(mut self) -> Timelines {
        for (task, open) in std::mem::take(&mut self.open) {
            if task != 0 {
                self.close(task, open, self.trace.to);
            }
        }
        self.built
    }
}

impl Now {
    fn from_state(state: TaskState, stack: StackId) -> Self {
        match state {
            TaskState::Runnable => Self::Runnable,
            TaskState::Waiting => Self::Blocked { stopped: false, stack, woken: None },
            TaskState::Stopped => Self::Blocked { stopped: true, stack, woken: None },
            TaskState::Dead => Self::Gone,
        }
    }
}
