//! Blocked signals.

use crate::direct::system_call;
use std::io;
use std::mem::MaybeUninit;

/// Blocks all signals for this thread, and for the threads that it creates, until dropped.
///
/// A worker thread must not take the program's signals: the handler would run on a small stack in a
/// thread that the program knows nothing of.
#[must_use = "the signals are unblocked when this is dropped"]
pub struct SignalsBlocked {
    before: libc::sigset_t,
    /// The mask belongs to the thread.
    _thread: std::marker::PhantomData<*const ()>,
}

impl std::fmt::Debug for SignalsBlocked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignalsBlocked").finish_non_exhaustive()
    }
}

impl SignalsBlocked {
    /// Blocks them.
    ///
    /// # Errors
    /// pthread_sigmask(3)'s; there is none for these arguments.
    #[allow(unsafe_code, reason = "no safe wrapper of pthread_sigmask(3)")]
    pub fn new() -> io::Result<Self> {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the pointer is to a live sigset_t, which the call initialises (sigfillset(3)).
        unsafe { libc::sigfillset(all.as_mut_ptr()) };
        // SAFETY: `all` was initialised; `before` is live and is written (pthread_sigmask(3)).
        let failed =
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
        if failed != 0 {
            return Err(io::Error::from_raw_os_error(failed));
        }
        // SAFETY: the call succeeded, so it wrote the former mask.
        let before = unsafe { before.assume_init() };
        Ok(Self { before, _thread: std::marker::PhantomData })
    }

    /// True if a termination signal is pending; it is delivered when this is dropped.
    #[must_use]
    pub fn is_termination_requested(&self) -> bool {
        is_termination_requested()
    }
}

/// True if a termination signal (SIGINT, SIGTERM, SIGHUP) is pending because of [`SignalsBlocked`].
/// The kernel also keeps signals pending that the program ignores, as under nohup(1); they do not
/// count.
#[must_use]
#[allow(unsafe_code, reason = "no safe wrapper of sigpending(2)")]
pub fn is_termination_requested() -> bool {
    let mut pending = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the pointer is to a live sigset_t, which the call writes (sigpending(2)).
    if unsafe { libc::sigpending(pending.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: the call succeeded, so it wrote the set.
    let pending = unsafe { pending.assume_init() };
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].into_iter().any(|signal| {
        // SAFETY: the set is initialised and the number a signal's (sigismember(3)).
        let waits = unsafe { libc::sigismember(&raw const pending, signal) == 1 };
        waits && handler(signal as u64) != Some(libc::SIG_IGN)
    })
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: `before` is a mask that the kernel gave; the old mask is not requested
        // (pthread_sigmask(3)).
        #[allow(unsafe_code, reason = "no safe wrapper of pthread_sigmask(3)")]
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut())
        };
    }
}

/// Every signal, the two that the C library keeps for itself included.
pub(crate) const ALL_SIGNALS: u64 = u64::MAX;

/// The number of the last signal (`_NSIG`).
const LAST_SIGNAL: u64 = 64;

/// Sets this thread's mask in the kernel, past the C library, and returns what it was.
pub(crate) fn swap_signal_mask(mask: u64) -> u64 {
    let mut before = 0_u64;
    // SAFETY: both masks are live and of the size that is passed (rt_sigprocmask(2)).
    #[allow(unsafe_code, reason = "pthread_sigmask(3) leaves out two signals")]
    unsafe {
        let (new, old) = (&raw const mask, &raw mut before);
        let (how, size) = (libc::SIG_SETMASK as usize, size_of::<u64>());
        system_call(
            libc::SYS_rt_sigprocmask,
            [how, new.expose_provenance(), old.expose_provenance(), size],
        )
    };
    before
}

/// Defers signal handlers on this thread until dropped, as a long system call does: signals with a
/// handler stay pending, those that end or stop the program take effect at once.
#[derive(Debug)]
#[must_use = "the signals are handled again when this is dropped"]
pub struct SignalHandlersBlocked {
    before: u64,
    /// The mask belongs to the thread.
    _thread: std::marker::PhantomData<*const ()>,
}

impl SignalHandlersBlocked {
    /// Allocates nothing and takes no lock.
    pub fn new() -> Self {
        let before = swap_signal_mask(ALL_SIGNALS);
        let defaults = (1..=LAST_SIGNAL).filter(|signal| has_default_action(*signal));
        let open = defaults.fold(0, |mask, signal| mask | 1 << (signal - 1));
        swap_signal_mask(ALL_SIGNALS & !open | before);
        Self { before, _thread: std::marker::PhantomData }
    }

    /// Holds back all signals, also those that end or stop the program: for some milliseconds at most. It
    /// takes one system call where `new` takes one for each signal.
    pub fn brief() -> Self {
        Self { before: swap_signal_mask(ALL_SIGNALS), _thread: std::marker::PhantomData }
    }

    /// True if a signal is pending that this holds back.
    #[must_use]
    pub fn is_signal_pending(&self) -> bool {
        let mut pending = 0_u64;
        // SAFETY: the set is live and of the size that is given (rt_sigpending(2)).
        #[allow(unsafe_code, reason = "sigpending(3) may be interposed")]
        unsafe {
            let place = (&raw mut pending).expose_provenance();
            system_call(libc::SYS_rt_sigpending, [place, size_of::<u64>()])
        };
        pending & !self.before != 0
    }
}

impl Default for SignalHandlersBlocked {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for SignalHandlersBlocked {
    fn drop(&mut self) {
        swap_signal_mask(self.before);
    }
}

/// True if the kernel does what it does by default for this signal.
fn has_default_action(signal: u64) -> bool {
    handler(signal) == Some(libc::SIG_DFL)
}

/// A signal's handler, `SIG_DFL` or `SIG_IGN`; nothing where it has no action.
fn handler(signal: u64) -> Option<usize> {
    /// Longer than `struct sigaction` of any CPU that Linux runs on; the handler is first.
    const WORDS: usize = 8;
    let mut action = [1_usize; WORDS];
    // SAFETY: nothing is set, and `action` is longer than what is written (rt_sigaction(2)).
    #[allow(unsafe_code, reason = "sigaction(3) leaves out two signals")]
    let asked = unsafe {
        let place = action.as_mut_ptr().expose_provenance();
        system_call(libc::SYS_rt_sigaction, [signal as usize, 0, place, size_of::<u64>()])
    };
    (asked == 0).then_some(action[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocked() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    }

    #[test]
    fn handled_signals_wait_and_others_do_not() {
        let before = blocked();
        let bit = |signal: i32| 1 << (signal - 1);
        // The Rust runtime ignores SIGPIPE, and handles SIGSEGV.
        let held = SignalHandlersBlocked::new();
        assert_eq!(blocked() & bit(libc::SIGTERM), before & bit(libc::SIGTERM));
        assert_ne!(blocked() & bit(libc::SIGPIPE), 0);
        assert_ne!(blocked() & bit(libc::SIGSEGV), 0);
        drop(held);
        assert_eq!(blocked(), before);
    }

    #[test]
    fn a_signal_that_is_held_back_is_pending_until_then() {
        let bit = 1 << (libc::SIGWINCH - 1);
        let program = swap_signal_mask(bit);
        // SAFETY: a signal that is blocked and ignored by default, to this thread (tgkill(2)).
        #[allow(unsafe_code, reason = "what is tested")]
        let raise = || unsafe { libc::raise(libc::SIGWINCH) };
        raise();
        let held = SignalHandlersBlocked::brief();
        assert!(!held.is_signal_pending(), "the program itself has blocked it");
        drop(held);
        swap_signal_mask(program & !bit);
        let held = SignalHandlersBlocked::brief();
        assert!(!held.is_signal_pending());
        raise();
        assert!(held.is_signal_pending());
        drop(held);
        swap_signal_mask(program);
    }

    #[test]
    fn signals_are_blocked_here_and_in_new_threads_and_come_back() {
        let before = blocked();
        let guard = SignalsBlocked::new().unwrap();
        let usr1 = 1 << (libc::SIGUSR1 - 1);
        assert_ne!(blocked() & usr1, 0);
        assert_ne!(std::thread::spawn(blocked).join().unwrap() & usr1, 0);
        assert!(!guard.is_termination_requested());
        drop(guard);
        assert_eq!(blocked(), before);
    }
}
