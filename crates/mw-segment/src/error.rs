//! What can go wrong, and what lifts it.

use crate::progress::Phase;
use crate::segment_kind::{Kind, Page};
use std::fmt;
use std::io;

/// Why a segment could not be made. Nothing is left behind in any case.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A limit is below what was asked for.
    #[error(transparent)]
    Short(Box<Shortage>),
    /// The call was cancelled.
    #[error("cancelled in {phase} after {done_bytes} bytes")]
    Cancelled {
        /// What was being done.
        phase: Phase,
        /// Bytes of that phase that were done; they were given back.
        done_bytes: usize,
    },
    /// This machine or this kind has no such pages.
    #[error("no {page} pages for a segment of kind {kind}: {why}")]
    NoSuchPages {
        /// The kind asked for.
        kind: Kind,
        /// The page size asked for.
        page: Page,
        /// What is missing, and what would make it work.
        why: String,
    },
    /// Fewer transparent huge pages than asked for were to be had: memory is fragmented.
    #[error(
        "only {available_bytes} of {requested_bytes} bytes came in transparent huge pages: free memory is \
         fragmented; /proc/sys/vm/compact_memory joins free blocks, lenient mode takes base pages"
    )]
    Fragmented {
        /// Bytes asked for.
        requested_bytes: usize,
        /// Bytes in huge pages.
        available_bytes: usize,
    },
    /// The options contradict each other or the machine.
    #[error("{0}")]
    Invalid(String),
    /// A page that was handed out is broken hardware (EHWPOISON).
    #[error("the memory at offset {offset} is broken (EHWPOISON); the kernel log names the module")]
    Poisoned {
        /// Where in the segment the chunk starts.
        offset: usize,
    },
    /// A system call failed for a reason that no limit explains.
    #[error("{call}: {source}")]
    System {
        /// The call.
        call: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
}

/// A limit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// Memory that the machine has available (`MemAvailable`).
    Memory,
    /// Memory of the nodes that the segment is bound to.
    NodeMemory,
    /// What may be committed under strict overcommit (`CommitLimit`).
    Commit,
    /// The size of the file system at /dev/shm.
    DevShm,
    /// Free pages of the hugetlb pool of this size in bytes.
    HugePages(usize),
    /// `RLIMIT_MEMLOCK`.
    Memlock,
    /// The memory cgroup of this path.
    Cgroup(String),
    /// `kernel.shmmax`.
    ShmMax,
    /// `kernel.shmall`, in bytes.
    ShmAll,
    /// `RLIMIT_AS`, or the processor's addresses.
    AddressSpace,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("available memory"),
            Self::NodeMemory => f.write_str("free memory of the node"),
            Self::Commit => f.write_str("the commit limit"),
            Self::DevShm => f.write_str("/dev/shm"),
            Self::HugePages(size) => write!(f, "free huge pages of {} MiB", size >> 20),
            Self::Memlock => f.write_str("RLIMIT_MEMLOCK"),
            Self::Cgroup(path) => write!(f, "memory cgroup {path}"),
            Self::ShmMax => f.write_str("kernel.shmmax"),
            Self::ShmAll => f.write_str("kernel.shmall"),
            Self::AddressSpace => f.write_str("address space"),
        }
    }
}

/// How much a limit is short.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{limit}: {requested_bytes} bytes requested, {available_bytes} available, {} missing; {remedy}",
    self.missing_bytes()
)]
pub struct Shortage {
    /// Which limit.
    pub limit: Limit,
    /// Bytes asked for.
    pub requested_bytes: u64,
    /// Bytes that can be had.
    pub available_bytes: u64,
    /// What would lift it.
    pub remedy: String,
}

impl Shortage {
    /// Bytes that are missing.
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
    /// The shortage, if a limit was met.
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
