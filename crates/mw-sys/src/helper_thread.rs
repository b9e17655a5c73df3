//! A helper thread for calls about processes that may block forever.
//!
//! Reading a file of /proc takes a lock of the process that it describes. In recent kernels most of
//! them wait for an execve(2) in progress, which closes files and so waits for their file system, and
//! `maps` waits for an mmap(2), during which NFS contacts its server. A reader waits as long. So the
//! helper thread is abandoned when it makes no progress and a new one continues. Processes that an
//! abandoned thread is blocked on are skipped until that thread returns.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The name of helper threads, as in /proc/PID/comm.
pub const HELPER_THREAD_NAME: &str = "mw-helper";

/// The most blocked threads at a time; beyond that every request is skipped.
const MAX_BLOCKED: usize = 16;
/// Between two checks of whether a thread has ended.
const POLL: Duration = Duration::from_millis(2);
/// Small, since a program that locks its memory locks the whole stack.
const STACK_BYTES: usize = 256 << 10;

type HelperFn<Q, A> = Arc<dyn Fn(u32, &Q) -> A + Send + Sync>;

/// Calls a function for processes, each request with the id of its process.
pub struct HelperThread<Q, A> {
    call: HelperFn<Q, A>,
    patience: Duration,
    worker: Option<HelperWorker<Q, A>>,
    blocked: Vec<BlockedHelper>,
}

struct HelperWorker<Q, A> {
    requests: Sender<Vec<(u32, Q)>>,
    shared: Arc<HelperState<A>>,
    thread: JoinHandle<()>,
}

struct BlockedHelper {
    pid: u32,
    thread: JoinHandle<()>,
}

struct HelperState<A> {
    results: Mutex<Vec<A>>,
    done: Condvar,
    abandoned: AtomicBool,
}

impl<Q, A> HelperThread<Q, A>
where
    Q: Clone + Send + 'static,
    A: Send + 'static,
{
    /// `call` runs on the helper thread; a call that takes longer than `patience` is abandoned.
    ///
    /// # Errors
    /// The thread could not be created.
    pub fn new(
        patience: Duration,
        call: impl Fn(u32, &Q) -> A + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let call: HelperFn<Q, A> = Arc::new(call);
        let worker = Some(HelperWorker::start(&call)?);
        Ok(Self { call, patience, worker, blocked: Vec::new() })
    }

    /// The results, in the order of the requests; `None` for those that were skipped or abandoned.
    pub fn run(&mut self, requests: &[(u32, Q)]) -> Vec<Option<A>> {
        self.blocked.retain(|blocked| !blocked.thread.is_finished());
        let mut results: Vec<Option<A>> = requests.iter().map(|_| None).collect();
        let mut from = 0;
        while from < requests.len() {
            let pending: Vec<usize> =
                (from..requests.len()).filter(|at| !self.is_blocked_on(requests[*at].0)).collect();
            let batch = pending.iter().map(|at| requests[*at].clone()).collect();
            let Some(done) = self.run_batch(batch) else { break };
            let count = done.len();
            for (at, result) in pending.iter().zip(done) {
                results[*at] = Some(result);
            }
            let Some(at) = pending.get(count) else { break };
            self.abandon(requests[*at].0);
            from = at + 1;
        }
        results
    }

    /// The processes that a thread is blocked on.
    pub fn blocked(&self) -> Vec<u32> {
        let blocked = self.blocked.iter().filter(|blocked| !blocked.thread.is_finished());
        blocked.map(|blocked| blocked.pid).collect()
    }

    fn is_blocked_on(&self, pid: u32) -> bool {
        self.blocked.iter().any(|blocked| blocked.pid == pid)
    }

    /// The results of the first of these requests: of all, unless the thread blocks.
    fn run_batch(&mut self, batch: Vec<(u32, Q)>) -> Option<Vec<A>> {
        if self.worker.is_none() && self.blocked.len() < MAX_BLOCKED {
            self.worker = HelperWorker::start(&self.call).ok();
        }
        let worker = self.worker.as_ref()?;
        let wanted = batch.len();
        worker.requests.send(batch).ok()?;
        let mut results = locked(&worker.shared.results);
        let mut before = 0;
        loop {
            let waited = worker
                .shared
                .done
                .wait_timeout_while(results, self.patience, |results| results.len() < wanted);
            (results, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if results.len() == wanted || results.len() == before {
                return Some(std::mem::take(&mut results));
            }
            before = results.len();
        }
    }

    fn abandon(&mut self, pid: u32) {
        if let Some(worker) = self.worker.take() {
            worker.shared.abandoned.store(true, Ordering::Release);
            self.blocked.push(BlockedHelper { pid, thread: worker.thread });
        }
    }
}

impl<Q: Send + 'static, A: Send + 'static> HelperWorker<Q, A> {
    fn start(call: &HelperFn<Q, A>) -> io::Result<Self> {
        let (requests, batches) = channel::<Vec<(u32, Q)>>();
        let shared = Arc::new(HelperState {
            results: Mutex::default(),
            done: Condvar::new(),
            abandoned: AtomicBool::new(false),
        });
        let (call, theirs) = (Arc::clone(call), Arc::clone(&shared));
        let thread =
            std::thread::Builder::new().name(HELPER_THREAD_NAME.into()).stack_size(STACK_BYTES);
        let thread = thread.spawn(move || {
            for batch in batches {
                let wanted = batch.len();
                for (pid, request) in batch {
                    let result = call(pid, &request);
                    if theirs.abandoned.load(Ordering::Acquire) {
                        return;
                    }
                    let mut results = locked(&theirs.results);
                    results.push(result);
                    if results.len() == wanted {
                        theirs.done.notify_one();
                    }
                }
            }
        })?;
        Ok(Self { requests, shared, thread })
    }
}

impl<Q, A> std::fmt::Debug for HelperThread<Q, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let blocked = self.blocked.len();
        f.debug_struct("HelperThread").field("blocked", &blocked).finish_non_exhaustive()
    }
}

/// Waits at most `limit` for a thread to end; returns whether it did. A thread that blocks in the
/// kernel for longer is left to end by itself.
pub fn join_within(thread: JoinHandle<()>, limit: Duration) -> bool {
    let start = Instant::now();
    while !thread.is_finished() && start.elapsed() < limit {
        std::thread::sleep(POLL);
    }
    // The result of a thread that panicked is of no use.
    thread.is_finished() && thread.join().is_ok()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::Receiver;

    const PATIENCE: Duration = Duration::from_millis(20);

    /// Doubles the request; blocks for odd processes until the other end is dropped.
    fn doubling() -> (HelperThread<u32, u32>, Sender<()>) {
        let (release, blocked): (_, Receiver<()>) = channel();
        let blocked = Mutex::new(blocked);
        let helper = HelperThread::new(PATIENCE, move |pid, request: &u32| {
            if pid % 2 == 1 {
                let _ = locked(&blocked).recv();
            }
            2 * request
        });
        (helper.unwrap(), release)
    }

    #[test]
    fn a_blocked_call_does_not_delay_the_others() {
        let (mut helper, release) = doubling();
        assert_eq!(helper.run(&[(2, 1), (4, 2)]), [Some(2), Some(4)]);
        assert!(helper.blocked().is_empty());
        let requests = [(2, 1), (1, 2), (4, 3), (1, 4), (6, 5)];
        assert_eq!(helper.run(&requests), [Some(2), None, Some(6), None, Some(10)]);
        assert_eq!(helper.blocked.len(), 1, "one thread for each process at most");
        assert_eq!(helper.blocked(), [1]);
        drop(release);
        while !helper.blocked.iter().all(|blocked| blocked.thread.is_finished()) {
            std::thread::yield_now();
        }
        assert_eq!(helper.run(&requests[1..2]), [Some(4)], "called again once the thread returned");
        assert!(helper.blocked().is_empty());
    }

    #[test]
    fn blocked_threads_are_bounded() {
        let (mut helper, _release) = doubling();
        let odd = |number: usize| (2 * u32::try_from(number).unwrap() + 1, 0);
        let requests: Vec<_> = (0..2 * MAX_BLOCKED).map(odd).collect();
        assert!(helper.run(&requests).iter().all(Option::is_none));
        assert_eq!(helper.blocked.len(), MAX_BLOCKED);
        assert_eq!(helper.run(&[(2, 1)]), [None]);
    }
}
