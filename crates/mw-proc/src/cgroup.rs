//! `/proc/PID/cgroup` and the files of the memory, cpu and io controllers, version 1 and 2.

use crate::error::{ParseError, Problem};
use crate::scan::{self, Line};

mod cpu;
mod events;
mod io;
mod mounted;
mod stat;

pub use cpu::{CpuMax, CpuStat};
pub use events::{MemoryEvents, OomControl, parse_freezer_state, parse_frozen, parse_oom_control};
pub use io::{
    BlockDevice, DeviceBytes, DeviceLimit, MAX_DEVICES, parse_blkio_bytes, parse_blkio_limit,
    parse_io_max, parse_io_stat,
};
pub use mounted::{CgroupMount, MountedHierarchy, PathFromMount};
pub use stat::MemoryStat;

/// The most lines of `/proc/PID/cgroup` that are read.
pub const MAX_MEMBERSHIPS: usize = 256;

/// From here on a limit is none: version 1 prints the largest multiple of the page size,
/// 9223372036854771712 with pages of 4 KiB.
pub const UNLIMITED_BYTES: u64 = 1 << 62;

/// The path of a process in one hierarchy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Membership {
    /// The hierarchy's number; the unified one (version 2) is 0.
    pub hierarchy: u32,
    /// `memory`, or `name=systemd`; none for the unified hierarchy.
    pub controllers: Vec<String>,
    /// From the root of the hierarchy (or of the reader's cgroup namespace); the kernel adds
    /// ` (deleted)` to that of a removed cgroup.
    pub path: String,
}

impl Membership {
    /// True if this is the unified hierarchy.
    #[must_use]
    pub fn is_unified(&self) -> bool {
        self.hierarchy == 0 && self.controllers.is_empty()
    }

    /// True if this hierarchy has the controller.
    #[must_use]
    pub fn has_controller(&self, controller: &str) -> bool {
        self.controllers.iter().any(|known| known == controller)
    }
}

/// Reads `/proc/PID/cgroup` (2.6.24 and later), one membership a line.
///
/// # Errors
/// When a line is not `number:controllers:path`.
pub fn parse_self(text: &[u8]) -> Result<Vec<Membership>, ParseError> {
    let mut memberships = Vec::new();
    for line in scan::lines(text) {
        if memberships.len() >= MAX_MEMBERSHIPS {
            return Err(line.error(Problem::TooMany("hierarchies")));
        }
        memberships.push(line.at(membership(line.text))?);
    }
    Ok(memberships)
}

fn membership(text: &[u8]) -> Result<Membership, Problem> {
    let expected = Problem::Expected("hierarchy:controllers:path");
    let (hierarchy, rest) = scan::split_once(text, b':').ok_or(expected)?;
    let (controllers, path) = scan::split_once(rest, b':').ok_or(expected)?;
    let controllers = controllers.split(|&byte| byte == b',').filter(|name| !name.is_empty());
    Ok(Membership {
        hierarchy: scan::parse_u32(hierarchy)?,
        controllers: controllers.map(scan::lossy).collect(),
        path: scan::lossy(path),
    })
}

/// Reads a limit in bytes (`memory.max`, `memory.high`, `memory.limit_in_bytes`); `None` is
/// unlimited: `max`, or [`UNLIMITED_BYTES`] and more.
///
/// # Errors
/// When it is neither a number nor `max`.
pub fn parse_limit(text: &[u8]) -> Result<Option<u64>, ParseError> {
    match text.trim_ascii() {
        b"max" => Ok(None),
        number => match scan::parse_u64(number) {
            Ok(limit) => Ok(limited(limit)),
            Err(problem) => Err(ParseError::new(1, problem)),
        },
    }
}

/// Reads `nr_dying_descendants` of `cgroup.stat` (version 2, 4.14 and later): groups that were removed, but whose
/// memory is still in use.
///
/// # Errors
/// When a line has no number or is cut, or the line is not there.
pub fn parse_dying(text: &[u8]) -> Result<u64, ParseError> {
    let mut dying = 0;
    read_flat(text, "nr_dying_descendants", |key, value| {
        let known = key == b"nr_dying_descendants";
        if known {
            dying = value;
        }
        known
    })?;
    Ok(dying)
}

fn limited(limit: u64) -> Option<u64> {
    Some(limit).filter(|&limit| limit < UNLIMITED_BYTES)
}

/// Gives every `key value` line to `set`, which says whether it knows the key.
fn read_flat(
    text: &[u8],
    expected: &'static str,
    mut set: impl FnMut(&[u8], u64) -> bool,
) -> Result<(), ParseError> {
    let mut known = false;
    let mut last = 1;
    for line in scan::lines(text) {
        let (key, value) = flat(&line)?;
        known |= set(key, value);
        last = line.number;
    }
    if known { Ok(()) } else { Err(ParseError::new(last, Problem::Expected(expected))) }
}

fn flat<'a>(line: &Line<'a>) -> Result<(&'a [u8], u64), ParseError> {
    line.whole()?;
    let (key, value) = scan::first_field(line.text);
    Ok((key, line.at(scan::parse_u64(value.trim_ascii()))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &[u8] = b"9:name=systemd:/
8:pids:/
4:memory:/app/2b785ab7
3:cpu,cpuacct:/a:b (deleted)
0::/
";

    #[test]
    fn memberships() {
        let all = parse_self(HYBRID).unwrap();
        assert_eq!(all.len(), 5);
        assert_eq!(all[0].controllers, ["name=systemd"]);
        assert!(all[2].has_controller("memory") && !all[2].is_unified());
        assert_eq!(all[2].path, "/app/2b785ab7");
        assert_eq!(all[3].controllers, ["cpu", "cpuacct"]);
        assert_eq!(all[3].path, "/a:b (deleted)");
        assert!(all[4].is_unified());
        assert_eq!(parse_self(b""), Ok(vec![]));
    }

    #[test]
    fn wrong_memberships() {
        let expected = Problem::Expected("hierarchy:controllers:path");
        assert_eq!(parse_self(b"0::/\n1:cpu\n"), Err(ParseError::new(2, expected)));
        assert_eq!(parse_self(b"0:"), Err(ParseError::new(1, Problem::Truncated)));
        assert_eq!(parse_self(b"x::/\n"), Err(ParseError::new(1, Problem::NotANumber)));
        let many = b"0::/\n".repeat(MAX_MEMBERSHIPS + 1);
        assert_eq!(parse_self(&many).unwrap_err().problem, Problem::TooMany("hierarchies"));
    }

    #[test]
    fn limits() {
        assert_eq!(parse_limit(b"max\n"), Ok(None));
        assert_eq!(parse_limit(b"9223372036854771712\n"), Ok(None));
        assert_eq!(parse_limit(b"18446744073709551615\n"), Ok(None));
        assert_eq!(parse_limit(b"4611686018427387904\n"), Ok(None));
        assert_eq!(parse_limit(b"536870912\n"), Ok(Some(536_870_912)));
        assert_eq!(parse_limit(b"0\n"), Ok(Some(0)));
        assert_eq!(parse_limit(b"min\n"), Err(ParseError::new(1, Problem::NotANumber)));
        assert_eq!(parse_limit(b""), Err(ParseError::new(1, Problem::Empty)));
    }
}
