//! What a recorder notes at one instant.

use crate::Sample;

/// The fast counters at one instant, with what probes, canary and recorder saw since the tick
/// before.
#[derive(Debug, Clone, Default)]
pub struct Tick {
    /// When, in milliseconds since 1970.
    pub unix_ms: u64,
    pub sample: Sample,
    pub disks: Vec<DiskTick>,
    /// Probes, in the order of the configuration.
    pub probes: Vec<ProbeTick>,
    /// The paired probe, where it runs.
    pub canary: Option<CanaryTick>,
    pub recorder: RecorderTick,
}

/// What a block device has done since boot, as /proc/diskstats says.
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

/// What a probe saw since the tick before.
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

/// What the paired probe saw since the tick before: one thread that allocates and touches fresh
/// memory, one that does the same work without.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CanaryTick {
    /// The slowest touch of fresh memory, in microseconds.
    pub touch_us: u64,
    /// The slowest turn that touches none, from when it was due to its end, in microseconds.
    pub idle_us: u64,
    /// How late that one was woken at worst, in microseconds: the jitter of a heartbeat.
    pub late_us: u64,
}

/// What the recorder itself cost, and how punctual it was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecorderTick {
    /// Processor time of the process since it started, in microseconds.
    pub cpu_us: u64,
    pub resident_bytes: u64,
    /// How late the latest fast sample since the tick before was, in microseconds.
    pub late_us: u64,
    /// Ticks that the writer could not take since the start.
    pub dropped_ticks: u64,
    /// Records of profile and tracepoints that were lost since the start.
    pub lost_records: u64,
}
