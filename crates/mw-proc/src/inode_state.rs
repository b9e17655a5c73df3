//! `/proc/sys/fs/inode-state`: cached inodes, any kernel. Nothing is allocated.

use crate::error::{ParseError, Problem};
use crate::scan;

/// Inodes of all file systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InodeState {
    pub inodes: u64,
    /// Inodes on the lists of unused ones, which reclaim frees. An inode that a dentry refers to is
    /// not among them, nor one with cached pages (5.16 and later).
    pub unused: u64,
}

impl InodeState {
    /// Reads `nr_inodes nr_unused` and what follows.
    ///
    /// # Errors
    /// When one of the two is no number or is missing.
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        let mut fields = scan::fields(text);
        let mut next = || {
            let field = fields.next().ok_or(Problem::Truncated);
            field.and_then(scan::parse_u64).map_err(|problem| ParseError::new(1, problem))
        };
        Ok(Self { inodes: next()?, unused: next()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads() {
        let state = InodeState::parse(b"196925\t12\t0\t0\t0\t0\t0\n").unwrap();
        assert_eq!(state, InodeState { inodes: 196_925, unused: 12 });
        assert_eq!(InodeState::parse(b"1\n").unwrap_err().problem, Problem::Truncated);
        assert_eq!(InodeState::parse(b"x 1\n").unwrap_err().problem, Problem::NotANumber);
    }
}
