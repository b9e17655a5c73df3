//! Kernel profile: sampled stacks, waits in reclaim and compaction, who floods the page cache.
//!
//! ```text
//! perf rings ─ records ─ reader ─┬─ baseline (7 Hz, two hours)  ─┐
//!   (open, points)               ├─ table (999 Hz, one stall)   ─┴─ symbols ─ Profile ─ difference
//!                                ├─ waits (begin and end paired)
//!                                └─ flood (pages by process and file) ─ paths (used_file, file_numbers)
//! /proc ─ tasks, blocked
//! ```
//!
//! - **Always on, and cheap.** Everything is opened once; a stall only enables events that are
//!   there. One thread wakes every two seconds.
//! - **Names come last.** Stacks are counted by address. The names of all functions are held compressed, since
//!   reading /proc/kallsyms takes longest when a machine is short of CPUs.
//! - **What the kernel dropped is counted**, and what may not be seen is said with what would
//!   make it work.
//! - **CPUs are those that were online at the start.** One that comes later is sampled after
//!   the recorder was started again or has read its configuration again.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod baseline;
mod blocked;
mod difference;
mod file_numbers;
mod flood;
mod kallsyms;
mod kernel_functions;
mod mute;
mod names;
mod netlink;
mod open;
mod paths;
mod points;
mod process;
mod profiler;
mod reader;
mod records;
mod sched;
mod signals;
mod state_poller;
mod symbols;
mod table;
mod task_files;
mod task_numbers;
mod tasks;
mod taskstats;
mod tracefs;
mod tracepoint;
mod used_file;
mod user_namespace;
mod waiters;
mod waits;

pub use blocked::BlockedThreads;
pub use difference::{MAX_SHIFTS, difference};
pub use process::MAX_TASKS;
pub use profiler::{ProfileEvidence, Profiler, ProfilerOptions};
pub use sched::{SchedTracer, TraceCopy, TraceOptions, TraceSwitch, UserStackOptions};
pub use signals::{SentRecord, SignalEvents, SignalTracer};
pub use state_poller::{POLLS_HZ, StatePoller};
pub use symbols::Symbols;
pub use task_files::TaskFiles;
pub use tasks::{LOOK, Tasks};
pub use taskstats::delays_off;
pub use tracefs::Tracefs;
pub use waiters::waiters;
