//! Measures all recorders at once.

use super::group::Usage;
use super::programs::Recorder;
use super::recording::RecordedRows;
use anyhow::Context;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Between two samples of what processes use.
const INTERVAL: Duration = Duration::from_secs(1);

/// Cost of a recorder, over the time that all were measured.
pub(super) struct Measured {
    /// Time of the measurement, in milliseconds since 1970.
    pub(super) window_ms: RangeInclusive<u64>,
    pub(super) took_s: f64,
    pub(super) cpu_us: u64,
    /// The most at one moment.
    pub(super) processes: usize,
    /// The most at one moment.
    pub(super) resident_bytes: u64,
    /// Growth of its files.
    pub(super) grown_bytes: u64,
    /// Bytes that it had written to disks.
    pub(super) written_bytes: u64,
    /// Figures of a recording itself.
    pub(super) recording: Option<RecordedRows>,
}

/// One recorder's counters at one moment.
struct Counters {
    at: Instant,
    cpu_us: u64,
    output_bytes: u64,
    usage: Usage,
}

impl Counters {
    fn read(recorder: &Recorder) -> anyhow::Result<Self> {
        let group = &recorder.group;
        Ok(Self {
            at: Instant::now(),
            cpu_us: group.cpu_us()?,
            output_bytes: bytes_below(&recorder.output)?,
            usage: group.usage()?,
        })
    }
}

/// Measures them for `duration`, in their order.
pub(super) fn all(recorders: &mut [Recorder], duration: Duration) -> anyhow::Result<Vec<Measured>> {
    let since_ms = unix_ms()?;
    let before = counters(recorders)?;
    let mut most: Vec<Usage> = before.iter().map(|counters| counters.usage).collect();
    let begun = Instant::now();
    while begun.elapsed() < duration {
        std::thread::sleep(INTERVAL.min(duration.saturating_sub(begun.elapsed())));
        for (recorder, most) in recorders.iter().zip(&mut most) {
            let usage = recorder.group.usage()?;
            most.processes = most.processes.max(usage.processes);
            most.resident_bytes = most.resident_bytes.max(usage.resident_bytes);
        }
    }
    let after = counters(recorders)?;
    let window_ms = since_ms..=unix_ms()?;
    let measured = before.iter().zip(&after).zip(&most);
    Ok(measured
        .map(|((before, after), most)| measured_between(before, after, most, window_ms.clone()))
        .collect())
}

fn counters(recorders: &[Recorder]) -> anyhow::Result<Vec<Counters>> {
    recorders.iter().map(Counters::read).collect()
}

fn measured_between(
    before: &Counters,
    after: &Counters,
    most: &Usage,
    window_ms: RangeInclusive<u64>,
) -> Measured {
    Measured {
        window_ms,
        took_s: (after.at - before.at).as_secs_f64(),
        cpu_us: after.cpu_us - before.cpu_us,
        processes: most.processes,
        resident_bytes: most.resident_bytes,
        grown_bytes: after.output_bytes.saturating_sub(before.output_bytes),
        written_bytes: after.usage.written_bytes.saturating_sub(before.usage.written_bytes),
        recording: None,
    }
}

fn unix_ms() -> anyhow::Result<u64> {
    Ok(u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?)
}

/// Bytes of all files below a directory.
fn bytes_below(folder: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in folder.read_dir().with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { bytes_below(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}
