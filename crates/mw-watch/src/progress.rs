//! Progress of every thread of the recorder.
//!
//! A thread says when it begins a step and when it waits for something to do. One that has been in the same step for
//! longer than its bound is stuck: a file system, a device or a process does not respond to it, or it waits for a thread
//! of which that is so. The service manager's watchdog is fed only while none is.

use crate::clock;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A thread that waits for something to do.
const RESTS: u64 = 0;

/// The threads of a recorder.
#[derive(Debug, Default)]
pub(crate) struct ThreadBeats {
    beats: Mutex<Vec<Arc<Beat>>>,
}

/// Progress of one thread.
#[derive(Debug)]
pub(crate) struct Beat {
    name: String,
    bound: Duration,
    /// Beginning of its step, in milliseconds (`CLOCK_MONOTONIC`), or [`RESTS`].
    since_ms: AtomicU64,
}

/// A thread that makes no progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StuckThread {
    pub thread: String,
    pub for_at_least: Duration,
}

impl fmt::Display for StuckThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { thread, for_at_least } = self;
        write!(f, "thread {thread} has made no progress for {} s", for_at_least.as_secs())
    }
}

impl ThreadBeats {
    /// A new thread, which may take `bound` for one step.
    pub(crate) fn add(&self, name: &str, bound: Duration) -> Arc<Beat> {
        let since_ms = AtomicU64::new(RESTS);
        let beat = Arc::new(Beat { name: name.to_owned(), bound, since_ms });
        self.beats.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&beat));
        beat
    }

    /// The thread that has been stuck for longest, where one is.
    pub(crate) fn stuck(&self) -> Option<StuckThread> {
        let now_ms = now_ms();
        let beats = self.beats.lock().unwrap_or_else(PoisonError::into_inner);
        beats.iter().filter_map(|beat| beat.stuck(now_ms)).max_by_key(|stuck| stuck.for_at_least)
    }
}

impl Beat {
    /// A step begins.
    pub(crate) fn step(&self) {
        self.since_ms.store(now_ms(), Ordering::Relaxed);
    }

    /// There is nothing to do, or the thread ends.
    pub(crate) fn rest(&self) {
        self.since_ms.store(RESTS, Ordering::Relaxed);
    }

    fn stuck(&self, now_ms: u64) -> Option<StuckThread> {
        let since_ms = self.since_ms.load(Ordering::Relaxed);
        let for_at_least = Duration::from_millis(now_ms.saturating_sub(since_ms));
        let is_stuck = since_ms != RESTS && for_at_least > self.bound;
        is_stuck.then(|| StuckThread { thread: self.name.clone(), for_at_least })
    }
}

fn now_ms() -> u64 {
    (clock::monotonic_ms() as u64).max(RESTS + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_stuck_when_a_step_takes_longer_than_its_bound() {
        let threads = ThreadBeats::default();
        let (quick, slow) =
            (threads.add("quick", Duration::ZERO), threads.add("slow", Duration::from_secs(60)));
        assert_eq!(threads.stuck(), None, "they have nothing to do");
        slow.step();
        quick.step();
        mw_test::wait_until("it is stuck", Duration::from_secs(10), || threads.stuck().is_some());
        assert_eq!(threads.stuck().unwrap().thread, "quick");
        quick.rest();
        assert_eq!(threads.stuck(), None);
        assert!(slow.stuck(now_ms() + 61_000).is_some());
    }
}
