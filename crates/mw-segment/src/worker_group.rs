//! The workers of one operation.

use crate::cancel::Cancel;
use crate::chunk::ChunkLayout;
use crate::cpu_shares::{CpuShares, Registration};
use crate::cpus::Cpus;
use crate::node_workers::{NodeWorkers, Queues};
use crate::progress::{Phase, Progress};
use crate::thread_spawner::{StdThreads, ThreadSpawner};
use rustix::thread::Timespec;
use std::io;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The operations of this process.
static CPU_SHARES: CpuShares = CpuShares::new();

/// Time that a worker beyond the operation's share of the CPUs sleeps between two checks.
const PAUSE: Duration = Duration::from_millis(1);

/// Interval at which progress is reported and limits are checked.
const REPORT_EVERY: Duration = Duration::from_millis(50);

/// Work of one operation on each chunk.
pub(crate) type ChunkWork<'a> = dyn Fn(Range<usize>) -> io::Result<()> + Sync + 'a;

/// Receives progress on the caller's thread; may stop the operation.
pub(crate) type OnProgress<'a> = dyn FnMut(&Progress) -> ControlFlow<()> + 'a;

/// The reason why an operation did not finish.
#[derive(Debug)]
pub(crate) enum OperationStop {
    /// By the [`Cancel`] token or by the progress callback.
    Cancelled { done_bytes: usize },
    /// A call failed for the chunk at this offset.
    Failed { offset: usize, error: io::Error },
}

/// The workers that an operation may use.
#[derive(Debug, Clone)]
pub(crate) struct WorkerGroup {
    pub(crate) cpus: Cpus,
    /// One for each set of nodes; empty where every worker takes any chunk.
    pub(crate) by_node: Vec<NodeWorkers>,
    pub(crate) max_workers: usize,
    pub(crate) cancel: Cancel,
}

/// State that the workers of one operation share.
struct OperationState<'a> {
    group: &'a WorkerGroup,
    layout: &'a ChunkLayout,
    work: &'a ChunkWork<'a>,
    registration: Registration<'a>,
    queues: Queues,
    done_bytes: AtomicUsize,
    stop: AtomicBool,
    failure: Mutex<Option<(usize, io::Error)>>,
}

impl WorkerGroup {
    /// Does `work` on every chunk of `layout`; returns how many threads worked, the caller's
    /// included.
    pub(crate) fn run(
        &self,
        phase: Phase,
        layout: &ChunkLayout,
        work: &ChunkWork<'_>,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<usize, OperationStop> {
        self.run_on(&StdThreads, phase, layout, work, on_progress)
    }

    /// As [`run`](Self::run), on threads of this spawner.
    pub(crate) fn run_on(
        &self,
        spawner: &dyn ThreadSpawner,
        phase: Phase,
        layout: &ChunkLayout,
        work: &ChunkWork<'_>,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<usize, OperationStop> {
        let registration = CPU_SHARES.register(std::process::id(), self.cpus.usable());
        let shared = OperationState::new(self, layout, work, registration);
        let _pinned = self.cpus_of(0).pin();
        let start = Instant::now();
        let worker = |number: usize, _workers: usize| {
            let _pinned = self.cpus_of(number).pin();
            shared.serve(number, None);
        };
        let mut started = 1;
        let mut own = |workers: usize| {
            started = workers;
            // A panic in `on_progress` must not wait for the whole operation. Normally all chunks
            // are taken by then, and the spawner waits for those in progress.
            let _stop = StopOnDrop(&shared);
            let report = ProgressReporter { phase, shared: &shared, start, last: start };
            shared.serve(0, Some((report, &mut *on_progress)));
        };
        let wanted = self.max_workers.min(layout.chunks()).max(1);
        spawner.run(wanted, &worker, &mut own);
        shared.outcome(started)
    }

    fn cpus_of(&self, worker: usize) -> &Cpus {
        let node = self.by_node.get(worker % self.by_node.len().max(1));
        node.map_or(&self.cpus, |node| &node.cpus)
    }
}

impl<'a> OperationState<'a> {
    fn new(
        group: &'a WorkerGroup,
        layout: &'a ChunkLayout,
        work: &'a ChunkWork<'a>,
        registration: Registration<'a>,
    ) -> Self {
        Self {
            group,
            layout,
            work,
            registration,
            queues: Queues::new(layout, &group.by_node),
            done_bytes: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            failure: Mutex::new(None),
        }
    }

    /// One worker's work, from the first chunk to the last; worker 0 is the caller.
    fn serve(
        &self,
        worker: usize,
        mut report: Option<(ProgressReporter<'_>, &mut OnProgress<'_>)>,
    ) {
        while !self.is_over() {
            if worker > 0 && worker >= self.registration.share() && !self.queues.are_exhausted() {
                pause();
                continue;
            }
            let Some(number) = self.queues.take(worker) else { break };
            self.chunk(self.layout.chunk(number));
            if let Some((report, on_progress)) = &mut report
                && report.update(*on_progress).is_break()
            {
                self.stop.store(true, Ordering::Relaxed);
            }
        }
        if let Some((report, on_progress)) = &mut report {
            report.last_chunks(*on_progress);
        }
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.group.cancel.is_cancelled()
    }

    fn chunk(&self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let (offset, bytes) = (range.start, range.len());
        match until_uninterrupted(|| (self.work)(range.clone())) {
            Ok(()) => {
                self.done_bytes.fetch_add(bytes, Ordering::Relaxed);
            }
            Err(error) => {
                let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
                failure.get_or_insert((offset, error));
                self.stop.store(true, Ordering::Relaxed);
            }
        }
    }

    fn outcome(self, workers: usize) -> Result<usize, OperationStop> {
        let failure = self.failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        let done_bytes = self.done_bytes.into_inner();
        match failure {
            Some((offset, error)) => Err(OperationStop::Failed { offset, error }),
            None if done_bytes < self.layout.bytes() => {
                Err(OperationStop::Cancelled { done_bytes })
            }
            None => Ok(workers),
        }
    }
}

/// Repeats a call that a signal handler of the program interrupted on the caller's thread.
fn until_uninterrupted(mut call: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Sleeps without the C library, which knows nothing of the threads of other spawners.
fn pause() {
    let time = Timespec { tv_sec: 0, tv_nsec: PAUSE.subsec_nanos().into() };
    let _ = rustix::thread::nanosleep(&time);
}

/// Ends the workers that are paused.
struct StopOnDrop<'a>(&'a OperationState<'a>);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

/// Reports progress at [`REPORT_EVERY`].
struct ProgressReporter<'a> {
    phase: Phase,
    shared: &'a OperationState<'a>,
    start: Instant,
    last: Instant,
}

impl ProgressReporter<'_> {
    fn update(&mut self, on_progress: &mut OnProgress<'_>) -> ControlFlow<()> {
        if self.last.elapsed() < REPORT_EVERY {
            return ControlFlow::Continue(());
        }
        self.last = Instant::now();
        on_progress(&self.now())
    }

    /// Reports once more while other workers finish their last chunks.
    fn last_chunks(&mut self, on_progress: &mut OnProgress<'_>) {
        if self.shared.is_over() || self.start.elapsed() < REPORT_EVERY {
            return;
        }
        // All chunks are taken, so there is nothing left to stop.
        let _ = on_progress(&self.now());
    }

    fn now(&self) -> Progress {
        Progress {
            phase: self.phase,
            done_bytes: self.shared.done_bytes.load(Ordering::Relaxed),
            total_bytes: self.shared.layout.bytes(),
            elapsed: self.start.elapsed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn group(max_workers: usize) -> WorkerGroup {
        let (cpus, cancel) = (Cpus::allowed(), Cancel::new());
        WorkerGroup { cpus, by_node: Vec::new(), max_workers, cancel }
    }

    fn ignore(_: &Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    #[test]
    fn every_chunk_is_done_once() {
        let layout = ChunkLayout::new(64 * MIB, 16 * MIB, MIB);
        for workers in [1, 2, 5, 16] {
            let done = AtomicUsize::new(0);
            let work = |range: Range<usize>| {
                done.fetch_add(range.len(), Ordering::Relaxed);
                Ok(())
            };
            let started = group(workers).run(Phase::Create, &layout, &work, &mut ignore).unwrap();
            assert_eq!((started, done.into_inner()), (workers, 64 * MIB));
        }
    }

    #[test]
    fn the_first_failure_stops_all_workers() {
        let layout = ChunkLayout::new(1024 * MIB, 1024 * MIB, MIB);
        let calls = AtomicUsize::new(0);
        let work = |range: Range<usize>| {
            calls.fetch_add(1, Ordering::Relaxed);
            if range.start == 8 * MIB { Err(io::ErrorKind::OutOfMemory.into()) } else { Ok(()) }
        };
        let stopped = group(4).run(Phase::Create, &layout, &work, &mut ignore).unwrap_err();
        assert!(matches!(stopped, OperationStop::Failed { offset, .. } if offset == 8 * MIB));
    }

    #[test]
    fn interrupted_calls_are_repeated() {
        let layout = ChunkLayout::new(MIB, MIB, MIB);
        let calls = AtomicUsize::new(0);
        let work = |_| match calls.fetch_add(1, Ordering::Relaxed) {
            0 => Err(io::ErrorKind::Interrupted.into()),
            _ => Ok(()),
        };
        group(1).run(Phase::Create, &layout, &work, &mut ignore).unwrap();
        assert_eq!(calls.into_inner(), 2);
    }

    #[test]
    fn an_operation_cancelled_before_it_starts_calls_nothing() {
        let group = group(4);
        group.cancel.cancel();
        let layout = ChunkLayout::new(64 * MIB, 16 * MIB, MIB);
        let work = |_| panic!("called");
        let stopped = group.run(Phase::Create, &layout, &work, &mut ignore).unwrap_err();
        assert!(matches!(stopped, OperationStop::Cancelled { done_bytes: 0 }));
    }

    #[test]
    fn the_progress_callback_may_stop_the_operation_and_may_panic() {
        let layout = ChunkLayout::new(1024 * MIB, 1024 * MIB, MIB);
        let work = |_| {
            // Longer than the interval of reports, all chunks together.
            std::thread::sleep(Duration::from_millis(10));
            Ok(())
        };
        let group = group(2);
        let stopped = group
            .run(Phase::Create, &layout, &work, &mut |_: &Progress| ControlFlow::Break(()))
            .unwrap_err();
        assert!(matches!(stopped, OperationStop::Cancelled { done_bytes } if done_bytes > 0));
        let start = Instant::now();
        let run = std::panic::AssertUnwindSafe(|| {
            group.run(Phase::Create, &layout, &work, &mut |_: &Progress| panic!("callback"))
        });
        assert!(std::panic::catch_unwind(run).is_err());
        assert!(start.elapsed() < Duration::from_secs(4), "it continued to the end");
    }

    #[test]
    fn a_worker_delayed_in_one_chunk_leaves_the_rest_to_the_others() {
        let layout = ChunkLayout::new(100 * MIB, 100 * MIB, MIB);
        let (others, seen) = (AtomicUsize::new(0), AtomicUsize::new(0));
        // The first chunk ends only when the other worker has done all others.
        let work = |range: Range<usize>| {
            if range.start > 0 {
                others.fetch_add(1, Ordering::Relaxed);
                return Ok(());
            }
            let start = Instant::now();
            while others.load(Ordering::Relaxed) < 99 && start.elapsed() < Duration::from_secs(10) {
                std::thread::yield_now();
            }
            seen.store(others.load(Ordering::Relaxed), Ordering::Relaxed);
            Ok(())
        };
        // CPUs that no other test registers on.
        let group = WorkerGroup { cpus: Cpus::from_numbers(vec![1000, 1001]), ..group(2) };
        group.run(Phase::Create, &layout, &work, &mut ignore).unwrap();
        assert_eq!(seen.into_inner(), 99);
    }
}
