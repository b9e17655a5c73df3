//! Programs that confine themselves (seccomp(2)): a filter may end the program at any system call that
//! it does not expect, and whoever asks whether there is one makes such a call. So nothing is asked:
//!
//! - **At the start** /proc/self/status is read, by the calls that the dynamic linker has just made to
//!   load this library (openat, read, close). A filter that is there already, as in containers, keeps
//!   everything here off, unless `memwright run` has tried as many filters as there are.
//! - **Later** filters are installed by prctl(2) or syscall(2) of the C library, which lead through
//!   here (`interpose`). From then on, in all threads, no call is made that the program does not make.
//!   Where a filter is put on all threads at once (`SECCOMP_FILTER_FLAG_TSYNC`) those that work here
//!   are waited for.
//! - **What is not seen**: filters installed by instructions of the program's own, or by the C
//!   library's functions looked up past this library (dlsym(3) of a handle of libc). No page and no
//!   register says that there is one. Before anything else is done the mode is asked for
//!   (`PR_GET_SECCOMP`): a filter that lets that pass is found; one that ends the program at it would
//!   have ended it at the next call.
//!
//! Whoever gives up new privileges (`PR_SET_NO_NEW_PRIVS`) is about to install a filter, as a rule past
//! the C library if not through it, and is left alone as well.

use crate::anew::{self, anew};
use crate::{kernel, stats};
use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// `SECCOMP_SET_MODE_STRICT`, `SECCOMP_SET_MODE_FILTER` and `SECCOMP_FILTER_FLAG_TSYNC`
/// (linux/seccomp.h).
const SET_MODES: [usize; 2] = [0, 1];
const TSYNC: usize = 1;

/// How many turns threads that work are waited for: up to two seconds, by the processor. Who
/// left its work by siglongjmp(3) is counted for ever.
const TURNS: u32 = 1 << 25;

/// Filters that were installed or are being installed; an untried one at the start counts.
static FILTERS: AtomicU32 = AtomicU32::new(0);

/// Whether there was a filter at the start, so that the mode says nothing.
static TRIED: AtomicBool = AtomicBool::new(false);

/// When the library is loaded, before any other system call. `tried` is the number of filters that
/// `memwright run` has tried.
pub(crate) fn begin(tried: Option<u32>) {
    match filters_at_start() {
        Some(0) => {}
        Some(filters) if Some(filters) == tried => TRIED.store(true, Ordering::Relaxed),
        _ => return confine(),
    }
    if !anew::begin() {
        confine();
    }
}

fn confine() {
    FILTERS.fetch_add(1, Ordering::SeqCst);
}

/// Everything is tried, whatever filter there is.
pub(crate) fn try_everything() {
    TRIED.store(true, Ordering::Relaxed);
    FILTERS.store(0, Ordering::SeqCst);
    anew::begin();
}

/// Whether no system call may be made that the program would not make.
#[inline]
pub(crate) fn is_confined() -> bool {
    FILTERS.load(Ordering::Relaxed) > 0
}

/// Work that makes system calls which the program would not make; whoever installs a filter for all
/// threads waits until it is dropped.
pub(crate) struct Working(&'static AtomicU32);

impl Working {
    /// None where such calls may end the program.
    pub(crate) fn begin() -> Option<Self> {
        if is_confined() {
            return None;
        }
        let working = Self(&anew()?.working);
        working.0.fetch_add(1, Ordering::SeqCst);
        // Whoever installs one has counted it first, and looks at who works then.
        let none = FILTERS.load(Ordering::SeqCst) == 0 && !is_confined_unseen();
        none.then_some(working)
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        // After a fork(2) in a signal handler the child counts from zero again.
        let less = |count: u32| count.checked_sub(1);
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
    }
}

fn is_confined_unseen() -> bool {
    if TRIED.load(Ordering::Relaxed) {
        return false;
    }
    // SAFETY: nothing is set (PR_GET_SECCOMP(2const)); -1: a kernel without seccomp.
    #[allow(unsafe_code, reason = "a system call")]
    let mode = unsafe { kernel::prctl(libc::PR_GET_SECCOMP, 0, 0, 0, 0) };
    mode > 0
}

/// What a call may change for this library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Install {
    /// All threads are confined, not the calling one alone.
    all_threads: bool,
    /// It is meant: not a question whether the kernel knows how.
    meant: bool,
}

impl Install {
    /// What prctl(2) is asked.
    pub(crate) fn by_prctl(option: c_int, a: usize, b: usize) -> Option<Self> {
        let meant = match option {
            libc::PR_SET_SECCOMP => a == libc::SECCOMP_MODE_STRICT as usize || b != 0,
            libc::PR_SET_NO_NEW_PRIVS => a == 1,
            _ => return None,
        };
        Some(Self { all_threads: false, meant })
    }

    /// What seccomp(2) is asked.
    pub(crate) fn by_seccomp(operation: usize, flags: usize, filter: usize) -> Option<Self> {
        let [strict, _] = SET_MODES;
        SET_MODES.contains(&operation).then_some(Self {
            all_threads: flags & TSYNC != 0,
            meant: operation == strict || filter != 0,
        })
    }

    /// Makes the call, whose result is the kernel's.
    pub(crate) fn with(self, call: impl FnOnce() -> c_long) -> c_long {
        let before = FILTERS.fetch_add(1, Ordering::SeqCst);
        if self.all_threads {
            wait_for_work();
        }
        if self.meant && before == 0 {
            stats::before_confinement();
        }
        let result = call();
        if result < 0 {
            FILTERS.fetch_sub(1, Ordering::SeqCst);
        }
        result
    }
}

/// Waits without a system call: this thread may be confined already.
fn wait_for_work() {
    let Some(working) = anew().map(|anew| &anew.working) else { return };
    let mut turns = 0;
    // A signal handler may have interrupted the very work, so that the wait has an end.
    while working.load(Ordering::SeqCst) > 0 && turns < TURNS {
        std::hint::spin_loop();
        turns += 1;
    }
}

/// How many filters this process was started under; none where nobody says.
fn filters_at_start() -> Option<u32> {
    // As the dynamic linker opens libraries: filters see flags, not names.
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: the name ends with a zero byte (openat(2)).
    #[allow(unsafe_code, reason = "a system call")]
    let fd = unsafe { kernel::openat(libc::AT_FDCWD, c"/proc/self/status".as_ptr(), flags) };
    if fd < 0 {
        return None;
    }
    let (mut status, mut buffer) = (Status::default(), [0_u8; 2048]);
    let read = loop {
        // SAFETY: the buffer is as long as is said (read(2)).
        #[allow(unsafe_code, reason = "a system call")]
        let read = unsafe { kernel::read(fd, buffer.as_mut_ptr(), buffer.len()) };
        let Ok(length @ 1..) = usize::try_from(read) else { break read };
        status.add(buffer.get(..length).unwrap_or_default());
        // The rest is of no use, and takes another call.
        if status.filters.is_some() {
            break read;
        }
    };
    // SAFETY: it was opened here (close(2)).
    #[allow(unsafe_code, reason = "a system call")]
    unsafe {
        kernel::close(fd)
    };
    // A kernel without seccomp does not speak of it.
    (read >= 0).then(|| status.filters.unwrap_or(0))
}

/// The longest beginning of a line that is looked at.
const LINE_BYTES: usize = 32;

/// What /proc/self/status says, as it is read.
struct Status {
    line: [u8; LINE_BYTES],
    length: usize,
    mode: u32,
    filters: Option<u32>,
}

impl Default for Status {
    fn default() -> Self {
        Self { line: [0; LINE_BYTES], length: 0, mode: 0, filters: None }
    }
}

impl Status {
    fn add(&mut self, text: &[u8]) {
        for byte in text {
            if *byte == b'\n' {
                self.end_line();
            } else if let Some(place) = self.line.get_mut(self.length) {
                *place = *byte;
                self.length += 1;
            }
        }
    }

    fn end_line(&mut self) {
        let line = self.line.get(..self.length).unwrap_or_default();
        let number = |name: &[u8]| {
            let value = line.strip_prefix(name)?.trim_ascii();
            std::str::from_utf8(value).ok()?.parse::<u32>().ok()
        };
        if let Some(mode) = number(b"Seccomp:") {
            self.mode = mode;
        }
        // Linux 5.9 and later, on the line after the mode.
        if let Some(filters) = number(b"Seccomp_filters:") {
            self.filters = Some(if self.mode == 0 { 0 } else { filters.max(1) });
        }
        self.length = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filters(pieces: &[&str]) -> Option<u32> {
        let mut status = Status::default();
        pieces.iter().for_each(|piece| status.add(piece.as_bytes()));
        status.filters
    }

    #[test]
    fn the_status_says_how_many_filters_there_are() {
        let groups = format!("Groups:\t{}\n", "1234 ".repeat(1000));
        let none = "NoNewPrivs:\t0\nSeccomp:\t0\nSeccomp_filters:\t0\n";
        assert_eq!(filters(&[&groups, none]), Some(0));
        assert_eq!(filters(&[&groups, "Seccomp:\t2\nSec", "comp_filters:\t3\nx"]), Some(3));
        assert_eq!(filters(&["Name:\tSeccomp_filters:\t7\nSeccomp:\t0\n"]), None);
    }

    #[test]
    fn what_installs_a_filter_is_told_from_what_asks() {
        let of = |meant, all_threads| Some(Install { all_threads, meant });
        assert_eq!(Install::by_prctl(libc::PR_SET_SECCOMP, 2, 4096), of(true, false));
        assert_eq!(Install::by_prctl(libc::PR_SET_SECCOMP, 2, 0), of(false, false));
        assert_eq!(Install::by_prctl(libc::PR_SET_SECCOMP, 1, 0), of(true, false));
        assert_eq!(Install::by_prctl(libc::PR_GET_SECCOMP, 0, 0), None);
        assert_eq!(Install::by_seccomp(0, 0, 0), of(true, false));
        assert_eq!(Install::by_seccomp(1, TSYNC | 2, 4096), of(true, true));
        assert_eq!(Install::by_seccomp(1, 0, 0), of(false, false));
        assert_eq!(Install::by_seccomp(2, 0, 4096), None, "SECCOMP_GET_ACTION_AVAIL");
    }
}
