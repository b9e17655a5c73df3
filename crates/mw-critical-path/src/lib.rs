//! Attribution of the time of a request to the tasks and resources that it waited for.
//!
//! A request begins at one moment and ends when its answer wakes the task that waited for it. The critical
//! path is found backwards: which task sent that wake-up, and what did it do since the request began?
//! Where it waited for a third task, that task is explained instead, over just that interval. The walk
//! stops at what is not a task: a CPU, a disk, reclaim, a timer.
//!
//! ```text
//! scheduler events ─→ Trace ─→ timelines (running, runnable, blocked) ─→ walk ─→ Path: parts in time order
//! ```
//!
//! - **The parts exclude each other and add up to the request**, to the nanosecond, whatever the events.
//!   What the trace does not show is a part of its own.
//! - **No names are compared.** The walk follows wake-ups, so that it needs to know neither the service's
//!   processes nor its threads, and leaves out whatever else the machine was doing.
//! - **Polled states serve as well** ([`TaskReadings`]) where scheduler events may not be traced; then it is not known
//!   who sent a wake-up.
//! - **Pure.** A trace is data ([`Trace`] is serializable): recorded ones are fixtures.
//!
//! Kernel functions are recognized by the tables in `conditions` and [`kernel`], matched by prefix.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod conditions;
mod copies;
mod filled;
mod java;
pub mod kernel;
mod names;
mod needed;
mod path;
mod polled;
mod probe_looks;
mod program;
mod request;
mod run_time;
mod servers;
mod summary;
#[cfg(test)]
mod test_trace;
mod thinning;
mod timeline;
mod trace;
mod upstreams;
mod user_place;
mod userspace_scheduler;
mod wait;
mod walk;

pub use filled::filled_path;
pub use java::MachineOperation;
pub use kernel::FunctionName;
pub use names::{ListedSet, listed_sets, listed_waits};
pub use needed::NeededEvents;
pub use path::{
    CpuHolder, CriticalPath, Hop, PathPiece, RunMode, SiblingWait, TimeKind, TimeShare,
    UnseenReason,
};
pub use polled::{TaskReading, TaskReadings};
pub use program::{Cycle, ProgramTime, TracedProgram};
pub use request::RequestSpan;
pub use run_time::RunTimeWork;
pub use summary::{HolderTime, MachinePause, PathPart, PathSummary, PathTask, Sibling, WaitLink};
pub use thinning::Thinning;
pub use trace::{
    Basis, CodeMapping, Event, EventKind, Nanos, StackId, Task, TaskState, Tid, Trace,
    UNKNOWN_OUTSIDE, UserRegisters, UserStack, UserStackId, WakeContext, outside_number,
    outside_tid,
};
pub use user_place::UserPlace;
pub use wait::{KernelWork, TimeClass, Wait, wait_of};
pub use walk::critical_path;
