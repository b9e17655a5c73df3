//! Discovered direct I/O: large transfers of files, and sequential runs of small ones, bypass the page
//! cache.
//!
//! | transfer | handling |
//! |---|---|
//! | write, pwrite; read, pread if enabled: at or above the file's threshold | with RWF_DONTCACHE (kernel 6.16 or later), if the filesystem supports it |
//! | others at or above it, and runs of small ones | unchanged; then write-behind (`write_behind`) |
//!
//! Invariants:
//! - **The C library's own function makes the transfer**, or the system call with one flag more, which a
//!   filesystem without support rejects before it does anything; then the function unchanged. Data, order,
//!   results, `errno` and positions are theirs.
//! - **Nothing is aligned, delayed or delegated.** Requests about the page cache follow a transfer; they
//!   change no data and consume no error that fsync(2) must report (`write_behind`).
//! - **A guess may be wrong.** Descriptors are closed, reused and shared. The file is identified before
//!   each request; at worst the wrong pages are dropped or kept.
//! - **write stays async-signal-safe**: no lock is waited for, and no allocator and no thread-local storage
//!   except `errno` is used.
//!
//! A small transfer costs one addition. Once the transfers of a file add up to its threshold, the file is
//! examined: were they all consecutive? Not followed are files in memory, on network filesystems and in
//! /proc, pipes, sockets, and files opened with O_DIRECT. The buffers of writev(2) are not read before the
//! kernel has read them: their addresses may be invalid.

mod control;
mod file_calls;
mod file_table;
mod residency;
mod write_behind;

pub(crate) use control::{begin, is_off, is_off_for_reads};
pub(crate) use file_table::Direction;

use crate::confinement::UninterruptedGuard;
use crate::kernel;
use control::FileSetting;
use file_table::{FileEntry, RECHECK_BYTES};
use libc::{c_int, off_t, ssize_t};
use std::sync::atomic::Ordering::Relaxed;

/// overlayfs (linux/magic.h), whose files have their pages elsewhere. Their device number may be that
/// of the lower filesystem.
const OVERLAY: i64 = 0x794c_7630;

/// Filesystems on disks whose device number does not show it: btrfs, overlayfs, bcachefs.
const ON_DISKS: [i64; 3] = [0x9123_683e, OVERLAY, 0xca45_1a4e];

/// A write is a rewrite of cached data if so many eighths of the following range are cached.
const CACHED_AHEAD_EIGHTHS: u64 = 7;

/// The smallest range before the end of the file for which that is evaluated.
const MIN_AHEAD_BYTES: u64 = 64 << 10;

/// The position of a transfer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Position {
    /// That of the descriptor.
    Current,
    /// An offset that was passed.
    At(off_t),
    /// It ended at this offset.
    End(off_t),
}

/// The offset of a transfer that is to be made with `RWF_DONTCACHE`; none if it is not.
pub(crate) fn dontcache_start(
    direction: Direction,
    fd: c_int,
    bytes: u64,
    offset: Option<off_t>,
) -> Option<u64> {
    if bytes < control::min_threshold().max(1) || !control::has_dontcache() {
        return None;
    }
    // So that rewriting cached data costs no system call.
    let existing = FileEntry::find(direction, fd);
    if existing.is_some_and(|entry| entry.has(file_table::REWRITES)) {
        return None;
    }
    let _errno = kernel::ErrnoGuard::new();
    let _uninterrupted = UninterruptedGuard::enter()?;
    let entry = FileEntry::find_or_create(direction, fd)?;
    let _entry_guard = entry.try_lock()?;
    let stat = identify(direction, fd, entry)?;
    if bytes < entry.threshold_bytes.load(Relaxed) || entry.has(file_table::NO_DONTCACHE) {
        return None;
    }
    let start = match offset {
        _ if entry.has(file_table::APPENDS) && direction == Direction::Write => {
            u64::try_from(stat.st_size).ok()?
        }
        None => file_calls::position(fd)?,
        Some(offset) => u64::try_from(offset).ok()?,
    };
    // The kernel drops no page that was cached before, and starts writeback in each call.
    if direction == Direction::Write && is_cached(fd, entry, start, bytes) {
        entry.set(file_table::REWRITES, true);
        return None;
    }
    Some(start)
}

/// True if most of a range is cached, if that can be found out cheaply.
fn is_cached(fd: c_int, entry: &FileEntry, from: u64, bytes: u64) -> bool {
    if entry.has(file_table::NEEDS_REOPEN) {
        return false;
    }
    let bytes = bytes.min(write_behind::WINDOW_BYTES);
    let cached = residency::resident_bytes(fd, entry, from, bytes);
    cached.is_some_and(|cached| cached >= bytes - bytes / 8 * (8 - CACHED_AHEAD_EIGHTHS))
}

/// Records that a filesystem, or a seccomp filter, rejects `RWF_DONTCACHE`.
pub(crate) fn note_no_dontcache(direction: Direction, fd: c_int) {
    if let Some(entry) = FileEntry::find_or_create(direction, fd) {
        entry.flags.fetch_or(file_table::NO_DONTCACHE, Relaxed);
    }
}

/// Records a transfer from `start` on that was made with `RWF_DONTCACHE`.
pub(crate) fn note_dontcache(direction: Direction, fd: c_int, start: u64, done: ssize_t) {
    let (Some(entry), Ok(done @ 1..)) =
        (FileEntry::find_or_create(direction, fd), u64::try_from(done))
    else {
        return;
    };
    control::count_unverified(entry.slot(), done);
    let _errno = kernel::ErrnoGuard::new();
    if let Some(_uninterrupted) = UninterruptedGuard::enter()
        && let Some(_entry_guard) = entry.try_lock()
    {
        write_behind::extend_dontcache(fd, entry, start, done);
    }
}

/// Counts a transfer, and examines the file if that is due. Returns `done`.
#[inline]
pub(crate) fn note_transfer(
    direction: Direction,
    fd: c_int,
    done: ssize_t,
    position: Position,
) -> ssize_t {
    if let Ok(bytes @ 1..) = u64::try_from(done)
        && let Some(entry) = FileEntry::find_or_create(direction, fd)
        && entry.count(bytes)
    {
        examine(direction, fd, entry, bytes, position);
    }
    done
}

/// Finds out whether the transfers that were counted form a run, or the last one was large, and then
/// follows the file. `bytes` and `position` are those of the last transfer.
#[cold]
fn examine(direction: Direction, fd: c_int, entry: &FileEntry, bytes: u64, position: Position) {
    let _errno = kernel::ErrnoGuard::new();
    let Some(uninterrupted) = UninterruptedGuard::enter() else { return };
    let Some(_entry_guard) = entry.try_lock() else { return };
    let before = entry.identity.load(Relaxed);
    let counted = entry.take_count();
    let Some(stat) = identify(direction, fd, entry) else { return };
    let Some(end) = transfer_end(fd, entry, &stat, bytes, position) else { return };
    let threshold = entry.threshold_bytes.load(Relaxed);
    let is_known = before == entry.identity.load(Relaxed);
    let last_end = entry.end.load(Relaxed);
    if !is_known || !is_consecutive(last_end, end, counted, threshold) {
        if is_known && direction == Direction::Write {
            write_behind::finish(fd, entry);
        }
        entry.start_run(end.saturating_sub(bytes));
    }
    entry.end.store(end, Relaxed);
    if direction == Direction::Write {
        detect_rewrite(fd, entry, &stat, end);
    }
    let is_run = end - entry.cached_from.load(Relaxed).min(end) >= threshold;
    if is_run {
        control::count_unverified(entry.slot(), counted);
        entry.unverified_bytes.fetch_add(counted, Relaxed);
    } else {
        control::count_cached(entry.slot(), counted);
    }
    match (is_run, direction) {
        (true, Direction::Write) => {
            write_behind::extend_writes(fd, entry, end, &uninterrupted.handlers);
        }
        (true, Direction::Read) => write_behind::extend_reads(fd, entry, end),
        (false, _) => {}
    }
    let threshold = entry.threshold_bytes.load(Relaxed);
    if threshold > 0 {
        let next = if is_run {
            write_behind::WINDOW_BYTES
        } else {
            next_examination(entry, threshold, is_known)
        };
        entry.examine_at_bytes.store(next.max(threshold), Relaxed);
    }
}

/// Detects writes of data that is cached, by what follows in the file. They are not a stream, and keeping
/// them out of the cache would write the same pages again and again. The check covers a window, because
/// programs read less than that ahead of their own writes. The end of the file says nothing, except that a
/// growing file is not rewritten: databases extend a file with empty pages before they write them.
fn detect_rewrite(fd: c_int, entry: &FileEntry, stat: &libc::stat, end: u64) {
    let file_bytes = u64::try_from(stat.st_size).unwrap_or(0);
    let ahead = file_bytes.saturating_sub(end);
    if entry.file_bytes.swap(file_bytes, Relaxed) < file_bytes {
        entry.set(file_table::REWRITES, false);
    } else if ahead >= MIN_AHEAD_BYTES {
        entry.set(file_table::REWRITES, is_cached(fd, entry, end, ahead));
    } else if entry.has(file_table::AT_END) {
        entry.set(file_table::REWRITES, false);
    }
    entry.set(file_table::AT_END, ahead == 0);
    if entry.has(file_table::REWRITES) {
        entry.start_run(end);
    }
}

/// After how many bytes a file without a run is examined again: the interval doubles each time.
fn next_examination(entry: &FileEntry, threshold: u64, is_known: bool) -> u64 {
    let last = entry.examine_at_bytes.load(Relaxed);
    if is_known { last.saturating_mul(2).min(RECHECK_BYTES) } else { threshold }
}

/// True if `counted` bytes that ended at `end` follow those that ended at `last_end`; other threads may be
/// in the middle of a transfer.
fn is_consecutive(last_end: u64, end: u64, counted: u64, threshold: u64) -> bool {
    end.checked_sub(last_end).is_some_and(|advance| {
        advance >= counted / 2 && advance <= counted.saturating_add(threshold)
    })
}

/// The offset at which the last transfer ended.
fn transfer_end(
    fd: c_int,
    entry: &FileEntry,
    stat: &libc::stat,
    bytes: u64,
    position: Position,
) -> Option<u64> {
    match position {
        Position::Current => file_calls::position(fd),
        Position::At(_) if entry.has(file_table::APPENDS) => u64::try_from(stat.st_size).ok(),
        Position::At(offset) => Some(u64::try_from(offset).ok()?.saturating_add(bytes)),
        Position::End(end) => u64::try_from(end).ok(),
    }
}

/// The status of a file that is to be followed; from here on the entry describes this file.
fn identify(direction: Direction, fd: c_int, entry: &FileEntry) -> Option<libc::stat> {
    let ignore = || {
        entry.identity.store(0, Relaxed);
        entry.ignore(RECHECK_BYTES);
    };
    let is_regular = |stat: &libc::stat| stat.st_mode & libc::S_IFMT == libc::S_IFREG;
    let Some(stat) = file_calls::stat(fd).filter(is_regular) else {
        ignore();
        return None;
    };
    let identity = identity(&stat);
    if entry.identity.load(Relaxed) != identity {
        entry.flags.store(0, Relaxed);
        ignore();
        let (setting, flags) = classify(direction, fd, &stat);
        match setting {
            FileSetting::Uncached { threshold, slot } => {
                entry.flags.store(flags | slot << file_table::SLOT_SHIFT, Relaxed);
                entry.threshold_bytes.store(threshold, Relaxed);
                entry.examine_at_bytes.store(threshold, Relaxed);
            }
            FileSetting::Cached => {}
            FileSetting::Unavailable => return None,
        }
        entry.identity.store(identity, Relaxed);
    }
    (entry.threshold_bytes.load(Relaxed) != 0).then_some(stat)
}

/// The file and the generation of the settings in one number, never 0.
fn identity(stat: &libc::stat) -> u64 {
    let mixed = stat.st_ino ^ stat.st_dev.rotate_left(40) ^ control::generation().rotate_left(20);
    mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

/// The setting of a file, and the flags of its entry.
fn classify(direction: Direction, fd: c_int, stat: &libc::stat) -> (FileSetting, u32) {
    let filesystem = file_calls::filesystem(fd);
    let is_on_disk = libc::major(stat.st_dev) != 0
        || filesystem.is_some_and(|filesystem| ON_DISKS.contains(&filesystem));
    let open = file_calls::open_flags(fd).filter(|open| open & libc::O_DIRECT == 0);
    let Some(open) = open.filter(|_| is_on_disk) else { return (FileSetting::Cached, 0) };
    let mut flags = if open & libc::O_APPEND != 0 { file_table::APPENDS } else { 0 };
    if filesystem == Some(OVERLAY) {
        flags |= residency::overlay_flags(open);
    }
    (control::setting(direction, fd), flags)
}

/// Makes the system calls of this module once, on standard output, for the dry run.
pub(crate) fn make_all_calls() {
    let fd = libc::STDOUT_FILENO;
    file_calls::make_all_calls(fd);
    residency::make_all_calls(fd);
    let _ = mw_sys::SignalHandlersBlocked::brief().is_signal_pending();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_consecutive_except_for_transfers_in_progress() {
        const THRESHOLD: u64 = 64 << 10;
        let is_run = |last_end, end| is_consecutive(last_end, end, THRESHOLD, THRESHOLD);
        assert!(is_run(1 << 20, (1 << 20) + THRESHOLD));
        // Another thread is in the middle of a write.
        assert!(is_run(1 << 20, (1 << 20) + THRESHOLD + 8192));
        // The same block again and again, a later one, an earlier one.
        assert!(!is_run(1 << 20, 1 << 20));
        assert!(!is_run(1 << 20, 1 << 30));
        assert!(!is_run(1 << 20, 0));
        assert!(!is_consecutive(u64::MAX, 0, u64::MAX, THRESHOLD));
    }
}
