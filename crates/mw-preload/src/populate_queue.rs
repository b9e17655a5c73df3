//! The memory that is to be populated in the background, and the thread that does it.
//!
//! What the program releases leaves the queue before its call is made, which waits for a chunk that is
//! being populated: the kernel's call would wait for the same lock. Nothing that the program has unmapped,
//! discarded or replaced is populated afterwards.

use crate::range_table::RangeTable;
use mw_segment::Scarcity;
use mw_sys::BackgroundThread;
use rustix::thread::futex;
use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, Ordering};
use std::time::Duration;

/// The largest chunk: it is populated by one call, during which other threads cannot map or unmap memory, 0.6
/// ms with base pages. It is a transparent huge page of most machines.
pub(crate) const CHUNK_BYTES: usize = 2 << 20;

/// Number of times that the lock is polled; its holder goes through a few dozen numbers.
const POLLS: u32 = 1 << 20;

/// After this time it is checked whether the thread that populates a chunk is still there.
const CHUNK_TIMEOUT: Duration = Duration::from_millis(100);

/// The reason why nothing more is populated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// The program uses seccomp or userfaultfd, or the table has no room.
    Program = 1,
    NoThread,
    Machine,
    Cgroup,
    Stalls,
    Unknown,
}

impl StopReason {
    pub(crate) const ALL: [Self; 6] =
        [Self::Program, Self::NoThread, Self::Machine, Self::Cgroup, Self::Stalls, Self::Unknown];
}

impl From<Scarcity> for StopReason {
    fn from(scarcity: Scarcity) -> Self {
        match scarcity {
            Scarcity::Machine => Self::Machine,
            Scarcity::Cgroup => Self::Cgroup,
            Scarcity::Stalls => Self::Stalls,
            Scarcity::Unknown => Self::Unknown,
        }
    }
}

/// A part of the queue that is being populated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClaimedChunk {
    pub(crate) addresses: Range<usize>,
    pub(crate) shared: bool,
}

/// Whether a chunk is being populated: idle, busy, or busy and a thread waits for its end.
const IDLE: u32 = 0;
const BUSY: u32 = 1;
const AWAITED: u32 = 2;

/// All bits zero: empty.
pub(crate) struct PopulateQueue {
    is_held: AtomicBool,
    /// True if there may be anything in the tables.
    is_used: AtomicBool,
    /// A [`StopReason`]; 0: none.
    stopped: AtomicU8,
    /// [`IDLE`], [`BUSY`] or [`AWAITED`].
    busy: AtomicU32,
    /// Changes to wake the thread from a pause.
    pauses: AtomicU32,
    /// The process that uses the queue; 0: none yet.
    owner: AtomicU32,
    thread: AtomicPtr<BackgroundThread>,
    tables: UnsafeCell<Tables>,
}

struct Tables {
    private: RangeTable,
    shared: RangeTable,
    /// The chunk that is being populated, while `busy` is set.
    chunk: Range<usize>,
    is_thread_running: bool,
}

// SAFETY: the tables are accessed only by the holder of the lock.
#[allow(unsafe_code, reason = "one thread at a time")]
unsafe impl Sync for PopulateQueue {}

impl PopulateQueue {
    /// True if this process uses the queue, and not the one whose memory a vfork(2) child shares: at the end
    /// of the child its thread would be killed in the middle of a chunk.
    pub(crate) fn is_own(&self) -> bool {
        let (own, relaxed) = (std::process::id(), Ordering::Relaxed);
        let claimed = self.owner.compare_exchange(0, own, relaxed, relaxed);
        claimed.map_or_else(|owner| owner == own, |_| true)
    }

    pub(crate) fn thread(&self) -> Option<&'static BackgroundThread> {
        // SAFETY: it is null, or `BackgroundThread::map` returned it; it stays mapped.
        #[allow(unsafe_code, reason = "memory of our own")]
        unsafe {
            self.thread.load(Ordering::Acquire).as_ref()
        }
    }

    pub(crate) fn set_thread(&self, thread: &'static BackgroundThread) {
        self.thread.store(std::ptr::from_ref(thread).cast_mut(), Ordering::Release);
    }

    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn stop_reason(&self) -> Option<StopReason> {
        let stopped = self.stopped.load(Ordering::Relaxed);
        StopReason::ALL.into_iter().find(|reason| *reason as u8 == stopped)
    }

    /// Populates nothing from now on, for the first of all reasons. The chunk in progress is completed.
    pub(crate) fn stop(&self, reason: StopReason) {
        let (none, relaxed) = (0, Ordering::Relaxed);
        let _ = self.stopped.compare_exchange(none, reason as u8, relaxed, relaxed);
    }

    /// Ends a pause of the thread.
    pub(crate) fn wake_thread(&self) {
        self.pauses.fetch_add(1, Ordering::SeqCst);
        let _ = futex::wake(&self.pauses, futex::Flags::PRIVATE, u32::MAX >> 1);
    }

    /// Adds memory; returns whether the caller must start the thread.
    pub(crate) fn add(&self, chunk: ClaimedChunk) -> bool {
        let added = self.with_tables(|tables| {
            self.is_used.store(true, Ordering::Relaxed);
            tables.table(chunk.shared).add(chunk.addresses)?;
            Some(!std::mem::replace(&mut tables.is_thread_running, true))
        });
        added.unwrap_or(false)
    }

    /// The thread could not be created.
    pub(crate) fn note_no_thread(&self) {
        self.stop(StopReason::NoThread);
        self.with_tables(|tables| {
            self.end_thread(tables);
            Some(())
        });
    }

    /// Takes a chunk of at most `bytes`, which is being populated until [`complete`](Self::complete). None if the thread must
    /// end.
    pub(crate) fn take(&self, bytes: usize) -> Option<ClaimedChunk> {
        let take = |tables: &mut Tables| {
            let found = [false, true].into_iter().find_map(|shared| {
                let addresses = tables.table(shared).last(bytes)?;
                Some(ClaimedChunk { addresses, shared })
            });
            let found = found.filter(|_| !self.is_stopped());
            if let Some(chunk) = &found {
                tables.table(chunk.shared).remove(&chunk.addresses)?;
                tables.chunk = chunk.addresses.clone();
                self.busy.store(BUSY, Ordering::SeqCst);
            } else {
                self.end_thread(tables);
            }
            Some(found)
        };
        // If the lock is not available, it has stopped; then the lock is not needed.
        self.with_tables(take).flatten()
    }

    /// Nothing is populated from here on until memory is added.
    fn end_thread(&self, tables: &mut Tables) {
        tables.is_thread_running = false;
        self.is_used.store(false, Ordering::Relaxed);
    }

    /// After a chunk that was taken was populated; a failure drops its whole range.
    pub(crate) fn complete(&self, chunk: &ClaimedChunk, is_populated: bool) {
        if !is_populated {
            self.with_tables(|tables| {
                tables.table(chunk.shared).remove_ending_at(chunk.addresses.start);
                Some(())
            });
        }
        if self.busy.swap(IDLE, Ordering::SeqCst) == AWAITED {
            let _ = futex::wake(&self.busy, futex::Flags::PRIVATE, u32::MAX >> 1);
        }
    }

    /// Removes memory that the program is about to release or to replace, and waits until none of it is
    /// being populated.
    #[cold]
    pub(crate) fn remove(&self, range: &Range<usize>) {
        let is_in_progress = self.with_tables(|tables| {
            tables.private.remove(range)?;
            tables.shared.remove(range)?;
            let chunk = &tables.chunk;
            Some(chunk.start < range.end && range.start < chunk.end)
        });
        if is_in_progress != Some(false) {
            self.wait_for_chunk();
        }
    }

    /// Removes all shared memory: the size of a System V segment that is detached is not known.
    #[cold]
    pub(crate) fn remove_shared(&self) {
        self.with_tables(|tables| {
            tables.shared.clear();
            Some(())
        });
        self.wait_for_chunk();
    }

    /// Waits until no chunk is being populated.
    fn wait_for_chunk(&self) {
        loop {
            let ordering = (Ordering::SeqCst, Ordering::SeqCst);
            let busy = self.busy.compare_exchange(BUSY, AWAITED, ordering.0, ordering.1);
            if busy == Err(IDLE) {
                return;
            }
            let timeout = timespec(CHUNK_TIMEOUT);
            let _ = futex::wait(&self.busy, futex::Flags::PRIVATE, AWAITED, Some(&timeout));
            // A seccomp filter that was not observed may have killed it.
            if self.thread().is_some_and(|thread| !thread.is_alive()) {
                self.busy.store(IDLE, Ordering::SeqCst);
            }
        }
    }

    /// Pauses the thread, until it is to stop.
    pub(crate) fn pause(&self, time: Duration) {
        let pauses = self.pauses.load(Ordering::SeqCst);
        if self.is_stopped() {
            return;
        }
        let timeout = timespec(time);
        let _ = futex::wait(&self.pauses, futex::Flags::PRIVATE, pauses, Some(&timeout));
    }

    /// None if another thread holds the lock or `work` fails; then nothing more is populated.
    fn with_tables<T>(&self, work: impl FnOnce(&mut Tables) -> Option<T>) -> Option<T> {
        let mut polls = 0;
        // Bounded, because a signal handler may run on the very thread that holds the lock.
        while self.is_held.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
            polls += 1;
            if polls > POLLS {
                // A handler that left this function by siglongjmp(3) holds it for good.
                self.stop(StopReason::Program);
                self.is_used.store(false, Ordering::Relaxed);
                return None;
            }
        }
        // SAFETY: the lock is held.
        #[allow(unsafe_code, reason = "one thread at a time")]
        let done = work(unsafe { &mut *self.tables.get() });
        self.is_held.store(false, Ordering::Release);
        if done.is_none() {
            self.stop(StopReason::Program);
        }
        done
    }
}

/// Less than a second.
fn timespec(time: Duration) -> rustix::time::Timespec {
    rustix::time::Timespec { tv_sec: 0, tv_nsec: i64::from(time.subsec_nanos()) }
}

impl Tables {
    fn table(&mut self, shared: bool) -> &mut RangeTable {
        if shared { &mut self.shared } else { &mut self.private }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// As fork(2) leaves it.
    fn queue() -> PopulateQueue {
        // SAFETY: all bits zero is an empty queue.
        #[allow(unsafe_code, reason = "as the kernel wipes it")]
        unsafe {
            std::mem::zeroed()
        }
    }

    fn private(addresses: Range<usize>) -> ClaimedChunk {
        ClaimedChunk { addresses, shared: false }
    }

    const START: usize = 10 * CHUNK_BYTES;

    #[test]
    fn memory_is_taken_from_its_end_until_none_is_left() {
        let queue = queue();
        let end = START + CHUNK_BYTES + 4096;
        assert!(queue.add(private(START..end)), "the thread must be started");
        assert!(!queue.add(private(end + CHUNK_BYTES..end + CHUNK_BYTES + 4096)));
        let mut taken = Vec::new();
        while let Some(chunk) = queue.take(CHUNK_BYTES) {
            taken.push(chunk.addresses.clone());
            queue.complete(&chunk, true);
        }
        let above = end + CHUNK_BYTES;
        let middle = START + CHUNK_BYTES;
        assert_eq!(taken, [above..above + 4096, middle..end, START..middle]);
        assert!(!queue.is_used());
        assert!(queue.add(private(START..end)), "the thread has ended");
    }

    #[test]
    fn memory_that_is_given_back_is_not_taken() {
        let queue = queue();
        queue.add(private(START..START + 4 * CHUNK_BYTES));
        queue.remove(&(START + CHUNK_BYTES..START + 4 * CHUNK_BYTES));
        let chunk = queue.take(CHUNK_BYTES).unwrap();
        assert_eq!(chunk.addresses, START..START + CHUNK_BYTES);
        queue.complete(&chunk, true);
        assert_eq!(queue.take(CHUNK_BYTES), None);
        queue.add(ClaimedChunk { addresses: START..START + CHUNK_BYTES, shared: true });
        queue.remove_shared();
        assert_eq!(queue.take(CHUNK_BYTES), None);
    }

    #[test]
    fn memory_that_cannot_be_populated_is_dropped_as_a_whole() {
        let queue = queue();
        queue.add(private(START..START + 4 * CHUNK_BYTES));
        let chunk = queue.take(CHUNK_BYTES).unwrap();
        queue.complete(&chunk, false);
        assert_eq!(queue.take(CHUNK_BYTES), None);
    }

    #[test]
    fn giving_back_waits_for_the_chunk_in_progress() {
        let queue = queue();
        queue.add(private(START..START + CHUNK_BYTES));
        let chunk = queue.take(CHUNK_BYTES).unwrap();
        let is_removed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                queue.remove(&(START..START + 1));
                is_removed.store(true, Ordering::SeqCst);
            });
            while queue.busy.load(Ordering::SeqCst) != AWAITED {
                std::hint::spin_loop();
            }
            assert!(!is_removed.load(Ordering::SeqCst));
            queue.complete(&chunk, true);
        });
        assert!(is_removed.into_inner());
    }

    #[test]
    fn nothing_is_taken_after_a_stop() {
        let queue = queue();
        queue.add(private(START..START + CHUNK_BYTES));
        queue.stop(StopReason::Cgroup);
        queue.stop(StopReason::Machine);
        assert_eq!(
            (queue.take(CHUNK_BYTES), queue.stop_reason()),
            (None, Some(StopReason::Cgroup))
        );
    }
}
