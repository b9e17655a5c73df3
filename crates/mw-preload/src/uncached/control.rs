//! What is asked for, per path, and what was done. `mw_iotune` says how others are told and tell.

use super::{Way, system};
use crate::anew::anew;
use crate::helper_thread::on_helper_thread;
use crate::seccomp::{Uninterrupted, is_confined};
use crate::{settings, stats};
use mw_iotune::{Control, OFF, READING, TABLE_MAX_BYTES};
use std::cell::UnsafeCell;
use std::ffi::{CStr, c_int};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

/// In the library's data, at the beginning of a page, where `memwright iotune` looks for it.
static CONTROL: Control = Control::new();

/// Whether the kernel's RWF_DONTCACHE is used.
static DONTCACHE: AtomicBool = AtomicBool::new(false);

/// Whether some reads go uncached.
static READS: AtomicBool = AtomicBool::new(false);

/// How often the table was read.
static GENERATION: AtomicU64 = AtomicU64::new(0);

static TABLE: Table = Table {
    length: AtomicUsize::new(0),
    root: AtomicU64::new(0),
    bytes: UnsafeCell::new(Bytes { text: [0; TABLE_MAX_BYTES], path: [0; PATH_MAX_BYTES] }),
};

const PATH_MAX_BYTES: usize = 4096;

/// `mw_iotune::LIVE` and `mw_iotune::SAVED`, for system calls.
const LIVE: &CStr = c"/run/memwright/iotunetab";
const SAVED: &CStr = c"/etc/memwright/iotunetab";

/// The table as it was read last.
struct Table {
    length: AtomicUsize,
    /// Who / was then: paths of another root (chroot(2)) are others.
    root: AtomicU64,
    bytes: UnsafeCell<Bytes>,
}

struct Bytes {
    text: [u8; TABLE_MAX_BYTES],
    /// Room for a path, which a signal handler's stack may not have.
    path: [u8; PATH_MAX_BYTES],
}

// SAFETY: the bytes are used by who holds the table.
#[allow(unsafe_code, reason = "one thread at a time")]
unsafe impl Sync for Table {}

/// A path's setting, or that nobody can say now.
pub(super) enum Known {
    Setting { size: u64, slot: u32 },
    LeftAlone,
    NotNow,
}

/// Whether nothing goes uncached, which is all that a call costs then; where the table has changed
/// it is read.
#[inline]
pub(crate) fn is_off() -> bool {
    let floor = CONTROL.floor.load(Relaxed);
    floor == OFF || is_confined() || (floor <= READING && is_off_in_the_new_table())
}

/// Whether no reads go uncached.
#[inline]
pub(crate) fn are_reads_off() -> bool {
    is_off() || !READS.load(Relaxed)
}

/// The smallest size from which on anything goes uncached.
pub(super) fn floor() -> u64 {
    CONTROL.floor.load(Relaxed)
}

/// Another number where other settings hold.
pub(super) fn generation() -> u64 {
    GENERATION.load(Relaxed)
}

/// Whether the kernel's RWF_DONTCACHE is used: from 6.16 on. Before, it could free pages that were in use
/// or dirty again, and 6.15 has it switched off.
pub(super) fn has_dontcache() -> bool {
    DONTCACHE.load(Relaxed)
}

/// Reads the table when the library is loaded: whoever has descriptors then has no other thread.
pub(crate) fn begin() {
    let release = rustix::system::uname();
    DONTCACHE.store(is_sound(release.release().to_bytes()), Relaxed);
    CONTROL.floor.store(TABLE.hold(read).unwrap_or(OFF), Relaxed);
}

/// Whether a release of the kernel, such as `6.18.3-generic`, has a sound RWF_DONTCACHE.
fn is_sound(release: &[u8]) -> bool {
    let mut numbers = release
        .split(|byte| !byte.is_ascii_digit())
        .filter_map(|digits| std::str::from_utf8(digits).ok()?.parse::<u32>().ok());
    numbers.next().zip(numbers.next()) >= Some((6, 16))
}

#[cold]
fn is_off_in_the_new_table() -> bool {
    let (Some(anew), Some(_uninterrupted)) = (anew(), Uninterrupted::begin()) else { return true };
    if !claim_reading(&anew.is_table_read) {
        let floor = CONTROL.floor.load(Relaxed);
        return floor == OFF || floor <= READING;
    }
    // Without a helper thread what was there before holds on.
    let floor =
        on_helper_thread(&|_| TABLE.hold(read)).or_else(|| TABLE.hold(|bytes| floor_of(bytes)));
    let floor = floor.unwrap_or(OFF);
    // Whoever asks once more in the meantime is heard: the number is `READ_AGAIN` again then.
    let _ = CONTROL.floor.compare_exchange(READING, floor, Relaxed, Relaxed);
    anew.is_table_read.store(false, Release);
    CONTROL.floor.load(Relaxed) == OFF
}

/// Whether the caller is to read the table. The child of a fork(2) while another thread was reading it
/// finds `READING`, and nobody who does.
fn claim_reading(is_table_read: &AtomicBool) -> bool {
    if CONTROL.floor.load(Relaxed) > READING || is_table_read.swap(true, Acquire) {
        return false;
    }
    CONTROL
        .floor
        .fetch_update(Relaxed, Relaxed, |floor| (floor <= READING).then_some(READING))
        .is_ok()
}

/// Reads the table, and says the smallest size of all.
fn read(bytes: &mut Bytes) -> u64 {
    let live = system::read_file(LIVE, &mut bytes.text);
    let length = live.or_else(|| system::read_file(SAVED, &mut bytes.text)).unwrap_or(0);
    TABLE.length.store(length, Relaxed);
    if length > 0 {
        TABLE.root.store(system::root(), Relaxed);
    }
    GENERATION.fetch_add(1, Relaxed);
    floor_of(bytes)
}

/// The smallest size of the table as it is held, and of `--direct-io`.
fn floor_of(bytes: &Bytes) -> u64 {
    let length = TABLE.length.load(Relaxed);
    let text = bytes.text.get(..length).unwrap_or_default();
    let settings = || mw_iotune::lines(text).filter_map(|(_, line)| Some(line.ok()?.setting));
    let reads = settings().any(|setting| setting.reads == Some(true));
    READS.store(reads || settings::direct_io_reads(), Relaxed);
    let sizes = settings().filter_map(|setting| setting.size).chain([settings::direct_io()]);
    sizes.filter(|size| *size != 0).min().unwrap_or(OFF)
}

/// What holds for the file behind a descriptor, which is recognised just now.
pub(super) fn setting(way: Way, fd: c_int) -> Known {
    let process = u64::from(std::process::id());
    if CONTROL.process.load(Relaxed) != process {
        CONTROL.begin(process);
    }
    let Some((key, line)) = TABLE.hold(|bytes| line(fd, bytes)) else { return Known::NotNow };
    let size = line.size.unwrap_or(settings::direct_io());
    let reads = line.reads.unwrap_or(settings::direct_io_reads());
    if size == 0 || (way == Way::Read && !reads) {
        return Known::LeftAlone;
    }
    let slot = CONTROL.slot(key);
    if let Some(counts) = CONTROL.slots.get(slot) {
        counts.size.store(size, Relaxed);
    }
    Known::Setting { size, slot: slot as u32 }
}

/// The key of the line that holds for a file, and what that says.
fn line(fd: c_int, bytes: &mut Bytes) -> (u64, mw_iotune::Setting) {
    let length = TABLE.length.load(Relaxed);
    let text = bytes.text.get(..length).unwrap_or_default();
    let none = (mw_iotune::key(b""), mw_iotune::Setting::default());
    if text.is_empty() || system::root() != TABLE.root.load(Relaxed) {
        return none;
    }
    let path = system::path(fd, &mut bytes.path);
    let found = mw_iotune::find(text, path.unwrap_or_default());
    found.map_or(none, |line| (mw_iotune::key(line.path), line.setting))
}

/// Notes bytes that went through the page cache.
pub(super) fn note_cached(slot: u32, bytes: u64) {
    if let Some(slot) = CONTROL.slots.get(slot as usize) {
        slot.cached.fetch_add(bytes, Relaxed);
    }
}

/// Notes bytes that were asked to leave the page cache.
pub(super) fn note_asked(slot: u32, bytes: u64) {
    if let Some(unverified) = CONTROL.unverified.get(slot as usize) {
        unverified.fetch_add(bytes, Relaxed);
        stats::note_asked(bytes);
    }
}

/// Notes bytes of these that were seen to have left it, or to stay.
pub(super) fn note_settled(slot: u32, left: u64, stayed: u64) {
    let place = slot as usize;
    let (Some(slot), Some(unverified)) = (CONTROL.slots.get(place), CONTROL.unverified.get(place))
    else {
        return;
    };
    slot.uncached.fetch_add(left, Relaxed);
    slot.cached.fetch_add(stayed, Relaxed);
    // A vfork(2) child has begun to count anew meanwhile.
    let less = |before: u64| Some(before.saturating_sub(left + stayed));
    let _ = unverified.fetch_update(Relaxed, Relaxed, less);
    stats::note_settled(left, stayed);
}

impl Table {
    /// What `work` makes of it; none where it is held, as it may be below a signal handler.
    fn hold<T>(&self, work: impl FnOnce(&mut Bytes) -> T) -> Option<T> {
        let held = &anew()?.table;
        if held.swap(true, Acquire) {
            return None;
        }
        // SAFETY: who holds the table is alone with the bytes.
        #[allow(unsafe_code, reason = "one thread at a time")]
        let done = work(unsafe { &mut *self.bytes.get() });
        held.store(false, Release);
        Some(done)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use mw_iotune::READ_AGAIN;

    #[test]
    fn the_kernels_release_says_whether_its_flag_is_sound() {
        for release in ["6.16.0", "6.18.44-fc-v669", "7.0-rc1", "10.2"] {
            assert!(is_sound(release.as_bytes()), "{release}");
        }
        for release in ["6.14.0-37-generic", "6.15.1", "6.1.0-56-cloud-amd64", "5.20", "6", "", "x"]
        {
            assert!(!is_sound(release.as_bytes()), "{release}");
        }
    }

    /// Another thread of the parent's reads the table while it is forked.
    #[test]
    #[allow(unsafe_code, reason = "a fork")]
    fn a_child_reads_the_table_that_the_parent_was_reading() {
        assert!(crate::anew::begin());
        let anew = anew().unwrap();
        CONTROL.floor.store(READ_AGAIN, Relaxed);
        assert!(claim_reading(&anew.is_table_read));
        assert!(is_off(), "nothing is known while it is read");
        let generation = generation();
        let child = TABLE.hold(|_| {
            // SAFETY: the child reads files and ends (fork(2)).
            let child = unsafe { libc::fork() };
            if child == 0 {
                is_off();
                let has_read = GENERATION.load(Relaxed) > generation;
                let is_known = CONTROL.floor.load(Relaxed) > READING;
                // SAFETY: nothing of the parent's is undone (_exit(2)).
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
