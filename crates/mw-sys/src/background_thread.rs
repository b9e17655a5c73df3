//! One thread without the C library that works beside the program's threads (see `bare_threads`).

use crate::Region;
use crate::bare_threads::{Body, STACK_BYTES, Start, clone_thread};
use crate::signals::{ALL_SIGNALS, swap_signal_mask};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU32, Ordering};

/// The gate of a thread that waits for no other: it is always open.
static OPEN: AtomicU32 = AtomicU32::new(1);

/// A thread that can be started again after it has ended. It lies on the page above its stack, which is
/// never unmapped; a fork(2) inherits neither.
pub struct BackgroundThread {
    start: Start<'static>,
}

impl std::fmt::Debug for BackgroundThread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BackgroundThread").finish_non_exhaustive()
    }
}

impl BackgroundThread {
    /// Maps the stack of a thread that will run `body`; none if there is no memory.
    #[must_use]
    pub fn map(
        name: &'static std::ffi::CStr,
        body: &'static Body<'static>,
    ) -> Option<&'static Self> {
        let page = rustix::param::page_size();
        let bytes = page + STACK_BYTES + page + page;
        let region = Region::reserve(bytes, page, page).ok()?;
        region.map_anonymous(page..bytes - page, false).ok()?;
        let start = region.as_ptr().as_ptr();
        // SAFETY: the new region, which is only kept out of forks (madvise(2)).
        #[allow(unsafe_code, reason = "memory of our own")]
        let advised =
            unsafe { rustix::mm::madvise(start.cast(), bytes, rustix::mm::Advice::LinuxDontFork) };
        advised.ok()?;
        let _never_unmapped = ManuallyDrop::new(region);
        let place = start.wrapping_add(page + STACK_BYTES).cast::<Self>();
        let start = Start { name, number: 1, body, gate: &OPEN, alive: AtomicU32::new(0) };
        // SAFETY: a page that was mapped above for it alone, and that stays mapped.
        #[allow(unsafe_code, reason = "memory of our own")]
        unsafe {
            place.write(Self { start });
        }
        // SAFETY: it was written above, and only shared references to it are made.
        #[allow(unsafe_code, reason = "memory of our own")]
        unsafe {
            place.as_ref()
        }
    }

    /// Starts the thread, after its previous run has ended; returns whether it was created. All signals are
    /// blocked in it.
    ///
    /// # Safety
    /// The thread has the address of this thread's thread-local storage, and may outlive this thread. Its body
    /// must not access thread-local storage at all, `errno` included. One thread at a time may call this.
    #[allow(unsafe_code, reason = "what the body does cannot be checked here")]
    pub unsafe fn start(&'static self) -> bool {
        self.wait_for_end();
        let before = swap_signal_mask(ALL_SIGNALS);
        self.start.alive.store(1, Ordering::Relaxed);
        let top = std::ptr::from_ref(self).cast_mut().cast::<u8>();
        // SAFETY: the stack ends where this begins, is never unmapped, and no thread uses it: the previous
        // one has ended.
        let created = unsafe { clone_thread(top, &self.start) } >= 0;
        if !created {
            self.start.alive.store(0, Ordering::Relaxed);
        }
        swap_signal_mask(before);
        created
    }

    /// True if it has been started and is not gone.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.start.alive.load(Ordering::Acquire) != 0
    }

    /// Waits until the thread is gone, if it runs.
    pub fn wait_for_end(&self) {
        self.start.wait_for_end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static RUNS: AtomicU32 = AtomicU32::new(0);

    #[test]
    fn it_can_be_started_again() {
        let body = &|_, _| {
            RUNS.fetch_add(1, Ordering::SeqCst);
        };
        let thread = BackgroundThread::map(c"mw-test", body).unwrap();
        for run in 1..=3 {
            // SAFETY: the body adds to a static number, and no other thread starts it.
            #[allow(unsafe_code, reason = "what is tested")]
            let created = unsafe { thread.start() };
            assert!(created);
            thread.wait_for_end();
            assert!(!thread.is_alive());
            assert_eq!(RUNS.load(Ordering::SeqCst), run);
        }
    }
}
