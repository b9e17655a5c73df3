//! The recorder: samples, probes and profiles all the time, and puts together what explains a stall.
//!
//! ```text
//!   mw-sample    1 to 10 a second: vmstat, free blocks, pressure ▶ ring of 120 s
//!                1 a second: everything ───────────────────────▶ writer ──▶ recording
//!
//!   mw-probe-…   one a probe           ┐
//!   the kernel's pressure trigger      ├─ alarms ─▶ mw-trigger: has a limit passed?
//!   mw-canary    touches, and does not │                        │ begin: full rate
//!                as mw-sample sees it, ┘                        ▼
//!                at rest without signs
//!   mw-profile   low rate: baseline ───────────────────────▶ mw-evidence: tasks, stacks,
//!                full rate while there is a stall            ring, rules ──▶ incident
//!
//!   mw-kills     signals that end processes, with their senders ▶ recording
//!   mw-kernel    the kernel's log and its counter of OOM kills ▶ incidents of kills, evidence of stalls
//! ```
//!
//! All that must go on while the machine stalls (sampling, trigger) is locked in memory, runs before
//! ordinary threads, forks nothing and touches no disk; what may be late (evidence, writer) is behind
//! a ring and a bounded queue. Nothing here writes to the kernel's settings.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod assemble;
mod clock;
mod connection_readings;
mod context;
mod control;
mod cpu_budget;
mod detector;
mod episode;
mod event;
mod evidence;
mod kernel_events;
mod kill_budget;
mod kill_scope;
mod kills;
mod known_upstreams;
mod monitors;
mod oom_detector;
mod oom_runs;
mod open_incident;
mod pace;
mod pages_left;
mod priority;
mod progress;
mod requests;
mod ring;
mod sampling;
mod service_answers;
mod services;
mod signal_kills;
mod sizes;
mod stall;
mod stall_queue;
mod task_groups;
mod tracing;
mod trigger;
mod unstacked_waits;
mod waits;
mod wakeup;
mod watch;

pub use context::{AFTER, BEFORE};
pub use control::{EvidenceRequestError, RequestedIncident, request_evidence};
pub use detector::{HEARTBEAT_PERCENT, MAX_EVIDENCE_MS, QUIET_MS, REQUESTED_MS};
pub use event::WatchEvent;
pub use progress::StuckThread;
pub use ring::RING_ROWS;
pub use watch::{CanaryOptions, MAX_END, SIZES_INTERVAL, Watch, WatchError, WatchOptions};

use std::time::Duration;

/// So much waiting for memory within a second is a stall of its own, as the kernel's pressure
/// trigger sees it.
pub const PRESSURE_STALL: Duration = Duration::from_millis(150);
