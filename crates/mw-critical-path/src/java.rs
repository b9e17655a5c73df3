//! Pauses of a Java virtual machine (HotSpot): its own threads, which collect garbage or stop all others at a safepoint,
//! are on the path of a request.

use crate::path::{CriticalPath, TimeKind};
use crate::trace::{Nanos, Tid, Trace};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The thread that performs the operations of the virtual machine. With the serial collector it collects itself.
const OPERATIONS: &str = "VM Thread";

/// Beginnings of the names of threads that collect, as JDK 17 has them: 15 bytes of `comm`. Those of later versions begin
/// alike (`ZDriverMinor`, `ZWorkerYoung#0`).
const COLLECTORS: [&str; 8] = [
    "GC Thread#",
    "G1 Conc#",
    "G1 Main Marker",
    "ZDriver",
    "ZWorker",
    "RuntimeWorker#",
    "Shenandoah Cont",
    "Shenandoah GC T",
];

/// Operation of a virtual machine that the threads of its program wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MachineOperation {
    /// A collection of garbage: threads of a collector took part.
    Collection,
    /// One of the thread that stops all others: a collection by itself, or anything else.
    Safepoint,
}

/// Time of a path that was spent on the virtual machine's own work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MachineTime {
    pub(crate) process: Tid,
    pub(crate) operation: MachineOperation,
    pub(crate) total: Nanos,
}

/// Time of the parts in which threads of a virtual machine were waited for, or were what the path is of.
pub(crate) fn machine_time(trace: &Trace, path: &CriticalPath) -> Option<MachineTime> {
    let machines: BTreeSet<Tid> = trace
        .tasks
        .iter()
        .filter(|(_, task)| task.name == OPERATIONS)
        .map(|(tid, _)| trace.process(*tid))
        .collect();
    if machines.is_empty() {
        return None;
    }
    let operations: Vec<Option<(Tid, MachineOperation)>> =
        (0..path.hops.len()).map(|hop| operation(trace, &machines, path, hop)).collect();
    let (mut process, mut collection, mut total) = (0, 0, 0);
    for part in path.parts.iter().filter(|part| is_work(part.kind)) {
        let Some((of, operation)) = operations.get(part.hop).copied().flatten() else { continue };
        process = of;
        total += part.duration();
        if operation == MachineOperation::Collection {
            collection += part.duration();
        }
    }
    let is_collection = collection.saturating_mul(2) >= total;
    let operation =
        if is_collection { MachineOperation::Collection } else { MachineOperation::Safepoint };
    (total > 0).then_some(MachineTime { process, operation, total })
}

/// The operation that the task of a hop, or one that waited for it, took part in.
fn operation(
    trace: &Trace,
    machines: &BTreeSet<Tid>,
    path: &CriticalPath,
    hop: usize,
) -> Option<(Tid, MachineOperation)> {
    let of_hops = path.chain(hop).into_iter().filter_map(|hop| {
        let process = trace.process(hop.task);
        let name = trace.task_name(hop.task);
        let is_collector = || COLLECTORS.iter().any(|of| name.starts_with(of));
        let operation = match name {
            OPERATIONS => MachineOperation::Safepoint,
            _ if is_collector() => MachineOperation::Collection,
            _ => return None,
        };
        machines.contains(&process).then_some((process, operation))
    });
    of_hops.min_by_key(|(_, operation)| *operation)
}

/// True for time in which a thread of the virtual machine worked, or waited within its work.
fn is_work(kind: TimeKind) -> bool {
    !matches!(kind, TimeKind::Idle(_) | TimeKind::TimedOut(_) | TimeKind::Unseen(_))
}

#[cfg(test)]
#[path = "java_tests.rs"]
mod tests;
