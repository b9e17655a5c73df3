//! The threads that currently make system calls on behalf of this library.

use crate::kernel;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

const SLOTS: usize = 32;

/// Active threads, by identity; threads beyond the slots are only counted. All bits zero: none.
pub(crate) struct ActiveThreads {
    slots: [ThreadSlot; SLOTS],
    others: AtomicU32,
}

struct ThreadSlot {
    /// 0: the slot is free.
    thread: AtomicUsize,
    depth: AtomicU32,
}

impl ActiveThreads {
    pub(crate) fn enter(&self) {
        let thread = kernel::thread_identity();
        let is_own = |slot: &&ThreadSlot| slot.thread.load(Ordering::Relaxed) == thread;
        let claim = |slot: &&ThreadSlot| {
            let ordering = (Ordering::SeqCst, Ordering::Relaxed);
            slot.thread.compare_exchange(0, thread, ordering.0, ordering.1).is_ok()
        };
        let slot = self.slots.iter().find(is_own).or_else(|| self.slots.iter().find(claim));
        slot.map_or(&self.others, |slot| &slot.depth).fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn leave(&self) {
        let thread = kernel::thread_identity();
        let own = self.slots.iter().find(|slot| slot.thread.load(Ordering::Relaxed) == thread);
        // The child of a fork(2) in a signal handler starts from zero.
        let less = |count: u32| count.checked_sub(1);
        let Some(own) = own else {
            let _ = self.others.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
            return;
        };
        if own.depth.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less) == Ok(1) {
            own.thread.store(0, Ordering::SeqCst);
        }
    }

    /// True if a thread other than the calling one is active. Entries of the calling thread are
    /// operations that it left by siglongjmp(3), or that the current signal handler interrupted.
    pub(crate) fn are_others(&self) -> bool {
        let thread = kernel::thread_identity();
        let is_other = |slot: &ThreadSlot| {
            ![0, thread].contains(&slot.thread.load(Ordering::SeqCst))
                && slot.depth.load(Ordering::SeqCst) > 0
        };
        self.others.load(Ordering::SeqCst) > 0 || self.slots.iter().any(is_other)
    }
}
