//! The walk from a request's end back to what its time was spent on.

use crate::kernel::CONTINUES;
use crate::path::{CpuHolder, CriticalPath, Hop, PathPiece, RunMode, TimeKind, UnseenReason};
use crate::probe_looks::{ProbeLooks, joined_looks, unexplained};
use crate::request::RequestSpan;
use crate::servers::{Servers, most_stuck};
use crate::timeline::{Activity, Interval, Timelines, WakeCause, Wakeup};
use crate::trace::{Basis, Nanos, StackId, Tid, Trace, UNKNOWN_OUTSIDE};
use crate::upstreams::Upstreams;
use crate::userspace_scheduler::follow_hand_over;
use crate::wait::{self, Reclaim, Wait};

/// Longest chain of tasks that wait for each other.
const MAX_HOPS: usize = 12;
/// Timers in one wait that are looked beyond.
const MAX_TIMERS: usize = 256;
/// Most parts of a path; neighbours of one kind are joined first.
const MAX_PARTS: usize = 200_000;

/// Finds where the time of a request went.
pub fn critical_path(trace: &Trace, request: RequestSpan) -> CriticalPath {
    path_within(trace, &Timelines::since(trace, request.from), request)
}

/// A probe looks at its socket four times a second while it waits. What ended its wait is known of the wait as a whole; of a
/// proxy that others ask as well, who was stuck in each quarter of a second may tell more.
fn path_within(trace: &Trace, timelines: &Timelines, request: RequestSpan) -> CriticalPath {
    let joined = path_by(trace, timelines, request.clone(), ProbeLooks::Joined);
    if trace.tracer != Some(trace.process(request.task))
        || unexplained(&joined) * 2 < joined.duration()
    {
        return joined;
    }
    let apart = path_by(trace, timelines, request, ProbeLooks::Apart);
    if unexplained(&apart) < unexplained(&joined) { apart } else { joined }
}

fn path_by(
    trace: &Trace,
    timelines: &Timelines,
    request: RequestSpan,
    looks: ProbeLooks,
) -> CriticalPath {
    let servers = Servers::new(trace, timelines, &request);
    let upstreams = Upstreams::new(trace, timelines, &request);
    let RequestSpan { task, from, to, .. } = request;
    let hops = vec![Hop { task, ..Hop::default() }];
    let client = trace.process(task);
    let mut walk = PathWalk {
        trace,
        timelines,
        servers,
        upstreams,
        client,
        from,
        follows: true,
        looks,
        hops,
        parts: Vec::new(),
    };
    walk.explain(0, from, to, 0);
    let PathWalk { parts, hops, .. } = walk;
    let parts = without_gaps(parts, &trace.gaps);
    let mut path = CriticalPath { from, to: to.max(from), parts, hops, sibling: None };
    follow_hand_over(trace, timelines, &mut path);
    path
}

/// Parts of the time of tasks within spans: waits are parts of the waiting task, and what it waited for is not followed.
pub(crate) fn own_time(
    trace: &Trace,
    timelines: &Timelines,
    spans: &[(Tid, Nanos, Nanos)],
) -> (Vec<PathPiece>, Vec<Hop>) {
    let (servers, upstreams, client) = (Servers::default(), Upstreams::default(), 0);
    let (hops, parts) = (Vec::new(), Vec::new());
    let mut walk = PathWalk {
        trace,
        timelines,
        servers,
        upstreams,
        client,
        from: 0,
        follows: false,
        looks: ProbeLooks::Apart,
        hops,
        parts,
    };
    for (task, from, to) in spans {
        let hop = Hop { task: *task, ..Hop::default() };
        if walk.hops.last() != Some(&hop) {
            walk.hops.push(hop);
        }
        walk.explain(walk.hops.len() - 1, *from, *to, 0);
    }
    (walk.parts, walk.hops)
}

struct PathWalk<'a> {
    trace: &'a Trace,
    timelines: &'a Timelines,
    servers: Servers,
    upstreams: Upstreams,
    /// The process of the request's task.
    client: Tid,
    /// Beginning of the request.
    from: Nanos,
    /// True if a task that was waited for is explained instead.
    follows: bool,
    looks: ProbeLooks,
    hops: Vec<Hop>,
    parts: Vec<PathPiece>,
}

impl PathWalk<'_> {
    /// Explains `[from, to)` of the task of a hop.
    fn explain(&mut self, hop: usize, from: Nanos, to: Nanos, depth: usize) {
        let Some(task) = self.hops.get(hop).map(|hop| hop.task) else { return };
        let mut at = from;
        let from = match self.timelines.birth(task) {
            Some((born, parent)) if born > from => {
                self.before_birth(hop, parent, (from, born.min(to)), depth);
                at = born.min(to);
                at
            }
            _ => from,
        };
        let mut intervals: Vec<Interval> = self.timelines.within(task, from, to).collect();
        let is_probe = hop == 0 && self.trace.tracer == Some(self.client);
        if is_probe && self.looks == ProbeLooks::Joined {
            intervals = joined_looks(self.timelines, task, &intervals);
        }
        for interval in intervals {
            self.gap(hop, task, at, interval.from);
            at = interval.to;
            self.interval(hop, task, interval, depth);
        }
        self.gap(hop, task, at, to);
    }

    /// Explains the time before a task was created as that of its parent.
    fn before_birth(
        &mut self,
        hop: usize,
        parent: Tid,
        (from, born): (Nanos, Nanos),
        depth: usize,
    ) {
        if depth >= MAX_HOPS {
            return self.push(hop, from, born, TimeKind::Unseen(UnseenReason::TooDeep));
        }
        let parent = self.hop(parent, (hop, Wait::Child, StackId::default()), false);
        self.explain(parent, from, born, depth + 1);
    }

    /// Time of a task that no event covers.
    fn gap(&mut self, hop: usize, task: Tid, from: Nanos, to: Nanos) {
        if !self.timelines.has(task) {
            let is_known = task != UNKNOWN_OUTSIDE;
            let unseen = if is_known { UnseenReason::NeverRan } else { UnseenReason::Untraced };
            return self.push(hop, from, to, TimeKind::Unseen(unseen));
        }
        let began = self.trace.complete_from(task).clamp(from, to.max(from));
        self.push(hop, from, began, TimeKind::Unseen(UnseenReason::Untraced));
        self.push(hop, began, to, TimeKind::Unseen(UnseenReason::NotThere));
    }

    fn interval(&mut self, hop: usize, task: Tid, interval: Interval, depth: usize) {
        let Interval { from, to, activity } = interval;
        match activity {
            Activity::Running => self.running(hop, task, from, to),
            Activity::Runnable { cpu } => self.runnable(hop, task, cpu, (from, to)),
            Activity::Blocked { stopped: true, stack, .. } => {
                self.push_at(hop, from, to, TimeKind::Stopped, (stack, StackId::default()));
            }
            Activity::Blocked { stopped: false, stack, wakeup } => {
                self.blocked(hop, (from, to), (stack, wakeup), depth);
            }
        }
    }

    /// Each sample stands for an equal share of the interval.
    fn running(&mut self, hop: usize, task: Tid, from: Nanos, to: Nanos) {
        let timelines = self.timelines;
        let samples = timelines.samples(task, from, to);
        if samples.is_empty() {
            return self.push(hop, from, to, TimeKind::Running(RunMode::Unsampled));
        }
        let count = samples.len() as u128;
        let share = |index: usize| {
            let offset = u128::from(to - from) * index as u128 / count;
            from + u64::try_from(offset).unwrap_or(0)
        };
        for (index, (_, stack)) in samples.iter().enumerate() {
            let functions = self.trace.stack(*stack);
            let mode = match timelines.wait(*stack).filter(|wait| wait.is_memory_work()) {
                _ if functions.is_empty() => RunMode::User,
                Some(wait) => RunMode::In(wait),
                None => RunMode::Kernel(wait::work(functions)),
            };
            let kind = TimeKind::Running(mode);
            self.push_at(hop, share(index), share(index + 1), kind, (*stack, StackId::default()));
            if let Some(last) = self.parts.last_mut() {
                last.samples = last.samples.saturating_add(1);
            }
        }
    }

    /// Each piece is given to who had the CPU. Where that was another thread of the same process, what it did there
    /// is what the process did.
    fn runnable(&mut self, hop: usize, task: Tid, cpu: Option<u16>, (from, to): (Nanos, Nanos)) {
        let is_polled = self.trace.basis == Basis::Polling;
        let Some(cpu) = cpu.filter(|_| !is_polled) else {
            return self.push(hop, from, to, TimeKind::Runnable(CpuHolder::Unknown));
        };
        let lost_from = self.lost_from(from, to);
        for (from, to, holder) in self.timelines.on_cpu(cpu, from, to) {
            if holder == Some(0) && lost_from < to {
                // It would have run: it was not runnable any more, and the record of it is lost.
                let lost_from = lost_from.max(from);
                self.push(hop, from, lost_from, TimeKind::Runnable(CpuHolder::Idle));
                self.push(hop, lost_from, to, TimeKind::Unseen(UnseenReason::Untraced));
                continue;
            }
            let is_own =
                |other: Tid| other != task && self.trace.process(other) == self.trace.process(task);
            let holder = match holder {
                Some(sibling) if sibling != 0 && is_own(sibling) => {
                    self.running(hop, sibling, from, to);
                    continue;
                }
                None => CpuHolder::Unknown,
                Some(0) => CpuHolder::Idle,
                Some(holder) if self.trace.tracer == Some(self.trace.process(holder)) => {
                    CpuHolder::Tracer
                }
                Some(holder) if self.timelines.reclaims(holder) == Some(Reclaim::Machine) => {
                    CpuHolder::Reclaimer(holder)
                }
                Some(holder) if self.timelines.reclaims(holder) == Some(Reclaim::Cgroup) => {
                    CpuHolder::CgroupReclaimer(holder)
                }
                Some(holder) if self.timelines.copies().is_of(self.trace, holder, task) => {
                    CpuHolder::Copy(holder)
                }
                Some(holder) if self.timelines.exits(holder, from, to) => {
                    CpuHolder::Exiting(holder)
                }
                Some(holder) => CpuHolder::Task(holder),
            };
            self.push(hop, from, to, TimeKind::Runnable(holder));
        }
    }

    /// Time at which records were first lost in `[from, to)`; `to` where none were.
    fn lost_from(&self, from: Nanos, to: Nanos) -> Nanos {
        let gaps = self.trace.gaps.iter().filter(|(begin, end)| *begin < to && *end > from);
        gaps.map(|(begin, _)| (*begin).max(from)).min().unwrap_or(to)
    }

    fn blocked(
        &mut self,
        hop: usize,
        (from, to): (Nanos, Nanos),
        (stack, wakeup): (StackId, Option<Wakeup>),
        depth: usize,
    ) {
        let wait = self.timelines.wait(stack).unwrap_or(Wait::Unknown);
        let wakeup = self.beyond_timers(hop, to, (wait, wakeup));
        let waker_stack = wakeup.map_or_else(StackId::default, |wakeup| wakeup.stack);
        // It stopped before the trace began, where its own stack is not known.
        let is_unseen = self.trace.stack(stack).is_empty();
        if is_unseen && CONTINUES.are_in(self.trace.stack(waker_stack)) {
            return self.push_at(hop, from, to, TimeKind::Stopped, (stack, waker_stack));
        }
        let wait = wait::told_by_waker(wait, self.trace.stack(waker_stack));
        let is_for_task = self.follows && !wait.is_for_resource();
        let next = is_for_task.then(|| self.next(hop, (wait, wakeup), (from, to))).flatten();
        let kind = match next {
            Some(_) if depth >= MAX_HOPS => TimeKind::Unseen(UnseenReason::TooDeep),
            Some((next, inferred)) => {
                let next = self.hop(next, (hop, wait, stack), inferred);
                return self.explain(next, from, to, depth + 1);
            }
            None => {
                let waker = wakeup.map(|wakeup| wakeup.waker);
                if let Some((hop, wait, stack)) = self.before_work(hop, waker, waker_stack) {
                    let kind = TimeKind::Waiting(wait);
                    return self.push_at(hop, from, to, kind, (stack, waker_stack));
                }
                let kind = ended_by(wait, waker);
                // What ends an idle server's wait is somebody's request; a packet that comes late may be this one.
                let is_idle = wait.is_for_work()
                    && (self.is_inferred(hop) || (hop > 0 && self.is_silent_after(hop, to)));
                if is_idle && kind != TimeKind::Waiting(Wait::Network) {
                    TimeKind::Idle(wait)
                } else {
                    kind
                }
            }
        };
        self.push_at(hop, from, to, kind, (stack, waker_stack));
    }

    /// The hop whose task waited for this thread of the kernel, its wait and stack, where a timer gave the thread work.
    /// Until then the thread was idle, and the other's own wait is all that is known.
    fn before_work(
        &self,
        hop: usize,
        waker: Option<WakeCause>,
        waker_stack: StackId,
    ) -> Option<(usize, Wait, StackId)> {
        let Hop { waited_for_by, waiter_stack: stack, .. } = *self.hops.get(hop)?;
        let is_work =
            waker == Some(WakeCause::Timer) && wait::is_queued_work(self.trace.stack(waker_stack));
        let (hop, wait) = waited_for_by.filter(|_| is_work)?;
        Some((hop, wait, stack))
    }

    /// Wake-up that ended a wait. A signal of an interval timer only interrupts it, and some programs wait for a lock
    /// in slices of a second: what counts is what ended the next wait, where that is of the same kind and the task sent
    /// nothing in between.
    fn beyond_timers(
        &self,
        hop: usize,
        to: Nanos,
        (wait, wakeup): (Wait, Option<Wakeup>),
    ) -> Option<Wakeup> {
        let task = self.hops.get(hop)?.task;
        let (mut at, mut ended_by) = (to, wakeup);
        for _ in 0..MAX_TIMERS {
            let is_slice = match ended_by.map(|wakeup| wakeup.waker) {
                Some(WakeCause::TimerSignal) => false,
                Some(WakeCause::Timer) if wait == Wait::Futex => true,
                _ => return ended_by,
            };
            let Some(Interval { from, to, activity }) = self.timelines.next_wait(task, at) else {
                break;
            };
            let Activity::Blocked { stopped: false, stack, wakeup: next } = activity else { break };
            let has_sent = is_slice && !self.timelines.woken_by(task, at, from).is_empty();
            if has_sent || self.timelines.wait(stack).unwrap_or(Wait::Unknown) != wait {
                break;
            }
            (at, ended_by) = (to, next);
        }
        wakeup
    }

    /// True if a task sent nothing after a wait, until the next one for work: it had nothing to do. In between it may
    /// wait for a disk or a lock.
    fn is_silent_after(&self, hop: usize, to: Nanos) -> bool {
        let Some(task) = self.hops.get(hop).map(|hop| hop.task) else { return false };
        let is_for_work = |stack| self.timelines.wait(stack).is_none_or(Wait::is_for_work);
        let next = self.timelines.next_wait_in(task, to, is_for_work).map(|next| next.from);
        next.is_some_and(|next| self.timelines.woken_by(task, to, next).is_empty())
    }

    /// The task that was waited for, and whether that is inferred.
    fn next(
        &self,
        hop: usize,
        (wait, wakeup): (Wait, Option<Wakeup>),
        span: (Nanos, Nanos),
    ) -> Option<(Tid, bool)> {
        let task = self.hops.get(hop)?.task;
        let waker = wakeup.and_then(|Wakeup { waker, stack }| match waker {
            WakeCause::Task(waker) if waker != task => Some((waker, stack)),
            _ => None,
        });
        if self.is_inferred(hop) && wait.is_for_work() {
            // What wakes an idle server is other clients, unless it is another of the servers or whom it asked.
            let process = self.trace.process(task);
            let is_known =
                |waker: &Tid| self.servers.has(*waker) || self.upstreams.has(process, *waker);
            let waker = waker.map(|(waker, _)| waker).filter(is_known);
            let asked = || self.asked(hop, task, span).map(|asked| (asked, true));
            return waker.map(|waker| (waker, false)).or_else(asked);
        }
        if wait.is_for_work() && waker.is_some_and(|waker| self.is_client(task, waker, span.0)) {
            return self.asked(hop, task, span).map(|asked| (asked, true));
        }
        let gave_up = waker.is_none_or(|(_, stack)| wait::is_kill(self.trace.stack(stack)));
        let holder = gave_up.then(|| self.holder(hop, task, wait, span)).flatten();
        let inferred = holder.map(|holder| (holder, true));
        inferred.or_else(|| waker.map(|(waker, _)| (waker, false))).or_else(|| {
            // Who sent a packet that a thread of the kernel delivered is not known by its wake-up.
            let is_packet = wakeup.is_some_and(|wakeup| wakeup.waker == WakeCause::Network);
            let asked = (is_packet && wait.is_for_work()).then(|| self.asked(hop, task, span));
            asked.flatten().map(|asked| (asked, true))
        })
    }

    /// True if the task that woke a server from its wait asks it: it opened a connection, or the server's own
    /// connections are known and none is to it, or it did not exist when the wait began.
    fn is_client(&self, task: Tid, (waker, stack): (Tid, StackId), waits_since: Nanos) -> bool {
        let (trace, stack) = (self.trace, self.trace.stack(stack));
        let (process, other) = (trace.process(task), trace.process(waker));
        let is_stranger =
            || process != other && other != 0 && self.upstreams.excludes(process, other);
        wait::is_connect(stack)
            || (wait::is_socket(stack) && is_stranger())
            || self.is_newcomer(task, waker, waits_since)
    }

    /// True if the waker of a server was created after `since`, and neither by the process of `task` nor by one that it
    /// asked. What answers a client may be a thread of its own.
    fn is_newcomer(&self, task: Tid, waker: Tid, since: Nanos) -> bool {
        let Some((born, parent)) = self.timelines.birth(waker) else { return false };
        let process = self.trace.process(task);
        let is_own = process != 0 && process == self.trace.process(parent);
        let is_servers = || self.servers.has(waker) || self.servers.has(parent);
        let has_asked = || {
            self.upstreams.has(process, parent)
                || self.timelines.woken_by(task, self.from, born).contains(&parent)
        };
        let is_new = born > since && parent != task && !is_own;
        is_new && self.servers.has(task) && !is_servers() && !has_asked()
    }

    /// Whom a server waited for when another client woke it: of those that it has connections to, the one that was
    /// stuck meanwhile; else of the tasks that it woke since the request began.
    fn asked(&self, hop: usize, task: Tid, span: (Nanos, Nanos)) -> Option<Tid> {
        let woken = || self.timelines.woken_by(task, self.from, span.0).into_iter().collect();
        let upstream = self.upstream(hop, self.trace.process(task), span);
        upstream.or_else(|| self.stuck_beside(hop, woken(), span))
    }

    /// The thread that was stuck meanwhile, of the processes that a process has opened connections to. Other clients
    /// wake a busy proxy often: over a short wait, the one that was stuck in that part of the request.
    fn upstream(&self, hop: usize, process: Tid, span: (Nanos, Nanos)) -> Option<Tid> {
        let find = |span| {
            let mut levels = self.upstreams.levels(process).into_iter();
            levels.find_map(|threads| self.stuck_beside(hop, threads, span))
        };
        match self.upstreams.part(span) {
            None => find(span),
            Some(part) => self.upstreams.once((hop, process, part.0), || find(part)),
        }
    }

    /// Of these threads the most stuck one that does not wait for the task of `hop` itself.
    fn stuck_beside(&self, hop: usize, mut threads: Vec<Tid>, span: (Nanos, Nanos)) -> Option<Tid> {
        threads.retain(|thread| self.chain(hop).all(|waiting| waiting != *thread));
        most_stuck(self.trace, self.timelines, (&threads, None), span)
    }

    /// The thread that likely held an answer or a lock that did not come.
    fn holder(&self, hop: usize, task: Tid, wait: Wait, span: (Nanos, Nanos)) -> Option<Tid> {
        let (trace, timelines) = (self.trace, self.timelines);
        let process = trace.process(task);
        let is_waiting = |other: Tid| self.chain(hop).any(|task| task == other);
        if process == self.client && (wait.is_for_work() || wait == Wait::Unknown) {
            let holder = self.servers.holder(trace, timelines, span);
            let holder = holder.filter(|holder| !is_waiting(*holder));
            let mut proxies = self.upstreams.proxies();
            let upstream = || proxies.find_map(|proxy| self.upstream(hop, proxy, span));
            // A command that is not stuck itself waits for one that it asked.
            let has_asked = |command: &Tid| {
                let asked = self.timelines.woken_by(*command, self.from, span.1);
                self.stuck_beside(hop, asked.into_iter().collect(), span).is_some()
            };
            let command = self.servers.command().filter(|command| !is_waiting(*command));
            let command = || command.filter(has_asked);
            if let Some(holder) = holder.or_else(upstream).or_else(command) {
                return Some(holder);
            }
        }
        if !wait.is_lock() {
            return None;
        }
        let siblings = timelines.tasks().filter(|other| trace.process(*other) == process);
        let others: Vec<Tid> = siblings.filter(|other| !is_waiting(*other)).collect();
        most_stuck(trace, timelines, (&others, None), span)
    }

    /// The tasks from that of `hop` back to the request's own.
    fn chain(&self, hop: usize) -> impl Iterator<Item = Tid> {
        // A hop refers to an earlier one, so that this ends.
        let parent = |hop: &&Hop| hop.waited_for_by.and_then(|(parent, _)| self.hops.get(parent));
        std::iter::successors(self.hops.get(hop), parent).map(|hop| hop.task)
    }

    fn is_inferred(&self, hop: usize) -> bool {
        self.hops.get(hop).is_some_and(|hop| hop.inferred)
    }

    /// The hop of `task` for which that of `parent` waits in `wait`.
    fn hop(
        &mut self,
        task: Tid,
        (parent, wait, waiter_stack): (usize, Wait, StackId),
        inferred: bool,
    ) -> usize {
        let hop = Hop { task, waited_for_by: Some((parent, wait)), waiter_stack, inferred };
        let is_it = |known: &Hop| Hop { waiter_stack, ..*known } == hop;
        // Requests go back and forth between the same few tasks: the last hops are the likely ones.
        let known = self.hops.iter().enumerate().rev().take(64).find(|(_, known)| is_it(known));
        if let Some((at, _)) = known {
            return at;
        }
        self.hops.push(hop);
        self.hops.len() - 1
    }

    fn push(&mut self, hop: usize, from: Nanos, to: Nanos, kind: TimeKind) {
        self.push_at(hop, from, to, kind, (StackId::default(), StackId::default()));
    }

    fn push_at(
        &mut self,
        hop: usize,
        from: Nanos,
        to: Nanos,
        kind: TimeKind,
        (stack, waker_stack): (StackId, StackId),
    ) {
        if from >= to {
            return;
        }
        let full = self.parts.len() >= MAX_PARTS;
        if let Some(last) = self.parts.last_mut() {
            let same = last.kind == kind && last.hop == hop && last.stack == stack;
            if full || (same && last.waker_stack == waker_stack) {
                last.to = to;
                return;
            }
        }
        self.parts.push(PathPiece { from, to, kind, hop, stack, waker_stack, samples: 0 });
    }
}

/// Marks the times in which the records of a CPU were lost as untraced: the state of tasks is not known.
fn without_gaps(parts: Vec<PathPiece>, gaps: &[(Nanos, Nanos)]) -> Vec<PathPiece> {
    let gaps = joined(gaps);
    let mut cut = Vec::with_capacity(parts.len());
    for part in parts {
        let mut at = part.from;
        let first = gaps.partition_point(|(_, end)| *end <= part.from);
        for (begin, end) in gaps.iter().skip(first).take_while(|(begin, _)| *begin < part.to) {
            let (begin, end) = ((*begin).max(part.from), (*end).min(part.to));
            cut.push(PathPiece { from: at, to: begin, ..part });
            let kind = TimeKind::Unseen(UnseenReason::Untraced);
            cut.push(PathPiece { from: begin, to: end, kind, samples: 0, ..part });
            at = end;
        }
        cut.push(PathPiece { from: at, ..part });
    }
    cut.retain(|part| part.from < part.to);
    cut
}

/// Spans in order, without overlaps.
fn joined(spans: &[(Nanos, Nanos)]) -> Vec<(Nanos, Nanos)> {
    let mut sorted: Vec<(Nanos, Nanos)> =
        spans.iter().copied().filter(|(begin, end)| begin < end).collect();
    sorted.sort_unstable();
    let mut joined: Vec<(Nanos, Nanos)> = Vec::new();
    for (begin, end) in sorted {
        match joined.last_mut() {
            Some((_, last)) if begin <= *last => *last = end.max(*last),
            _ => joined.push((begin, end)),
        }
    }
    joined
}

/// A wait that ended without a task that could be explained instead.
fn ended_by(wait: Wait, waker: Option<WakeCause>) -> TimeKind {
    match waker {
        _ if wait.is_for_resource() => TimeKind::Waiting(wait),
        None => TimeKind::Unseen(UnseenReason::NotWoken(wait)),
        Some(WakeCause::Timer | WakeCause::TimerSignal) if wait.may_time_out() => {
            TimeKind::TimedOut(wait)
        }
        Some(WakeCause::Disk) => TimeKind::Waiting(Wait::Disk),
        Some(WakeCause::Network) => TimeKind::Waiting(Wait::Network),
        Some(_) => TimeKind::Waiting(wait),
    }
}

#[cfg(test)]
#[path = "walk_properties.rs"]
mod properties;

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
