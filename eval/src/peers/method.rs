//! How memory is created: by this process, by the library, by a program, or by `memwright bench`, which
//! re-enacts what cannot be run here.

use super::place::Place;
use super::program::Run;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    Private,
    Shared,
}

impl Memory {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Shared => "shared",
        }
    }
}

pub(super) enum Method {
    /// mmap(2), and one thread that writes.
    Stores,
    /// mmap(2) and mlock(2).
    Mlock,
    /// `mlockall(MCL_CURRENT | MCL_FUTURE)`, then mmap(2).
    MlockAll,
    Library,
    /// A program, without the memory and with it: the difference counts.
    Program(fn(&Place, with: bool) -> anyhow::Result<Run>),
    /// A row of `memwright bench`.
    Bench(&'static str),
}
