//! Discovered direct I/O: large transfers of files, and sequential runs of small ones, stay out of
//! the page cache.
//!
//! | transfer | what is done |
//! |---|---|
//! | write, pwrite; read, pread where asked: at or above the file's size | made with RWF_DONTCACHE (from kernel 6.16 on), where the filesystem has it |
//! | the others at or above it, and runs of small ones | made as they are; then write-behind (`behind`) |
//!
//! What always holds:
//! - **The C library's own function answers**, or the kernel's with one flag more, which a
//!   filesystem that does not have it refuses before it does anything; then the function as it is.
//!   Data, order, results, `errno` and positions are theirs.
//! - **Nothing is aligned, delayed or done by others.** What comes after a transfer are requests
//!   about the page cache, which change no data and take no error away from fsync(2) (`behind`).
//! - **A guess may be wrong.** Descriptors are closed, reused and shared; whoever they lead to is
//!   looked at before anything is asked, and then the wrong pages may at worst be dropped or kept.
//! - **write stays async-signal-safe**: no lock that is waited for, no allocator, no thread-local
//!   storage but `errno`.
//!
//! A small transfer costs one addition; only when a file's size has been counted is it looked at:
//! did all of it lie in a row? Files of memory, of the network, of /proc, pipes, sockets and files
//! that are open for direct I/O are left alone. Several pieces at once (writev) are not looked at
//! before the kernel has: their addresses may be wrong.

mod behind;
mod control;
mod files;
mod residency;
mod system;

pub(crate) use system::try_everything;

use crate::kernel;
use crate::seccomp::Uninterrupted;
use control::Known;
pub(crate) use control::{are_reads_off, begin, is_off};
use files::Entry;
use libc::{c_int, off_t, ssize_t};
use std::sync::atomic::Ordering::Relaxed;

/// What is not looked at is looked at again after so many bytes, and so is who does not write in a
/// row.
const LEFT_ALONE_BYTES: u64 = 1 << 20;

/// overlayfs (linux/magic.h), whose files have their pages elsewhere. Their device number may be that
/// of the filesystem below.
const OVERLAY: i64 = 0x794c_7630;

/// Filesystems on disks whose device number does not say so: btrfs, overlayfs, bcachefs.
const ON_DISKS: [i64; 3] = [0x9123_683e, OVERLAY, 0xca45_1a4e];

/// A rewrite of so much of what is cached, in 8 parts of what lies ahead, is no stream.
const CACHED_AHEAD_EIGHTHS: u64 = 7;

/// Less than that ahead, before the file's end, says nothing.
const AHEAD_MIN_BYTES: u64 = 64 << 10;

/// Which way data goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Write,
    Read,
}

/// Where a transfer was made.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    /// At the descriptor's position.
    Position,
    /// At an offset that was given.
    At(off_t),
    /// It ended there.
    End(off_t),
}

/// Where a transfer begins that goes uncached at once, with `RWF_DONTCACHE`; none where it does not.
pub(crate) fn is_uncached_at_once(
    way: Way,
    fd: c_int,
    bytes: u64,
    offset: Option<off_t>,
) -> Option<u64> {
    if bytes < control::floor().max(1) || !control::has_dontcache() {
        return None;
    }
    // Rewriting what is cached costs no system call.
    if Entry::existing(way, fd).is_some_and(|entry| entry.is(files::REWRITES)) {
        return None;
    }
    let _errno = kernel::Errno::kept();
    let _uninterrupted = Uninterrupted::begin()?;
    let entry = Entry::of(way, fd)?;
    let _held = entry.hold()?;
    let stat = is_looked_at(way, fd, entry)?;
    if bytes < entry.size.load(Relaxed) || entry.is(files::NOT_AT_ONCE) {
        return None;
    }
    let start = match offset {
        _ if entry.is(files::APPENDS) && way == Way::Write => u64::try_from(stat.st_size).ok()?,
        None => system::position(fd)?,
        Some(offset) => u64::try_from(offset).ok()?,
    };
    // The kernel drops no page that was cached before, and begins to write at each call.
    if way == Way::Write && is_cached(fd, entry, start, bytes) {
        entry.set(files::REWRITES, true);
        return None;
    }
    Some(start)
}

/// Whether most of a range is cached, where that is told without effort.
fn is_cached(fd: c_int, entry: &Entry, from: u64, bytes: u64) -> bool {
    if entry.is(files::REOPENED) {
        return false;
    }
    let bytes = bytes.min(behind::WINDOW_BYTES);
    let cached = residency::of(fd, entry, from, bytes);
    cached.is_some_and(|cached| cached >= bytes - bytes / 8 * (8 - CACHED_AHEAD_EIGHTHS))
}

/// Notes that a filesystem, or a filter of system calls, does not have `RWF_DONTCACHE`.
pub(crate) fn refused(way: Way, fd: c_int) {
    if let Some(entry) = Entry::of(way, fd) {
        entry.flags.fetch_or(files::NOT_AT_ONCE, Relaxed);
    }
}

/// Notes what went uncached at once, from `start` on.
pub(crate) fn done_at_once(way: Way, fd: c_int, start: u64, done: ssize_t) {
    let (Some(entry), Ok(done @ 1..)) = (Entry::of(way, fd), u64::try_from(done)) else { return };
    control::note_asked(entry.slot(), done);
    let _errno = kernel::Errno::kept();
    if let Some(_uninterrupted) = Uninterrupted::begin()
        && let Some(_held) = entry.hold()
    {
        behind::at_once(fd, entry, start, done);
    }
}

/// Counts what was transferred, and looks at the file when it is time. Returns what was `done`.
#[inline]
pub(crate) fn transferred(way: Way, fd: c_int, done: ssize_t, place: Place) -> ssize_t {
    if let Ok(bytes @ 1..) = u64::try_from(done)
        && let Some(entry) = Entry::of(way, fd)
        && entry.count(bytes)
    {
        look(way, fd, entry, bytes, place);
    }
    done
}

/// Whether what was counted is a run, or the last transfer large; then it is followed.
#[cold]
fn look(way: Way, fd: c_int, entry: &Entry, bytes: u64, place: Place) {
    let _errno = kernel::Errno::kept();
    let Some(uninterrupted) = Uninterrupted::begin() else { return };
    let Some(_held) = entry.hold() else { return };
    let before = entry.identity.load(Relaxed);
    let counted = entry.take_count();
    let Some(stat) = is_looked_at(way, fd, entry) else { return };
    let Some(end) = end(fd, entry, &stat, bytes, place) else { return };
    let size = entry.size.load(Relaxed);
    let is_known = before == entry.identity.load(Relaxed);
    let last = entry.end.load(Relaxed);
    if !is_known || !is_row(last, end, counted, size) {
        if is_known && way == Way::Write {
            behind::finish(fd, entry);
        }
        entry.begin(end.saturating_sub(bytes));
    }
    entry.end.store(end, Relaxed);
    if way == Way::Write {
        judge_rewrite(fd, entry, &stat, end);
    }
    let is_run = end - entry.from.load(Relaxed).min(end) >= size;
    if is_run {
        control::note_asked(entry.slot(), counted);
        entry.asked.fetch_add(counted, Relaxed);
    } else {
        control::note_cached(entry.slot(), counted);
    }
    match (is_run, way) {
        (true, Way::Write) => behind::extend(fd, entry, end, &uninterrupted.handlers),
        (true, Way::Read) => behind::pass(fd, entry, end),
        (false, _) => {}
    }
    let size = entry.size.load(Relaxed);
    if size > 0 {
        let next = if is_run { behind::WINDOW_BYTES } else { later(entry, size, is_known) };
        entry.look_at.store(next.max(size), Relaxed);
    }
}

/// Judges whether what is written was cached before, by what lies ahead: then it is no stream, and
/// keeping it out would write the same pages again and again. A window says it, since what a program
/// reads just ahead of itself is less. What lies at the file's end says nothing, but where the file
/// grows it is none: databases extend a file with empty pages before they write it.
fn judge_rewrite(fd: c_int, entry: &Entry, stat: &libc::stat, end: u64) {
    let file_bytes = u64::try_from(stat.st_size).unwrap_or(0);
    let ahead = file_bytes.saturating_sub(end);
    if entry.file_bytes.swap(file_bytes, Relaxed) < file_bytes {
        entry.set(files::REWRITES, false);
    } else if ahead >= AHEAD_MIN_BYTES {
        entry.set(files::REWRITES, is_cached(fd, entry, end, ahead));
    } else if entry.is(files::AT_END) {
        entry.set(files::REWRITES, false);
    }
    entry.set(files::AT_END, ahead == 0);
    if entry.is(files::REWRITES) {
        entry.begin(end);
    }
}

/// When a file is looked at again that was not written in a row: the longer it was not, the later.
fn later(entry: &Entry, size: u64, is_known: bool) -> u64 {
    let last = entry.look_at.load(Relaxed);
    if is_known { last.saturating_mul(2).min(LEFT_ALONE_BYTES) } else { size }
}

/// Whether so many bytes that ended there follow what ended at `last`, but for what another thread
/// has in its hands.
fn is_row(last: u64, end: u64, counted: u64, size: u64) -> bool {
    end.checked_sub(last)
        .is_some_and(|advance| advance >= counted / 2 && advance <= counted.saturating_add(size))
}

/// Where the last transfer has ended.
fn end(fd: c_int, entry: &Entry, stat: &libc::stat, bytes: u64, place: Place) -> Option<u64> {
    match place {
        Place::Position => system::position(fd),
        Place::At(_) if entry.is(files::APPENDS) => u64::try_from(stat.st_size).ok(),
        Place::At(offset) => Some(u64::try_from(offset).ok()?.saturating_add(bytes)),
        Place::End(end) => u64::try_from(end).ok(),
    }
}

/// What a file is, which is to be followed; its entry is about it from here on.
fn is_looked_at(way: Way, fd: c_int, entry: &Entry) -> Option<libc::stat> {
    let leave = || {
        entry.identity.store(0, Relaxed);
        entry.leave_alone(LEFT_ALONE_BYTES);
    };
    let Some(stat) = system::stat(fd).filter(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFREG)
    else {
        leave();
        return None;
    };
    let identity = identity(&stat);
    if entry.identity.load(Relaxed) != identity {
        entry.flags.store(0, Relaxed);
        leave();
        let (known, flags) = recognised(way, fd, &stat);
        match known {
            Known::Setting { size, slot } => {
                entry.flags.store(flags | slot << files::SLOT_SHIFT, Relaxed);
                entry.size.store(size, Relaxed);
                entry.look_at.store(size, Relaxed);
            }
            Known::LeftAlone => {}
            Known::NotNow => return None,
        }
        entry.identity.store(identity, Relaxed);
    }
    (entry.size.load(Relaxed) != 0).then_some(stat)
}

/// Who a file is, and which settings hold: never 0.
fn identity(stat: &libc::stat) -> u64 {
    let mixed = stat.st_ino ^ stat.st_dev.rotate_left(40) ^ control::generation().rotate_left(20);
    mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

/// From which size on a file goes uncached, and its flags.
fn recognised(way: Way, fd: c_int, stat: &libc::stat) -> (Known, u32) {
    let kind = system::filesystem(fd);
    let is_on_disk =
        libc::major(stat.st_dev) != 0 || kind.is_some_and(|kind| ON_DISKS.contains(&kind));
    let open = system::open_flags(fd).filter(|open| open & libc::O_DIRECT == 0);
    let Some(open) = open.filter(|_| is_on_disk) else { return (Known::LeftAlone, 0) };
    let mut flags = if open & libc::O_APPEND != 0 { files::APPENDS } else { 0 };
    if kind == Some(OVERLAY) {
        flags |= residency::flags(open);
    }
    (control::setting(way, fd), flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_what_follows_but_for_a_little() {
        const SIZE: u64 = 64 << 10;
        // What was counted ends where it must.
        assert!(is_row(1 << 20, (1 << 20) + SIZE, SIZE, SIZE));
        // Another thread is in the middle of a write.
        assert!(is_row(1 << 20, (1 << 20) + SIZE + 8192, SIZE, SIZE));
        // The same block again and again, one elsewhere, one before.
        assert!(!is_row(1 << 20, 1 << 20, SIZE, SIZE));
        assert!(!is_row(1 << 20, 1 << 30, SIZE, SIZE));
        assert!(!is_row(1 << 20, 0, SIZE, SIZE));
        assert!(!is_row(u64::MAX, 0, u64::MAX, SIZE));
    }
}
