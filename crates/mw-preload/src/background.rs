//! `--prefault`: large memory is populated in the background, by a thread that exists while there is such
//! memory.
//!
//! - **The program does not wait for it.** The thread works while CPUs are idle, a chunk at a time; on a busy
//!   machine it pauses between chunks. It has the priority of the program's threads (`mw_segment::CpuLoad`
//!   explains why).
//! - **From the end to the start**, because programs that touch all of their memory start at the other end.
//! - **Populated pages are left alone.** Populating them for writing would copy those that a child shares
//!   after fork(2).
//! - **It ends for good where memory is short** (`mw_segment::Headroom`), before a program that confines
//!   itself, changes its user or its namespaces, or handles its own page faults.
//! - It accesses no thread-local storage and no `errno`: it has those of the thread that started it, which
//!   may have ended.

use crate::populate_queue::{CHUNK_BYTES, ClaimedChunk, PopulateQueue, StopReason};
use crate::{confinement, kernel, populate, stats, wipe_on_fork};
use mw_segment::{CpuLoad, FreePages, Headroom, PreparedRanges};
use mw_sys::{BackgroundThread, Fault, system_call};
use std::ffi::c_int;
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Programs set the policy of new memory, trim or lock it first, and most have started after this time.
const START_DELAY: Duration = Duration::from_millis(250);

/// The pauses between chunks while CPUs are busy.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// The smallest chunk.
const CHUNK_MIN_BYTES: usize = 256 << 10;

/// A chunk that takes longer is followed by smaller ones: other threads wait for it to map or unmap memory.
const CHUNK_TIME: Duration = Duration::from_millis(1);

/// Bytes that are populated between two checks of the memory that is left.
const CHECKED_CHUNKS: u32 = 8;

/// Time that the dry run waits for the thread: ten seconds.
const DRY_RUN_PAUSES: u32 = 200;

/// `CLOSE_RANGE_UNSHARE` (linux/close_range.h, kernel 5.9).
const UNSHARE: usize = 1 << 1;

/// The advice after which pages must not be populated again.
const GIVES_BACK: [c_int; 7] = [
    libc::MADV_DONTNEED,
    libc::MADV_FREE,
    libc::MADV_REMOVE,
    libc::MADV_COLD,
    libc::MADV_PAGEOUT,
    /* MADV_DONTNEED_LOCKED */ 24,
    /* MADV_GUARD_INSTALL */ 102,
];

/// Populates memory that has just been mapped.
#[cold]
pub(crate) fn populate_later(addresses: Range<usize>, shared: bool) {
    let Some(state) = wipe_on_fork::state() else { return };
    let queue = &state.populate_queue;
    stats::count_background_mapping(addresses.len());
    if queue.is_own()
        && !queue.is_stopped()
        && queue.add(ClaimedChunk { addresses, shared })
        && !start_thread(queue)
    {
        queue.note_no_thread();
        note_stop(queue);
    }
}

fn start_thread(queue: &'static PopulateQueue) -> bool {
    let mapped = || {
        let thread = BackgroundThread::map(c"mw-prefault", &|_, _| work())?;
        queue.set_thread(thread);
        Some(thread)
    };
    let Some(thread) = queue.thread().or_else(mapped) else { return false };
    // SAFETY: `work` makes direct system calls and accesses no thread-local storage; the queue lets one
    // thread at a time start it.
    #[allow(unsafe_code, reason = "as described")]
    unsafe {
        thread.start()
    }
}

/// Before memory is unmapped or replaced.
#[inline]
pub(crate) fn forget(at: usize, bytes: usize) {
    if let Some(queue) = used_queue()
        && let Some(range) = kernel::page_range(kernel::pointer(at), bytes)
    {
        queue.remove(&range);
    }
}

/// Before madvise(2).
#[inline]
pub(crate) fn forget_if_given_back(at: usize, bytes: usize, advice: c_int) {
    if GIVES_BACK.contains(&advice) {
        forget(at, bytes);
    }
}

/// Before shmdt(2).
#[inline]
pub(crate) fn forget_segments() {
    if let Some(queue) = used_queue() {
        queue.remove_shared();
    }
}

/// Ends the thread for good, if there is one; returns when it is gone.
pub(crate) fn end() {
    let Some(queue) = used_queue() else { return };
    queue.stop(StopReason::Program);
    queue.wake_thread();
    if let Some(thread) = queue.thread() {
        thread.wait_for_end();
    }
}

/// Makes each system call of this module once; returns whether that succeeded.
pub(crate) fn make_all_calls(addresses: Range<usize>) -> bool {
    populate_later(addresses, false);
    let is_done = || {
        let queue = used_queue();
        queue.is_none_or(|queue| {
            queue.pause(PAUSE_MAX);
            false
        })
    };
    let is_done = (0..DRY_RUN_PAUSES).any(|_| is_done());
    end();
    is_done
}

#[inline]
fn used_queue() -> Option<&'static PopulateQueue> {
    let queue = &wipe_on_fork::state()?.populate_queue;
    queue.is_used().then_some(queue)
}

/// The thread.
fn work() {
    let Some(state) = wipe_on_fork::state() else { return };
    let queue = &state.populate_queue;
    // SAFETY: closes only descriptors of this thread's new table (close_range(2)).
    #[allow(unsafe_code, reason = "a system call")]
    let unshared =
        unsafe { system_call(libc::SYS_close_range, [0, u32::MAX as usize, UNSHARE]) } == 0;
    if unshared {
        mw_sys::leave_real_time();
        queue.pause(START_DELAY);
        populate_all(queue);
    } else {
        queue.note_no_thread();
    }
    note_stop(queue);
}

fn populate_all(queue: &PopulateQueue) {
    let Some(mut headroom) = Headroom::open() else {
        queue.stop(StopReason::Unknown);
        return;
    };
    let (mut pace, mut chunks) = (PopulatePace::new(), 0_u32);
    let free_pages = populate::free_pages(false, 1);
    loop {
        pace.pause_while_busy(queue);
        if chunks.is_multiple_of(CHECKED_CHUNKS) {
            let checked = headroom.check(CHUNK_BYTES as u64 * u64::from(CHECKED_CHUNKS));
            if let Err(scarcity) = checked {
                queue.stop(scarcity.into());
            }
        }
        if confinement::is_in_seccomp_mode() {
            queue.stop(StopReason::Program);
        }
        // A huge page is requested for all of its range.
        let chunk_bytes = if free_pages.is_some() { CHUNK_BYTES } else { pace.chunk_bytes };
        let Some(chunk) = queue.take(chunk_bytes) else { return };
        let start = Instant::now();
        let populated = populate_absent(&chunk, free_pages.as_ref());
        pace.adjust(start.elapsed());
        queue.complete(&chunk, populated.is_ok());
        stats::count_background_bytes(populated.unwrap_or(0));
        chunks = chunks.wrapping_add(1);
    }
}

/// Speed of the thread.
struct PopulatePace {
    load: CpuLoad,
    pause: Duration,
    chunk_bytes: usize,
}

impl PopulatePace {
    fn new() -> Self {
        Self { load: CpuLoad::open(), pause: PAUSE_MIN, chunk_bytes: CHUNK_MIN_BYTES }
    }

    /// If CPUs are still busy after the pause, one small chunk follows.
    fn pause_while_busy(&mut self, queue: &PopulateQueue) {
        if self.load.is_busy() {
            queue.pause(self.pause);
            self.pause = (self.pause * 2).min(PAUSE_MAX);
            self.chunk_bytes = CHUNK_MIN_BYTES;
        } else {
            self.pause = PAUSE_MIN;
        }
    }

    /// After a chunk that took `time`.
    fn adjust(&mut self, time: Duration) {
        if time > CHUNK_TIME {
            self.chunk_bytes = (self.chunk_bytes / 2).max(CHUNK_MIN_BYTES);
        } else if time < CHUNK_TIME / 2 {
            self.chunk_bytes = (self.chunk_bytes * 2).min(CHUNK_BYTES);
        }
    }
}

/// Populates the pages that are absent; returns their size in bytes.
fn populate_absent(chunk: &ClaimedChunk, free_pages: Option<&FreePages>) -> io::Result<usize> {
    /// Base pages have 4 KiB or more.
    const PAGES: usize = CHUNK_BYTES / 4096;
    let (page, mut resident) = (mw_sys::page_bytes(), [0_u8; PAGES]);
    let Range { start, end } = chunk.addresses;
    // SAFETY: the result has a byte for each page of a chunk (mincore(2)).
    #[allow(unsafe_code, reason = "a system call")]
    let failed = unsafe {
        let place = resident.as_mut_ptr().expose_provenance();
        system_call(libc::SYS_mincore, [start, end - start, place])
    };
    if failed != 0 {
        return Err(io::ErrorKind::NotFound.into());
    }
    let fault = if chunk.shared { Fault::Read } else { Fault::Write };
    let pages = resident.get(..(end - start) / page).unwrap_or_default();
    let (mut first, mut populated) = (0, 0);
    for run in pages.chunk_by(|one, next| (one ^ next) & 1 == 0) {
        let next = first + run.len();
        if run.first().is_some_and(|page| page & 1 == 0) {
            let absent = start + first * page..start + next * page;
            let free_pages =
                free_pages.filter(|_| !chunk.shared && !populate::does_program_advise());
            let prepared = free_pages.and_then(|free| free.prepare(absent.clone()).ok());
            stats::count_pages_of(absent.clone(), &|| {
                mw_sys::populate_existing(absent.clone(), fault, None)
            })?;
            prepared.into_iter().for_each(PreparedRanges::settle);
            populated += run.len() * page;
        }
        first = next;
    }
    Ok(populated)
}

/// For `--stats`.
fn note_stop(queue: &PopulateQueue) {
    if let Some(reason) = queue.stop_reason() {
        stats::count_background_stop(reason);
    }
}
