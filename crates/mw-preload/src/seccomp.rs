//! Programs that confine themselves (seccomp(2)). A filter may end the program at any system call that
//! it does not expect, and a query for the filter is such a call. The library therefore does not query:
//!
//! - **At the start** it reads /proc/self/status, by the calls that the dynamic linker has just made to
//!   load this library (openat, read, close). If a filter is present already, as in containers, the
//!   library stays inactive, unless `memwright run` has tried as many filters as there are (`dry_run`).
//! - **Later** filters are installed by prctl(2) or syscall(2) of the C library, which this library
//!   interposes. From then on, in all threads, it makes no system call of its own. If a filter applies
//!   to all threads at once (`SECCOMP_FILTER_FLAG_TSYNC`), operations of other threads are waited for.
//! - **Unobserved** are filters that are installed by instructions in the program itself, or by the C
//!   library's functions if they are looked up past this library (dlsym(3) on a handle of libc).
//!   Before each operation the library therefore queries the mode (`PR_GET_SECCOMP`): a filter that
//!   permits this is found; one that ends the program at it would have ended it at the next call.
//!
//! A program that sets `PR_SET_NO_NEW_PRIVS` usually installs a filter next, possibly unobserved, so that
//! the library becomes inactive as well.

use crate::background;
use crate::confinement::{self, ConfinementCause};
use crate::stats;
use std::ffi::{c_int, c_long};

/// `SECCOMP_SET_MODE_STRICT`, `SECCOMP_SET_MODE_FILTER` and `SECCOMP_FILTER_FLAG_TSYNC`
/// (linux/seccomp.h).
const SET_MODES: [usize; 2] = [0, 1];
const TSYNC: usize = 1;

/// A call that confines the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConfiningCall {
    /// All threads are confined, not only the calling one.
    all_threads: bool,
    /// Not a mere query whether the kernel supports it.
    is_effective: bool,
    obstacle: ConfinementCause,
}

impl ConfiningCall {
    /// From the arguments of prctl(2); none if it does not confine.
    pub(crate) fn from_prctl(option: c_int, a: usize, b: usize) -> Option<Self> {
        let (obstacle, is_effective) = match option {
            libc::PR_SET_SECCOMP => {
                (ConfinementCause::Filter, a == libc::SECCOMP_MODE_STRICT as usize || b != 0)
            }
            libc::PR_SET_NO_NEW_PRIVS => (ConfinementCause::NoNewPrivileges, a == 1),
            _ => return None,
        };
        Some(Self { all_threads: false, is_effective, obstacle })
    }

    /// From the arguments of seccomp(2); none if it does not confine.
    pub(crate) fn from_seccomp(operation: usize, flags: usize, filter: usize) -> Option<Self> {
        let [strict, _] = SET_MODES;
        SET_MODES.contains(&operation).then_some(Self {
            all_threads: flags & TSYNC != 0,
            is_effective: operation == strict || filter != 0,
            obstacle: ConfinementCause::Filter,
        })
    }

    /// Makes the call, and returns the kernel's result.
    pub(crate) fn make(self, call: impl FnOnce() -> c_long) -> c_long {
        let before = confinement::add_filter();
        if self.all_threads {
            confinement::wait_for_operations();
        }
        if self.is_effective && before == 0 {
            background::end();
            self.obstacle.record();
            stats::report_before_confinement();
        }
        let result = call();
        if result < 0 {
            confinement::remove_filter();
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_install_a_filter_differ_from_queries() {
        let call = |is_effective, all_threads| {
            Some(ConfiningCall { all_threads, is_effective, obstacle: ConfinementCause::Filter })
        };
        let prctl = ConfiningCall::from_prctl;
        assert_eq!(prctl(libc::PR_SET_SECCOMP, 2, 4096), call(true, false));
        assert_eq!(prctl(libc::PR_SET_SECCOMP, 2, 0), call(false, false));
        assert_eq!(prctl(libc::PR_SET_SECCOMP, 1, 0), call(true, false));
        assert_eq!(prctl(libc::PR_GET_SECCOMP, 0, 0), None);
        let seccomp = ConfiningCall::from_seccomp;
        assert_eq!(seccomp(0, 0, 0), call(true, false));
        assert_eq!(seccomp(1, TSYNC | 2, 4096), call(true, true));
        assert_eq!(seccomp(1, 0, 0), call(false, false));
        assert_eq!(seccomp(2, 0, 4096), None, "SECCOMP_GET_ACTION_AVAIL");
    }
}
