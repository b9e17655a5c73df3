//! What was done, counted for `--stats`, and said at exit.
//!
//! Under `memwright run` all processes of a command count together (`shared`), and the command says the
//! sum at its end. A process that cannot, or that `MEMWRIGHT_STATS=1` was set for, counts and speaks for
//! itself.
//!
//! The time that was saved is measured against a part of the same work that is done by one thread,
//! before the rest is done in parallel.

mod shared;

use crate::{kernel, seccomp, settings};
use rustix::fd::BorrowedFd;
use rustix::fs::fstat;
use std::fmt::{self, Write};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Less that was kept out of the page cache is not said.
const SAID_MIN_BYTES: u64 = 1 << 20;

/// What is done by one thread, to know what that costs.
const SAMPLE_BYTES: usize = 8 << 20;

/// The calls that are counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Lock,
    Map,
    Pool,
    Unmap,
    Advise,
}

const CALLS: [(Call, &str); 5] = [
    (Call::Lock, "locked"),
    (Call::Map, "mapped"),
    (Call::Pool, "from the pool"),
    (Call::Unmap, "unmapped"),
    (Call::Advise, "advised"),
];

/// What was counted for one kind of call.
struct Count {
    calls: AtomicU64,
    bytes: AtomicU64,
}

/// All that is counted. All bits zero is a value.
#[repr(C)]
struct Counts {
    of: [Count; CALLS.len()],
    nanoseconds: AtomicU64,
    saved_nanoseconds: AtomicI64,
    /// Bytes of files that were seen to have left the page cache.
    uncached: AtomicU64,
    /// Bytes that were asked to leave it and of which that is not known.
    unverified: AtomicU64,
}

impl Counts {
    /// What was counted; counting begins anew.
    fn taken(&self) -> Self {
        let take = |number: &AtomicU64| AtomicU64::new(number.swap(0, Ordering::Relaxed));
        Self {
            of: std::array::from_fn(|call| {
                let count = &self.of[call];
                Count { calls: take(&count.calls), bytes: take(&count.bytes) }
            }),
            nanoseconds: take(&self.nanoseconds),
            saved_nanoseconds: AtomicI64::new(self.saved_nanoseconds.swap(0, Ordering::Relaxed)),
            uncached: take(&self.uncached),
            unverified: take(&self.unverified),
        }
    }
}

/// Those of this process, on a page of their own: a fork(2) begins anew, while a vfork(2) child, which
/// has its parent's memory, counts for its parent.
#[cfg_attr(target_arch = "x86_64", repr(C, align(4096)))]
#[cfg_attr(not(target_arch = "x86_64"), repr(C, align(65536)))]
struct Own(Counts);

static OWN: Own = Own(Counts {
    of: [const { Count { calls: AtomicU64::new(0), bytes: AtomicU64::new(0) } }; CALLS.len()],
    nanoseconds: AtomicU64::new(0),
    saved_nanoseconds: AtomicI64::new(0),
    uncached: AtomicU64::new(0),
    unverified: AtomicU64::new(0),
});

/// Where this process counts.
fn counts() -> &'static Counts {
    shared::counts().unwrap_or(&OWN.0)
}

/// Whether this process has said something: more than one way leads to its end.
static SAID: AtomicBool = AtomicBool::new(false);

/// The file that standard error was at the start: afterwards another may have its number.
static ERROR_DEVICE: AtomicU64 = AtomicU64::new(0);
static ERROR_INODE: AtomicU64 = AtomicU64::new(0);

/// Notes where messages go and, for `--stats`, where is counted.
pub(crate) fn begin() {
    let (device, inode) = standard_error().unwrap_or_default();
    ERROR_DEVICE.store(device, Ordering::Relaxed);
    ERROR_INODE.store(inode, Ordering::Relaxed);
    if settings::stats() {
        shared::begin(settings::stats_process());
    }
    let page = (&raw const OWN).cast_mut().cast();
    // SAFETY: the page holds nothing but the counts, for which all bits zero is a value
    // (madvise(2)); where it is refused, a fork counts on from its parent.
    #[allow(unsafe_code, reason = "a system call")]
    unsafe {
        kernel::madvise(page, size_of::<Own>(), libc::MADV_WIPEONFORK)
    };
}

/// Does `work` of so many bytes, and counts it. For `--stats` some of it is done by `sample` before,
/// which is given a number of bytes and returns how many it did.
///
/// # Errors
/// Those of `work`.
pub(crate) fn noted(
    call: Call,
    bytes: usize,
    sample: &dyn Fn(usize) -> Option<usize>,
    work: &dyn Fn() -> io::Result<()>,
) -> io::Result<()> {
    if !settings::stats() {
        return work();
    }
    let start = Instant::now();
    let sampled = sample(SAMPLE_BYTES.min(bytes)).filter(|done| *done > 0);
    let alone = start.elapsed();
    work()?;
    let took = start.elapsed();
    let serial = sampled.map(|done| alone.mul_f64(bytes as f64 / done as f64));
    count(call, bytes, took, serial);
    Ok(())
}

pub(crate) fn count(call: Call, bytes: usize, took: Duration, serial: Option<Duration>) {
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let counts = counts();
    let of = CALLS.iter().zip(&counts.of).find(|((counted, _), _)| *counted == call);
    if let Some((_, count)) = of {
        count.calls.fetch_add(1, Ordering::Relaxed);
        count.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
    counts.nanoseconds.fetch_add(nanoseconds(took), Ordering::Relaxed);
    let saved = serial.map_or(0, |serial| {
        let signed = |time| i64::try_from(nanoseconds(time)).unwrap_or(i64::MAX);
        signed(serial).saturating_sub(signed(took))
    });
    counts.saved_nanoseconds.fetch_add(saved, Ordering::Relaxed);
}

/// Counts bytes that were asked to leave the page cache.
pub(crate) fn note_asked(bytes: u64) {
    if settings::stats() {
        counts().unverified.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Counts bytes of these that were seen to have left it, or to stay.
pub(crate) fn note_settled(left: u64, stayed: u64) {
    if settings::stats() {
        let counts = counts();
        counts.uncached.fetch_add(left, Ordering::Relaxed);
        let less = |before: u64| Some(before.saturating_sub(left + stayed));
        let _ = counts.unverified.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".fini_array")]
#[allow(unsafe_code, reason = "runs when the program ends")]
static ENDED: extern "C" fn() = end;

/// Says what was done until now, if anybody asked. A confined program does not end at what it says here.
pub(crate) extern "C" fn end() {
    if settings::stats()
        && let Some(_working) = seccomp::Working::begin()
    {
        say_all();
    }
}

/// The same where a process ends without telling its libraries. A vfork(2) child does so in its parent's
/// memory, and is not the command.
pub(crate) fn end_of_command() {
    if settings::stats()
        && let Some(_working) = seccomp::Working::begin()
        && settings::stats_process() == std::process::id()
    {
        say_all();
    }
}

/// The same before the program confines itself. If that fails, what is done later is said at the end.
pub(crate) fn before_confinement() {
    if settings::stats() {
        say_all();
    }
}

/// Where processes count together the command speaks for all of them, and the last process for what was
/// done after the command's end. What was said is not counted again.
fn say_all() {
    let is_command = settings::stats_process() == std::process::id();
    if !is_command && shared::counts().is_some() && !shared::is_last() {
        return;
    }
    let counts = counts().taken();
    let counts = &counts;
    let calls = total(counts, |count| &count.calls);
    let uncached = counts.uncached.load(Ordering::Relaxed);
    let unverified = counts.unverified.load(Ordering::Relaxed);
    let is_cache_said = uncached.saturating_add(unverified) >= SAID_MIN_BYTES;
    if calls > 0 {
        say_line(|line| report(line, counts));
    }
    if is_cache_said {
        say_line(|line| report_uncached(line, uncached, unverified));
    }
    let is_first = !SAID.swap(true, Ordering::Relaxed);
    if is_first && is_command && calls == 0 && !is_cache_said {
        say_line(report_nothing);
    }
}

fn say_line(write: impl FnOnce(&mut Line) -> fmt::Result) {
    let mut line = Line::default();
    if write(&mut line).is_ok() {
        say(line.text());
    }
}

/// One line of what was done in parallel.
fn report(line: &mut Line, counts: &Counts) -> fmt::Result {
    let calls = total(counts, |count| &count.calls);
    let seconds = counts.nanoseconds.load(Ordering::Relaxed) as f64 / 1e9;
    let saved = counts.saved_nanoseconds.load(Ordering::Relaxed) as f64 / 1e9;
    let noun = if calls == 1 { "call" } else { "calls" };
    write!(
        line,
        "memwright[{}]: {calls} {noun} done in parallel, {:.2} GiB in {seconds:.3} s",
        std::process::id(),
        gib(total(counts, |count| &count.bytes)),
    )?;
    let mut before = " (";
    for ((_, name), count) in CALLS.iter().zip(&counts.of) {
        let calls = count.calls.load(Ordering::Relaxed);
        if calls > 0 {
            let bytes = gib(count.bytes.load(Ordering::Relaxed));
            write!(line, "{before}{name} {calls}, {bytes:.2} GiB")?;
            before = "; ";
        }
    }
    let compared = if saved < 0.0 { "slower" } else { "faster" };
    writeln!(line, "), {:.3} s {compared} than with one thread", saved.abs())
}

/// One line of what did not stay in the page cache.
fn report_uncached(line: &mut Line, uncached: u64, unverified: u64) -> fmt::Result {
    write!(line, "memwright[{}]: ", std::process::id())?;
    let (kept_out, rest) = (mib(uncached), mib(unverified));
    match (uncached, unverified) {
        (_, 0) => writeln!(line, "{kept_out:.1} MiB kept out of the page cache"),
        (0, _) => writeln!(line, "{rest:.1} MiB asked to leave the page cache, not verified"),
        _ => writeln!(
            line,
            "{kept_out:.1} MiB kept out of the page cache, {rest:.1} MiB more not verified"
        ),
    }
}

/// One line for a command of which nothing was done in parallel or kept out of the page cache.
fn report_nothing(line: &mut Line) -> fmt::Result {
    write!(line, "memwright[{}]: nothing was done: ", std::process::id())?;
    let obstacle = seccomp::Obstacle::first().filter(|_| seccomp::is_confined());
    if !mw_sys::can_populate() {
        write!(line, "this kernel has no MADV_POPULATE_WRITE (needs 5.14)")?;
    } else if let Some(obstacle) = obstacle {
        line.write_str(match obstacle {
            seccomp::Obstacle::Filter => "a seccomp filter may forbid it",
            seccomp::Obstacle::NoNewPrivileges => {
                "the program set PR_SET_NO_NEW_PRIVS, after which it may install a seccomp filter \
                 that forbids it"
            }
            seccomp::Obstacle::NoProc => {
                "/proc/self/status is not readable, so that seccomp filters are unknown"
            }
            seccomp::Obstacle::NoMemory => "no memory could be mapped",
        })?;
    } else {
        let (threshold, release) =
            (settings::threshold() >> 20, settings::release_threshold() >> 20);
        let who = if shared::counts().is_some() { "the command" } else { "this process" };
        write!(
            line,
            "{who} did not populate or lock {threshold} MiB or free {release} MiB in one call"
        )?;
    }
    let cached =
        if settings::direct_io() > 0 { "; all files went through the page cache" } else { "" };
    writeln!(line, "{cached}")
}

/// Does once what is done at the start: a filter of system calls may end the process.
pub(crate) fn try_everything() {
    shared::try_everything();
}

fn total(counts: &Counts, of: fn(&Count) -> &AtomicU64) -> u64 {
    counts.of.iter().map(|count| of(count).load(Ordering::Relaxed)).sum()
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

/// A line that allocates nothing.
pub(crate) struct Line {
    bytes: [u8; 400],
    length: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self { bytes: [0; 400], length: 0 }
    }
}

impl Line {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(self.bytes.get(..self.length).unwrap_or_default()).unwrap_or_default()
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        let place = self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// The device and inode of standard error.
fn standard_error() -> Option<(u64, u64)> {
    let stat = fstat(error_fd()).ok()?;
    Some((stat.st_dev, stat.st_ino))
}

fn error_fd() -> BorrowedFd<'static> {
    // SAFETY: the number may be closed, which is an error, and never another's: it is looked at
    // before something is written.
    #[allow(unsafe_code, reason = "std's handle takes a lock")]
    unsafe {
        BorrowedFd::borrow_raw(libc::STDERR_FILENO)
    }
}

/// Says something on standard error, where that is still the file that it was at the start.
pub(crate) fn say(text: &str) {
    let _errno = kernel::Errno::kept();
    let then = (ERROR_DEVICE.load(Ordering::Relaxed), ERROR_INODE.load(Ordering::Relaxed));
    if standard_error() == Some(then) {
        let _ = rustix::io::write(error_fd(), text.as_bytes());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_one_line() {
        count(Call::Lock, 1 << 30, Duration::from_millis(250), Some(Duration::from_millis(400)));
        count(Call::Unmap, 1 << 29, Duration::from_millis(50), None);
        let mut line = Line::default();
        report(&mut line, counts()).unwrap();
        let text = line.text().split_once(' ').unwrap().1.to_owned();
        assert_eq!(
            text,
            "2 calls done in parallel, 1.50 GiB in 0.300 s (locked 1, 1.00 GiB; unmapped 1, 0.50 \
             GiB), 0.150 s faster than with one thread\n"
        );
        counts().saved_nanoseconds.store(-23_000_000, Ordering::Relaxed);
        let mut line = Line::default();
        report(&mut line, counts()).unwrap();
        let text = line.text();
        assert!(text.ends_with("), 0.023 s slower than with one thread\n"), "{text}");
    }

    #[test]
    fn what_was_not_verified_is_said_apart() {
        let said = |uncached, unverified| {
            let mut line = Line::default();
            report_uncached(&mut line, uncached, unverified).unwrap();
            line.text().split_once(' ').unwrap().1.to_owned()
        };
        assert_eq!(said(0, 3 << 20), "3.0 MiB asked to leave the page cache, not verified\n");
        assert_eq!(said(300 << 20, 0), "300.0 MiB kept out of the page cache\n");
        assert_eq!(
            said(1 << 20, 5 << 19),
            "1.0 MiB kept out of the page cache, 2.5 MiB more not verified\n"
        );
    }

    #[test]
    fn what_a_fork_begins_anew_is_whole_pages_of_any_kernel() {
        assert!(align_of::<Own>().is_multiple_of(mw_sys::page_bytes()));
        assert!(size_of::<Own>().is_multiple_of(mw_sys::page_bytes()));
    }

    #[test]
    fn a_line_that_is_too_long_is_an_error_and_no_panic() {
        let mut line = Line::default();
        assert!(line.write_str(&"x".repeat(400)).is_ok());
        assert!(line.write_str("y").is_err());
    }
}
