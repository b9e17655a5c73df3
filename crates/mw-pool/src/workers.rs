//! What takes time and is done beside the server's loop: populating, locking, zeroing, freeing.
//!
//! Two threads: one populates and frees, in the order that it is told, so that memory which is
//! exchanged goes before more is taken; the other zeroes, so that a returned stripe need not wait
//! for a pool that grows. Each uses helpers as any operation of mw-segment does.

use crate::lease_table::{PoolId, StripeId};
use crate::memory::{self, Memory};
use crate::spec::Spec;
use mw_segment::{Cancel, Kind, Options};
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::setpriority_process;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Programs come first: a program that has just given memory back does something else now. Somebody
/// may wait for memory to be zero, and nobody should have to for more of it.
const ZERO_NICE: i32 = 5;
const TAKE_NICE: i32 = 10;

/// What is to be done.
enum Job {
    Populate {
        pool: PoolId,
        options: Options,
        stripes: u64,
    },
    Lock(PoolId, Arc<Memory>),
    /// Of the same size.
    Scrub(Vec<(StripeId, Arc<Memory>)>),
    /// The last that this server has of it.
    Free {
        memory: Arc<Memory>,
        told: Option<StripeId>,
    },
}

/// What was done.
#[derive(Debug)]
pub(crate) enum Done {
    Populated {
        pool: PoolId,
        stripes: u64,
        files: Result<Vec<OwnedFd>, String>,
    },
    Locked(PoolId, io::Result<()>),
    Scrubbed(Vec<(StripeId, io::Result<()>)>),
    /// What nobody else had.
    Freed(StripeId),
}

/// The two threads.
#[derive(Debug)]
pub(crate) struct Workers {
    slow: Sender<Job>,
    scrub: Sender<Job>,
    done: Receiver<Done>,
    bell: Arc<OwnedFd>,
    cancel: Cancel,
}

impl Workers {
    pub(crate) fn start() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let bell = Arc::new(eventfd(0, flags)?);
        let (results, done) = channel();
        let start = |name: &str, nice: i32| {
            let (sender, jobs) = channel::<Job>();
            let (results, bell) = (results.clone(), Arc::clone(&bell));
            let serve = move || {
                // This thread's alone, and its helpers' after it.
                let _ = setpriority_process(None, nice);
                for job in jobs {
                    let told = run(job).map_or(Ok(()), |done| results.send(done));
                    if told.is_err() {
                        return;
                    }
                    // Full only when it was rung often enough.
                    let _ = rustix::io::write(&*bell, &1_u64.to_ne_bytes());
                }
            };
            thread::Builder::new().name(name.to_owned()).spawn(serve).map(|_| sender)
        };
        let (slow, scrub) = (start("mw-pool-take", TAKE_NICE)?, start("mw-pool-zero", ZERO_NICE)?);
        Ok(Self { slow, scrub, done, bell, cancel: Cancel::new() })
    }

    /// Readable when there is something to hear.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// What was done since.
    pub(crate) fn done(&self) -> Vec<Done> {
        let _ = rustix::io::read(&*self.bell, &mut [0_u8; 8]);
        self.done.try_iter().collect()
    }

    /// Populates stripes of a pool: several at once, since one file serialises its helpers.
    pub(crate) fn populate(&self, pool: PoolId, spec: &Spec, stripe_bytes: usize, stripes: u64) {
        let bytes = usize::try_from(stripes).unwrap_or(1).saturating_mul(stripe_bytes);
        let options = Options::new(bytes)
            .kind(if spec.pages.is_hugetlb() { Kind::Hugetlb } else { Kind::Memfd })
            .page_size(spec.pages)
            .placement(spec.nodes.clone())
            .stripe_bytes(stripe_bytes)
            .cancel(&self.cancel);
        let _ = self.slow.send(Job::Populate { pool, options, stripes });
    }

    pub(crate) fn lock(&self, pool: PoolId, memory: &Arc<Memory>) {
        let _ = self.slow.send(Job::Lock(pool, Arc::clone(memory)));
    }

    /// Zeroes stripes of the same size.
    pub(crate) fn scrub(&self, stripes: Vec<(StripeId, Arc<Memory>)>) {
        let _ = self.scrub.send(Job::Scrub(stripes));
    }

    /// Lets go of memory: freeing it takes its time. Where nobody else has it, that is told of `told`
    /// when it is done.
    pub(crate) fn free(&self, memory: Arc<Memory>, told: Option<StripeId>) {
        let _ = self.slow.send(Job::Free { memory, told });
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

fn run(job: Job) -> Option<Done> {
    match job {
        Job::Populate { pool, options, stripes } => {
            let made = options.create().map(mw_segment::Segment::into_files);
            Some(Done::Populated { pool, stripes, files: made.map_err(|error| error.to_string()) })
        }
        Job::Lock(pool, memory) => Some(Done::Locked(pool, memory.lock())),
        Job::Scrub(stripes) => {
            let (ids, memory): (Vec<StripeId>, Vec<Arc<Memory>>) = stripes.into_iter().unzip();
            let results = memory::scrub(&memory);
            Some(Done::Scrubbed(ids.into_iter().zip(results).collect()))
        }
        Job::Free { memory, told } => {
            if told.is_some() {
                memory.empty();
            }
            told.map(Done::Freed)
        }
    }
}

/// How many stripes are populated at once.
pub(crate) fn stripes_at_once() -> u64 {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    processors.min(mw_segment::MAX_WORKERS) as u64
}
