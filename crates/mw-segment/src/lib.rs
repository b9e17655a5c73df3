//! Large segments of memory, created, locked and destroyed in parallel.
//!
//! ```no_run
//! use mw_segment::{Kind, Options, Page};
//!
//! let segment = Options::new(64 << 30)
//!     .kind(Kind::Memfd)
//!     .page(Page::Auto)
//!     .locked(true)
//!     .create_with(&mut |progress| eprintln!("{progress}"))?;
//! println!("{} bytes at {:p}", segment.bytes(), segment.as_ptr());
//! drop(segment); // destroyed, in parallel
//! # Ok::<(), mw_segment::Error>(())
//! ```
//!
//! What holds for every call:
//! - **All or nothing.** A call that fails or is cancelled gives back all that it took; the
//!   [`Error`] says which limit was met, how much was asked, had and missing, and what lifts it.
//! - **Nothing outlives the program** that it did not choose to keep: memory goes with the last
//!   process that has it, System V segments are marked for removal as soon as they are attached.
//!   What remains open is the moment between shmget(2) and shmat(2), some microseconds in which a
//!   killed program leaves an empty segment: the kernel has no call that does both.
//! - **At most [`MAX_WORKERS`] threads assist**, on processors that the caller may use, and as
//!   many as the operations that run at the same time in this process leave (the cpu_shares). Where no
//!   thread can be made, the caller does the work alone.
//! - **Nobody waits long.** Workers take small chunks from one cursor: a slow worker delays the
//!   end by one chunk, a cancelled call ends within one, and an mmap(2) of another thread waits
//!   for one.
//! - **No signal.** Workers block all of them, and what would be SIGBUS is an error.
//! - **No async runtime, no subprocess, no smaps.**

#![warn(missing_docs)]

mod backing;
mod cancel;
mod cgroup;
mod chunk;
mod cpu_shares;
mod cpus;
mod cursor;
mod error;
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
pub use error::{Error, Limit, Shortage};
pub use mapped::{
    MappedPart, MemoryType, Workers, available_bytes, has_huge_pages, has_room, mapping_at, parts,
};
pub use options::{MAX_WORKERS, Options};
pub use progress::{Phase, Progress};
pub use segment::{Segment, Times};
pub use segment_kind::{Kind, Page, Placement, UnknownName};
pub use thread_spawner::{StdThreads, ThreadSpawner};
