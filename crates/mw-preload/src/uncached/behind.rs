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
//!
//! On overlayfs sync_file_range(2) and cachestat(2) see nothing, since they look at pages that the
//! descriptor's own inode has. posix_fadvise(`DONTNEED`) is passed on to the file that has them, and
//! begins to write what is dirty of them as well (`generic_fadvise`); what has left is seen by a
//! mapping (`residency`). Where that cannot be seen it is done as before 6.5. Where nothing ever
//! leaves (an upper directory in memory) the file is left alone.
//!
//! What was asked to leave counts as kept out only once it was seen to be gone (`settle`).

use super::files::{Entry, REOPENED, SEEN_TO_LEAVE, STACKED, WAITED_FOR};
use super::{control, residency, system};
use mw_sys::SignalHandlersBlocked;
use std::ffi::c_int;
use std::sync::atomic::Ordering::Relaxed;

/// How much is written to the disk at a time.
pub(crate) const WINDOW_BYTES: u64 = 1 << 20;

/// How much may be on its way: what a disk takes that writes 4 GB/s with 2 ms a request.
const AHEAD_BYTES: u64 = 8 << 20;

/// Where nobody says what is still on its way, what may be is dropped once more.
const AGAIN_BYTES: u64 = 4 * AHEAD_BYTES;

/// A file of overlayfs of which so much was written and nothing has left is left alone: what a slow
/// disk's queue may hold is less.
const GIVE_UP_BYTES: u64 = 256 << 20;

/// What the kernel was to drop and still has when so much more was written stays.
const LATE_BYTES: u64 = 64 << 20;

/// How many windows are settled by one call.
const SETTLED_MAX: usize = 8;

/// How much of a file of overlayfs is looked at together: a look costs as much as writing some 100 KiB.
const STEP_BYTES: u64 = residency::RANGE_MAX_BYTES;

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
pub(crate) fn extend(fd: c_int, entry: &Entry, end: u64, handlers: &SignalHandlersBlocked) {
    let edge = end - end % page_bytes();
    let begun = entry.begun.load(Relaxed);
    if edge < begun.saturating_add(WINDOW_BYTES) {
        return;
    }
    entry.begun.store(edge, Relaxed);
    let mut wait = Wait { held_up: 0, pause: FIRST_PAUSE_US, handlers };
    if entry.is(STACKED) {
        system::drop_pages(fd, begun, edge - begun);
        extend_stacked(fd, entry, edge, &mut wait);
    } else {
        system::begin_writing(fd, begun, edge - begun);
        extend_plain(fd, entry, edge, &mut wait);
        settle(fd, entry, entry.from.load(Relaxed), FOLIO_MAX_BYTES);
    }
}

fn extend_plain(fd: c_int, entry: &Entry, edge: u64, wait: &mut Wait<'_>) {
    while let Some(from) = too_far_ahead(entry, edge) {
        match system::on_its_way(fd, from, WINDOW_BYTES) {
            Some(true) if !wait.once_more() => return,
            Some(true) => {}
            Some(false) => drop_window(fd, entry, FOLIO_MAX_BYTES),
            None => drop_window(fd, entry, AGAIN_BYTES),
        }
    }
}

fn extend_stacked(fd: c_int, entry: &Entry, edge: u64, wait: &mut Wait<'_>) {
    while let Some(from) = too_far_ahead(entry, edge).filter(|from| edge - from >= STEP_BYTES) {
        let end = from - from % page_bytes() + STEP_BYTES;
        system::drop_pages(fd, from.saturating_sub(FOLIO_MAX_BYTES), FOLIO_MAX_BYTES + STEP_BYTES);
        match residency::of(fd, entry, from, end - from) {
            Some(0) => {
                entry.set(SEEN_TO_LEAVE | WAITED_FOR, true);
                settled(entry, end - from, 0);
                entry.begin_from(end);
            }
            Some(_) if entry.is(WAITED_FOR) && wait.once_more() => {}
            // What stays although it was waited for is no reason to wait again.
            Some(_) if edge - from < LATE_BYTES => {
                entry.set(WAITED_FOR, entry.is(WAITED_FOR) && !wait.is_over());
                return;
            }
            Some(stayed) if entry.is(SEEN_TO_LEAVE) => {
                settled(entry, end - from, stayed);
                entry.begin_from(end);
            }
            Some(_) if edge - from < GIVE_UP_BYTES => return,
            Some(_) => {
                control::note_settled(entry.slot(), 0, entry.asked.load(Relaxed));
                entry.leave_alone(super::LEFT_ALONE_BYTES);
                return;
            }
            None => drop_window(fd, entry, AGAIN_BYTES),
        }
    }
}

/// Where the run's oldest window begins, if more is on its way than may be.
fn too_far_ahead(entry: &Entry, edge: u64) -> Option<u64> {
    let from = entry.from.load(Relaxed);
    (edge - from.min(edge) > AHEAD_BYTES).then_some(from)
}

/// How long a call was held up.
struct Wait<'a> {
    held_up: u64,
    pause: u64,
    /// A signal ends the wait: its handler runs after it.
    handlers: &'a SignalHandlersBlocked,
}

impl Wait<'_> {
    /// Waits a little; false where it was long enough, or a signal came.
    fn once_more(&mut self) -> bool {
        if self.is_over() || self.handlers.is_signal_pending() || !system::pause(self.pause) {
            return false;
        }
        self.held_up += self.pause;
        self.pause = (self.pause * 2).min(LAST_PAUSE_US);
        true
    }

    fn is_over(&self) -> bool {
        self.held_up >= HELD_UP_US
    }
}

/// Where the window ends that begins there: at the end of a page.
fn next_window(from: u64) -> u64 {
    from - from % page_bytes() + WINDOW_BYTES
}

/// Drops the run's oldest window, and so many bytes before it once more: a folio that reaches into it
/// was not dropped with them.
fn drop_window(fd: c_int, entry: &Entry, again: u64) {
    let from = entry.from.load(Relaxed);
    let (start, end) = (from.saturating_sub(again), next_window(from));
    system::drop_pages(fd, start, end - start);
    entry.from.store(end, Relaxed);
}

/// Notes which windows before `to` have left the page cache. One that is still there is asked about
/// again until so much more has followed it; then what is left of it stays.
pub(crate) fn settle(fd: c_int, entry: &Entry, to: u64, late: u64) {
    for _ in 0..SETTLED_MAX {
        let from = entry.settled.load(Relaxed);
        let end = next_window(from);
        if end > to {
            return;
        }
        match residency::of(fd, entry, from, end - from) {
            None => return,
            Some(1..) if to - end < late => return,
            Some(stayed) => {
                settled(entry, end - from, stayed);
                entry.settled.store(end, Relaxed);
            }
        }
    }
}

/// Notes that of so many bytes of a run some have stayed, and the others left.
fn settled(entry: &Entry, bytes: u64, stayed: u64) {
    let asked = entry.asked.load(Relaxed);
    let bytes = bytes.min(asked);
    let stayed = stayed.min(bytes);
    entry.asked.store(asked - bytes, Relaxed);
    control::note_settled(entry.slot(), bytes - stayed, stayed);
}

/// Goes on with writes or reads that the kernel itself lets leave the page cache.
pub(crate) fn at_once(fd: c_int, entry: &Entry, start: u64, bytes: u64) {
    if start != entry.end.load(Relaxed) {
        settle(fd, entry, entry.end.load(Relaxed), LATE_BYTES);
        entry.begin(start);
    }
    let end = start.saturating_add(bytes);
    entry.end.store(end, Relaxed);
    entry.begun.store(end, Relaxed);
    entry.from.store(end, Relaxed);
    entry.asked.fetch_add(bytes, Relaxed);
    if end / WINDOW_BYTES > start / WINDOW_BYTES {
        settle(fd, entry, end, LATE_BYTES);
    }
}

/// Ends a run that goes no further: what is left of it goes to the disk, and what is there already
/// is dropped.
pub(crate) fn finish(fd: c_int, entry: &Entry) {
    let (from, begun, end) =
        (entry.from.load(Relaxed), entry.begun.load(Relaxed), entry.end.load(Relaxed));
    if begun > from && end > from {
        // On overlayfs dropping begins to write.
        system::begin_writing(fd, begun, end.saturating_sub(begun).max(1));
        system::drop_pages(fd, from, end - from);
    }
    if !entry.is(REOPENED) {
        settle(fd, entry, end, LATE_BYTES);
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
        settle(fd, entry, edge, FOLIO_MAX_BYTES);
    }
}
