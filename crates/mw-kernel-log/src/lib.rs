//! Kernel logs of any kernel from 2.6.32 on, as people paste them: what the OOM killer did, which allocations failed, which
//! tasks were blocked, and why.
//!
//! ```text
//! bytes ─→ frame, prefix ─→ LogLine ─→ Reader ─→ KernelReport ─→ zones, holders ─→ LogCause ─→ KernelLogAnswer
//! ```
//!
//! - **Text in, an answer out.** No file is opened; nothing of this machine is asked.
//! - **Whatever stands before a message is taken off** by `prefix`, whatever a message is wrapped in by `frame`, and what a
//!   mail folded is joined by `lines`; the rest of the crate sees messages only.
//! - **A report that begins or ends within the log** is read as far as it goes; what is not in it stays unknown.
//! - **Bounded**: bytes, lines, reports, tasks, zones and names have limits with names.
//! - **The cause is decided from numbers** (`cause`), the words follow from it (`words`).

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::unreachable
    )
)]

mod answer;
mod cause;
mod cgroup_lines;
mod cgroup_words;
mod compose;
mod counted_lines;
mod failure_words;
mod frame;
mod gfp;
mod heads;
mod holders;
mod kernel_warnings;
mod lines;
mod machine_words;
mod memory_lines;
mod notices;
mod own_shortages;
mod page;
mod prefix;
mod programs;
mod reader;
mod report;
mod task_table;
mod task_words;
mod vmalloc;
mod waits;
mod warning_parts;
mod warning_words;
mod word_table;
mod zones;

pub use answer::{
    AnswerRow, CgroupFacts, GroupKind, KERNEL_LOG_SCHEMA, KernelLogAnswer, LogRequest, ReportGroup,
    VictimFacts,
};
pub use cause::{CgroupLimitKind, LogCause};
pub use compose::explain;
pub use gfp::GfpMask;
pub use holders::{LogMemoryPart, LogShare, TaskShare};
pub use lines::MAX_LOG_BYTES;
pub use notices::{KillNotice, KillingProgram, OomdReason, UnitEvent, kill_notice};
pub use page::memory_setting;
pub use waits::BlockedOn;
pub use zones::{ZoneObstacle, ZoneVerdict};
