//! `/proc/PID/stat`: who a process is (any kernel).

use crate::error::{ParseError, Problem};
use crate::scan;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PidStat {
    /// The name that the process gave itself, with control characters spelled out.
    pub name: String,
    /// `R`unning, `S`leeping, `D` waiting without interruption, `T` stopped, `Z`ombie, `X` dead.
    pub state: char,
    pub parent: u32,
    /// CPU time of all its threads, in ticks.
    pub cpu_ticks: u64,
    /// In ticks since boot: with the number it tells a process from another that has its number.
    pub started_ticks: u64,
}

impl PidStat {
    /// Reads the one line. A name may hold anything, also brackets and line ends.
    ///
    /// # Errors
    /// When a field is missing or is no number.
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        parse(text).map_err(|problem| ParseError::new(1, problem))
    }

    /// True if it has ended: what is left of it waits for its parent.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// Fields after the name: state is field 3 of proc_pid_stat(5), parent 4, CPU time 14 and 15, start time 22.
fn parse(text: &[u8]) -> Result<PidStat, Problem> {
    let expected = Problem::Expected("pid (name) state");
    let end = text.iter().rposition(|&byte| byte == b')').ok_or(expected)?;
    let (head, rest) = text.split_at_checked(end).ok_or(expected)?;
    let (_, name) = scan::split_once(head, b'(').ok_or(expected)?;
    let mut fields = scan::fields(rest.get(1..).unwrap_or_default());
    let state = fields.next().and_then(|state| state.first()).ok_or(expected)?;
    let parent = fields.next().ok_or(Problem::Expected("a parent")).and_then(scan::parse_u32)?;
    let user = fields.nth(9).ok_or(Problem::Expected("CPU time"));
    let system = fields.next().ok_or(Problem::Expected("CPU time"));
    let started = fields.nth(6).ok_or(Problem::Expected("a start time"));
    Ok(PidStat {
        name: scan::lossy_escaped(name),
        state: char::from(*state),
        parent,
        cpu_ticks: user
            .and_then(scan::parse_u64)?
            .saturating_add(system.and_then(scan::parse_u64)?),
        started_ticks: started.and_then(scan::parse_u64)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_whatever_the_name() {
        let text =
            b"42 (a) (b\nc) Z 7 42 42 0 -1 4194304 500 0 7 0 30 20 0 0 20 0 3 0 999 1000 64\n";
        let stat = PidStat::parse(text).unwrap();
        assert_eq!((stat.name.as_str(), stat.state, stat.parent), ("a) (b\\nc", 'Z', 7));
        assert_eq!(stat.cpu_ticks, 50);
        assert_eq!((stat.started_ticks, stat.has_ended()), (999, true));
    }

    #[test]
    fn wrong() {
        for text in [&b""[..], b"1 (a", b"1 (a)", b"1 (a) S", b"1 (a) S x", b"1 (a) S 1 2 3"] {
            assert!(PidStat::parse(text).is_err());
        }
    }
}
