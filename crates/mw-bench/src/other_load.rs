//! The CPU load of other programs during the measurement, which makes it less precise.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct OtherLoad {
    start: Instant,
    busy: Option<Duration>,
    own: Duration,
}

impl OtherLoad {
    pub(crate) fn start() -> Self {
        Self { start: Instant::now(), busy: busy(), own: own() }
    }

    /// CPUs that other programs have kept busy, on average; none if the kernel does not report it.
    pub(crate) fn cpus(&self) -> Option<f64> {
        let busy = busy()?.checked_sub(self.busy?)?;
        let others = busy.saturating_sub(own().saturating_sub(self.own));
        Some(others.as_secs_f64() / self.start.elapsed().as_secs_f64())
    }
}

/// The time that CPUs were not idle: the first line of /proc/stat, in hundredths of a second
/// (proc_stat(5)).
fn busy() -> Option<Duration> {
    let text = mw_sys::kernel_file::read_to_string("/proc/stat").ok()?;
    let fields: Vec<u64> =
        text.lines().next()?.split_whitespace().skip(1).filter_map(|f| f.parse().ok()).collect();
    let (idle, iowait) = (fields.get(3)?, fields.get(4)?);
    // The last two of the ten fields are also part of the first two.
    let all: u64 = fields.iter().take(8).sum();
    Some(Duration::from_millis(all.saturating_sub(idle + iowait) * 10))
}

fn own() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}
