//! Threads that no signal is delivered to.

use std::io;
use std::mem::MaybeUninit;

/// Blocks all signals for this thread, and for the threads that it makes, until dropped.
///
/// A helper thread is none of the program's business: a signal that it took would run the
/// program's handler on a small stack in a thread that the program knows nothing of.
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

    /// Whether somebody has asked the program to end meanwhile (SIGINT, SIGTERM, SIGHUP); the
    /// signal is delivered when this is dropped.
    #[must_use]
    #[allow(unsafe_code, reason = "no safe wrapper of sigpending(2)")]
    pub fn is_asked_to_end(&self) -> bool {
        let mut pending = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the pointer is to a live sigset_t, which the call writes (sigpending(2)).
        if unsafe { libc::sigpending(pending.as_mut_ptr()) } != 0 {
            return false;
        }
        // SAFETY: the call succeeded, so it wrote the set.
        let pending = unsafe { pending.assume_init() };
        [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].into_iter().any(|signal| {
            // SAFETY: the set is initialised and the number a signal's (sigismember(3)).
            unsafe { libc::sigismember(&raw const pending, signal) == 1 }
        })
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: `before` is a mask that the kernel gave; the old mask is not asked for
        // (pthread_sigmask(3)).
        #[allow(unsafe_code, reason = "no safe wrapper of pthread_sigmask(3)")]
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut())
        };
    }
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
    fn signals_are_blocked_here_and_in_new_threads_and_come_back() {
        let before = blocked();
        let guard = SignalsBlocked::new().unwrap();
        let usr1 = 1 << (libc::SIGUSR1 - 1);
        assert_ne!(blocked() & usr1, 0);
        assert_ne!(std::thread::spawn(blocked).join().unwrap() & usr1, 0);
        assert!(!guard.is_asked_to_end());
        drop(guard);
        assert_eq!(blocked(), before);
    }
}
