//! Write-behind: a run of writes goes to the disk while it is written, and leaves the page cache
//! once it is there.
//!
//! Two things are asked of the kernel, and both leave errors to whoever they belong to.
//! sync_file_range(2) with `SYNC_FILE_RANGE_WRITE` alone begins to write and looks at no error;
//! with one of its `WAIT` flags it would report an error of the file and take it away from the
//! program's own fsync(2) (`file_fdatawait_range` advances the descriptor's `f_wb_err`), and by a
//! descriptor of our own from whoever opens the file next (`errseq_sample` passes over what was
//! seen). posix_fadvise(`DONTNEED`) drops clean pages and looks at no error either. So nothing is
//! waited for in the kernel: cachestat(2), kernel 6.5, says what of a range is still on its way.
//!
//! Who writes faster than the disk takes is held up, 200 ms a call at most, as the kernel's own
//! throttling of writers does in one step (`MAX_PAUSE`); it would do so later, with the page cache
//! full. Before 6.5 only the length of the disk's queue holds it up.

use super::files::Entry;
use super::system;
use std::ffi::c_int;
use std::sync::atomic::Ordering::Relaxed;

/// How much is written to the disk at a time.
pub(crate) const WINDOW_BYTES: u64 = 1 << 20;

/// How much may be on its way: what a disk takes that writes 4 GB/s with 2 ms a request.
const AHEAD_BYTES: u64 = 8 << 20;

/// Where nobody says what is still on its way, what may be is dropped once more.
const AGAIN_BYTES: u64 = 4 * AHEAD_BYTES;

/// The longest that one call is held up.
const HELD_UP_US: u64 = 200_000;
const FIRST_PAUSE_US: u64 = 100;
const LAST_PAUSE_US: u64 = 5_000;

fn page_bytes() -> u64 {
    mw_sys::page_bytes() as u64
}

/// The largest folio of files on x86-64 and on arm64 with 4 KiB pages.
const FOLIO_MAX_BYTES: u64 = 2 << 20;

/// Goes on with a run of writes that has come to `end`.
pub(crate) fn extend(fd: c_int, entry: &Entry, end: u64) {
    let edge = end - end % page_bytes();
    let begun = entry.begun.load(Relaxed);
    if edge < begun.saturating_add(WINDOW_BYTES) {
        return;
    }
    system::begin_writing(fd, begun, edge - begun);
    entry.begun.store(edge, Relaxed);
    let mut held_up = 0;
    let mut pause = FIRST_PAUSE_US;
    loop {
        let from = entry.from.load(Relaxed);
        if edge - from.min(edge) <= AHEAD_BYTES {
            return;
        }
        match system::on_its_way(fd, from, WINDOW_BYTES) {
            Some(true) if held_up >= HELD_UP_US || !system::pause(pause) => return,
            Some(true) => {
                held_up += pause;
                pause = (pause * 2).min(LAST_PAUSE_US);
            }
            Some(false) => drop_pages(fd, entry, from, from),
            None => drop_pages(fd, entry, from.saturating_sub(AGAIN_BYTES), from),
        }
    }
}

/// Drops a window from `from` on, and what was dropped before from `start` on.
fn drop_pages(fd: c_int, entry: &Entry, start: u64, from: u64) {
    let end = from - from % page_bytes() + WINDOW_BYTES;
    system::drop_pages(fd, start, end - start);
    entry.from.store(end, Relaxed);
}

/// Ends a run that goes no further: what is left of it goes to the disk, and what is there already
/// is dropped.
pub(crate) fn finish(fd: c_int, entry: &Entry) {
    let (from, begun, end) =
        (entry.from.load(Relaxed), entry.begun.load(Relaxed), entry.end.load(Relaxed));
    if begun > from && end > from {
        system::begin_writing(fd, begun, end.saturating_sub(begun).max(1));
        system::drop_pages(fd, from, end - from);
    }
}

/// Goes on with a run of reads that has come to `end`: what was read is dropped. What was read ahead
/// lies in large folios, of which none is dropped in part: each is asked for again.
pub(crate) fn pass(fd: c_int, entry: &Entry, end: u64) {
    let (edge, from) = (end - end % page_bytes(), entry.from.load(Relaxed));
    if edge >= from.saturating_add(WINDOW_BYTES) {
        let start = from.saturating_sub(FOLIO_MAX_BYTES);
        system::drop_pages(fd, start, edge - start);
        entry.from.store(edge, Relaxed);
    }
}
