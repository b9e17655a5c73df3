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
use mw_sys::SignalHandlersBlocked;
use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};

/// `SECCOMP_SET_MODE_STRICT`, `SECCOMP_SET_MODE_FILTER` and `SECCOMP_FILTER_FLAG_TSYNC`
/// (linux/seccomp.h).
const SET_MODES: [usize; 2] = [0, 1];
const TSYNC: usize = 1;

/// How many turns threads that work are waited for: up to two seconds, by the processor.
const TURNS: u32 = 1 << 22;

/// Filters that were installed or are being installed; an untried one at the start counts.
static FILTERS: AtomicU32 = AtomicU32::new(0);

/// Why nothing is done, by `Obstacle`: the first reason.
static OBSTACLE: AtomicU8 = AtomicU8::new(0);

/// Why no system call may be made that the program would not make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// A filter is installed, or may be.
    Filter = 1,
    /// The program has given up new privileges, and may install a filter that is not seen.
    NoNewPrivileges,
    /// A filter that was there at the start was not seen: /proc is missing.
    NoProc,
    /// No page of memory could be mapped.
    NoMemory,
}

impl Obstacle {
    const ALL: [Self; 4] = [Self::Filter, Self::NoNewPrivileges, Self::NoProc, Self::NoMemory];

    /// The first that there was.
    pub(crate) fn first() -> Option<Self> {
        let first = OBSTACLE.load(Ordering::Relaxed);
        Self::ALL.into_iter().find(|obstacle| *obstacle as u8 == first)
    }

    fn note(self) {
        let (none, relaxed) = (0, Ordering::Relaxed);
        let _ = OBSTACLE.compare_exchange(none, self as u8, relaxed, relaxed);
    }
}

/// Whether there was a filter at the start, so that the mode says nothing.
static TRIED: AtomicBool = AtomicBool::new(false);

/// When the library is loaded, before any other system call. `tried` is the number of filters that
/// `memwright run` has tried.
pub(crate) fn begin(tried: Option<u32>) {
    match filters_at_start() {
        Some(0) => {}
        Some(filters) if Some(filters) == tried => TRIED.store(true, Ordering::Relaxed),
        Some(_) => return confine(Obstacle::Filter),
        None => return confine(Obstacle::NoProc),
    }
    if !anew::begin() {
        confine(Obstacle::NoMemory);
    }
}

fn confine(obstacle: Obstacle) {
    obstacle.note();
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

/// Threads that work, by a number that each has to itself; more than there are places for are counted.
/// Zeros: nobody.
pub(crate) struct Workers {
    places: [Place; PLACES],
    others: AtomicU32,
}

const PLACES: usize = 32;

struct Place {
    /// 0: the place is free.
    thread: AtomicUsize,
    depth: AtomicU32,
}

impl Workers {
    /// Counts the calling thread.
    fn enter(&self) {
        let thread = kernel::thread();
        let is_own = |place: &&Place| place.thread.load(Ordering::Relaxed) == thread;
        let claim = |place: &&Place| {
            let claimed = (Ordering::SeqCst, Ordering::Relaxed);
            place.thread.compare_exchange(0, thread, claimed.0, claimed.1).is_ok()
        };
        let place = self.places.iter().find(is_own).or_else(|| self.places.iter().find(claim));
        place.map_or(&self.others, |place| &place.depth).fetch_add(1, Ordering::SeqCst);
    }

    fn leave(&self) {
        let thread = kernel::thread();
        let own = self.places.iter().find(|place| place.thread.load(Ordering::Relaxed) == thread);
        // After a fork(2) in a signal handler the child counts from zero again.
        let less = |count: u32| count.checked_sub(1);
        let Some(own) = own else {
            let _ = self.others.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
            return;
        };
        if own.depth.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less) == Ok(1) {
            own.thread.store(0, Ordering::SeqCst);
        }
    }

    /// Whether another thread than the calling one works. What the calling thread is counted for it has
    /// left by siglongjmp(3), or a handler of a signal has interrupted it.
    fn are_others(&self) -> bool {
        let thread = kernel::thread();
        let is_other = |place: &Place| {
            ![0, thread].contains(&place.thread.load(Ordering::SeqCst))
                && place.depth.load(Ordering::SeqCst) > 0
        };
        self.others.load(Ordering::SeqCst) > 0 || self.places.iter().any(is_other)
    }
}

/// Work that makes system calls which the program would not make; whoever installs a filter for all
/// threads waits until it is dropped.
pub(crate) struct Working(&'static Workers);

impl Working {
    /// None where such calls may end the program.
    pub(crate) fn begin() -> Option<Self> {
        if is_confined() {
            return None;
        }
        let workers = &anew()?.workers;
        workers.enter();
        let working = Self(workers);
        // Whoever installs one has counted it first, and looks at who works then.
        let none = FILTERS.load(Ordering::SeqCst) == 0 && !is_confined_unseen();
        none.then_some(working)
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// Short work that no signal handler interrupts: one that leaves it by siglongjmp(3) would leave held
/// whatever the work holds.
pub(crate) struct Uninterrupted {
    // Dropped before handlers run.
    _working: Working,
    pub(crate) handlers: SignalHandlersBlocked,
}

impl Uninterrupted {
    /// None where such calls may end the program.
    pub(crate) fn begin() -> Option<Self> {
        Some(Self { _working: Working::begin()?, handlers: SignalHandlersBlocked::brief() })
    }
}

fn is_confined_unseen() -> bool {
    if TRIED.load(Ordering::Relaxed) {
        return false;
    }
    // A kernel without seccomp refuses it, which must not show in errno.
    // SAFETY: nothing is set (PR_GET_SECCOMP(2const)).
    #[allow(unsafe_code, reason = "a system call")]
    let mode = unsafe { mw_sys::system_call(libc::SYS_prctl, [libc::PR_GET_SECCOMP as usize]) };
    mode > 0
}

/// What a call may change for this library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Install {
    /// All threads are confined, not the calling one alone.
    all_threads: bool,
    /// It is meant: not a question whether the kernel knows how.
    meant: bool,
    obstacle: Obstacle,
}

impl Install {
    /// What prctl(2) is asked.
    pub(crate) fn by_prctl(option: c_int, a: usize, b: usize) -> Option<Self> {
        let (obstacle, meant) = match option {
            libc::PR_SET_SECCOMP => {
                (Obstacle::Filter, a == libc::SECCOMP_MODE_STRICT as usize || b != 0)
            }
            libc::PR_SET_NO_NEW_PRIVS => (Obstacle::NoNewPrivileges, a == 1),
            _ => return None,
        };
        Some(Self { all_threads: false, meant, obstacle })
    }

    /// What seccomp(2) is asked.
    pub(crate) fn by_seccomp(operation: usize, flags: usize, filter: usize) -> Option<Self> {
        let [strict, _] = SET_MODES;
        SET_MODES.contains(&operation).then_some(Self {
            all_threads: flags & TSYNC != 0,
            meant: operation == strict || filter != 0,
            obstacle: Obstacle::Filter,
        })
    }

    /// Makes the call, whose result is the kernel's.
    pub(crate) fn with(self, call: impl FnOnce() -> c_long) -> c_long {
        let before = FILTERS.fetch_add(1, Ordering::SeqCst);
        if self.all_threads {
            wait_for_work();
        }
        if self.meant && before == 0 {
            self.obstacle.note();
            stats::before_confinement();
        }
        let result = call();
        if result < 0 {
            FILTERS.fetch_sub(1, Ordering::SeqCst);
        }
        result
    }
}

/// Waits for the other threads, without a system call: this thread may be confined already.
fn wait_for_work() {
    let Some(workers) = anew().map(|anew| &anew.workers) else { return };
    // One of them may have left its work by siglongjmp(3) as it began, so that the wait has an end.
    for _ in 0..TURNS {
        if !workers.are_others() {
            return;
        }
        std::hint::spin_loop();
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
    fn a_thread_waits_for_others_alone() {
        assert!(anew::begin());
        let workers = &anew().unwrap().workers;
        // It has left this by siglongjmp(3).
        workers.enter();
        let is_other =
            || std::thread::scope(|scope| scope.spawn(|| workers.are_others()).join().unwrap());
        assert!(is_other() && !workers.are_others());
        workers.enter();
        workers.leave();
        assert!(is_other());
        workers.leave();
        assert!(!is_other());
    }

    #[test]
    fn what_installs_a_filter_is_told_from_what_asks() {
        let obstacle = Obstacle::Filter;
        let of = |meant, all_threads| Some(Install { all_threads, meant, obstacle });
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
