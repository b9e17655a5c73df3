//! `/proc/version` and `/proc/sys/kernel/osrelease`. Any kernel.

use std::fmt;

use crate::error::{ParseError, Problem};
use crate::scan;

/// The version of a kernel, to compare by. What distributions backport does not show in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct KernelVersion {
    /// 6 of 6.18.44.
    pub major: u32,
    /// 18 of 6.18.44.
    pub minor: u32,
    /// 44 of 6.18.44; 0 when there is none.
    pub patch: u32,
}

impl KernelVersion {
    /// The version `major.minor.patch`.
    #[must_use]
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// Reads `Linux version 6.18.44-fc-v657 (...)` or `6.18.44-fc-v657`.
    ///
    /// # Errors
    /// If the text does not begin with a version.
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        let text = text.trim_ascii();
        let release = text.strip_prefix(b"Linux version ").unwrap_or(text);
        read(release).map_err(|problem| ParseError::new(1, problem))
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

fn read(release: &[u8]) -> Result<KernelVersion, Problem> {
    let (major, rest) = leading_number(release);
    let major = scan::parse_u32(major)?;
    let rest = rest.strip_prefix(b".").ok_or(Problem::Expected("major.minor"))?;
    let (minor, rest) = leading_number(rest);
    let minor = scan::parse_u32(minor)?;
    let patch = match rest.strip_prefix(b".").map(leading_number) {
        None | Some((b"", _)) => 0,
        Some((patch, _)) => scan::parse_u32(patch)?,
    };
    Ok(KernelVersion { major, minor, patch })
}

fn leading_number(text: &[u8]) -> (&[u8], &[u8]) {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    text.split_at_checked(digits).unwrap_or((text, b""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, major: u32, minor: u32, patch: u32) {
        let expected = KernelVersion::new(major, minor, patch);
        assert_eq!(KernelVersion::parse(text.as_bytes()), Ok(expected), "{text}");
    }

    #[test]
    fn reads() {
        check("Linux version 6.18.44-fc-v657 (builder@host) (gcc (GCC) 15.3.0) #1\n", 6, 18, 44);
        check("6.18.44-fc-v657\n", 6, 18, 44);
        check("2.6.18-164.11.1.el5\n", 2, 6, 18);
        check("6.1\n", 6, 1, 0);
        check("6.19-rc1", 6, 19, 0);
        check("5.10.0-28-cloud-amd64\n", 5, 10, 0);
        check("4.19.0+", 4, 19, 0);
        check("5.4.", 5, 4, 0);
    }

    #[test]
    fn compares() {
        assert!(KernelVersion::new(5, 14, 0) < KernelVersion::new(6, 1, 0));
        assert!(KernelVersion::new(5, 9, 16) < KernelVersion::new(5, 10, 0));
        assert_eq!(KernelVersion::new(6, 1, 2).to_string(), "6.1.2");
    }

    #[test]
    fn wrong() {
        let problem = |text: &[u8]| KernelVersion::parse(text).unwrap_err().problem;
        assert_eq!(problem(b""), Problem::Empty);
        assert_eq!(problem(b"6\n"), Problem::Expected("major.minor"));
        assert_eq!(problem(b"6.x"), Problem::Empty);
        assert_eq!(problem(b"99999999999.1"), Problem::Overflow);
    }
}
