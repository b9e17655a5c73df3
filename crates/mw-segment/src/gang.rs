//! Where the threads of an operation come from.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

/// Helpers call one system call after the other: the deepest stack is std's own start-up code.
const STACK_BYTES: usize = 256 << 10;

/// Makes the threads that do the work of one operation.
pub trait Gang: Sync {
    /// Makes up to `wanted` - 1 threads, as many as can be had, before any of them begins. Then
    /// each runs `helper` with its number from 1 on and how many there are, while this thread,
    /// which is number 0, runs `own` with how many there are. Returns when all have ended, also
    /// when `own` panics.
    fn run(
        &self,
        wanted: usize,
        helper: &(dyn Fn(usize, usize) + Sync),
        own: &mut dyn FnMut(usize),
    );
}

/// Threads of the standard library.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Threads;

impl Gang for Threads {
    fn run(
        &self,
        wanted: usize,
        helper: &(dyn Fn(usize, usize) + Sync),
        own: &mut dyn FnMut(usize),
    ) {
        let gate = Gate::default();
        thread::scope(|scope| {
            let workers = start_helpers(scope, wanted, &gate, helper);
            gate.open(workers);
            own(workers);
        });
    }
}

/// Makes the threads before any of them begins: their stacks need the mmap lock that populating
/// holds.
fn start_helpers<'s>(
    scope: &'s thread::Scope<'s, '_>,
    wanted: usize,
    gate: &'s Gate,
    helper: &'s (dyn Fn(usize, usize) + Sync),
) -> usize {
    let Ok(_blocked) = mw_sys::SignalsBlocked::new() else { return 1 };
    for number in 1..wanted {
        let builder =
            thread::Builder::new().name(format!("mw-helper-{number}")).stack_size(STACK_BYTES);
        let started = builder.spawn_scoped(scope, move || helper(number, gate.wait()));
        if started.is_err() {
            return number;
        }
    }
    wanted.max(1)
}

/// Opened once all threads are made, when it is known how many.
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
