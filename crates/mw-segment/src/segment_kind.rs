//! What a segment is made of.

use mw_sys::RangePolicy;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Kinds of segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A System V segment, locked as a whole (`SHM_LOCK`) and populated when it is attached.
    Ism,
    /// A System V segment, locked by mlock(2) if at all.
    Dism,
    /// Several memfds mapped side by side: one inode would serialise the workers.
    Memfd,
    /// Private anonymous memory.
    Anon,
    /// As memfd, of hugetlb pages: 2 MiB unless another page size is asked for.
    Hugetlb,
    /// POSIX shared memory under a name (shm_open(3)).
    Posix,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Ism, Self::Dism, Self::Memfd, Self::Anon, Self::Hugetlb, Self::Posix];

    /// As on the command line.
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

    /// Whether its base and transparent huge pages are shmem's.
    pub(crate) fn is_shared(self) -> bool {
        self != Self::Anon
    }

    pub(crate) fn is_sysv(self) -> bool {
        matches!(self, Self::Ism | Self::Dism)
    }
}

/// Sizes of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Page {
    /// The base page: 4 KiB on x86.
    Base,
    /// Transparent huge pages.
    Thp,
    /// Huge pages of the pool, 2 MiB.
    Huge2M,
    /// Huge pages of the pool, 1 GiB.
    Huge1G,
    /// The largest that this machine can give at once, without compaction.
    Auto,
}

impl Page {
    /// All but `Auto`, the smallest first.
    pub const ALL: [Self; 4] = [Self::Base, Self::Thp, Self::Huge2M, Self::Huge1G];

    /// As on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Base => "4k",
            Self::Thp => "thp",
            Self::Huge2M => "2M",
            Self::Huge1G => "1G",
            Self::Auto => "auto",
        }
    }

    /// The size of pages of the pool in bytes; none for the others.
    #[must_use]
    pub fn hugetlb_bytes(self) -> Option<usize> {
        match self {
            Self::Huge2M => Some(2 << 20),
            Self::Huge1G => Some(1 << 30),
            Self::Base | Self::Thp | Self::Auto => None,
        }
    }
}

/// Where pages come from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Placement {
    /// From the node that the caller runs on, or as the caller's memory policy says.
    #[default]
    Local,
    /// From these nodes alone.
    Bind(Vec<u32>),
    /// From these nodes in turn, page by page.
    Interleave(Vec<u32>),
    /// Each range, in bytes from the segment's start, from its nodes alone; the rest as
    /// [`Local`](Self::Local). Ranges are of whole pages and do not overlap.
    Ranges(Vec<(Range<usize>, Vec<u32>)>),
}

impl Placement {
    /// What the kernel is to be told of a segment of so many bytes.
    pub(crate) fn policies(&self, bytes: usize) -> Vec<(Range<usize>, RangePolicy<'_>)> {
        match self {
            Self::Local => Vec::new(),
            Self::Bind(nodes) => vec![(0..bytes, RangePolicy::Bind(nodes))],
            Self::Interleave(nodes) => vec![(0..bytes, RangePolicy::Interleave(nodes))],
            Self::Ranges(ranges) => ranges
                .iter()
                .map(|(range, nodes)| (range.clone(), RangePolicy::Bind(nodes)))
                .collect(),
        }
    }
}

/// A name that is none of a kind or a page size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{given}' is none of {known}")]
pub struct UnknownName {
    given: String,
    known: String,
}

fn named<T: Copy>(
    given: &str,
    known: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T, UnknownName> {
    let found = known.iter().copied().find(|item| name(*item).eq_ignore_ascii_case(given));
    found.ok_or_else(|| {
        let known: Vec<_> = known.iter().map(|item| name(*item)).collect();
        UnknownName { given: given.to_owned(), known: known.join(", ") }
    })
}

impl FromStr for Kind {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        named(text, &Self::ALL, Self::name)
    }
}

impl FromStr for Page {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let all = [Self::Base, Self::Thp, Self::Huge2M, Self::Huge1G, Self::Auto];
        named(text, &all, Self::name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for kind in Kind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        for page in Page::ALL {
            assert_eq!(page.name().parse(), Ok(page));
        }
        assert_eq!("2m".parse(), Ok(Page::Huge2M));
        let error = "3M".parse::<Page>().unwrap_err();
        assert_eq!(error.to_string(), "'3M' is none of 4k, thp, 2M, 1G, auto");
    }
}
