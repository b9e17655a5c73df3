//! `/proc/sys/fs/dentry-state`: cached file names (dentries), any kernel. Nothing is allocated.

use crate::error::{ParseError, Problem};
use crate::scan;

/// Dentries of all file systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DentryState {
    pub dentries: u64,
    /// Dentries on the lists of unused ones, which reclaim frees. A dentry that has children, is
    /// open, or belongs to a file of a tmpfs or ramfs is in use.
    pub unused: u64,
    /// Unused dentries of names that do not exist (5.0 and later; 0 before).
    pub negative: u64,
}

impl DentryState {
    /// Reads `nr_dentry nr_unused age_limit want_pages nr_negative dummy`.
    ///
    /// # Errors
    /// When one of the three is no number or is missing.
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        let mut fields = scan::fields(text);
        let mut next = |skipped: usize| {
            let field = fields.nth(skipped).ok_or(Problem::Truncated);
            field.and_then(scan::parse_u64).map_err(|problem| ParseError::new(1, problem))
        };
        Ok(Self { dentries: next(0)?, unused: next(0)?, negative: next(2)? })
    }

    /// Dentries that reclaim cannot free as long as those below them are there.
    #[must_use]
    pub const fn in_use(&self) -> u64 {
        self.dentries.saturating_sub(self.unused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads() {
        let state = DentryState::parse(b"280974\t279249\t45\t0\t83712\t0\n").unwrap();
        assert_eq!(state, DentryState { dentries: 280_974, unused: 279_249, negative: 83_712 });
        assert_eq!(state.in_use(), 1725);
        let problem = |text: &[u8]| DentryState::parse(text).unwrap_err().problem;
        assert_eq!(problem(b""), Problem::Truncated);
        assert_eq!(problem(b"1 2 3 4\n"), Problem::Truncated);
        assert_eq!(problem(b"1 -2 3 4 5 6\n"), Problem::NotANumber);
    }
}
