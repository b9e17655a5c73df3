//! The worker threads: what takes time is done beside the server's loop.
//!
//! Two threads: one populates and frees, in the order of its requests, so that memory which is
//! exchanged is freed before more is allocated; the other zeroes, so that a returned stripe need not
//! wait for a pool that grows. Each starts the threads of mw-segment's operations.

use crate::lease_table::{PoolId, StripeId};
use crate::spec::PoolSpec;
use crate::stripe_memory::{self, StripeMemory};
use mw_segment::{Cancel, Options, SegmentKind};
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::setpriority_process;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Below programs. A client may be waiting for memory to be zeroed, and should not wait for more memory
/// to be populated.
const ZERO_NICE: i32 = 5;
const POPULATE_NICE: i32 = 10;

enum StripeJob {
    Populate {
        pool: PoolId,
        options: Options,
        stripes: u64,
    },
    Lock(PoolId, Arc<StripeMemory>),
    /// Stripes of one size.
    Zero(Vec<(StripeId, Arc<StripeMemory>)>),
    Free {
        /// The last reference.
        memory: Arc<StripeMemory>,
        /// The stripe to report as freed, if it is not in use elsewhere.
        report: Option<StripeId>,
    },
}

#[derive(Debug)]
pub(crate) enum JobResult {
    Populated { pool: PoolId, stripes: u64, files: Result<Vec<OwnedFd>, String> },
    Locked(PoolId, io::Result<()>),
    Zeroed(Vec<(StripeId, io::Result<()>)>),
    Freed(StripeId),
}

#[derive(Debug)]
pub(crate) struct StripeWorkers {
    populate: Sender<StripeJob>,
    zero: Sender<StripeJob>,
    completed: Receiver<JobResult>,
    wakeup: Arc<OwnedFd>,
    cancel: Cancel,
}

impl StripeWorkers {
    pub(crate) fn start() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wakeup = Arc::new(eventfd(0, flags)?);
        let (results, completed) = channel();
        let start = |name: &str, nice: i32| {
            let (sender, jobs) = channel::<StripeJob>();
            let (results, wakeup) = (results.clone(), Arc::clone(&wakeup));
            let serve = move || {
                // Of this thread alone, and of the threads that it starts.
                let _ = setpriority_process(None, nice);
                for job in jobs {
                    let sent = run(job).map_or(Ok(()), |completed| results.send(completed));
                    if sent.is_err() {
                        return;
                    }
                    // Full only when it was written to often enough.
                    let _ = rustix::io::write(&*wakeup, &1_u64.to_ne_bytes());
                }
            };
            thread::Builder::new().name(name.to_owned()).spawn(serve).map(|_| sender)
        };
        let populate = start("mw-pool-take", POPULATE_NICE)?;
        let zero = start("mw-pool-zero", ZERO_NICE)?;
        Ok(Self { populate, zero, completed, wakeup, cancel: Cancel::new() })
    }

    /// Readable when [`completed`](Self::completed) has something.
    pub(crate) fn wakeup(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }

    /// Work that was completed since the last call.
    pub(crate) fn completed(&self) -> Vec<JobResult> {
        let _ = rustix::io::read(&*self.wakeup, &mut [0_u8; 8]);
        self.completed.try_iter().collect()
    }

    /// Populates stripes of a pool: several at once, since one file serialises its worker threads.
    pub(crate) fn populate(
        &self,
        pool: PoolId,
        spec: &PoolSpec,
        stripe_bytes: usize,
        stripes: u64,
    ) {
        let bytes = usize::try_from(stripes).unwrap_or(1).saturating_mul(stripe_bytes);
        let options = Options::new(bytes)
            .kind(if spec.pages.is_hugetlb() { SegmentKind::Hugetlb } else { SegmentKind::Memfd })
            .page_size(spec.pages)
            .placement(spec.nodes.clone())
            .stripe_bytes(stripe_bytes)
            .cancel(&self.cancel);
        let _ = self.populate.send(StripeJob::Populate { pool, options, stripes });
    }

    pub(crate) fn lock(&self, pool: PoolId, memory: &Arc<StripeMemory>) {
        let _ = self.populate.send(StripeJob::Lock(pool, Arc::clone(memory)));
    }

    /// Zeroes stripes of one size.
    pub(crate) fn zero(&self, stripes: Vec<(StripeId, Arc<StripeMemory>)>) {
        let _ = self.zero.send(StripeJob::Zero(stripes));
    }

    /// Frees memory. If it is not in use elsewhere, `report` is reported when that is done.
    pub(crate) fn free(&self, memory: Arc<StripeMemory>, report: Option<StripeId>) {
        let _ = self.populate.send(StripeJob::Free { memory, report });
    }
}

impl Drop for StripeWorkers {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

fn run(job: StripeJob) -> Option<JobResult> {
    match job {
        StripeJob::Populate { pool, options, stripes } => {
            let segment = options.create().map(mw_segment::Segment::into_files);
            let files = segment.map_err(|error| error.to_string());
            Some(JobResult::Populated { pool, stripes, files })
        }
        StripeJob::Lock(pool, memory) => Some(JobResult::Locked(pool, memory.lock())),
        StripeJob::Zero(stripes) => {
            let (ids, memory): (Vec<StripeId>, Vec<Arc<StripeMemory>>) =
                stripes.into_iter().unzip();
            let results = stripe_memory::zero_in_place(&memory);
            Some(JobResult::Zeroed(ids.into_iter().zip(results).collect()))
        }
        StripeJob::Free { memory, report } => {
            if report.is_some() {
                memory.empty();
            }
            report.map(JobResult::Freed)
        }
    }
}

/// Number of stripes that are populated at once.
pub(crate) fn stripes_at_once() -> u64 {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    cpus.min(mw_segment::MAX_WORKERS) as u64
}
