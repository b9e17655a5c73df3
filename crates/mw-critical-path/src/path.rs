//! The critical path of a request: parts in the order of time, and their sums.

use crate::trace::{Nanos, StackId, Tid};

use crate::wait::{KernelWork, Wait};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A wait of another thread of the process in which the path ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiblingWait {
    pub task: Tid,
    pub wait: Wait,
    /// Time of the request that it covers.
    pub total: Nanos,
}

/// The critical path of a request. Its parts follow each other without gap or overlap from `from` to `to`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CriticalPath {
    pub from: Nanos,
    pub to: Nanos,
    pub parts: Vec<PathPiece>,
    /// The tasks in the order in which each waited for the next. The first is the request's own task.
    pub hops: Vec<Hop>,
    /// The likely holder of the request, where the path ends in threads of a run-time that were idle.
    #[serde(default)]
    pub sibling: Option<SiblingWait>,
}

/// A task on the path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    pub task: Tid,
    /// Index of the hop whose task waited for this one, and in what.
    pub waited_for_by: Option<(usize, Wait)>,
    /// Stack of the first of these waits.
    #[serde(default)]
    pub waiter_stack: StackId,
    /// No wake-up says that this task was waited for: it was stuck while the other waited. Likely, not certain.
    #[serde(default)]
    pub inferred: bool,
}

/// A piece of the request's time that one task spent in one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathPiece {
    pub from: Nanos,
    pub to: Nanos,
    pub kind: TimeKind,
    /// Index of the task in [`CriticalPath::hops`].
    pub hop: usize,
    /// Stack in the kernel.
    pub stack: StackId,
    /// Stack of the wake-up that ended it.
    pub waker_stack: StackId,
    /// Ticks of the sampling clock that it stands for, where the task ran.
    pub samples: u32,
}

/// Use of a part of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeKind {
    Running(RunMode),
    /// Ready to run, without a CPU.
    Runnable(CpuHolder),
    Waiting(Wait),
    /// A wait with a time limit, which passed.
    TimedOut(Wait),
    /// A task that likely held the request waited as it does for work: it was idle, or waited for what is not
    /// known to the trace.
    Idle(Wait),
    /// Stopped by a signal or a debugger.
    Stopped,
    Unseen(UnseenReason),
}

/// Mode in which a task ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunMode {
    User,
    Kernel(KernelWork),
    /// In the kernel, in what other tasks wait in: direct reclaim, compaction.
    In(Wait),
    /// Too short for a sample.
    Unsampled,
}

/// Holder of the CPU that a runnable task waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuHolder {
    Task(Tid),
    /// A task that freed memory: kswapd, kcompactd, or another in reclaim.
    Reclaimer(Tid),
    /// A task that reclaimed inside a cgroup.
    CgroupReclaimer(Tid),
    /// A process that the waiting task's process forked, and that mostly copies or frees its memory.
    Copy(Tid),
    /// A task that freed the memory of its process, which ended.
    Exiting(Tid),
    /// The process that traces.
    Tracer,
    /// The CPU was idle: the task was throttled by a quota, or its wake-up was late.
    Idle,
    Unknown,
}

/// Reason why the trace does not show what happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnseenReason {
    /// The task neither ran nor was woken while traced.
    NeverRan,
    /// The task did not exist.
    NotThere,
    /// It was before the trace began, or records of it were lost.
    Untraced,
    /// It waited for another task and was not woken before the trace ended.
    NotWoken(Wait),
    /// The chain of waits is longer than the walk follows.
    TooDeep,
}

/// Sum of the time of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeShare {
    pub kind: TimeKind,
    pub total: Nanos,
    /// Index of the hop that has most of it.
    pub hop: usize,
    /// The stack that has most of it, and the wake-up's.
    pub stack: StackId,
    pub waker_stack: StackId,
    /// Of a wait for a CPU, how long each task had it; the longest first.
    pub holders: Vec<(Tid, Nanos)>,
}

impl PathPiece {
    pub fn duration(&self) -> Nanos {
        self.to.saturating_sub(self.from)
    }
}

impl CriticalPath {
    pub fn duration(&self) -> Nanos {
        self.to.saturating_sub(self.from)
    }

    /// Sums by kind, the largest first. They add up to the request.
    ///
    /// Time in which a task ran is divided by its samples, of which each stands for the same time: most
    /// time slices are too short to have one. Waits for a CPU are one share, of whatever task had it.
    pub fn shares(&self) -> Vec<TimeShare> {
        let mut groups: BTreeMap<(TimeKind, usize), Sums> = BTreeMap::new();
        for part in &self.parts {
            groups.entry((part.kind, part.hop)).or_default().add(part);
        }
        estimate_running(&mut groups);
        let mut by_kind: BTreeMap<TimeKind, Vec<(TimeKind, usize, Sums)>> = BTreeMap::new();
        for ((kind, hop), sums) in groups.into_iter().filter(|(_, sums)| sums.total > 0) {
            by_kind.entry(kind.without_holder()).or_default().push((kind, hop, sums));
        }
        let mut shares: Vec<TimeShare> =
            by_kind.into_values().filter_map(|group| share(&group)).collect();
        shares.sort_by_key(|share| std::cmp::Reverse(share.total));
        shares
    }

    /// The hops from the request's own task to that of `hop`.
    pub fn chain(&self, hop: usize) -> Vec<Hop> {
        let mut chain = Vec::new();
        let mut at = Some(hop);
        while let Some(hop) = at.and_then(|at| self.hops.get(at)) {
            chain.push(*hop);
            // A hop refers to an earlier one, so that this ends.
            at = hop.waited_for_by.map(|(parent, _)| parent);
        }
        chain.reverse();
        chain
    }
}

impl CpuHolder {
    /// The task that had the CPU, where it is known.
    pub fn task(self) -> Option<Tid> {
        match self {
            Self::Task(tid)
            | Self::Reclaimer(tid)
            | Self::CgroupReclaimer(tid)
            | Self::Copy(tid)
            | Self::Exiting(tid) => (tid != 0).then_some(tid),
            Self::Tracer | Self::Idle | Self::Unknown => None,
        }
    }
}

impl TimeKind {
    /// The task that had the CPU, of a wait for one.
    pub fn holder(self) -> Option<Tid> {
        match self {
            Self::Runnable(holder) => holder.task(),
            _ => None,
        }
    }

    /// The same kind whichever task had the CPU.
    fn without_holder(self) -> Self {
        match self {
            Self::Runnable(CpuHolder::Task(_)) => Self::Runnable(CpuHolder::Task(0)),
            Self::Runnable(CpuHolder::Reclaimer(_)) => Self::Runnable(CpuHolder::Reclaimer(0)),
            Self::Runnable(CpuHolder::Copy(_)) => Self::Runnable(CpuHolder::Copy(0)),
            Self::Runnable(CpuHolder::Exiting(_)) => Self::Runnable(CpuHolder::Exiting(0)),
            other => other,
        }
    }
}

/// Sum of the parts of one kind and hop.
#[derive(Debug, Clone, Default)]
struct Sums {
    total: Nanos,
    samples: u64,
    by_stack: BTreeMap<(StackId, StackId), Nanos>,
}

impl Sums {
    fn add(&mut self, part: &PathPiece) {
        self.total += part.duration();
        self.samples += u64::from(part.samples);
        *self.by_stack.entry((part.stack, part.waker_stack)).or_default() += part.duration();
    }
}

/// Divides the running time of each hop by its samples; without any it stays unsampled.
fn estimate_running(groups: &mut BTreeMap<(TimeKind, usize), Sums>) {
    let mut hops: BTreeMap<usize, (Nanos, u64)> = BTreeMap::new();
    for ((kind, hop), sums) in &*groups {
        if matches!(kind, TimeKind::Running(_)) {
            let (running, samples) = hops.entry(*hop).or_default();
            *running += sums.total;
            *samples += sums.samples;
        }
    }
    // The last of a hop's modes takes what rounding leaves.
    let mut left = hops.clone();
    for ((kind, hop), sums) in groups.iter_mut() {
        let (TimeKind::Running(_), Some((running, samples))) = (kind, hops.get(hop)) else {
            continue;
        };
        let Some((running_left, samples_left)) = left.get_mut(hop).filter(|_| *samples > 0) else {
            continue;
        };
        *samples_left -= sums.samples;
        sums.total = match *samples_left {
            0 if sums.samples > 0 => *running_left,
            _ => proportion(*running, sums.samples, *samples),
        };
        *running_left -= sums.total;
    }
}

/// `whole * part / of`, rounded down.
fn proportion(whole: Nanos, part: u64, of: u64) -> Nanos {
    let share = u128::from(whole) * u128::from(part) / u128::from(of.max(1));
    Nanos::try_from(share).unwrap_or(whole)
}

fn share(group: &[(TimeKind, usize, Sums)]) -> Option<TimeShare> {
    let (kind, hop, largest) = group.iter().max_by_key(|(_, _, sums)| sums.total)?;
    let stacks = largest.by_stack.iter().max_by_key(|(_, time)| **time);
    let (stack, waker_stack) = stacks.map_or_else(Default::default, |(stacks, _)| *stacks);
    let total = group.iter().map(|(_, _, sums)| sums.total).sum();
    Some(TimeShare { kind: *kind, total, hop: *hop, stack, waker_stack, holders: holders(group) })
}

fn holders(group: &[(TimeKind, usize, Sums)]) -> Vec<(Tid, Nanos)> {
    let mut by_task: BTreeMap<Tid, Nanos> = BTreeMap::new();
    for (kind, _, sums) in group {
        if let Some(tid) = kind.holder() {
            *by_task.entry(tid).or_default() += sums.total;
        }
    }
    let mut holders: Vec<(Tid, Nanos)> = by_task.into_iter().collect();
    holders.sort_by_key(|(_, total)| std::cmp::Reverse(*total));
    holders
}
