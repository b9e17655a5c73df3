//! The settings of `mw_iotune::environment`, read once, when the library is loaded.

use crate::{kernel, next, seccomp, stats, trial, uncached};
use mw_iotune::environment;
use std::ffi::{CStr, c_char, c_int};
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Nothing is large before the library is loaded.
static THRESHOLD: AtomicUsize = AtomicUsize::new(usize::MAX);
static PREFAULT: AtomicBool = AtomicBool::new(false);
static DIRECT_IO: AtomicU64 = AtomicU64::new(0);
static DIRECT_IO_READS: AtomicBool = AtomicBool::new(false);
static LOCK: AtomicBool = AtomicBool::new(false);
/// 0: off.
static STATS: AtomicU32 = AtomicU32::new(0);
static HUGE: AtomicU8 = AtomicU8::new(Huge::Unchanged as u8);

static POOL_STRICT: AtomicBool = AtomicBool::new(false);
static POOL: OnceLock<(Text, Option<Text>)> = OnceLock::new();

/// The longest value of a variable that is kept: a path of a socket is no longer.
const TEXT_BYTES: usize = 108;

/// A value, copied: programs write over their environment (setproctitle).
#[derive(Debug, Clone, Copy)]
struct Text {
    bytes: [u8; TEXT_BYTES],
    length: usize,
}

impl Text {
    fn of(value: &[u8]) -> Option<Self> {
        std::str::from_utf8(value).ok().filter(|text| !text.is_empty())?;
        let mut text = Self { bytes: [0; TEXT_BYTES], length: value.len() };
        text.bytes.get_mut(..value.len())?.copy_from_slice(value);
        Some(text)
    }

    fn get(&self) -> &str {
        let bytes = self.bytes.get(..self.length).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

/// Where large shared memory comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pool {
    /// The pool.
    pub(crate) name: &'static str,
    /// Its server's socket.
    pub(crate) socket: &'static str,
}

/// What is wanted of transparent huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Huge {
    /// Nothing.
    Unchanged,
    /// Where large memory is populated and huge pages are free for all of it.
    Auto,
    /// Wherever large memory is mapped.
    Always,
}

/// From how many bytes on a call is large.
#[inline]
pub(crate) fn threshold() -> usize {
    THRESHOLD.load(Ordering::Relaxed)
}

/// The same for freeing memory.
#[inline]
pub(crate) fn release_threshold() -> usize {
    threshold().saturating_mul(environment::RELEASE_FACTOR as usize)
}

/// Whether large memory is populated when it is mapped.
pub(crate) fn prefault() -> bool {
    PREFAULT.load(Ordering::Relaxed) || lock()
}

/// Whether all memory is locked, large memory when it is mapped.
pub(crate) fn lock() -> bool {
    LOCK.load(Ordering::Relaxed)
}

/// From how many bytes on a transfer of a file goes uncached where its path has no setting of its own;
/// 0: never.
pub(crate) fn direct_io() -> u64 {
    DIRECT_IO.load(Ordering::Relaxed)
}

/// Whether that holds for reads too.
pub(crate) fn direct_io_reads() -> bool {
    DIRECT_IO_READS.load(Ordering::Relaxed)
}

/// What is wanted of transparent huge pages.
pub(crate) fn huge() -> Huge {
    let is = |huge: Huge| HUGE.load(Ordering::Relaxed) == huge as u8;
    [Huge::Auto, Huge::Always].into_iter().find(|huge| is(*huge)).unwrap_or(Huge::Unchanged)
}

/// The pool that large shared memory comes from.
pub(crate) fn pool() -> Option<Pool> {
    let (name, socket) = POOL.get()?;
    let socket = socket.as_ref().map_or(mw_pool::SOCKET, Text::get);
    Some(Pool { name: name.get(), socket })
}

/// Whether what the pool cannot serve is refused.
pub(crate) fn is_pool_strict() -> bool {
    POOL_STRICT.load(Ordering::Relaxed)
}

/// Whether it is said at exit what was done.
pub(crate) fn stats() -> bool {
    STATS.load(Ordering::Relaxed) > 0
}

/// The process that says what was done for all that it has started, and that it was nothing: the
/// command that `run` became.
pub(crate) fn stats_process() -> u32 {
    STATS.load(Ordering::Relaxed)
}

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
#[allow(unsafe_code, reason = "runs when the library is loaded")]
static LOADED: extern "C" fn() = load;

#[cfg_attr(test, allow(dead_code, reason = "tests set what they need"))]
extern "C" fn load() {
    let _errno = kernel::Errno::kept();
    next::resolve();
    if is_privileged() {
        return;
    }
    let stats = variable(environment::STATS).and_then(number);
    STATS.store(stats.unwrap_or_default(), Ordering::Relaxed);
    if is(environment::SECCOMP, b"try") {
        trial::run();
    }
    seccomp::begin(variable(environment::SECCOMP).and_then(number));
    if seccomp::is_confined() {
        return;
    }
    // Most programs say nothing.
    let says = [environment::STATS, environment::POOL, environment::LOCK];
    if says.into_iter().any(|name| variable(name).is_some()) {
        stats::begin();
    }
    load_direct_io();
    if mw_sys::can_populate() {
        load_memory();
    }
}

fn load_direct_io() {
    let size = variable(environment::DIRECT_IO).and_then(number).filter(|bytes: &u64| *bytes > 0);
    let size = size.map_or(0, |bytes| bytes.max(mw_iotune::SIZE_MIN_BYTES));
    DIRECT_IO.store(size, Ordering::Relaxed);
    DIRECT_IO_READS.store(is(environment::DIRECT_IO_READS, b"1"), Ordering::Relaxed);
    uncached::begin();
}

fn load_memory() {
    PREFAULT.store(is(environment::PREFAULT, b"1"), Ordering::Relaxed);
    let huge = match variable(environment::HUGE) {
        Some(b"auto") => Huge::Auto,
        Some(b"always") => Huge::Always,
        _ => Huge::Unchanged,
    };
    HUGE.store(huge as u8, Ordering::Relaxed);
    if let Some(name) = variable(environment::POOL).and_then(Text::of) {
        let _ = POOL.set((name, variable(environment::POOL_SOCKET).and_then(Text::of)));
        POOL_STRICT.store(is(environment::POOL_STRICT, b"1"), Ordering::Relaxed);
    }
    if let Some(value @ (b"1" | b"2")) = variable(environment::LOCK) {
        let is_locked = lock_everything();
        LOCK.store(is_locked, Ordering::Relaxed);
        if !is_locked && value == b"1" {
            report_lock_limit();
        }
    }
    let threshold = variable(environment::THRESHOLD).and_then(number);
    let threshold = threshold
        .unwrap_or(environment::THRESHOLD_DEFAULT_BYTES as usize)
        .max(environment::THRESHOLD_MIN_BYTES as usize);
    THRESHOLD.store(threshold, Ordering::Relaxed);
}

/// Whether the program has privileges that its user has not, who must not set anything for it. Only
/// /etc/ld.so.preload loads this library into such.
fn is_privileged() -> bool {
    // SAFETY: what the kernel has told the program at its start is looked up (getauxval(3)).
    #[allow(unsafe_code, reason = "no safe wrapper of it")]
    let secure = unsafe { libc::getauxval(libc::AT_SECURE) };
    secure != 0
}

/// As if a filter had been tried, and everything large.
pub(crate) fn try_everything() {
    seccomp::try_everything();
    THRESHOLD.store(environment::THRESHOLD_MIN_BYTES as usize, Ordering::Relaxed);
}

/// Where the limit could be met the program's own mmap calls would fail later on (`EAGAIN`).
fn lock_everything() -> bool {
    let unlimited = mw_sys::memlock_limit_bytes().is_none()
        || mw_sys::has_capability(mw_sys::Capability::IpcLock);
    let flags = libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT;
    // SAFETY: locking changes no content (mlockall(2)).
    #[allow(unsafe_code, reason = "a system call")]
    let locked = unlimited && unsafe { kernel::mlockall(flags) } == 0;
    locked
}

/// Reports that a limit prevents `--lock`, and notes that for the processes that this one starts.
fn report_lock_limit() {
    stats::say(
        "memwright: RLIMIT_MEMLOCK prevents --lock; raise it (ulimit -l unlimited, \
         LimitMEMLOCK=infinity)\n",
    );
    if let Some([value]) = variable_to_write(environment::LOCK) {
        *value = b'2';
    }
}

fn is(name: &CStr, value: &[u8]) -> bool {
    variable(name) == Some(value)
}

/// A number in decimal digits.
fn number<T: FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn variable(name: &CStr) -> Option<&'static [u8]> {
    // SAFETY: no other thread of the program runs while its libraries are loaded; what is found is
    // looked at before that ends (getenv(3)).
    #[allow(unsafe_code, reason = "std's way takes a lock and allocates")]
    let value: *const c_char = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: a string of the environment ends with a zero byte.
    #[allow(unsafe_code, reason = "std's way takes a lock and allocates")]
    let text = unsafe { CStr::from_ptr(value) };
    Some(text.to_bytes())
}

/// The value of a variable, in the environment itself: whoever is started later finds what is written
/// there.
pub(crate) fn variable_to_write(name: &CStr) -> Option<&'static mut [u8]> {
    // SAFETY: as in `variable`.
    #[allow(unsafe_code, reason = "std's way takes a lock and allocates")]
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: a string of the environment ends with a zero byte.
    #[allow(unsafe_code, reason = "std's way takes a lock and allocates")]
    let length = unsafe { libc::strlen(value) };
    // SAFETY: strings of the environment lie in memory of the program's own that may be written, and
    // nobody else looks at it while its libraries are loaded (environ(7)).
    #[allow(unsafe_code, reason = "no safe wrapper of it")]
    Some(unsafe { std::slice::from_raw_parts_mut(value.cast(), length) })
}

/// Whether flags that mlockall(2) was given lock what is mapped later.
pub(crate) fn locks_the_future(flags: c_int) -> bool {
    flags & libc::MCL_FUTURE != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_large_before_the_library_is_loaded() {
        assert_eq!(threshold(), usize::MAX);
        assert_eq!(huge(), Huge::Unchanged);
        assert!(!prefault() && !lock() && !stats());
    }

    #[test]
    fn a_value_is_kept_whole_or_not_at_all() {
        assert_eq!(Text::of(b"db").unwrap().get(), "db");
        let longest = [b'x'; TEXT_BYTES];
        assert_eq!(Text::of(&longest).unwrap().get().len(), TEXT_BYTES);
        for value in [&b""[..], b"\xff", &[b'x'; TEXT_BYTES + 1]] {
            assert!(Text::of(value).is_none());
        }
        assert!(pool().is_none() && !is_pool_strict());
    }

    #[test]
    fn what_is_no_number_is_none() {
        assert_eq!(number(b"1048576"), Some(1_usize << 20));
        for text in [&b""[..], b"1M", b"-1", b"99999999999999999999", b"\xff"] {
            assert_eq!(number::<usize>(text), None);
        }
    }
}
