//! The settings of paths and the counters, shared with `memwright iotune`; `mw_iotune` defines their
//! format.

use super::file_calls;
use super::file_table::Direction;
use crate::confinement::{UninterruptedGuard, is_confined};
use crate::helper_thread::on_helper_thread;
use crate::{settings, stats, wipe_on_fork};
use mw_iotune::{Control, OFF, READING, TABLE_MAX_BYTES};
use std::cell::UnsafeCell;
use std::ffi::{CStr, c_int};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

/// In the library's data at the start of a page, where `memwright iotune` finds it.
static CONTROL: Control = Control::new();

/// True if RWF_DONTCACHE is used.
static HAS_DONTCACHE: AtomicBool = AtomicBool::new(false);

/// True if any reads are uncached.
static HAS_READS: AtomicBool = AtomicBool::new(false);

/// Number of times that the table has been read.
static GENERATION: AtomicU64 = AtomicU64::new(0);

static TABLE: SettingsTable = SettingsTable {
    length: AtomicUsize::new(0),
    root: AtomicU64::new(0),
    buffers: UnsafeCell::new(ControlBuffers {
        text: [0; TABLE_MAX_BYTES],
        path: [0; PATH_MAX_BYTES],
    }),
};

const PATH_MAX_BYTES: usize = 4096;

/// `mw_iotune::LIVE` and `mw_iotune::SAVED`, as C strings.
const LIVE: &CStr = c"/run/memwright/iotunetab";
const SAVED: &CStr = c"/etc/memwright/iotunetab";

/// The table of settings, as it was last read.
struct SettingsTable {
    length: AtomicUsize,
    /// The root directory at that time: with another one (chroot(2)) paths mean other files.
    root: AtomicU64,
    buffers: UnsafeCell<ControlBuffers>,
}

struct ControlBuffers {
    text: [u8; TABLE_MAX_BYTES],
    /// For a path; not on the stack, which may be a small one of a signal handler.
    path: [u8; PATH_MAX_BYTES],
}

// SAFETY: the buffers are accessed only by the holder of the lock (`WipedOnFork::is_table_locked`).
#[allow(unsafe_code, reason = "one thread at a time")]
unsafe impl Sync for SettingsTable {}

/// The setting of a file.
pub(super) enum FileSetting {
    /// From `threshold` bytes on; `slot` is that of its counters.
    Uncached {
        threshold: u64,
        slot: u32,
    },
    Cached,
    /// The table is in use.
    Unavailable,
}

/// True if all transfers are cached; then a call costs only this check. Reads the table if it has changed.
#[inline]
pub(crate) fn is_off() -> bool {
    let floor = CONTROL.floor.load(Relaxed);
    floor == OFF || is_confined() || (floor <= READING && is_off_after_reading())
}

/// True if all reads are cached.
#[inline]
pub(crate) fn is_off_for_reads() -> bool {
    is_off() || !HAS_READS.load(Relaxed)
}

/// The smallest threshold of any file.
pub(super) fn min_threshold() -> u64 {
    CONTROL.floor.load(Relaxed)
}

/// Changes whenever the settings may have changed.
pub(super) fn generation() -> u64 {
    GENERATION.load(Relaxed)
}

/// True if RWF_DONTCACHE is used: from Linux 6.16 on. Before, it could free pages that were in use or dirty
/// again, and in 6.15 it is disabled.
pub(super) fn has_dontcache() -> bool {
    HAS_DONTCACHE.load(Relaxed)
}

/// Reads the table when the library is loaded. The program has no other thread yet, which could see its
/// descriptors change.
pub(crate) fn begin() {
    let release = rustix::system::uname();
    HAS_DONTCACHE.store(has_sound_dontcache(release.release().to_bytes()), Relaxed);
    CONTROL.floor.store(TABLE.with_buffers(read).unwrap_or(OFF), Relaxed);
}

/// True if RWF_DONTCACHE works in a kernel release such as `6.18.3-generic`.
fn has_sound_dontcache(release: &[u8]) -> bool {
    let mut numbers = release
        .split(|byte| !byte.is_ascii_digit())
        .filter_map(|digits| std::str::from_utf8(digits).ok()?.parse::<u32>().ok());
    numbers.next().zip(numbers.next()) >= Some((6, 16))
}

#[cold]
fn is_off_after_reading() -> bool {
    let (Some(state), Some(_uninterrupted)) = (wipe_on_fork::state(), UninterruptedGuard::enter())
    else {
        return true;
    };
    if !claim_reading(&state.is_table_being_read) {
        let floor = CONTROL.floor.load(Relaxed);
        return floor == OFF || floor <= READING;
    }
    // Without a helper thread the previous settings stay in effect.
    let floor = on_helper_thread(&|_| TABLE.with_buffers(read))
        .or_else(|| TABLE.with_buffers(|buffers| table_min_threshold(buffers)));
    let floor = floor.unwrap_or(OFF);
    // If another change is announced in the meantime, the number is `READ_AGAIN` again.
    let _ = CONTROL.floor.compare_exchange(READING, floor, Relaxed, Relaxed);
    state.is_table_being_read.store(false, Release);
    CONTROL.floor.load(Relaxed) == OFF
}

/// True if the caller is to read the table. The child of a fork(2) finds `READING` if another thread was
/// reading the table, but does not have that thread.
fn claim_reading(is_being_read: &AtomicBool) -> bool {
    if CONTROL.floor.load(Relaxed) > READING || is_being_read.swap(true, Acquire) {
        return false;
    }
    CONTROL
        .floor
        .fetch_update(Relaxed, Relaxed, |floor| (floor <= READING).then_some(READING))
        .is_ok()
}

/// Reads the table, and returns the smallest threshold.
fn read(buffers: &mut ControlBuffers) -> u64 {
    let live = file_calls::read_file(LIVE, &mut buffers.text);
    let length = live.or_else(|| file_calls::read_file(SAVED, &mut buffers.text)).unwrap_or(0);
    TABLE.length.store(length, Relaxed);
    if length > 0 {
        TABLE.root.store(file_calls::root(), Relaxed);
    }
    GENERATION.fetch_add(1, Relaxed);
    table_min_threshold(buffers)
}

/// The smallest threshold of the table and of `--direct-io`.
fn table_min_threshold(buffers: &ControlBuffers) -> u64 {
    let length = TABLE.length.load(Relaxed);
    let text = buffers.text.get(..length).unwrap_or_default();
    let settings = || mw_iotune::lines(text).filter_map(|(_, line)| Some(line.ok()?.setting));
    let reads = settings().any(|setting| setting.reads == Some(true));
    HAS_READS.store(reads || settings::direct_io_reads(), Relaxed);
    let sizes = settings().filter_map(|setting| setting.size).chain([settings::direct_io()]);
    sizes.filter(|size| *size != 0).min().unwrap_or(OFF)
}

pub(super) fn setting(direction: Direction, fd: c_int) -> FileSetting {
    let process = u64::from(std::process::id());
    if CONTROL.process.load(Relaxed) != process {
        CONTROL.begin(process);
    }
    let Some((key, line)) = TABLE.with_buffers(|buffers| find_line(fd, buffers)) else {
        return FileSetting::Unavailable;
    };
    let threshold = line.size.unwrap_or(settings::direct_io());
    let reads = line.reads.unwrap_or(settings::direct_io_reads());
    if threshold == 0 || (direction == Direction::Read && !reads) {
        return FileSetting::Cached;
    }
    let slot = CONTROL.slot(key);
    if let Some(counts) = CONTROL.slots.get(slot) {
        counts.size.store(threshold, Relaxed);
    }
    FileSetting::Uncached { threshold, slot: slot as u32 }
}

/// The key and the setting of the line that applies to a file.
fn find_line(fd: c_int, buffers: &mut ControlBuffers) -> (u64, mw_iotune::LineSetting) {
    let length = TABLE.length.load(Relaxed);
    let text = buffers.text.get(..length).unwrap_or_default();
    let none = (mw_iotune::key(b""), mw_iotune::LineSetting::default());
    if text.is_empty() || file_calls::root() != TABLE.root.load(Relaxed) {
        return none;
    }
    let path = file_calls::path(fd, &mut buffers.path);
    let found = mw_iotune::find(text, path.unwrap_or_default());
    found.map_or(none, |line| (mw_iotune::key(line.path), line.setting))
}

/// Counts bytes that went through the page cache.
pub(super) fn count_cached(slot: u32, bytes: u64) {
    if let Some(slot) = CONTROL.slots.get(slot as usize) {
        slot.cached.fetch_add(bytes, Relaxed);
    }
}

/// Counts bytes that the kernel was asked to drop from the page cache.
pub(super) fn count_unverified(slot: u32, bytes: u64) {
    if let Some(unverified) = CONTROL.unverified.get(slot as usize) {
        unverified.fetch_add(bytes, Relaxed);
        stats::count_unverified(bytes);
    }
}

/// Counts unverified bytes that were verified: those that left the page cache, and those that stayed.
pub(super) fn count_verified(slot: u32, left: u64, stayed: u64) {
    let place = slot as usize;
    let (Some(slot), Some(unverified)) = (CONTROL.slots.get(place), CONTROL.unverified.get(place))
    else {
        return;
    };
    slot.uncached.fetch_add(left, Relaxed);
    slot.cached.fetch_add(stayed, Relaxed);
    // A vfork(2) child may have reset the counters in the meantime.
    let less = |before: u64| Some(before.saturating_sub(left + stayed));
    let _ = unverified.fetch_update(Relaxed, Relaxed, less);
    stats::count_verified(left, stayed);
}

impl SettingsTable {
    /// None if the lock is held; this thread may hold it itself, below a signal handler.
    fn with_buffers<T>(&self, work: impl FnOnce(&mut ControlBuffers) -> T) -> Option<T> {
        let is_locked = &wipe_on_fork::state()?.is_table_locked;
        if is_locked.swap(true, Acquire) {
            return None;
        }
        // SAFETY: the lock is held.
        #[allow(unsafe_code, reason = "one thread at a time")]
        let done = work(unsafe { &mut *self.buffers.get() });
        is_locked.store(false, Release);
        Some(done)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use mw_iotune::READ_AGAIN;

    #[test]
    fn dontcache_is_used_from_linux_6_16_on() {
        for release in ["6.16.0", "6.18.44-fc-v669", "7.0-rc1", "10.2"] {
            assert!(has_sound_dontcache(release.as_bytes()), "{release}");
        }
        for release in ["6.14.0-37-generic", "6.15.1", "6.1.0-56-cloud-amd64", "5.20", "6", "", "x"]
        {
            assert!(!has_sound_dontcache(release.as_bytes()), "{release}");
        }
    }

    /// Another thread of the parent reads the table during the fork.
    #[test]
    #[allow(unsafe_code, reason = "a fork")]
    fn a_child_reads_the_table_that_the_parent_was_reading() {
        assert!(wipe_on_fork::map());
        let state = wipe_on_fork::state().unwrap();
        CONTROL.floor.store(READ_AGAIN, Relaxed);
        assert!(claim_reading(&state.is_table_being_read));
        assert!(is_off(), "no setting applies while the table is read");
        let generation = generation();
        let child = TABLE.with_buffers(|_| {
            // SAFETY: the child reads files and exits (fork(2)).
            let child = unsafe { libc::fork() };
            if child == 0 {
                is_off();
                let has_read = GENERATION.load(Relaxed) > generation;
                let is_known = CONTROL.floor.load(Relaxed) > READING;
                // SAFETY: runs no cleanup of the parent (_exit(2)).
                unsafe { libc::_exit(if has_read && is_known { 0 } else { 1 }) };
            }
            child
        });
        let mut status = -1;
        // SAFETY: that child (waitpid(2)).
        assert_eq!(unsafe { libc::waitpid(child.unwrap(), &raw mut status, 0) }, child.unwrap());
        assert_eq!(status, 0);
        CONTROL.floor.store(OFF, Relaxed);
    }

    #[test]
    fn the_table_is_where_iotune_writes_it() {
        assert_eq!(LIVE.to_str(), Ok(mw_iotune::LIVE));
        assert_eq!(SAVED.to_str(), Ok(mw_iotune::SAVED));
    }
}
