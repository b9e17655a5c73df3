//! How the CPUs spent their time between two moments.

use mw_model::CpuUse;
use mw_proc::stat::{CpuTimes, parse};

/// CPU time of all CPUs, at one moment.
#[derive(Debug, Clone, Copy)]
pub struct CpuSample(CpuTimes);

impl CpuSample {
    /// Of the running machine. It takes 50 µs, and some ms with hundreds of CPUs, because the kernel prints the counts of
    /// all interrupts as well: it is for moments, not for each row of a recording.
    #[must_use]
    pub fn take() -> Option<Self> {
        parse(&mw_sys::kernel_file::read("/proc/stat").ok()?).ok().map(Self)
    }

    #[must_use]
    pub fn since(self, before: Self) -> CpuUse {
        let per_s = rustix::param::clock_ticks_per_second().max(1);
        let ms = |now: u64, before: u64| now.saturating_sub(before).saturating_mul(1000) / per_s;
        CpuUse {
            busy_ms: ms(self.0.busy_ticks, before.0.busy_ticks),
            stolen_ms: ms(self.0.steal_ticks, before.0.steal_ticks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_thread_is_counted_between_two_moments() {
        let before = CpuSample::take().unwrap();
        let began = std::time::Instant::now();
        while began.elapsed() < std::time::Duration::from_millis(200) {
            std::hint::spin_loop();
        }
        let spent = CpuSample::take().unwrap().since(before);
        assert!((100..100_000).contains(&(spent.busy_ms + spent.stolen_ms)), "{spent:?}");
        assert_eq!(before.since(before), CpuUse::default());
    }
}
