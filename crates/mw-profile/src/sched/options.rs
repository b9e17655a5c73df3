//! Limits of a trace.

use mw_sys::UserStackCopy;
use std::time::Duration;

/// Threads of which name and process are kept.
pub(super) const MAX_TASKS: usize = 1 << 16;

/// Gaps in the records of which the times are kept.
pub(super) const MAX_GAPS: usize = 1 << 12;

/// Tasks that ran at ticks of the clock and were not taken yet.
pub(super) const MAX_SAMPLED: usize = 1 << 10;

/// Threads of programs that sleep of which the stack is read at the start: about 20 µs each.
pub(super) const MAX_SLEEPERS: usize = 1 << 10;

/// Time limit of reading the states of all tasks at the start.
pub(super) const STATES_LIMIT: Duration = Duration::from_millis(100);

/// Memory that a trace may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceOptions {
    /// Memory of all rings, and of one, in bytes; as much again for user stacks of tasks that leave a CPU.
    pub rings_bytes: usize,
    pub ring_bytes: usize,
    /// Events that are kept, of 32 bytes; older ones are dropped.
    pub events: usize,
    /// Different stacks that are kept, of 200 bytes. Those of dropped events make room; where that is not enough,
    /// further ones are empty.
    pub stacks: usize,
    /// So many events and stacks have their memory from the start: where memory is short, a page that is touched
    /// first while a stall is traced waits for reclaim, and the rings overflow.
    pub resident_events: usize,
    pub resident_stacks: usize,
    /// User stacks; none are recorded without.
    pub user_stacks: Option<UserStackOptions>,
}

/// User stacks that a trace records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserStackOptions {
    /// Bytes that are copied of the stack of a task that runs at a tick of the clock.
    pub running: UserStackCopy,
    /// Such bytes of a task that leaves the CPU; without, its stack is not recorded.
    pub waiting: Option<UserStackCopy>,
    /// Of tasks that run, only those in the kernel are recorded.
    pub in_kernel_alone: bool,
    /// Words of 8 bytes that are kept of all stacks; no further ones are kept beyond.
    pub words: usize,
    /// So many have their memory from the start.
    pub resident_words: usize,
}

impl TraceOptions {
    /// For a process that only traces.
    pub const COMMAND: Self = Self {
        rings_bytes: 128 << 20,
        ring_bytes: 8 << 20,
        events: 1 << 20,
        stacks: 1 << 16,
        resident_events: 0,
        resident_stacks: 0,
        user_stacks: Some(UserStackOptions {
            running: UserStackCopy(2 << 10),
            waiting: Some(UserStackCopy(1 << 10)),
            in_kernel_alone: false,
            words: 4 << 20,
            resident_words: 0,
        }),
    };
    /// For the recorder, which is resident: 10 s of 25,000 events a second, of which 2.5 MiB are present.
    pub const RECORDER: Self = Self {
        rings_bytes: 16 << 20,
        ring_bytes: 1 << 20,
        events: 1 << 18,
        stacks: 1 << 14,
        resident_events: 1 << 16,
        resident_stacks: 1 << 11,
        // At ticks of the clock alone: those of switches would take rings of the same size again. Stacks in the kernel are
        // few, since a thread is in one call for long.
        user_stacks: Some(UserStackOptions {
            running: UserStackCopy(2 << 10),
            waiting: None,
            in_kernel_alone: true,
            words: 1 << 18,
            resident_words: 1 << 14,
        }),
    };
}
