//! Kinds of segments, and their memory policies.

use mw_memory::NumaPolicy;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// The kinds of segments, by what backs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SegmentKind {
    /// A System V segment, locked as a whole (`SHM_LOCK`) and populated when it is attached.
    Ism,
    /// A System V segment, locked by mlock(2) if at all.
    Dism,
    /// Several memfds mapped side by side: one inode would serialize the workers.
    Memfd,
    /// Private anonymous memory.
    Anon,
    /// As memfd, of hugetlb pages: 2 MiB unless another page size is requested.
    Hugetlb,
    /// POSIX shared memory with a name (shm_open(3)).
    Posix,
}

impl SegmentKind {
    /// All kinds, in the order of the C interface.
    pub const ALL: [Self; 6] =
        [Self::Ism, Self::Dism, Self::Memfd, Self::Anon, Self::Hugetlb, Self::Posix];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ism => "ism",
            Self::Dism => "dism",
            Self::Memfd => "memfd",
            Self::Anon => "anon",
            Self::Hugetlb => "hugetlb",
            Self::Posix => "posix",
        }
    }

    /// True if its base pages and transparent huge pages are shmem.
    pub(crate) fn is_shared(self) -> bool {
        self != Self::Anon
    }

    pub(crate) fn is_sysv(self) -> bool {
        matches!(self, Self::Ism | Self::Dism)
    }
}

/// The memory policies of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// One policy for the whole segment.
    Uniform(NumaPolicy),
    /// Each range, in bytes from the segment's start, from its nodes only; the rest by
    /// [`NumaPolicy::Default`]. Ranges consist of whole pages and do not overlap.
    Ranges(Vec<(Range<usize>, Vec<u32>)>),
}

impl Default for Placement {
    fn default() -> Self {
        Self::Uniform(NumaPolicy::Default)
    }
}

impl From<NumaPolicy> for Placement {
    fn from(policy: NumaPolicy) -> Self {
        Self::Uniform(policy)
    }
}

impl Placement {
    /// The ranges of a segment of this size that do not have the default policy.
    pub(crate) fn policies(&self, bytes: usize) -> Vec<(Range<usize>, NumaPolicy)> {
        match self {
            Self::Uniform(NumaPolicy::Default) => Vec::new(),
            Self::Uniform(policy) => vec![(0..bytes, policy.clone())],
            Self::Ranges(ranges) => ranges
                .iter()
                .map(|(range, nodes)| (range.clone(), NumaPolicy::Bind(nodes.clone())))
                .collect(),
        }
    }
}

/// A text that is not a kind of segment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid kind '{0}' (use ism, dism, memfd, anon, hugetlb or posix)")]
pub struct InvalidKind(String);

impl FromStr for SegmentKind {
    type Err = InvalidKind;

    fn from_str(text: &str) -> Result<Self, InvalidKind> {
        let found = Self::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| InvalidKind(text.to_owned()))
    }
}

impl fmt::Display for SegmentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_and_printed() {
        for kind in SegmentKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        let error = "shm".parse::<SegmentKind>().unwrap_err().to_string();
        assert_eq!(error, "invalid kind 'shm' (use ism, dism, memfd, anon, hugetlb or posix)");
    }
}
