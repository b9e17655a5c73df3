//! `cpu.stat` and `cpu.max`, version 1 and 2.

use super::read_flat;
use crate::error::{ParseError, Problem};
use crate::scan;

const NANOS_PER_MICRO: u64 = 1_000;

/// CPU time of a cgroup, and how often its quota stopped it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuStat {
    /// CPU time used (version 2).
    pub usage_us: Option<u64>,
    /// Periods in which it was stopped because its quota was used up.
    pub throttled_periods: Option<u64>,
    /// Time that its CPU queues were stopped, added over the CPUs.
    pub throttled_us: Option<u64>,
}

impl CpuStat {
    /// Reads `cpu.stat`; it allocates nothing.
    ///
    /// # Errors
    /// When a line has no number or is cut, or no line is known.
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        let mut stat = Self::default();
        read_flat(text, "nr_throttled", |key, value| {
            match key {
                b"usage_usec" => stat.usage_us = Some(value),
                b"nr_throttled" => stat.throttled_periods = Some(value),
                b"throttled_usec" => stat.throttled_us = Some(value),
                // Version 1 counts nanoseconds.
                b"throttled_time" => stat.throttled_us = value.checked_div(NANOS_PER_MICRO),
                _ => return false,
            }
            true
        })?;
        Ok(stat)
    }
}

/// CPU time that a cgroup may use in each period: `cpu.max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuMax {
    /// `None` when unlimited.
    pub quota_us: Option<u64>,
    pub period_us: Option<u64>,
}

impl CpuMax {
    /// Reads `cpu.max` of version 2: `max 100000`, `20000 100000`.
    ///
    /// # Errors
    /// When it is not a quota and a period.
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        let (quota, period) = scan::first_field(text);
        let at_first = |problem| ParseError::new(1, problem);
        Ok(Self {
            quota_us: match quota {
                b"max" => None,
                number => Some(scan::parse_u64(number).map_err(at_first)?),
            },
            period_us: Some(scan::parse_u64(period.trim_ascii()).map_err(at_first)?),
        })
    }

    /// Reads `cpu.cfs_quota_us` of version 1, which is -1 when unlimited.
    ///
    /// # Errors
    /// When it is no number.
    pub fn parse_quota(text: &[u8]) -> Result<Option<u64>, ParseError> {
        let quota = scan::parse_i64(text.trim_ascii());
        let quota = quota.map_err(|problem: Problem| ParseError::new(1, problem))?;
        Ok(u64::try_from(quota).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_2() {
        let text = b"usage_usec 7\nuser_usec 5\nsystem_usec 2\nnr_periods 3\nnr_throttled 2\n\
            throttled_usec 190000\nnr_bursts 0\nburst_usec 0\n";
        let stat = CpuStat::parse(text).unwrap();
        assert_eq!((stat.usage_us, stat.throttled_periods), (Some(7), Some(2)));
        assert_eq!(stat.throttled_us, Some(190_000));
        let root = CpuStat::parse(b"usage_usec 7\nuser_usec 5\nsystem_usec 2\n").unwrap();
        assert_eq!((root.usage_us, root.throttled_us), (Some(7), None));
    }

    #[test]
    fn version_1() {
        let text = b"nr_periods 9\nnr_throttled 4\nthrottled_time 250000999\n";
        let stat = CpuStat::parse(text).unwrap();
        assert_eq!((stat.usage_us, stat.throttled_periods), (None, Some(4)));
        assert_eq!(stat.throttled_us, Some(250_000));
        assert_eq!(CpuMax::parse_quota(b"-1\n"), Ok(None));
        assert_eq!(CpuMax::parse_quota(b"20000\n"), Ok(Some(20_000)));
    }

    #[test]
    fn quotas() {
        let unlimited = CpuMax { quota_us: None, period_us: Some(100_000) };
        assert_eq!(CpuMax::parse(b"max 100000\n"), Ok(unlimited));
        let limited = CpuMax { quota_us: Some(20_000), period_us: Some(50_000) };
        assert_eq!(CpuMax::parse(b"20000 50000\n"), Ok(limited));
        assert_eq!(CpuMax::parse(b"max\n"), Err(ParseError::new(1, Problem::Empty)));
    }

    #[test]
    fn wrong() {
        assert_eq!(CpuStat::parse(b"").unwrap_err().problem, Problem::Expected("nr_throttled"));
        assert_eq!(CpuStat::parse(b"nr_throttled 4").unwrap_err().problem, Problem::Truncated);
        assert_eq!(CpuMax::parse_quota(b"x\n").unwrap_err().problem, Problem::NotANumber);
    }
}
