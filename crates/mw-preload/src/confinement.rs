//! Whether the library may make system calls of its own (see `seccomp`).

use crate::active_threads::ActiveThreads;
use crate::seccomp_status;
use crate::wipe_on_fork;
use mw_sys::SignalHandlersBlocked;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

/// Interval at which [`wait_for_operations`] polls: for two seconds at most, depending on the CPU.
const POLLS: u32 = 1 << 22;

/// Filters that are installed or about to be; one that was present at the start and not tried counts.
static FILTERS: AtomicU32 = AtomicU32::new(0);

/// The first [`ConfinementCause`], as a number.
static OBSTACLE: AtomicU8 = AtomicU8::new(0);

/// True if there was a filter at the start that was tried, so that the seccomp mode says nothing.
static IS_FILTER_TRIED: AtomicBool = AtomicBool::new(false);

/// The reason why the library may not make system calls that the program would not make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConfinementCause {
    /// A filter is installed, or may be.
    Filter = 1,
    /// The program has set `PR_SET_NO_NEW_PRIVS`, and may install a filter unobserved.
    NoNewPrivileges,
    /// /proc is missing, so that the filters at the start are unknown.
    NoProc,
    /// No memory could be mapped.
    NoMemory,
}

impl ConfinementCause {
    const ALL: [Self; 4] = [Self::Filter, Self::NoNewPrivileges, Self::NoProc, Self::NoMemory];

    /// The first obstacle that was recorded.
    pub(crate) fn first() -> Option<Self> {
        let first = OBSTACLE.load(Ordering::Relaxed);
        Self::ALL.into_iter().find(|obstacle| *obstacle as u8 == first)
    }

    /// Records it, unless there is an earlier one.
    pub(crate) fn record(self) {
        let (none, relaxed) = (0, Ordering::Relaxed);
        let _ = OBSTACLE.compare_exchange(none, self as u8, relaxed, relaxed);
    }
}

/// Before any other system call of the library. `tried` is the number of filters under which
/// `memwright run` has made a dry run.
pub(crate) fn begin(tried: Option<u32>) {
    match seccomp_status::filters_at_start() {
        Some(0) => {}
        Some(filters) if Some(filters) == tried => IS_FILTER_TRIED.store(true, Ordering::Relaxed),
        Some(_) => return confine(ConfinementCause::Filter),
        None => return confine(ConfinementCause::NoProc),
    }
    if !wipe_on_fork::map() {
        confine(ConfinementCause::NoMemory);
    }
}

fn confine(obstacle: ConfinementCause) {
    obstacle.record();
    add_filter();
}

/// For the dry run: any filter counts as tried.
pub(crate) fn ignore_filters() {
    IS_FILTER_TRIED.store(true, Ordering::Relaxed);
    FILTERS.store(0, Ordering::SeqCst);
    wipe_on_fork::map();
}

/// Counts a filter that is about to be installed; returns how many there were.
pub(crate) fn add_filter() -> u32 {
    FILTERS.fetch_add(1, Ordering::SeqCst)
}

/// Subtracts a filter that the kernel did not install.
pub(crate) fn remove_filter() {
    FILTERS.fetch_sub(1, Ordering::SeqCst);
}

/// True if the library may not make system calls of its own.
#[inline]
pub(crate) fn is_confined() -> bool {
    FILTERS.load(Ordering::Relaxed) > 0
}

/// An operation that makes system calls of the library's own. A thread that installs a filter for all
/// threads waits until it ends.
pub(crate) struct OperationGuard(&'static ActiveThreads);

impl OperationGuard {
    /// None if such calls may end the program.
    pub(crate) fn enter() -> Option<Self> {
        if is_confined() {
            return None;
        }
        let threads = &wipe_on_fork::state()?.active_threads;
        threads.enter();
        let guard = Self(threads);
        // A thread that installs a filter counts it first, and then checks for active threads.
        let unconfined = FILTERS.load(Ordering::SeqCst) == 0 && !is_in_seccomp_mode();
        unconfined.then_some(guard)
    }
}

impl Drop for OperationGuard {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// A short operation that no signal handler interrupts: a handler that leaves it by siglongjmp(3) would
/// leave its locks held.
pub(crate) struct UninterruptedGuard {
    // Dropped before handlers run.
    _operation: OperationGuard,
    pub(crate) handlers: SignalHandlersBlocked,
}

impl UninterruptedGuard {
    /// None if system calls of the library's own may end the program.
    pub(crate) fn enter() -> Option<Self> {
        let operation = OperationGuard::enter()?;
        Some(Self { _operation: operation, handlers: SignalHandlersBlocked::brief() })
    }
}

/// True if the kernel reports a filter, which the library then has not observed.
pub(crate) fn is_in_seccomp_mode() -> bool {
    if IS_FILTER_TRIED.load(Ordering::Relaxed) {
        return false;
    }
    // Direct, because it fails on a kernel without seccomp and errno must not change.
    // SAFETY: changes nothing (PR_GET_SECCOMP(2const)).
    #[allow(unsafe_code, reason = "a system call")]
    let mode = unsafe { mw_sys::system_call(libc::SYS_prctl, [libc::PR_GET_SECCOMP as usize]) };
    mode > 0
}

/// Waits for the operations of other threads, without a system call: this thread may be confined
/// already.
pub(crate) fn wait_for_operations() {
    let Some(threads) = wipe_on_fork::state().map(|state| &state.active_threads) else { return };
    // Bounded, because a thread may have left its operation by siglongjmp(3) as it began.
    for _ in 0..POLLS {
        if !threads.are_others() {
            return;
        }
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_waits_only_for_others() {
        assert!(wipe_on_fork::map());
        let threads = &wipe_on_fork::state().unwrap().active_threads;
        // An operation that was left by siglongjmp(3).
        threads.enter();
        let is_other =
            || std::thread::scope(|scope| scope.spawn(|| threads.are_others()).join().unwrap());
        assert!(is_other() && !threads.are_others());
        threads.enter();
        threads.leave();
        assert!(is_other());
        threads.leave();
        assert!(!is_other());
    }
}
