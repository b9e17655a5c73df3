//! Errors, and how to remedy them.

use crate::progress::Phase;
use crate::segment_kind::SegmentKind;
use mw_memory::{PageSize, ResourceLimit, format_bytes};
use std::fmt;
use std::io;

/// The reason why a segment could not be created. Nothing is left behind in any case.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A limit is below the requested amount.
    #[error(transparent)]
    Short(Box<Shortage>),
    /// The call was cancelled by a [`Cancel`](crate::Cancel) token.
    #[error("cancelled in {phase} after {}", format_bytes(*done_bytes as u64))]
    Cancelled {
        /// The phase that was cancelled.
        phase: Phase,
        /// Bytes of that phase that were completed; they were freed.
        done_bytes: usize,
    },
    /// This machine or this kind does not have pages of this size.
    #[error("no {page} pages for a segment of kind {kind}: {why}")]
    NoSuchPages {
        /// The kind that was requested.
        kind: SegmentKind,
        /// The page size that was requested.
        page: PageSize,
        /// The missing resource, and the remedy.
        why: String,
    },
    /// Fewer transparent huge pages, or folios of the requested size, were available: memory is
    /// fragmented.
    #[error(
        "only {} of {} are available in {page} pages: free memory is fragmented (compact it with \
         /proc/sys/vm/compact_memory, or use lenient mode)",
        format_bytes(*available_bytes as u64), format_bytes(*requested_bytes as u64)
    )]
    Fragmented {
        /// The page size that was requested.
        page: PageSize,
        /// The size of the segment, in whole pages of that size.
        requested_bytes: usize,
        /// Bytes that are in such pages.
        available_bytes: usize,
    },
    /// The options contradict each other or the machine.
    #[error("{0}")]
    Invalid(String),
    /// The hardware reported an error in a page (EHWPOISON).
    #[error(
        "hardware error in the memory at offset {offset} (EHWPOISON; the kernel log names the module)"
    )]
    Poisoned {
        /// The offset of its chunk in the segment.
        offset: usize,
    },
    /// A system call failed for a reason that no limit explains.
    #[error("{call}: {source}")]
    System {
        /// The name of the system call.
        call: &'static str,
        /// The error that the kernel returned.
        source: io::Error,
    },
}

/// Limits that can prevent a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// Available memory of the machine (`MemAvailable`).
    Memory,
    /// Available memory of the nodes that the segment is bound to.
    NodeMemory,
    /// The commit limit of strict overcommit (`CommitLimit`).
    Commit,
    /// The size of the file system at /dev/shm.
    DevShm,
    /// Free hugetlb pages of this size in bytes.
    HugePages(usize),
    /// `RLIMIT_MEMLOCK`.
    Memlock,
    /// A memory cgroup, with its path.
    Cgroup(String),
    /// `kernel.shmmax`.
    ShmMax,
    /// `kernel.shmall`, in bytes.
    ShmAll,
    /// `RLIMIT_AS`, or the address space of the CPU.
    AddressSpace,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("available memory"),
            Self::NodeMemory => f.write_str("available memory of the node"),
            Self::Commit => f.write_str("the commit limit"),
            Self::DevShm => f.write_str("/dev/shm"),
            Self::HugePages(size) => write!(f, "free huge pages of {} MiB", size >> 20),
            Self::Memlock => f.write_str(ResourceLimit::Memlock.name()),
            Self::Cgroup(path) => write!(f, "memory cgroup {path}"),
            Self::ShmMax => f.write_str("kernel.shmmax"),
            Self::ShmAll => f.write_str("kernel.shmall"),
            Self::AddressSpace => f.write_str("address space"),
        }
    }
}

/// By how much a limit is too low.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{limit}: {} requested, {} available, {} missing; {remedy}",
    format_bytes(self.requested_bytes), format_bytes(self.available_bytes), format_bytes(self.missing_bytes())
)]
pub struct Shortage {
    /// The limit that is too low.
    pub limit: Limit,
    /// Bytes that the limit would have to allow.
    pub requested_bytes: u64,
    /// Bytes that the limit allows now.
    pub available_bytes: u64,
    /// The remedy, for example which setting to raise.
    pub remedy: String,
}

impl Shortage {
    /// Requested bytes less available ones.
    #[must_use]
    pub fn missing_bytes(&self) -> u64 {
        self.requested_bytes.saturating_sub(self.available_bytes)
    }
}

impl From<Shortage> for Error {
    fn from(shortage: Shortage) -> Self {
        Self::Short(Box::new(shortage))
    }
}

impl Error {
    /// The shortage, if a limit is the cause.
    #[must_use]
    pub fn shortage(&self) -> Option<&Shortage> {
        match self {
            Self::Short(shortage) => Some(shortage),
            _ => None,
        }
    }

    pub(crate) fn system(call: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { call, source }
    }
}
