//! `/proc/stat`: how the CPUs have spent their time since boot. Any kernel; `steal` from 2.6.11 on.

use crate::error::{ParseError, Problem};
use crate::scan;

/// Time of all CPUs together, in clock ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// In programs, in the kernel and in interrupts.
    pub busy_ticks: u64,
    /// A CPU would have run, but the hypervisor ran something else.
    pub steal_ticks: u64,
}

/// The line of all CPUs.
///
/// # Errors
/// It is missing, or a number is none.
pub fn parse(text: &[u8]) -> Result<CpuTimes, ParseError> {
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let (name, mut rest) = scan::first_field(line);
    if name != b"cpu" {
        return Err(ParseError::new(1, Problem::Empty));
    }
    let mut next = || {
        let (field, left) = scan::first_field(rest);
        rest = left;
        match field {
            b"" => Ok(0),
            number => scan::parse_u64(number).map_err(|problem| ParseError::new(1, problem)),
        }
    };
    let [user, nice, system, _idle, _iowait, irq, softirq, steal_ticks] =
        [next()?, next()?, next()?, next()?, next()?, next()?, next()?, next()?];
    let busy = [nice, system, irq, softirq].into_iter();
    Ok(CpuTimes { busy_ticks: busy.fold(user, u64::saturating_add), steal_ticks })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_kernels_print() {
        let text = b"cpu  754679 320798 226339 2254427 11300 0 1940 2643 0 0\ncpu0 1 2 3\n";
        let times = CpuTimes { busy_ticks: 1_303_756, steal_ticks: 2643 };
        assert_eq!(parse(text), Ok(times));
        let old = CpuTimes { busy_ticks: 6, steal_ticks: 0 };
        assert_eq!(parse(b"cpu 1 2 3 4\n"), Ok(old));
        assert!(parse(b"").is_err() && parse(b"cpu x").is_err() && parse(b"intr 1").is_err());
    }
}
