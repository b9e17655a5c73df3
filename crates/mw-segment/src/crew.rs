//! The helpers of one operation.

use crate::cancel::Cancel;
use crate::chunk::Layout;
use crate::cpus::Cpus;
use crate::gang::{Gang, Threads};
use crate::ledger::{Entry, Ledger};
use crate::progress::{Phase, Progress};
use crate::team::{Queues, Team};
use rustix::thread::Timespec;
use std::io;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The operations of this process.
static LEDGER: Ledger = Ledger::new();

/// How long a helper that is not its operation's turn sleeps before it looks again.
const SIT_DOWN: Duration = Duration::from_millis(1);

/// How often progress is reported, and limits are looked at.
const REPORT_EVERY: Duration = Duration::from_millis(50);

/// How the work is split. What is not [`Split::Chunks`] is here to be compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Split {
    /// Small chunks from one cursor.
    #[default]
    Chunks,
    /// An equal share and one call per helper, as QEMU and cloud-hypervisor do it. Cannot be
    /// cancelled and reports no progress before the end.
    EqualShare,
    /// One page a call, as DPDK does it.
    PageByPage,
}

/// For measurements: how the work is split, and a helper that is slowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Experiment {
    /// How the work is split.
    pub split: Split,
    /// Has the last helper take this many times as long for all it does; 0 and 1 are no change.
    pub slowed: u32,
}

/// What one operation does to each chunk.
pub(crate) type Work<'a> = dyn Fn(Range<usize>) -> io::Result<()> + Sync + 'a;

/// What is told of progress, on the caller's thread; it may stop the operation.
pub(crate) type Tell<'a> = dyn FnMut(&Progress) -> ControlFlow<()> + 'a;

/// Why an operation did not get to its end.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// The token, or whoever was told of progress, wanted it.
    Cancelled { done_bytes: usize },
    /// A call failed for the chunk at this offset.
    Failed { offset: usize, error: io::Error },
}

/// The helpers that an operation may have.
#[derive(Debug, Clone)]
pub(crate) struct Crew {
    pub(crate) cpus: Cpus,
    /// Where each node has its own; empty where all do everything.
    pub(crate) teams: Vec<Team>,
    pub(crate) helpers: usize,
    pub(crate) page_bytes: usize,
    pub(crate) experiment: Experiment,
    pub(crate) cancel: Cancel,
}

/// What the helpers of one operation share.
struct Shared<'a> {
    crew: &'a Crew,
    layout: &'a Layout,
    work: &'a Work<'a>,
    entry: Entry<'a>,
    queues: Queues,
    done_bytes: AtomicUsize,
    stop: AtomicBool,
    failure: Mutex<Option<(usize, io::Error)>>,
}

impl Crew {
    /// Does `work` to every chunk of `layout`; returns how many threads worked, the caller's
    /// included.
    pub(crate) fn run(
        &self,
        phase: Phase,
        layout: &Layout,
        work: &Work<'_>,
        tell: &mut Tell<'_>,
    ) -> Result<usize, Stopped> {
        self.run_in(&Threads, phase, layout, work, tell)
    }

    /// The same with threads of this gang.
    pub(crate) fn run_in(
        &self,
        gang: &dyn Gang,
        phase: Phase,
        layout: &Layout,
        work: &Work<'_>,
        tell: &mut Tell<'_>,
    ) -> Result<usize, Stopped> {
        let entry = LEDGER.enter(std::process::id(), self.cpus.usable());
        let shared = Shared::new(self, layout, work, entry);
        let _pinned = self.cpus_of(0).pin();
        let start = Instant::now();
        let helper = |number: usize, workers: usize| {
            let _pinned = self.cpus_of(number).pin();
            shared.serve(number, workers, None);
        };
        let mut had = 1;
        let mut own = |workers: usize| {
            had = workers;
            // A panic in `tell` must not wait for the whole operation. At the usual end all
            // chunks are taken, and what others have in hand is waited for.
            let _stop = StopOnDrop(&shared);
            let report = Report { phase, shared: &shared, start, last: start };
            shared.serve(0, workers, Some((report, &mut *tell)));
        };
        let wanted = self.helpers.min(layout.chunks()).max(1);
        gang.run(wanted, &helper, &mut own);
        shared.outcome(had)
    }

    fn cpus_of(&self, helper: usize) -> &Cpus {
        let team = self.teams.get(helper % self.teams.len().max(1));
        team.map_or(&self.cpus, |team| &team.cpus)
    }
}

impl<'a> Shared<'a> {
    fn new(crew: &'a Crew, layout: &'a Layout, work: &'a Work<'a>, entry: Entry<'a>) -> Self {
        Self {
            crew,
            layout,
            work,
            entry,
            queues: Queues::new(layout, &crew.teams),
            done_bytes: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            failure: Mutex::new(None),
        }
    }

    /// One helper's work, from the first chunk to the last; helper 0 is the caller.
    fn serve(
        &self,
        helper: usize,
        workers: usize,
        mut report: Option<(Report<'_>, &mut Tell<'_>)>,
    ) {
        let last = helper + 1 == workers;
        if self.crew.experiment.split == Split::EqualShare {
            self.unit(last, self.layout.share(helper, workers));
            return;
        }
        while !self.is_over() {
            if helper > 0 && helper >= self.entry.share() && !self.queues.are_exhausted() {
                pause(SIT_DOWN);
                continue;
            }
            let Some(number) = self.queues.take(helper) else { break };
            self.unit(last, self.layout.chunk(number));
            if let Some((report, tell)) = &mut report
                && report.tell(*tell).is_break()
            {
                self.stop.store(true, Ordering::Relaxed);
            }
        }
        if let Some((report, tell)) = &mut report {
            report.watch(*tell);
        }
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.crew.cancel.is_cancelled()
    }

    /// One call, or one call a page; takes longer on the last helper where it is slowed.
    fn unit(&self, last: bool, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let start = Instant::now();
        let (offset, bytes) = (range.start, range.len());
        match self.call(range) {
            Ok(()) => {
                self.done_bytes.fetch_add(bytes, Ordering::Relaxed);
            }
            Err(error) => {
                let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
                failure.get_or_insert((offset, error));
                self.stop.store(true, Ordering::Relaxed);
            }
        }
        if last && self.crew.experiment.slowed > 1 {
            pause(start.elapsed() * (self.crew.experiment.slowed - 1));
        }
    }

    fn call(&self, range: Range<usize>) -> io::Result<()> {
        if self.crew.experiment.split != Split::PageByPage {
            return until_done(|| (self.work)(range.clone()));
        }
        let page = self.crew.page_bytes;
        range.clone().step_by(page).try_for_each(|offset| {
            until_done(|| (self.work)(offset..(offset + page).min(range.end)))
        })
    }

    fn outcome(self, workers: usize) -> Result<usize, Stopped> {
        let failure = self.failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        let done_bytes = self.done_bytes.into_inner();
        match failure {
            Some((offset, error)) => Err(Stopped::Failed { offset, error }),
            None if done_bytes < self.layout.bytes() => Err(Stopped::Cancelled { done_bytes }),
            None => Ok(workers),
        }
    }
}

/// A signal of the program's may end a call of the caller's thread early.
fn until_done(mut call: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Sleeps without the C library, of which a helper of another gang may have no thread.
fn pause(time: Duration) {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    let time = Timespec { tv_sec: seconds, tv_nsec: time.subsec_nanos().into() };
    let _ = rustix::thread::nanosleep(&time);
}

/// Lets helpers that wait for their turn end.
struct StopOnDrop<'a>(&'a Shared<'a>);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

/// Tells of progress, not too often.
struct Report<'a> {
    phase: Phase,
    shared: &'a Shared<'a>,
    start: Instant,
    last: Instant,
}

impl Report<'_> {
    fn tell(&mut self, tell: &mut Tell<'_>) -> ControlFlow<()> {
        if self.last.elapsed() < REPORT_EVERY {
            return ControlFlow::Continue(());
        }
        self.last = Instant::now();
        tell(&self.now())
    }

    /// The caller has nothing left to do; helpers may have.
    fn watch(&mut self, tell: &mut Tell<'_>) {
        if self.shared.is_over() || self.start.elapsed() < REPORT_EVERY {
            return;
        }
        // All chunks are taken: there is nothing left to stop.
        let _ = tell(&self.now());
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

    fn crew(helpers: usize, experiment: Experiment) -> Crew {
        let (cpus, cancel) = (Cpus::allowed(), Cancel::new());
        Crew { cpus, teams: Vec::new(), helpers, page_bytes: 4096, experiment, cancel }
    }

    fn quiet(_: &Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    #[test]
    fn every_split_does_everything_once() {
        let layout = Layout::new(64 * MIB, 16 * MIB, MIB);
        for split in [Split::Chunks, Split::EqualShare, Split::PageByPage] {
            for helpers in [1, 2, 5, 16] {
                let done = AtomicUsize::new(0);
                let work = |range: Range<usize>| {
                    done.fetch_add(range.len(), Ordering::Relaxed);
                    Ok(())
                };
                let crew = crew(helpers, Experiment { split, slowed: 0 });
                let workers = crew.run(Phase::Create, &layout, &work, &mut quiet).unwrap();
                assert_eq!((workers, done.into_inner()), (helpers, 64 * MIB), "{split:?}");
            }
        }
    }

    #[test]
    fn the_first_failure_stops_all() {
        let layout = Layout::new(1024 * MIB, 1024 * MIB, MIB);
        let calls = AtomicUsize::new(0);
        let work = |range: Range<usize>| {
            calls.fetch_add(1, Ordering::Relaxed);
            if range.start == 8 * MIB { Err(io::ErrorKind::OutOfMemory.into()) } else { Ok(()) }
        };
        let stopped = crew(4, Experiment::default())
            .run(Phase::Create, &layout, &work, &mut quiet)
            .unwrap_err();
        assert!(matches!(stopped, Stopped::Failed { offset, .. } if offset == 8 * MIB));
    }

    #[test]
    fn interrupted_calls_are_repeated() {
        let layout = Layout::new(MIB, MIB, MIB);
        let calls = AtomicUsize::new(0);
        let work = |_| match calls.fetch_add(1, Ordering::Relaxed) {
            0 => Err(io::ErrorKind::Interrupted.into()),
            _ => Ok(()),
        };
        crew(1, Experiment::default()).run(Phase::Create, &layout, &work, &mut quiet).unwrap();
        assert_eq!(calls.into_inner(), 2);
    }

    #[test]
    fn cancelled_before_it_begins_it_does_nothing() {
        let crew = crew(4, Experiment::default());
        crew.cancel.cancel();
        let layout = Layout::new(64 * MIB, 16 * MIB, MIB);
        let work = |_| panic!("called");
        let stopped = crew.run(Phase::Create, &layout, &work, &mut quiet).unwrap_err();
        assert!(matches!(stopped, Stopped::Cancelled { done_bytes: 0 }));
    }

    #[test]
    fn whoever_is_told_may_stop_it_and_may_panic() {
        let layout = Layout::new(1024 * MIB, 1024 * MIB, MIB);
        let work = |_| {
            std::thread::sleep(Duration::from_millis(10));
            Ok(())
        };
        let crew = crew(2, Experiment::default());
        let stopped = crew
            .run(Phase::Create, &layout, &work, &mut |_: &Progress| ControlFlow::Break(()))
            .unwrap_err();
        assert!(matches!(stopped, Stopped::Cancelled { done_bytes } if done_bytes > 0));
        let start = Instant::now();
        let run = std::panic::AssertUnwindSafe(|| {
            crew.run(Phase::Create, &layout, &work, &mut |_: &Progress| panic!("told"))
        });
        assert!(std::panic::catch_unwind(run).is_err());
        assert!(start.elapsed() < Duration::from_secs(4), "it went on to the end");
    }

    #[test]
    fn a_slow_helper_does_less() {
        let layout = Layout::new(400 * MIB, 400 * MIB, MIB);
        let work = |_| {
            std::thread::sleep(Duration::from_micros(500));
            Ok(())
        };
        let time = |split| {
            let start = Instant::now();
            crew(2, Experiment { split, slowed: 4 })
                .run(Phase::Create, &layout, &work, &mut quiet)
                .unwrap();
            start.elapsed()
        };
        // Two helpers, one at a quarter of the speed: 400 calls take 320 times 0.5 ms.
        let ideal = Duration::from_micros(320 * 500);
        // A busy machine may be slow at any one of them.
        let best = (0..3).map(|_| time(Split::Chunks)).min();
        assert!(best.is_some_and(|best| best < ideal * 2), "{best:?}");
    }
}
