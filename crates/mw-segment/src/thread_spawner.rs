//! Spawning the worker threads of an operation.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

/// Workers only make system calls; the standard library's start of a thread needs the deepest stack.
const STACK_BYTES: usize = 256 << 10;

/// Spawns the worker threads of one operation.
pub trait ThreadSpawner: Sync {
    /// Spawns up to `wanted` - 1 threads, fewer where the kernel refuses more, before any of them
    /// starts to work. Then each runs `worker` with its number (from 1) and the number of workers,
    /// while this thread, number 0, runs `own` with the number of workers. Returns when all have
    /// ended, also when `own` panics.
    fn run(
        &self,
        wanted: usize,
        worker: &(dyn Fn(usize, usize) + Sync),
        own: &mut dyn FnMut(usize),
    );
}

/// Spawns threads of the standard library.
#[derive(Debug, Clone, Copy)]
pub struct StdThreads;

impl ThreadSpawner for StdThreads {
    fn run(
        &self,
        wanted: usize,
        worker: &(dyn Fn(usize, usize) + Sync),
        own: &mut dyn FnMut(usize),
    ) {
        let gate = Gate::default();
        thread::scope(|scope| {
            let workers = start_workers(scope, wanted, &gate, worker);
            gate.open(workers);
            own(workers);
        });
    }
}

/// Spawns all threads before any of them works: their stacks need the mmap lock, which populating
/// holds.
fn start_workers<'s>(
    scope: &'s thread::Scope<'s, '_>,
    wanted: usize,
    gate: &'s Gate,
    worker: &'s (dyn Fn(usize, usize) + Sync),
) -> usize {
    let Ok(_blocked) = mw_sys::SignalsBlocked::new() else { return 1 };
    for number in 1..wanted {
        let builder =
            thread::Builder::new().name(format!("mw-worker-{number}")).stack_size(STACK_BYTES);
        let started = builder.spawn_scoped(scope, move || worker(number, gate.wait()));
        if started.is_err() {
            return number;
        }
    }
    wanted.max(1)
}

/// Opens once all threads are spawned and their number is known.
#[derive(Default)]
struct Gate {
    workers: Mutex<Option<usize>>,
    opened: Condvar,
}

impl Gate {
    fn open(&self, workers: usize) {
        *self.workers.lock().unwrap_or_else(PoisonError::into_inner) = Some(workers);
        self.opened.notify_all();
    }

    fn wait(&self) -> usize {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = self.opened.wait_while(workers, |workers| workers.is_none());
        opened.unwrap_or_else(PoisonError::into_inner).unwrap_or(1)
    }
}
