//! `memory.events` and `cgroup.events` (version 2), `memory.oom_control` and `freezer.state` (version 1).

use super::read_flat;
use crate::error::{ParseError, Problem};

/// Number of times that a cgroup reached its limits: `memory.events` and `memory.events.local`, in events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryEvents {
    /// Reclaimed although below its protection.
    pub low: Option<u64>,
    /// Throttled above `memory.high`.
    pub high: Option<u64>,
    /// About to pass `memory.max`.
    pub max: Option<u64>,
    /// At the limit, with the allocation about to fail.
    pub oom: Option<u64>,
    /// Processes killed (4.13 and later).
    pub oom_kill: Option<u64>,
    /// Times that the whole cgroup was killed (5.17 and later).
    pub oom_group_kill: Option<u64>,
}

impl MemoryEvents {
    /// These events of `memory.events`, with its limits alone: there the kernel also counts the limits of the groups
    /// below, since 5.2, and in `memory.events.local` it does not.
    pub fn of_own_limits(self, local: Self) -> Self {
        Self { low: local.low, high: local.high, max: local.max, oom: local.oom, ..self }
    }

    /// Reads the file; it allocates nothing.
    ///
    /// # Errors
    /// When a line has no number or is cut, or no line is known.
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        let mut events = Self::default();
        read_flat(text, "max", |key, value| {
            let slot = match key {
                b"low" => &mut events.low,
                b"high" => &mut events.high,
                b"max" => &mut events.max,
                b"oom" => &mut events.oom,
                b"oom_kill" => &mut events.oom_kill,
                b"oom_group_kill" => &mut events.oom_group_kill,
                _ => return false,
            };
            *slot = Some(value);
            true
        })?;
        Ok(events)
    }
}

/// State of a version 1 cgroup that is out of memory: `memory.oom_control`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OomControl {
    /// Nothing is killed; who allocates waits.
    pub is_kill_disabled: bool,
    pub is_under_oom: bool,
    /// Processes killed (4.13 and later), in events.
    pub oom_kill: Option<u64>,
}

/// Reads `memory.oom_control` (2.6.34 and later); it allocates nothing.
///
/// # Errors
/// When a line has no number or is cut, or no line is known.
pub fn parse_oom_control(text: &[u8]) -> Result<OomControl, ParseError> {
    let mut control = OomControl::default();
    read_flat(text, "under_oom", |key, value| {
        match key {
            b"oom_kill_disable" => control.is_kill_disabled = value != 0,
            b"under_oom" => control.is_under_oom = value != 0,
            b"oom_kill" => control.oom_kill = Some(value),
            _ => return false,
        }
        true
    })?;
    Ok(control)
}

/// Reads from `cgroup.events` (5.2 and later for this line) whether the cgroup is frozen; it allocates
/// nothing.
///
/// # Errors
/// When a line has no number or is cut, or there is no line `frozen`.
pub fn parse_frozen(text: &[u8]) -> Result<bool, ParseError> {
    let mut frozen = false;
    read_flat(text, "frozen", |key, value| {
        frozen |= key == b"frozen" && value != 0;
        key == b"frozen"
    })?;
    Ok(frozen)
}

/// Reads `freezer.state` of version 1: whether the cgroup is frozen, or becoming so.
///
/// # Errors
/// When it is none of the kernel's words.
pub fn parse_freezer_state(text: &[u8]) -> Result<bool, ParseError> {
    match text.trim_ascii() {
        b"FROZEN" | b"FREEZING" => Ok(true),
        b"THAWED" => Ok(false),
        _ => Err(ParseError::new(1, Problem::Expected("THAWED, FREEZING or FROZEN"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events() {
        let text = b"low 1\nhigh 2\nmax 1046\noom 3\noom_kill 4\noom_group_kill 0\n";
        let events = MemoryEvents::parse(text).unwrap();
        assert_eq!((events.low, events.high, events.max), (Some(1), Some(2), Some(1046)));
        assert_eq!((events.oom, events.oom_kill), (Some(3), Some(4)));
        assert_eq!(events.oom_group_kill, Some(0));
        let local = MemoryEvents::parse(b"low 0\nhigh 0\nmax 7\noom 0\noom_kill 0\n").unwrap();
        let own = events.of_own_limits(local);
        assert_eq!((own.high, own.max, own.oom_kill), (Some(0), Some(7), Some(4)));
        let older = MemoryEvents::parse(b"low 0\nhigh 0\nmax 0\noom 0\n").unwrap();
        assert_eq!((older.oom, older.oom_kill), (Some(0), None));
    }

    #[test]
    fn oom_control() {
        let newer = parse_oom_control(b"oom_kill_disable 0\nunder_oom 1\noom_kill 7\n").unwrap();
        assert_eq!((newer.is_kill_disabled, newer.is_under_oom), (false, true));
        assert_eq!(newer.oom_kill, Some(7));
        let older = parse_oom_control(b"oom_kill_disable 1\nunder_oom 0\n").unwrap();
        assert_eq!((older.is_kill_disabled, older.oom_kill), (true, None));
    }

    #[test]
    fn frozen() {
        assert_eq!(parse_frozen(b"populated 1\nfrozen 1\n"), Ok(true));
        assert_eq!(parse_frozen(b"populated 1\nfrozen 0\n"), Ok(false));
        let expected = Problem::Expected("frozen");
        assert_eq!(parse_frozen(b"populated 1\n"), Err(ParseError::new(1, expected)));
        assert_eq!(parse_freezer_state(b"FROZEN\n"), Ok(true));
        assert_eq!(parse_freezer_state(b"THAWED\n"), Ok(false));
        assert!(parse_freezer_state(b"1\n").is_err());
    }

    #[test]
    fn wrong() {
        let problem = |text: &[u8]| MemoryEvents::parse(text).unwrap_err().problem;
        assert_eq!(problem(b""), Problem::Expected("max"));
        assert_eq!(problem(b"max 1\noom"), Problem::Truncated);
        let problem = |text: &[u8]| parse_oom_control(text).unwrap_err().problem;
        assert_eq!(problem(b"max 1\n"), Problem::Expected("under_oom"));
        assert_eq!(problem(b"under_oom no\n"), Problem::NotANumber);
    }
}
