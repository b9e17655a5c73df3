//! States of each task over time: running, runnable or blocked, without gaps from its first event on.

use crate::copies::Copies;
use crate::needed::NeededEvents;
use crate::trace::{
    Event, EventKind, Nanos, StackId, TaskState, Tid, Trace, UNKNOWN_OUTSIDE, WakeContext,
};
use crate::wait::{self, Reclaim, Wait, WaitClass, WakeSource};
use hashbrown::HashMap;
use std::collections::{BTreeMap, BTreeSet};

/// Intervals between two waits of a task that are looked through.
const MAX_STEPS_TO_WAIT: usize = 64;

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

/// Wake-up that ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wakeup {
    pub(crate) waker: WakeCause,
    pub(crate) stack: StackId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WakeCause {
    Task(Tid),
    Timer,
    TimerSignal,
    Disk,
    Network,
    Interrupt,
}

/// The timelines of all tasks of a trace.
#[derive(Debug, Default)]
pub(crate) struct Timelines {
    tasks: BTreeMap<Tid, Vec<Interval>>,
    /// Time of a task's creation, and its creator.
    births: BTreeMap<Tid, (Nanos, Tid)>,
    /// Tasks of a CPU, each with the time from which on it ran.
    occupancy: BTreeMap<u16, Vec<(Nanos, Tid)>>,
    samples: BTreeMap<Tid, Vec<(Nanos, StackId)>>,
    /// Whom a task woke, and when.
    woke: BTreeMap<Tid, Vec<(Nanos, Tid)>>,
    /// Tasks that mostly free memory where they run.
    reclaimers: BTreeMap<Tid, Reclaim>,
    copies: Copies,
    /// Times at which a task was first and last sampled while it freed the memory of its process.
    exits: BTreeMap<Tid, (Nanos, Nanos)>,
    classes: Vec<WaitClass>,
}

impl Timelines {
    pub(crate) fn new(trace: &Trace) -> Self {
        Self::build(trace, in_order(trace), 0)
    }

    /// Only from `from` on; what happened before is told as far as it says what went on then.
    pub(crate) fn since(trace: &Trace, from: Nanos) -> Self {
        let mut events = in_order(trace);
        let needed = NeededEvents::new(trace.events.iter(), from);
        events.retain(|event| needed.has(event));
        Self::build(trace, events, from)
    }

    /// Builds them of events that are complete from then on, as far as those of the trace are.
    fn build(trace: &Trace, events: Vec<&Event>, complete_from: Nanos) -> Self {
        let built = Self { classes: wait::classes(&trace.stacks), ..Self::default() };
        let mut builder = Builder { trace, complete_from, built, lines: HashMap::new() };
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

    /// Wait of a task with this stack; `None` where no function is known.
    pub(crate) fn wait(&self, stack: StackId) -> Option<Wait> {
        self.class(stack).wait
    }

    /// A task with this stack is a thread of the kernel without work.
    pub(crate) fn is_idle_thread(&self, stack: StackId) -> bool {
        self.class(stack).is_idle_thread
    }

    /// The task that was current when a wake-up was sent is the one that sent it.
    pub(crate) fn is_sent_by_task(&self, context: WakeContext, stack: StackId) -> bool {
        match context {
            WakeContext::Task => true,
            WakeContext::SoftIrq => self.class(stack).is_sender,
            WakeContext::HardIrq => false,
        }
    }

    /// True if a wake-up with this stack only says that the other end of a socket has read.
    pub(crate) fn is_for_room(&self, stack: StackId) -> bool {
        self.class(stack).is_for_room
    }

    fn class(&self, stack: StackId) -> WaitClass {
        let at = usize::try_from(stack.0).ok();
        at.and_then(|at| self.classes.get(at)).copied().unwrap_or_default()
    }

    /// The next time that a task blocks from `at` on.
    pub(crate) fn next_wait(&self, task: Tid, at: Nanos) -> Option<Interval> {
        self.next_wait_in(task, at, |_| true)
    }

    /// The next time from `at` on that a task blocks with a stack of which `is_it` holds.
    pub(crate) fn next_wait_in(
        &self,
        task: Tid,
        at: Nanos,
        is_it: impl Fn(StackId) -> bool,
    ) -> Option<Interval> {
        let all = self.tasks.get(&task).map_or(&[][..], Vec::as_slice);
        let first = all.partition_point(|interval| interval.from < at);
        let waits = all.get(first..).unwrap_or_default().iter();
        waits
            .take(MAX_STEPS_TO_WAIT)
            .find(|interval| matches!(interval.activity, Activity::Blocked { stack, .. } if is_it(stack)))
            .copied()
    }

    /// Memory that a task frees, if most of its samples are of that.
    pub(crate) fn reclaims(&self, task: Tid) -> Option<Reclaim> {
        self.reclaimers.get(&task).copied()
    }

    /// Processes that were forked and mostly work on their copy of the memory.
    pub(crate) fn copies(&self) -> &Copies {
        &self.copies
    }

    /// True if `task` freed the memory of its process within `[from, to)`.
    pub(crate) fn exits(&self, task: Tid, from: Nanos, to: Nanos) -> bool {
        self.exits.get(&task).is_some_and(|(first, last)| *first < to && *last >= from)
    }

    /// Time of the creation of `task`, and its creator.
    pub(crate) fn birth(&self, task: Tid) -> Option<(Nanos, Tid)> {
        self.births.get(&task).copied()
    }

    /// Tasks with their creators, in the order of time.
    pub(crate) fn births(&self) -> Vec<(Tid, Tid)> {
        let mut births: Vec<_> = self.births.iter().collect();
        births.sort_by_key(|(_, (at, _))| *at);
        births.into_iter().map(|(child, (_, parent))| (*child, *parent)).collect()
    }

    /// Whom a task woke within `[from, to]`.
    pub(crate) fn woken_by(&self, task: Tid, from: Nanos, to: Nanos) -> BTreeSet<Tid> {
        let all = self.woke.get(&task).map_or(&[][..], Vec::as_slice);
        let begin = all.partition_point(|(at, _)| *at < from);
        let woken = all.get(begin..).unwrap_or_default().iter();
        woken.take_while(|(at, _)| *at <= to).map(|(_, woken)| *woken).collect()
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

    /// Tasks on `cpu` over `[from, to)`, in pieces that cover it; `None` where that is not known.
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

/// State of a task while the trace is read.
#[derive(Debug, Clone, Copy)]
struct OpenInterval {
    since: Nanos,
    now: PresentState,
    /// Read from /proc, maybe a little after the trace began.
    found: bool,
}

impl OpenInterval {
    fn new(since: Nanos, now: PresentState) -> Self {
        Self { since, now, found: false }
    }
}

#[derive(Debug, Clone, Copy)]
enum PresentState {
    Running,
    Runnable,
    Blocked { stopped: bool, stack: StackId, woken: Option<(Nanos, Wakeup)> },
    Gone,
}

struct Builder<'a> {
    trace: &'a Trace,
    /// Events before it say what went on then, and not what had come before them.
    complete_from: Nanos,
    built: Timelines,
    lines: HashMap<Tid, TaskTimeline>,
}

/// Intervals of a task so far, and its present state.
#[derive(Debug, Default)]
struct TaskTimeline {
    open: Option<OpenInterval>,
    intervals: Vec<Interval>,
}

fn in_order(trace: &Trace) -> Vec<&Event> {
    let mut events: Vec<&Event> = trace.events.iter().collect();
    events.sort_by_key(|event| event.at);
    events
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
                let wakeup = self.wakeup(by, context, stack);
                if let WakeCause::Task(by) = wakeup.waker {
                    self.built.woke.entry(by).or_default().push((at, task));
                }
                self.wakes(task, at, wakeup);
            }
            EventKind::Fork { parent, child } => {
                self.built.births.insert(child, (at, parent));
                self.line(child).open = Some(OpenInterval::new(at, PresentState::Runnable));
            }
            EventKind::Sample { task, stack } => {
                self.built.samples.entry(task).or_default().push((at, stack));
                if self.built.class(stack).is_exit {
                    self.built.exits.entry(task).or_insert((at, at)).1 = at;
                }
                let from = self.trace.from;
                let open = self.line(task).doing(from, PresentState::Running);
                if open.found && matches!(open.now, PresentState::Runnable) {
                    *open = OpenInterval::new(from, PresentState::Running);
                }
            }
            EventKind::Found { task, state, stack } => {
                let now = PresentState::from_state(state, stack);
                // Who is found in a wait has likely been in it since the request began.
                let is_blocked = matches!(now, PresentState::Blocked { .. });
                let since = if is_blocked { 0 } else { self.trace.from };
                self.line(task).open.get_or_insert(OpenInterval { since, now, found: true });
            }
        }
    }

    fn complete_from(&self, task: Tid) -> Nanos {
        self.complete_from.max(self.trace.complete_from(task))
    }

    fn line(&mut self, task: Tid) -> &mut TaskTimeline {
        self.lines.entry(task).or_default()
    }

    fn enters(&mut self, task: Tid, at: Nanos, cpu: u16) {
        self.built.occupancy.entry(cpu).or_default().push((at, task));
        // Of a task without a number nothing more is known, and there may be several.
        if task == 0 || task == UNKNOWN_OUTSIDE {
            return;
        }
        let (from, is_complete) = (self.trace.from, at >= self.complete_from(task));
        let line = self.line(task);
        let open = *line.doing(from, PresentState::Runnable);
        match open.now {
            PresentState::Running if is_complete => return,
            PresentState::Running => {}
            PresentState::Runnable => {
                line.push(open.since, at, Activity::Runnable { cpu: Some(cpu) })
            }
            PresentState::Blocked { stopped, stack, woken } => {
                // A wake-up that was not seen was an interrupt on an idle CPU whose tracepoints are silent.
                let unseen = Wakeup { waker: WakeCause::Interrupt, stack: StackId::default() };
                let (until, wakeup) = woken.unwrap_or((at, unseen));
                let wakeup = Some(wakeup);
                line.push(open.since, until, Activity::Blocked { stopped, stack, wakeup });
                line.push(until, at, Activity::Runnable { cpu: Some(cpu) });
            }
            PresentState::Gone => {}
        }
        line.open = Some(OpenInterval::new(at, PresentState::Running));
    }

    fn leaves(&mut self, task: Tid, at: Nanos, state: TaskState, stack: StackId) {
        if task == 0 {
            return;
        }
        let from = self.trace.from;
        let line = self.line(task);
        let mut open = *line.doing(from, PresentState::Running);
        if open.found && !matches!(open.now, PresentState::Blocked { woken: Some(_), .. }) {
            // It was found on the CPU, or in the wait that begins here.
            open = OpenInterval::new(from, PresentState::Running);
        }
        line.close(open, at);
        line.open = Some(OpenInterval::new(at, PresentState::from_state(state, stack)));
    }

    fn wakes(&mut self, task: Tid, at: Nanos, wakeup: Wakeup) {
        let unknown =
            PresentState::Blocked { stopped: false, stack: StackId::default(), woken: None };
        let from = self.trace.from;
        let open = self.line(task).doing(from, unknown);
        if let PresentState::Blocked { woken: woken @ None, .. } = &mut open.now {
            *woken = Some((at, wakeup));
        }
    }

    fn wakeup(&self, by: Tid, context: WakeContext, stack: StackId) -> Wakeup {
        let class = self.built.class(stack);
        let waker = match class.interrupt {
            _ if by != 0 && self.built.is_sent_by_task(context, stack) => WakeCause::Task(by),
            WakeSource::Timer => WakeCause::Timer,
            WakeSource::TimerSignal => WakeCause::TimerSignal,
            WakeSource::Disk => WakeCause::Disk,
            WakeSource::Network => WakeCause::Network,
            WakeSource::Interrupt => WakeCause::Interrupt,
        };
        Wakeup { waker, stack }
    }

    fn finish(mut self) -> Timelines {
        for (task, mut line) in std::mem::take(&mut self.lines) {
            if let Some(open) = line.open.filter(|_| task != 0) {
                line.close(open, self.last_seen(task, open));
            }
            // What ended before then may have had an end that is not recorded.
            let complete_from = self.complete_from(task);
            line.intervals.retain(|interval| interval.to > complete_from);
            if !line.intervals.is_empty() {
                self.built.tasks.insert(task, line.intervals);
            }
        }
        let complete_from = self.complete_from.max(self.trace.complete_from);
        for occupancy in self.built.occupancy.values_mut() {
            let complete = occupancy.partition_point(|(at, _)| *at < complete_from);
            occupancy.drain(..complete.saturating_sub(1));
        }
        self.built.reclaimers = self.reclaimers();
        self.built.copies = Copies::new(self.trace, &self.built.samples);
        self.built
    }

    /// Time until which the last state of a task is told. A process that was created shortly before records were lost, and
    /// of which there is none after them, has likely ended: it would seem to wait for a CPU ever since.
    fn last_seen(&self, task: Tid, open: OpenInterval) -> Nanos {
        let may_have_ended = self.built.births.contains_key(&task)
            && matches!(open.now, PresentState::Running | PresentState::Runnable);
        let gaps = self.trace.gaps.iter().filter(|_| may_have_ended);
        let lost_from = gaps.map(|(begin, _)| *begin).filter(|begin| *begin >= open.since).min();
        lost_from.unwrap_or(self.trace.to).min(self.trace.to)
    }

    /// Tasks whose samples are mostly of freeing memory, and the memory manager's own threads.
    fn reclaimers(&self) -> BTreeMap<Tid, Reclaim> {
        let by_samples = self.built.samples.iter().filter_map(|(task, samples)| {
            let classes = samples.iter().map(|(_, stack)| self.built.class(*stack));
            let of: Vec<Reclaim> = classes.filter_map(WaitClass::reclaim).collect();
            let in_cgroup = of.iter().filter(|of| **of == Reclaim::Cgroup).count();
            let most = if in_cgroup * 2 > of.len() { Reclaim::Cgroup } else { Reclaim::Machine };
            (of.len() * 2 > samples.len()).then_some((*task, most))
        });
        let by_switch = self.trace.events.iter().filter_map(|event| match event.kind {
            EventKind::SwitchOut { task, stack, .. }
                if self.built.class(stack).is_reclaim_thread =>
            {
                Some((task, Reclaim::Machine))
            }
            _ => None,
        });
        by_samples.chain(by_switch).collect()
    }
}

impl TaskTimeline {
    /// Present state of the task; where nothing is known of it yet, `now` since the trace began.
    fn doing(&mut self, from: Nanos, now: PresentState) -> &mut OpenInterval {
        self.open.get_or_insert(OpenInterval::new(from, now))
    }

    /// Ends what the task has been doing at `at`.
    fn close(&mut self, open: OpenInterval, at: Nanos) {
        let OpenInterval { since, now, .. } = open;
        match now {
            PresentState::Running => self.push(since, at, Activity::Running),
            PresentState::Runnable => self.push(since, at, Activity::Runnable { cpu: None }),
            PresentState::Blocked { stopped, stack, woken } => {
                let until = woken.map_or(at, |(woken_at, _)| woken_at);
                let wakeup = woken.map(|(_, wakeup)| wakeup);
                self.push(since, until, Activity::Blocked { stopped, stack, wakeup });
                self.push(until, at, Activity::Runnable { cpu: None });
            }
            PresentState::Gone => {}
        }
    }

    fn push(&mut self, from: Nanos, to: Nanos, activity: Activity) {
        if from < to {
            self.intervals.push(Interval { from, to, activity });
        }
    }
}

impl PresentState {
    fn from_state(state: TaskState, stack: StackId) -> Self {
        match state {
            TaskState::Runnable => Self::Runnable,
            TaskState::Waiting => Self::Blocked { stopped: false, stack, woken: None },
            TaskState::Stopped => Self::Blocked { stopped: true, stack, woken: None },
            TaskState::Dead => Self::Gone,
        }
    }
}
