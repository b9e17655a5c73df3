//! Consecutive samples, and the rates between them.

use crate::{Missing, Reading, Sample, Snapshot, Waiters};
use mw_proc::vmstat::Counter;

/// A snapshot and the samples that came before it, oldest first.
#[derive(Debug, Clone, Default)]
pub struct Window {
    /// Earlier samples, oldest first; empty if there is only one.
    pub earlier: Vec<Sample>,
    pub now: Snapshot,
    /// Tasks that waited for memory between the samples; of a running machine whose kernel reclaims.
    pub waiters: Reading<Waiters>,
}

impl Window {
    /// The shortest span over which a rate is a condition and not a burst, in milliseconds: kswapd and a single reader
    /// work in bursts of some 10 ms.
    pub const SUSTAINED_MS: f64 = 1000.0;

    /// Counters of what the kernel does to provide memory. Each is 0 a second while memory is plentiful.
    const WORK: [Counter; 8] = [
        Counter::PgscanKswapd,
        Counter::PgscanDirect,
        Counter::Allocstall,
        Counter::CompactStall,
        Counter::Pswpin,
        Counter::Pswpout,
        Counter::WorkingsetRefaultFile,
        Counter::OomKill,
    ];

    /// A window without earlier samples.
    pub fn new(now: Snapshot) -> Self {
        Self { now, ..Self::default() }
    }

    /// A window from the earlier samples on.
    pub fn since(earlier: impl IntoIterator<Item = Sample>, now: Snapshot) -> Self {
        Self { earlier: earlier.into_iter().collect(), now, ..Self::default() }
    }

    /// Milliseconds from the oldest sample to the latest, where there are two.
    pub fn span_ms(&self) -> Option<f64> {
        let oldest = self.earlier.first()?;
        Some(self.now.sample.at_ms - oldest.at_ms).filter(|ms| *ms > 0.0)
    }

    /// True if its rates are those of a second at least.
    pub fn is_sustained(&self) -> bool {
        self.span_ms().is_some_and(|ms| ms >= Self::SUSTAINED_MS)
    }

    /// True if the kernel reclaimed, compacted, swapped or killed between the samples.
    pub fn has_work(&self) -> bool {
        Self::WORK.iter().any(|counter| self.rate(*counter).is_ok_and(|rate| rate > 0.0))
    }

    /// True if tasks reclaimed or compacted directly between the samples.
    pub fn has_direct_work(&self) -> bool {
        let counters = [Counter::Allocstall, Counter::CompactStall];
        counters.iter().any(|counter| self.rate(*counter).is_ok_and(|rate| rate > 0.0))
    }

    /// The rate of a counter per second, from the oldest sample to the latest.
    ///
    /// # Errors
    /// There is only one sample, or the counter is missing from it.
    pub fn rate(&self, counter: Counter) -> Result<f64, Missing> {
        let rise = self.rise(counter)?;
        Ok(self.span_ms().map_or(0.0, |span_ms| rise as f64 * 1000.0 / span_ms))
    }

    /// The increase of a counter, from the oldest sample to the latest.
    ///
    /// # Errors
    /// There is only one sample, or the counter is missing from it.
    pub fn rise(&self, counter: Counter) -> Result<u64, Missing> {
        let no_rate = || {
            Missing::absent(
                format!("/proc/vmstat {}", counter.name()),
                "a rate needs two samples, and there is only one",
            )
        };
        self.span_ms().ok_or_else(no_rate)?;
        let before = self.earlier.first().ok_or_else(no_rate)?.vmstat.required()?;
        let after = self.now.sample.vmstat.required()?;
        let (Some(before), Some(after)) = (before.get(counter), after.get(counter)) else {
            return Err(Missing::absent(
                format!("/proc/vmstat {}", counter.name()),
                "this kernel does not count it",
            ));
        };
        Ok(after.saturating_sub(before))
    }

    /// The sum of several rates, leaving out counters that this kernel does not have.
    ///
    /// # Errors
    /// There is only one sample, or no vmstat.
    pub fn rate_of(&self, counters: &[Counter]) -> Result<f64, Missing> {
        let mut sum = None;
        let mut missing = None;
        for counter in counters {
            match self.rate(*counter) {
                Ok(rate) => sum = Some(sum.unwrap_or(0.0) + rate),
                Err(why) => missing = Some(why),
            }
        }
        match (sum, missing) {
            (Some(sum), _) => Ok(sum),
            (None, Some(missing)) => Err(missing),
            (None, None) => Ok(0.0),
        }
    }
}
