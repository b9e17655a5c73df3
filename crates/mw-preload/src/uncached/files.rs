//! What is known of the files behind descriptors. An entry of the table may be about another file
//! than the descriptor has by now: every look begins with who the file is, and what an old entry
//! leads to is at most a wrong guess about caching.

use super::Way;
use crate::kernel;
use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Descriptors with larger numbers are left alone.
const DESCRIPTORS_MAX: usize = 1 << 16;
const LEAF_ENTRIES: usize = 1 << 10;
const LEAVES: usize = DESCRIPTORS_MAX / LEAF_ENTRIES;

/// A file, as one descriptor and one way of using it have it. All zero is one that was never looked
/// at.
#[repr(C, align(64))]
pub(crate) struct Entry {
    busy: AtomicU32,
    /// What `Flags` says.
    pub(crate) flags: AtomicU32,
    /// Device, inode and the settings at that time, in one number.
    pub(crate) identity: AtomicU64,
    /// Bytes since the last look.
    counted: AtomicU64,
    /// How many of them are enough for the next.
    pub(crate) look_at: AtomicU64,
    /// The size from which on it goes uncached; 0: never.
    pub(crate) size: AtomicU64,
    /// Where the last transfer that was looked at ended.
    pub(crate) end: AtomicU64,
    /// Up to where writing to the disk was begun.
    pub(crate) begun: AtomicU64,
    /// From where on the run may still be cached.
    pub(crate) from: AtomicU64,
    /// From where on it is not known whether the run has left the page cache; at most `from`.
    pub(crate) settled: AtomicU64,
    /// The file's size at the last look.
    pub(crate) file_bytes: AtomicU64,
    /// Bytes of the run that were asked to leave it and of which that is not known.
    pub(crate) asked: AtomicU64,
}

/// Bits of `Entry::flags`; the rest is the place of its counts.
pub(crate) const APPENDS: u32 = 1;
pub(crate) const NOT_AT_ONCE: u32 = 2;
/// Its pages belong to another file, that of a lower filesystem (overlayfs).
pub(crate) const STACKED: u32 = 4;
/// It is opened once more to see which of them are cached: the program's descriptor cannot read.
pub(crate) const REOPENED: u32 = 128;
/// Nobody says which of its pages are cached.
pub(crate) const BLIND: u32 = 8;
/// Its pages were seen to leave the page cache.
pub(crate) const SEEN_TO_LEAVE: u32 = 16;
/// Whoever writes it faster than its pages leave is held up.
pub(crate) const WAITED_FOR: u32 = 256;
/// What is written was cached before: no stream.
pub(crate) const REWRITES: u32 = 32;
/// The last look found the file's end.
pub(crate) const AT_END: u32 = 64;
pub(crate) const SLOT_SHIFT: u32 = 16;

struct Leaf([Entry; LEAF_ENTRIES]);

static TABLE: [[AtomicPtr<Leaf>; LEAVES]; 2] =
    [const { [const { AtomicPtr::new(null_mut()) }; LEAVES] }; 2];

impl Entry {
    /// That of a descriptor; none beyond the table, or without memory.
    #[inline]
    pub(crate) fn of(way: Way, fd: c_int) -> Option<&'static Self> {
        if let Some(entry) = Self::existing(way, fd) {
            return Some(entry);
        }
        let place = TABLE[way as usize].get(usize::try_from(fd).ok()? / LEAF_ENTRIES)?;
        new_leaf(place)?;
        Self::existing(way, fd)
    }

    /// The same where one was looked at already that has a number near it.
    #[inline]
    pub(crate) fn existing(way: Way, fd: c_int) -> Option<&'static Self> {
        let fd = usize::try_from(fd).ok()?;
        let leaf = TABLE[way as usize].get(fd / LEAF_ENTRIES)?.load(Ordering::Acquire);
        // SAFETY: a leaf stays mapped, and is made of atomics, for which all bits zero is a value.
        #[allow(unsafe_code, reason = "memory of our own")]
        let leaf = unsafe { leaf.as_ref() }?;
        leaf.0.get(fd % LEAF_ENTRIES)
    }

    /// Counts what was transferred, and says whether it is time for a look.
    #[inline]
    pub(crate) fn count(&self, bytes: u64) -> bool {
        let counted = self.counted.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        counted >= self.look_at.load(Ordering::Relaxed)
    }

    /// What was counted, which begins anew.
    pub(crate) fn take_count(&self) -> u64 {
        self.counted.swap(0, Ordering::Relaxed)
    }

    /// For whoever comes first; others go on without a look. Nobody waits: who holds it may be the
    /// very thread, below a signal handler, or one that is gone.
    pub(crate) fn hold(&self) -> Option<Held<'_>> {
        (self.busy.swap(1, Ordering::Acquire) == 0).then_some(Held(self))
    }

    /// Begins a run there.
    pub(crate) fn begin(&self, start: u64) {
        self.begun.store(start, Ordering::Relaxed);
        self.from.store(start, Ordering::Relaxed);
        self.settled.store(start, Ordering::Relaxed);
        self.asked.store(0, Ordering::Relaxed);
    }

    /// Goes on from there with what is before it settled.
    pub(crate) fn begin_from(&self, from: u64) {
        self.from.store(from, Ordering::Relaxed);
        self.settled.store(from, Ordering::Relaxed);
    }

    /// Leaves the file alone until it is another, or has other settings.
    pub(crate) fn leave_alone(&self, look_at: u64) {
        self.size.store(0, Ordering::Relaxed);
        self.look_at.store(look_at, Ordering::Relaxed);
        self.asked.store(0, Ordering::Relaxed);
    }

    pub(crate) fn is(&self, flag: u32) -> bool {
        self.flags.load(Ordering::Relaxed) & flag != 0
    }

    pub(crate) fn set(&self, flag: u32, on: bool) {
        if on {
            self.flags.fetch_or(flag, Ordering::Relaxed);
        } else {
            self.flags.fetch_and(!flag, Ordering::Relaxed);
        }
    }

    /// The place of its counts.
    pub(crate) fn slot(&self) -> u32 {
        self.flags.load(Ordering::Relaxed) >> SLOT_SHIFT
    }
}

/// An entry that is changed by one thread at a time.
pub(crate) struct Held<'a>(&'a Entry);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.busy.store(0, Ordering::Release);
    }
}

/// A piece of the table, which a fork(2) begins anew: a child that had it in the middle of a look
/// would never look again.
#[cold]
fn new_leaf(place: &AtomicPtr<Leaf>) -> Option<*mut Leaf> {
    let _errno = kernel::Errno::kept();
    let (prot, bytes) = (libc::PROT_READ | libc::PROT_WRITE, size_of::<Leaf>());
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: new memory at addresses that the kernel chooses (mmap(2)).
    #[allow(unsafe_code, reason = "a system call")]
    let new = unsafe { kernel::mmap(null_mut(), bytes, prot, flags, -1, 0) };
    if new == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: that memory, which holds nothing yet (madvise(2)).
    #[allow(unsafe_code, reason = "a system call")]
    unsafe {
        kernel::madvise(new, bytes, libc::MADV_WIPEONFORK)
    };
    let new = new.cast::<Leaf>();
    match place.compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(new),
        Err(first) => {
            // SAFETY: nobody else knows of it (munmap(2)).
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
    fn there_is_an_entry_for_each_descriptor_up_to_a_bound() {
        let at = |fd| Entry::of(Way::Write, fd).map(|entry| std::ptr::from_ref(entry).addr());
        assert_eq!(at(5), at(5));
        assert_ne!(at(5), at(6));
        assert_ne!(at(5), Entry::of(Way::Read, 5).map(|entry| std::ptr::from_ref(entry).addr()));
        assert!(at(65_535).is_some());
        assert!(at(-1).is_none() && at(65_536).is_none() && at(c_int::MAX).is_none());
    }

    #[test]
    fn it_is_held_by_one_at_a_time_and_counts_without() {
        let entry = Entry::of(Way::Write, 70).unwrap();
        entry.look_at.store(10, Ordering::Relaxed);
        let held = entry.hold();
        assert!(held.is_some() && entry.hold().is_none());
        drop(held);
        assert!(entry.hold().is_some());
        assert!(!entry.count(9) && entry.count(1));
        assert_eq!((entry.take_count(), entry.take_count()), (10, 0));
    }
}
