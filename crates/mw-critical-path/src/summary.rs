//! A critical path as it is stored, shown and explained: sums instead of single parts, names instead of indices.

use crate::copies;
use crate::java::{MachineOperation, machine_time};
use crate::path::{CriticalPath, RunMode, TimeKind, TimeShare};
use crate::run_time::RunTimeWork;
use crate::trace::{Basis, Nanos, StackId, Tid, Trace, outside_number};
use crate::user_place::{RecordedPlaces, UserPlace};
use crate::wait::{self, KernelWork, Wait};
use serde::{Deserialize, Serialize};

/// Parts that are kept; smaller ones are summed up in [`PathSummary::rest_ns`].
const MAX_PARTS: usize = 12;
/// Functions of a stack that are kept, innermost first.
const MAX_FUNCTIONS: usize = 24;
/// Tasks that had the CPU which are kept for a part.
const MAX_HOLDERS: usize = 8;
/// Links of a chain that are kept: those next to the largest part.
const MAX_CHAIN: usize = 12;

/// Attribution of the time of a request. Its parts and `rest_ns` add up to `total_ns`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PathSummary {
    /// The task that waited for the answer.
    pub task: PathTask,
    pub total_ns: Nanos,
    /// The largest first.
    pub parts: Vec<PathPart>,
    pub rest_ns: Nanos,
    /// From the request's own task to that of the largest part: which task waited for which.
    pub chain: Vec<WaitLink>,
    /// The likely holder of the request, where the path ends in idle threads of a run-time.
    pub sibling: Option<Sibling>,
    /// Time in which a Java virtual machine worked for itself while the request waited for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<MachinePause>,
    /// Records of the request's time that the kernel or the reader dropped: with any, the parts may be wrong.
    pub lost: u64,
    /// Time from the request's beginning to that of the trace.
    pub untraced_ns: Nanos,
    pub basis: Basis,
}

/// Sum of the time of one kind and task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathPart {
    pub kind: TimeKind,
    pub total_ns: Nanos,
    /// The task that spent most of it.
    pub task: PathTask,
    /// It is likely, not certain, that the request's task waited for this one.
    #[serde(default)]
    pub inferred: bool,
    /// The task that had the CPU, for a wait for a CPU; a forked process that shares pages, for a copy on write; the
    /// process of the path that forked one which frees its memory.
    #[serde(default)]
    pub holder: Option<PathTask>,
    /// Time for which each task had the CPU, for a wait for a CPU: the longest first. Empty in recordings that do not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<HolderTime>,
    /// The function that it was called for, where it is a thread of a workqueue.
    #[serde(default)]
    pub work: Option<String>,
    /// Kernel functions, innermost first.
    #[serde(default)]
    pub stack: Vec<String>,
    /// Kernel functions of the wake-up that ended it.
    #[serde(default)]
    pub waker_stack: Vec<String>,
    /// Place of the task in its program.
    #[serde(default, skip_serializing_if = "UserPlace::is_empty")]
    pub user: UserPlace,
}

/// Time for which a task had the CPU that another waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderTime {
    pub task: PathTask,
    pub total_ns: Nanos,
}

/// A wait of a thread in the same process as the one in which the path ended: likely, not certain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sibling {
    pub task: PathTask,
    pub wait: Wait,
    pub total_ns: Nanos,
}

/// Work of a virtual machine for itself that a request waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachinePause {
    pub process: PathTask,
    pub operation: MachineOperation,
    pub total_ns: Nanos,
}

/// A thread, by its names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PathTask {
    /// Outside of the tracer's PID namespace, its number in the initial one plus 2^30.
    pub tid: Tid,
    pub name: String,
    /// The process that it belongs to; 0 where that is not known.
    pub process: Tid,
    /// The name of the process, where it is known and not the thread's.
    pub process_name: Option<String>,
    /// The cgroup below the hierarchy's root, where it was read.
    pub cgroup: Option<String>,
    /// Its cgroups in other hierarchies, where they are others (cgroup v1).
    pub other_cgroups: Vec<String>,
}

/// One step of a chain of waits: `waiter` waited in `wait` for `other`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitLink {
    pub waiter: PathTask,
    pub wait: Wait,
    pub other: PathTask,
    /// Likely, not certain: no wake-up says so.
    #[serde(default)]
    pub inferred: bool,
    /// Kernel functions in which the waiter waited, innermost first.
    #[serde(default)]
    pub stack: Vec<String>,
    /// Place of the waiter in its program.
    #[serde(default, skip_serializing_if = "UserPlace::is_empty")]
    pub user: UserPlace,
}

impl PathSummary {
    /// Time of the request of which the path says what it was spent on. Of a request that lasts, the wait that has not ended
    /// is unseen.
    pub fn seen_ns(&self) -> Nanos {
        let is_unseen = |part: &&PathPart| matches!(part.kind, TimeKind::Unseen(_));
        let unseen = self.parts.iter().filter(is_unseen).map(|part| part.total_ns);
        self.total_ns.saturating_sub(unseen.sum())
    }

    /// Work of a virtual machine for itself that took at least half of the request.
    pub fn main_pause(&self) -> Option<&MachinePause> {
        self.pause.as_ref().filter(|pause| pause.total_ns >= self.total_ns / 2)
    }

    /// Operation of the pause: a collection also where functions of the virtual machine say so.
    pub fn pause_operation(&self) -> Option<MachineOperation> {
        let pause = self.pause.as_ref()?;
        let collection = Some(RunTimeWork::JavaCollection);
        let is_shown = self.parts.iter().any(|part| part.user.run_time_work() == collection);
        Some(if is_shown { MachineOperation::Collection } else { pause.operation })
    }

    /// Places of tasks in their programs.
    pub fn user_places_mut(&mut self) -> impl Iterator<Item = &mut UserPlace> {
        let of_parts = self.parts.iter_mut().map(|part| &mut part.user);
        of_parts.chain(self.chain.iter_mut().map(|link| &mut link.user))
    }

    /// The tasks that it names, each as often as it does.
    pub fn tasks_mut(&mut self) -> impl Iterator<Item = &mut PathTask> {
        let of_parts = self.parts.iter_mut().flat_map(|part| {
            let holders = part.holders.iter_mut().map(|holder| &mut holder.task);
            std::iter::once(&mut part.task).chain(part.holder.as_mut()).chain(holders)
        });
        let of_chain = self.chain.iter_mut().flat_map(|link| [&mut link.waiter, &mut link.other]);
        let of_sibling = self.sibling.iter_mut().map(|sibling| &mut sibling.task);
        let of_pause = self.pause.iter_mut().map(|pause| &mut pause.process);
        let of_path = std::iter::once(&mut self.task).chain(of_parts).chain(of_chain);
        of_path.chain(of_sibling).chain(of_pause)
    }
}

impl CriticalPath {
    /// The sums of this path, with names from its trace.
    pub fn summary(&self, trace: &Trace) -> PathSummary {
        let shares = self.shares();
        let kept = shares.len().min(MAX_PARTS);
        let (first, rest) = shares.split_at(kept);
        let task = self.hops.first().map(|hop| PathTask::new(trace, hop.task));
        let places = RecordedPlaces::new(self, trace);
        let links = |share: &TimeShare| self.links(trace, &places, share.hop);
        PathSummary {
            task: task.unwrap_or_default(),
            total_ns: self.duration(),
            parts: first.iter().map(|share| self.part(trace, &places, share)).collect(),
            rest_ns: rest.iter().map(|share| share.total).sum(),
            chain: shares.first().map(links).unwrap_or_default(),
            sibling: self.sibling.map(|sibling| Sibling {
                task: PathTask::new(trace, sibling.task),
                wait: sibling.wait,
                total_ns: sibling.total,
            }),
            pause: machine_time(trace, self).map(|pause| MachinePause {
                process: PathTask::new(trace, pause.process),
                operation: pause.operation,
                total_ns: pause.total,
            }),
            lost: self.lost(trace),
            untraced_ns: trace.from.saturating_sub(self.from),
            basis: trace.basis,
        }
    }

    /// Records of the trace that were lost, where some were during the request or at an unknown time.
    fn lost(&self, trace: &Trace) -> u64 {
        let to = self.from.saturating_add(self.duration());
        let is_during = |(begin, end): &(Nanos, Nanos)| *begin < to && *end > self.from;
        if trace.gaps.is_empty() || trace.gaps.iter().any(is_during) { trace.lost } else { 0 }
    }

    fn part(&self, trace: &Trace, places: &RecordedPlaces<'_>, share: &TimeShare) -> PathPart {
        let task = self.hops.get(share.hop).map_or(0, |hop| hop.task);
        let holder = match share.kind {
            TimeKind::Runnable(holder) => holder.task().map(|tid| PathTask::new(trace, tid)),
            TimeKind::Running(RunMode::Kernel(KernelWork::CopyOnWrite)) => {
                let child = copies::sharing(trace, trace.process(task), self.from);
                child.map(|child| PathTask::new(trace, child))
            }
            TimeKind::Running(RunMode::Kernel(KernelWork::Exit)) => {
                let parent = copies::forked_by(trace, trace.process(task));
                let is_on_path =
                    |parent: &Tid| self.hops.iter().any(|hop| trace.process(hop.task) == *parent);
                parent.filter(is_on_path).map(|parent| PathTask::new(trace, parent))
            }
            _ => None,
        };
        let held = |(tid, total_ns): &(Tid, Nanos)| HolderTime {
            task: PathTask::new(trace, *tid),
            total_ns: *total_ns,
        };
        PathPart {
            kind: share.kind,
            total_ns: share.total,
            task: PathTask::new(trace, task),
            inferred: self.chain(share.hop).iter().any(|hop| hop.inferred),
            holder,
            holders: share.holders.iter().take(MAX_HOLDERS).map(held).collect(),
            work: wait::work_function(trace.stack(share.stack)).map(str::to_owned),
            stack: functions(trace, share.stack),
            waker_stack: functions(trace, share.waker_stack),
            user: places.of_share(share),
        }
    }

    fn links(&self, trace: &Trace, places: &RecordedPlaces<'_>, hop: usize) -> Vec<WaitLink> {
        let chain = self.chain(hop);
        let skipped = chain.len().saturating_sub(1).saturating_sub(MAX_CHAIN);
        let pairs = chain.iter().zip(chain.iter().skip(1)).skip(skipped);
        let link = |(waiter, other): (&crate::Hop, &crate::Hop)| WaitLink {
            waiter: PathTask::new(trace, waiter.task),
            wait: other.waited_for_by.map_or(Wait::Unknown, |(_, wait)| wait),
            other: PathTask::new(trace, other.task),
            inferred: other.inferred,
            stack: functions(trace, other.waiter_stack),
            user: places.of_waiter(waiter.task, other.waiter_stack),
        };
        pairs.map(link).collect()
    }
}

impl PathTask {
    fn new(trace: &Trace, tid: Tid) -> Self {
        let process = trace.tasks.get(&tid).map_or(0, |task| task.process);
        let name = trace.task_name(tid);
        let of_process = trace.task_name(process);
        let differs = process != tid && !of_process.is_empty() && of_process != name;
        let process_name = differs.then(|| of_process.to_owned());
        Self {
            tid,
            name: name.to_owned(),
            process,
            process_name,
            cgroup: None,
            other_cgroups: Vec::new(),
        }
    }

    /// True if it is outside of the tracer's PID namespace: its process, cgroup and earlier state are not known.
    pub fn is_outside(&self) -> bool {
        outside_number(self.tid).is_some()
    }

    /// The number of its process, for commands on this machine; `None` for a task outside of this PID namespace.
    pub fn pid(&self) -> Option<Tid> {
        let pid = if self.process == 0 { self.tid } else { self.process };
        (!self.is_outside() && pid != 0).then_some(pid)
    }

    /// Its number, and of which PID namespace.
    pub fn number(&self) -> String {
        match outside_number(self.tid) {
            None => self.tid.to_string(),
            Some(0) => "outside this PID namespace".to_owned(),
            Some(number) => format!("{number} in the initial PID namespace"),
        }
    }

    /// Its name and number.
    pub fn label(&self) -> String {
        format!("{} ({})", self.name, self.number())
    }
}

fn functions(trace: &Trace, stack: StackId) -> Vec<String> {
    trace.stack(stack).iter().take(MAX_FUNCTIONS).cloned().collect()
}
