//! Threads that end with their owner, and do not hold it up when they cannot.

use std::io;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Enough for the resolver of host names; small, for a process that locks its memory has all of it
/// resident.
pub(crate) const STACK_BYTES: usize = 256 << 10;

/// Time that an owner waits for its threads. One that sits in the kernel for longer is left to end
/// by itself.
const GRACE: Duration = Duration::from_secs(1);

/// Threads and how they are told to end; told when it is dropped.
pub(crate) struct EndingThreads {
    stop: Box<dyn Fn() + Send + Sync>,
    handles: Vec<JoinHandle<()>>,
}

impl EndingThreads {
    /// None yet; `stop` has those to come end soon.
    pub(crate) fn new(stop: impl Fn() + Send + Sync + 'static) -> Self {
        Self { stop: Box::new(stop), handles: Vec::new() }
    }

    /// Starts one more.
    ///
    /// # Errors
    /// The kernel gives no thread.
    pub(crate) fn spawn(
        &mut self,
        name: &str,
        stack_bytes: usize,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let builder = Builder::new().name(name.to_owned()).stack_size(stack_bytes);
        self.handles.push(builder.spawn(run)?);
        Ok(())
    }
}

impl Drop for EndingThreads {
    fn drop(&mut self) {
        (self.stop)();
        let begun = Instant::now();
        for handle in self.handles.drain(..) {
            mw_sys::join_within(handle, GRACE.saturating_sub(begun.elapsed()));
        }
    }
}

impl std::fmt::Debug for EndingThreads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.handles).finish()
    }
}
