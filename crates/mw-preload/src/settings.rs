//! The settings of `mw_iotune::environment`, read once, when the library is loaded.

use crate::env;
use mw_iotune::environment;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Until the library is loaded no size reaches it.
static THRESHOLD: AtomicUsize = AtomicUsize::new(usize::MAX);
static PREFAULT: AtomicU8 = AtomicU8::new(0);
static DIRECT_IO: AtomicU64 = AtomicU64::new(0);
static DIRECT_IO_READS: AtomicBool = AtomicBool::new(false);
static LOCK: AtomicBool = AtomicBool::new(false);
/// 0: off.
static STATS: AtomicU32 = AtomicU32::new(0);
static HUGE_PAGES: AtomicU8 = AtomicU8::new(ThpPolicy::Unchanged as u8);

static POOL_STRICT: AtomicBool = AtomicBool::new(false);
static POOL: OnceLock<(TextCopy, Option<TextCopy>)> = OnceLock::new();

/// The longest value that is stored, that of a socket's path (`sun_path`, unix(7)).
const TEXT_BYTES: usize = 108;

/// A copy of a value: programs overwrite their environment (setproctitle).
#[derive(Debug, Clone, Copy)]
struct TextCopy {
    bytes: [u8; TEXT_BYTES],
    length: usize,
}

impl TextCopy {
    /// None for a value that is empty, too long or not UTF-8.
    fn new(value: &[u8]) -> Option<Self> {
        std::str::from_utf8(value).ok().filter(|text| !text.is_empty())?;
        let mut text = Self { bytes: [0; TEXT_BYTES], length: value.len() };
        text.bytes.get_mut(..value.len())?.copy_from_slice(value);
        Some(text)
    }

    fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..self.length).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

/// The pool that large shared memory comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolSetting {
    pub(crate) name: &'static str,
    /// The path of its server's socket.
    pub(crate) socket: &'static str,
}

/// Policy for requesting transparent huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThpPolicy {
    Unchanged,
    /// For large memory that is populated, if enough huge pages are free for all of it.
    Auto,
    /// For every large mapping that is writable.
    Always,
}

/// The size in bytes from which on the library takes part in a call.
#[inline]
pub(crate) fn threshold() -> usize {
    THRESHOLD.load(Ordering::Relaxed)
}

/// As [`threshold`], for calls that free memory.
#[inline]
pub(crate) fn release_threshold() -> usize {
    threshold().saturating_mul(environment::RELEASE_FACTOR as usize)
}

/// The values of `PREFAULT`.
const PREFAULT_IN_BACKGROUND: u8 = 1;
const PREFAULT_NOW: u8 = 2;

/// True if large memory is populated, when it is mapped or in the background.
pub(crate) fn prefault() -> bool {
    PREFAULT.load(Ordering::Relaxed) != 0 || lock()
}

/// True if it is populated before the call that maps it returns.
pub(crate) fn prefault_now() -> bool {
    PREFAULT.load(Ordering::Relaxed) == PREFAULT_NOW || lock()
}

/// True if all memory is locked, large memory when it is mapped.
pub(crate) fn lock() -> bool {
    LOCK.load(Ordering::Relaxed)
}

/// The size in bytes from which on transfers of files without a setting of their own bypass the page
/// cache; 0: never.
pub(crate) fn direct_io() -> u64 {
    DIRECT_IO.load(Ordering::Relaxed)
}

/// True if [`direct_io`] applies to reads as well.
pub(crate) fn direct_io_reads() -> bool {
    DIRECT_IO_READS.load(Ordering::Relaxed)
}

pub(crate) fn huge_pages() -> ThpPolicy {
    let is = |mode: ThpPolicy| HUGE_PAGES.load(Ordering::Relaxed) == mode as u8;
    let set = [ThpPolicy::Auto, ThpPolicy::Always].into_iter().find(|mode| is(*mode));
    set.unwrap_or(ThpPolicy::Unchanged)
}

pub(crate) fn pool() -> Option<PoolSetting> {
    let (name, socket) = POOL.get()?;
    let socket = socket.as_ref().map_or(mw_pool::SOCKET, TextCopy::as_str);
    Some(PoolSetting { name: name.as_str(), socket })
}

/// True if calls fail if the pool cannot serve them.
pub(crate) fn is_pool_strict() -> bool {
    POOL_STRICT.load(Ordering::Relaxed)
}

pub(crate) fn stats() -> bool {
    STATS.load(Ordering::Relaxed) > 0
}

/// The process of the command that `memwright run` became. It reports the statistics of all processes
/// that it started, also if nothing was done.
pub(crate) fn stats_process() -> u32 {
    STATS.load(Ordering::Relaxed)
}

pub(crate) fn load_stats() {
    STATS.store(env::number(environment::STATS).unwrap_or_default(), Ordering::Relaxed);
}

pub(crate) fn load_direct_io() {
    let bytes = env::number(environment::DIRECT_IO).filter(|bytes: &u64| *bytes > 0);
    let bytes = bytes.map_or(0, |bytes| bytes.max(mw_iotune::SIZE_MIN_BYTES));
    DIRECT_IO.store(bytes, Ordering::Relaxed);
    DIRECT_IO_READS.store(env::is_set_to(environment::DIRECT_IO_READS, b"1"), Ordering::Relaxed);
}

pub(crate) fn load_memory() {
    let prefault = match env::variable(environment::PREFAULT) {
        Some(b"1") => PREFAULT_IN_BACKGROUND,
        Some(b"now") => PREFAULT_NOW,
        _ => 0,
    };
    PREFAULT.store(prefault, Ordering::Relaxed);
    let huge_pages = match env::variable(environment::HUGE) {
        Some(b"auto") => ThpPolicy::Auto,
        Some(b"always") => ThpPolicy::Always,
        _ => ThpPolicy::Unchanged,
    };
    HUGE_PAGES.store(huge_pages as u8, Ordering::Relaxed);
    if let Some(name) = env::variable(environment::POOL).and_then(TextCopy::new) {
        let _ = POOL.set((name, env::variable(environment::POOL_SOCKET).and_then(TextCopy::new)));
        POOL_STRICT.store(env::is_set_to(environment::POOL_STRICT, b"1"), Ordering::Relaxed);
    }
}

/// Turns the library on for large calls; the last setting that is loaded.
pub(crate) fn load_threshold() {
    let threshold = env::number(environment::THRESHOLD);
    set_threshold(threshold.unwrap_or(environment::THRESHOLD_DEFAULT_BYTES as usize));
}

pub(crate) fn set_threshold(bytes: usize) {
    let threshold = bytes.max(environment::THRESHOLD_MIN_BYTES as usize);
    THRESHOLD.store(threshold, Ordering::Relaxed);
}

pub(crate) fn set_lock(is_locked: bool) {
    LOCK.store(is_locked, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_large_before_the_library_is_loaded() {
        assert_eq!(threshold(), usize::MAX);
        assert_eq!(huge_pages(), ThpPolicy::Unchanged);
        assert!(!prefault() && !lock() && !stats());
    }

    #[test]
    fn a_value_is_stored_whole_or_not_at_all() {
        assert_eq!(TextCopy::new(b"db").unwrap().as_str(), "db");
        let longest = [b'x'; TEXT_BYTES];
        assert_eq!(TextCopy::new(&longest).unwrap().as_str().len(), TEXT_BYTES);
        for value in [&b""[..], b"\xff", &[b'x'; TEXT_BYTES + 1]] {
            assert!(TextCopy::new(value).is_none());
        }
        assert!(pool().is_none() && !is_pool_strict());
    }
}
