//! What is known of the files behind the program's descriptors. An entry may describe another file than
//! its descriptor now leads to. Every examination therefore begins with the identity of the file; the
//! worst effect of a stale entry is a wrong decision about caching.

use crate::kernel;
use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Transfers of descriptors with larger numbers are not followed.
const MAX_DESCRIPTORS: usize = 1 << 16;
const LEAF_ENTRIES: usize = 1 << 10;
const LEAVES: usize = MAX_DESCRIPTORS / LEAF_ENTRIES;

/// A file or program that is not followed is examined again after so many bytes.
pub(super) const RECHECK_BYTES: u64 = 1 << 20;

/// The direction of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Write,
    Read,
}

/// A file, for one descriptor and direction. All bits zero: never examined.
#[repr(C, align(64))]
pub(crate) struct FileEntry {
    is_locked: AtomicU32,
    /// The flags below; the upper half is the slot of its counters.
    pub(super) flags: AtomicU32,
    /// Device, inode and the generation of the settings, in one number.
    pub(super) identity: AtomicU64,
    /// Bytes transferred since the last examination.
    counted_bytes: AtomicU64,
    /// Number of them that cause the next one.
    pub(super) examine_at_bytes: AtomicU64,
    /// The size from which on it goes uncached; 0: never.
    pub(super) threshold_bytes: AtomicU64,
    /// The end of the last transfer that was examined.
    pub(super) end: AtomicU64,
    /// The offset up to which writeback was started.
    pub(super) writeback_end: AtomicU64,
    /// The offset from which on the run may still be cached.
    pub(super) cached_from: AtomicU64,
    /// The offset from which on the run is not verified to have left the page cache; at most
    /// `cached_from`.
    pub(super) unverified_from: AtomicU64,
    /// The size of the file at the last examination.
    pub(super) file_bytes: AtomicU64,
    /// Bytes of the run that the kernel was asked to drop, and that are not verified.
    pub(super) unverified_bytes: AtomicU64,
}

/// Opened with `O_APPEND`.
pub(super) const APPENDS: u32 = 1;
/// `RWF_DONTCACHE` fails.
pub(super) const NO_DONTCACHE: u32 = 2;
/// Its pages belong to a file of a lower filesystem (overlayfs).
pub(super) const IS_OVERLAY: u32 = 4;
/// It is opened again to find out which pages are cached: the program's descriptor cannot read.
pub(super) const NEEDS_REOPEN: u32 = 128;
/// The kernel does not report which of its pages are cached.
pub(super) const IS_RESIDENCY_UNKNOWN: u32 = 8;
/// Some of its pages have been verified to leave the page cache.
pub(super) const HAS_LEFT_CACHE: u32 = 16;
/// Writes that are faster than its pages leave are delayed.
pub(super) const IS_THROTTLED: u32 = 256;
/// The written range was cached before: not a stream.
pub(super) const REWRITES: u32 = 32;
/// The last examination found the end of the file.
pub(super) const AT_END: u32 = 64;
pub(super) const SLOT_SHIFT: u32 = 16;

struct Leaf([FileEntry; LEAF_ENTRIES]);

static TABLE: [[AtomicPtr<Leaf>; LEAVES]; 2] =
    [const { [const { AtomicPtr::new(null_mut()) }; LEAVES] }; 2];

impl FileEntry {
    /// The entry of a descriptor; none beyond the table, or without memory.
    #[inline]
    pub(super) fn find_or_create(direction: Direction, fd: c_int) -> Option<&'static Self> {
        if let Some(entry) = Self::find(direction, fd) {
            return Some(entry);
        }
        let leaf = TABLE[direction as usize].get(usize::try_from(fd).ok()? / LEAF_ENTRIES)?;
        map_leaf(leaf)?;
        Self::find(direction, fd)
    }

    /// The entry of a descriptor, if its part of the table exists.
    #[inline]
    pub(super) fn find(direction: Direction, fd: c_int) -> Option<&'static Self> {
        let fd = usize::try_from(fd).ok()?;
        let leaf = TABLE[direction as usize].get(fd / LEAF_ENTRIES)?.load(Ordering::Acquire);
        // SAFETY: a leaf stays mapped and consists of atomics, for which all bits zero is a valid value.
        #[allow(unsafe_code, reason = "memory of our own")]
        let leaf = unsafe { leaf.as_ref() }?;
        leaf.0.get(fd % LEAF_ENTRIES)
    }

    /// Counts a transfer; returns whether an examination is due.
    #[inline]
    pub(super) fn count(&self, bytes: u64) -> bool {
        let counted = self.counted_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        counted >= self.examine_at_bytes.load(Ordering::Relaxed)
    }

    /// The bytes that were counted; resets them to zero.
    pub(super) fn take_count(&self) -> u64 {
        self.counted_bytes.swap(0, Ordering::Relaxed)
    }

    /// None if another thread has the lock: then there is no examination. Nothing waits, because the lock
    /// may be held by this very thread, below a signal handler, or by one that has ended.
    pub(super) fn try_lock(&self) -> Option<EntryGuard<'_>> {
        (self.is_locked.swap(1, Ordering::Acquire) == 0).then_some(EntryGuard(self))
    }

    pub(super) fn start_run(&self, start: u64) {
        self.writeback_end.store(start, Ordering::Relaxed);
        self.cached_from.store(start, Ordering::Relaxed);
        self.unverified_from.store(start, Ordering::Relaxed);
        self.unverified_bytes.store(0, Ordering::Relaxed);
    }

    /// Continues a run, of which everything before `offset` is verified.
    pub(super) fn continue_from(&self, offset: u64) {
        self.cached_from.store(offset, Ordering::Relaxed);
        self.unverified_from.store(offset, Ordering::Relaxed);
    }

    /// Does not follow the file, until the entry is of another file or its settings change.
    pub(super) fn ignore(&self, examine_at_bytes: u64) {
        self.threshold_bytes.store(0, Ordering::Relaxed);
        self.examine_at_bytes.store(examine_at_bytes, Ordering::Relaxed);
        self.unverified_bytes.store(0, Ordering::Relaxed);
    }

    pub(super) fn has(&self, flag: u32) -> bool {
        self.flags.load(Ordering::Relaxed) & flag != 0
    }

    pub(super) fn set(&self, flag: u32, on: bool) {
        if on {
            self.flags.fetch_or(flag, Ordering::Relaxed);
        } else {
            self.flags.fetch_and(!flag, Ordering::Relaxed);
        }
    }

    /// The slot of its counters in the `Control` of `mw_iotune`.
    pub(super) fn slot(&self) -> u32 {
        self.flags.load(Ordering::Relaxed) >> SLOT_SHIFT
    }
}

/// Unlocks an entry when it is dropped.
pub(super) struct EntryGuard<'a>(&'a FileEntry);

impl Drop for EntryGuard<'_> {
    fn drop(&mut self) {
        self.0.is_locked.store(0, Ordering::Release);
    }
}

/// Maps a part of the table. A fork(2) resets it: a child in which entries stay locked would never examine
/// those files again.
#[cold]
fn map_leaf(leaf: &AtomicPtr<Leaf>) -> Option<*mut Leaf> {
    let _errno = kernel::ErrnoGuard::new();
    let (prot, bytes) = (libc::PROT_READ | libc::PROT_WRITE, size_of::<Leaf>());
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: new memory at addresses that the kernel chooses (mmap(2)).
    #[allow(unsafe_code, reason = "a system call")]
    let new = unsafe { kernel::mmap(null_mut(), bytes, prot, flags, -1, 0) };
    if new == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the new memory, which is still empty (madvise(2)).
    #[allow(unsafe_code, reason = "a system call")]
    unsafe {
        kernel::madvise(new, bytes, libc::MADV_WIPEONFORK)
    };
    let new = new.cast::<Leaf>();
    match leaf.compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(new),
        Err(first) => {
            // SAFETY: nothing else knows of it (munmap(2)).
            #[allow(unsafe_code, reason = "a system call")]
            unsafe {
                kernel::munmap(new.cast(), bytes)
            };
            Some(first)
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn each_descriptor_up_to_the_limit_has_an_entry() {
        let entry = |direction, fd| {
            FileEntry::find_or_create(direction, fd).map(|entry| std::ptr::from_ref(entry).addr())
        };
        let at = |fd| entry(Direction::Write, fd);
        assert_eq!(at(5), at(5));
        assert_ne!(at(5), at(6));
        assert_ne!(at(5), entry(Direction::Read, 5));
        assert!(at(65_535).is_some());
        assert!(at(-1).is_none() && at(65_536).is_none() && at(c_int::MAX).is_none());
    }

    #[test]
    fn one_thread_at_a_time_locks_an_entry_and_counting_needs_no_lock() {
        let entry = FileEntry::find_or_create(Direction::Write, 70).unwrap();
        entry.examine_at_bytes.store(10, Ordering::Relaxed);
        let guard = entry.try_lock();
        assert!(guard.is_some() && entry.try_lock().is_none());
        drop(guard);
        assert!(entry.try_lock().is_some());
        assert!(!entry.count(9) && entry.count(1));
        assert_eq!((entry.take_count(), entry.take_count()), (10, 0));
    }
}
