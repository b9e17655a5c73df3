//! Large segments of memory, created, locked and destroyed in parallel.
//!
//! ```no_run
//! use mw_segment::{SegmentKind, Options, PageSize};
//!
//! let segment = Options::new(64 << 30)
//!     .kind(SegmentKind::Memfd)
//!     .page_size(PageSize::Thp)
//!     .locked(true)
//!     .create_with(&mut |progress| eprintln!("{progress}"))?;
//! println!("{} bytes at {:p}", segment.bytes(), segment.as_ptr());
//! drop(segment); // destroyed in parallel
//! # Ok::<(), mw_segment::Error>(())
//! ```
//!
//! Rules for every call:
//! - **All or nothing.** A call that fails or is cancelled frees all that it allocated; the [`Error`]
//!   names the limit, the requested, available and missing amounts, and the remedy.
//! - **Nothing outlives the program** unless it is told to: memory is freed with the last process that
//!   maps it, and System V segments are marked for removal as soon as they are attached. Between
//!   shmget(2) and shmat(2), for some microseconds, a killed program leaves an empty segment: the
//!   kernel has no call that does both.
//! - **At most [`MAX_WORKERS`] threads work**, on the CPUs that the caller may use, fewer while other
//!   operations of this process run. If no thread can be created, the caller works alone.
//! - **Bounded delays.** Workers take small chunks from one cursor: a slow worker delays the end by one
//!   chunk, a cancelled call ends within one, and an mmap(2) of another thread waits for one.
//! - **No signals.** Workers block all signals, and what would be SIGBUS is an error.
//! - **No async runtime, no subprocess, no smaps.**

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![warn(missing_docs)]

mod backing;
mod cancel;
mod cgroup;
mod chunk;
mod cpu_load;
mod cpu_shares;
mod cpus;
mod cursor;
mod error;
mod folio_pages;
mod folio_sizes;
mod free_blocks;
mod free_pages;
mod headroom;
mod limits;
mod machine;
mod mapped;
mod node_workers;
mod options;
mod plan;
mod progress;
mod segment;
mod segment_kind;
mod sync;
mod thread_spawner;
mod worker_group;

pub use cancel::Cancel;
pub use cpu_load::CpuLoad;
pub use error::{Error, Limit, Shortage};
pub use free_pages::{FreePages, PreparedRanges};
pub use headroom::{Headroom, Scarcity};
pub use mapped::{
    MappedPart, MemoryType, PopulateChunk, Workers, available_bytes, has_room, mapping_at, parts,
};
pub use mw_memory::{NumaPolicy, PageSize};
pub use options::{MAX_WORKERS, Options};
pub use progress::{Phase, Progress};
pub use segment::{CreationTimes, Segment};
pub use segment_kind::{InvalidKind, Placement, SegmentKind};
pub use thread_spawner::{StdThreads, ThreadSpawner};
