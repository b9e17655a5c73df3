//! What a recorder notes at one instant.

use crate::Sample;

/// The fast counters at one instant, with what probes, canary and recorder saw since the tick
/// before.
#[derive(Debug, Clone, Default)]
pub struct Tick {
    /// Time, in milliseconds since 1970.
    pub unix_ms: u64,
    pub sample: Sample,
    pub disks: Vec<DiskTick>,
    /// Probes, in the order of the configuration.
    pub probes: Vec<ProbeTick>,
    /// The paired probe, where it runs.
    pub canary: Option<CanaryTick>,
    pub recorder: RecorderTick,
}

/// Work of a block device since boot, from /proc/diskstats.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskTick {
    /// Its name, such as `nvme0n1`.
    pub name: String,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Milliseconds that it was busy.
    pub busy_ms: u64,
    pub in_flight: u64,
}

/// Measurements of a probe since the tick before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProbeTick {
    /// Its name: short, without blanks or dots.
    pub name: String,
    /// Answers, failed ones included.
    pub answers: u64,
    pub failures: u64,
    /// The slowest answer, or how long the one under way has taken if that is more, in
    /// microseconds.
    pub worst_us: u64,
}

/// Measurements of the canary since the tick before: one thread that allocates and touches fresh
/// memory, one that does the same work without.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CanaryTick {
    /// The slowest touch of fresh memory, in microseconds.
    pub touch_us: u64,
    /// The slowest turn that touches none, from when it was due to its end, in microseconds.
    pub idle_us: u64,
    /// Largest delay of its wake-up, in microseconds: the jitter of a heartbeat.
    pub late_us: u64,
}

/// Cost and punctuality of the recorder itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecorderTick {
    /// CPU time of the process since it started, in microseconds.
    pub cpu_us: u64,
    pub resident_bytes: u64,
    /// Delay of the latest fast sample since the tick before, in microseconds.
    pub late_us: u64,
    /// Ticks that the writer could not take since the start.
    pub dropped_ticks: u64,
    /// Records of profile and tracepoints that were lost since the start.
    pub lost_records: u64,
}
