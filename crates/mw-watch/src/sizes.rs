//! Records who holds how much memory, once a minute, in a thread that may be late.

use crate::priority::yield_to_others;
use mw_collect::{SizeCollector, Source};
use mw_record::Writer;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Until the first: programs that start with the recorder have their memory then.
const FIRST: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(crate) struct Sizes {
    is_stopped: Mutex<bool>,
    changed: Condvar,
}

impl Sizes {
    /// Records sizes at this interval until the recorder stops.
    pub(crate) fn run(&self, source: Source, interval: Duration, writer: &Writer) {
        yield_to_others();
        let mut collector = SizeCollector::new(source);
        let mut rest = FIRST.min(interval);
        while self.rest(rest) {
            rest = interval;
            writer.keep_sizes(mw_sys::unix_ms(), collector.collect());
        }
    }

    pub(crate) fn stop(&self) {
        *self.is_stopped() = true;
        self.changed.notify_all();
    }

    /// Lets time pass; `false` when the recorder stops.
    fn rest(&self, time: Duration) -> bool {
        let waits = |is_stopped: &mut bool| !*is_stopped;
        let waited = self.changed.wait_timeout_while(self.is_stopped(), time, waits);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn is_stopped(&self) -> MutexGuard<'_, bool> {
        self.is_stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
