//! Write-behind: the data of a run of writes goes to the disk while the run continues, and leaves the page
//! cache once it is there.
//!
//! Two requests to the kernel do this, and neither consumes an error of the file. sync_file_range(2) with
//! only `SYNC_FILE_RANGE_WRITE` starts writeback and checks for no error; with one of its `WAIT` flags it
//! would report an error of the file and take it away from the program's own fsync(2)
//! (`file_fdatawait_range` advances the descriptor's `f_wb_err`), and on a descriptor of our own from the
//! program that opens the file next (`errseq_sample` skips errors that were seen).
//! posix_fadvise(`DONTNEED`) drops clean pages and checks for no error either. The library therefore
//! never waits in the kernel: cachestat(2), kernel 6.5, reports what is under writeback in a range.
//!
//! A program that writes faster than the disk is delayed, by at most 200 ms in a call, which is also the
//! largest step of the kernel's own throttling (`MAX_PAUSE`); the kernel would throttle later, with the
//! page cache full. Before 6.5 only the length of the disk's queue delays it.
//!
//! On overlayfs sync_file_range(2) and cachestat(2) have no effect, because they use the pages of the
//! descriptor's own inode. posix_fadvise(`DONTNEED`) is forwarded to the file that has the pages, and also
//! starts writeback of dirty ones (`generic_fadvise`); a mapping shows which have left (`residency`). If
//! it does not, the library proceeds as before 6.5. If no page ever leaves (an upper directory in
//! memory), the file is no longer followed.
//!
//! Only data that was verified to have left the page cache counts as kept out (`verify`).

use super::file_table::{
    FileEntry, HAS_LEFT_CACHE, IS_OVERLAY, IS_THROTTLED, NEEDS_REOPEN, RECHECK_BYTES,
};
use super::{control, file_calls, residency};
use mw_sys::SignalHandlersBlocked;
use std::ffi::c_int;
use std::sync::atomic::Ordering::Relaxed;

/// The unit of writeback and of dropping pages.
pub(super) const WINDOW_BYTES: u64 = 1 << 20;

/// The largest distance between the end of a run and its oldest cached window: what a disk with 4 GB/s and
/// 2 ms latency has in flight.
const MAX_IN_FLIGHT_BYTES: u64 = 8 << 20;

/// If writeback cannot be observed, so many bytes before a window are dropped once more.
const REDROP_BYTES: u64 = 4 * MAX_IN_FLIGHT_BYTES;

/// A file on overlayfs is no longer followed when so much was written and none of it has left. The queue of
/// a slow disk is shorter.
const GIVE_UP_BYTES: u64 = 256 << 20;

/// Pages that are still cached when so much more was written stay cached.
const STAYS_BYTES: u64 = 64 << 20;

/// The most windows that one call verifies.
const MAX_VERIFIED_WINDOWS: usize = 8;

/// The range that is checked at once on overlayfs, where a check costs as much as writing about 100 KiB.
const OVERLAY_STEP_BYTES: u64 = residency::MAX_RANGE_BYTES;

/// The longest delay of one call, and the first and the longest sleep of a delay.
const MAX_DELAY_US: u64 = 200_000;
const FIRST_SLEEP_US: u64 = 100;
const MAX_SLEEP_US: u64 = 5_000;

/// The largest folio of a file, on x86-64 and on arm64 with 4 KiB pages.
const MAX_FOLIO_BYTES: u64 = 2 << 20;

fn page_bytes() -> u64 {
    mw_sys::page_bytes() as u64
}

/// Continues a run of writes that has reached `end`.
pub(super) fn extend_writes(
    fd: c_int,
    entry: &FileEntry,
    end: u64,
    handlers: &SignalHandlersBlocked,
) {
    let page_end = end - end % page_bytes();
    let started = entry.writeback_end.load(Relaxed);
    if page_end < started.saturating_add(WINDOW_BYTES) {
        return;
    }
    entry.writeback_end.store(page_end, Relaxed);
    let mut delay = Delay { elapsed_us: 0, sleep_us: FIRST_SLEEP_US, handlers };
    if entry.has(IS_OVERLAY) {
        file_calls::drop_pages(fd, started, page_end - started);
        drop_written_overlay(fd, entry, page_end, &mut delay);
    } else {
        file_calls::start_writeback(fd, started, page_end - started);
        drop_written(fd, entry, page_end, &mut delay);
        verify(fd, entry, entry.cached_from.load(Relaxed), MAX_FOLIO_BYTES);
    }
}

fn drop_written(fd: c_int, entry: &FileEntry, page_end: u64, delay: &mut Delay<'_>) {
    while let Some(from) = oldest_window_over_limit(entry, page_end) {
        match file_calls::is_under_writeback(fd, from, WINDOW_BYTES) {
            Some(true) if !delay.sleep() => return,
            Some(true) => {}
            Some(false) => drop_oldest_window(fd, entry, MAX_FOLIO_BYTES),
            None => drop_oldest_window(fd, entry, REDROP_BYTES),
        }
    }
}

fn drop_written_overlay(fd: c_int, entry: &FileEntry, page_end: u64, delay: &mut Delay<'_>) {
    let is_step = |from: &u64| page_end - from >= OVERLAY_STEP_BYTES;
    while let Some(from) = oldest_window_over_limit(entry, page_end).filter(is_step) {
        let end = from - from % page_bytes() + OVERLAY_STEP_BYTES;
        let start = from.saturating_sub(MAX_FOLIO_BYTES);
        file_calls::drop_pages(fd, start, MAX_FOLIO_BYTES + OVERLAY_STEP_BYTES);
        match residency::resident_bytes(fd, entry, from, end - from) {
            Some(0) => {
                entry.set(HAS_LEFT_CACHE | IS_THROTTLED, true);
                note_verified(entry, end - from, 0);
                entry.continue_from(end);
            }
            Some(_) if entry.has(IS_THROTTLED) && delay.sleep() => {}
            // Pages that stayed during a delay are not worth another.
            Some(_) if page_end - from < STAYS_BYTES => {
                entry.set(IS_THROTTLED, entry.has(IS_THROTTLED) && !delay.is_over());
                return;
            }
            Some(stayed) if entry.has(HAS_LEFT_CACHE) => {
                note_verified(entry, end - from, stayed);
                entry.continue_from(end);
            }
            Some(_) if page_end - from < GIVE_UP_BYTES => return,
            Some(_) => {
                control::count_verified(entry.slot(), 0, entry.unverified_bytes.load(Relaxed));
                entry.ignore(RECHECK_BYTES);
                return;
            }
            None => drop_oldest_window(fd, entry, REDROP_BYTES),
        }
    }
}

/// The start of the oldest cached window, if more than the limit is in flight.
fn oldest_window_over_limit(entry: &FileEntry, page_end: u64) -> Option<u64> {
    let from = entry.cached_from.load(Relaxed);
    (page_end - from.min(page_end) > MAX_IN_FLIGHT_BYTES).then_some(from)
}

/// The delay of one call.
struct Delay<'a> {
    elapsed_us: u64,
    sleep_us: u64,
    /// A pending signal ends the delay, and its handler runs then.
    handlers: &'a SignalHandlersBlocked,
}

impl Delay<'_> {
    /// Returns false if the delay is over, or a signal arrived.
    fn sleep(&mut self) -> bool {
        if self.is_over()
            || self.handlers.is_signal_pending()
            || !file_calls::sleep_us(self.sleep_us)
        {
            return false;
        }
        self.elapsed_us += self.sleep_us;
        self.sleep_us = (self.sleep_us * 2).min(MAX_SLEEP_US);
        true
    }

    fn is_over(&self) -> bool {
        self.elapsed_us >= MAX_DELAY_US
    }
}

/// The end of the window that starts at `from`: the end of a page.
fn window_end(from: u64) -> u64 {
    from - from % page_bytes() + WINDOW_BYTES
}

/// Drops the oldest window of a run, and `again` bytes before it once more: a folio that extends into the
/// window was not dropped with them.
fn drop_oldest_window(fd: c_int, entry: &FileEntry, again: u64) {
    let from = entry.cached_from.load(Relaxed);
    let (start, end) = (from.saturating_sub(again), window_end(from));
    file_calls::drop_pages(fd, start, end - start);
    entry.cached_from.store(end, Relaxed);
}

/// Verifies which windows before `to` have left the page cache. A window that is still cached is checked
/// again until `stays_bytes` have followed it; then the rest of it counts as cached.
pub(super) fn verify(fd: c_int, entry: &FileEntry, to: u64, stays_bytes: u64) {
    for _ in 0..MAX_VERIFIED_WINDOWS {
        let from = entry.unverified_from.load(Relaxed);
        let end = window_end(from);
        if end > to {
            return;
        }
        match residency::resident_bytes(fd, entry, from, end - from) {
            None => return,
            Some(1..) if to - end < stays_bytes => return,
            Some(stayed) => {
                note_verified(entry, end - from, stayed);
                entry.unverified_from.store(end, Relaxed);
            }
        }
    }
}

/// Counts bytes of a run, of which `stayed` are cached and the others have left.
fn note_verified(entry: &FileEntry, bytes: u64, stayed: u64) {
    let unverified = entry.unverified_bytes.load(Relaxed);
    let bytes = bytes.min(unverified);
    let stayed = stayed.min(bytes);
    entry.unverified_bytes.store(unverified - bytes, Relaxed);
    control::count_verified(entry.slot(), bytes - stayed, stayed);
}

/// Continues with a transfer that was made with `RWF_DONTCACHE`.
pub(super) fn extend_dontcache(fd: c_int, entry: &FileEntry, start: u64, bytes: u64) {
    if start != entry.end.load(Relaxed) {
        verify(fd, entry, entry.end.load(Relaxed), STAYS_BYTES);
        entry.start_run(start);
    }
    let end = start.saturating_add(bytes);
    entry.end.store(end, Relaxed);
    entry.writeback_end.store(end, Relaxed);
    entry.cached_from.store(end, Relaxed);
    entry.unverified_bytes.fetch_add(bytes, Relaxed);
    if end / WINDOW_BYTES > start / WINDOW_BYTES {
        verify(fd, entry, end, STAYS_BYTES);
    }
}

/// Ends a run of writes: starts writeback of the rest, and drops what is clean.
pub(super) fn finish(fd: c_int, entry: &FileEntry) {
    let from = entry.cached_from.load(Relaxed);
    let (started, end) = (entry.writeback_end.load(Relaxed), entry.end.load(Relaxed));
    if started > from && end > from {
        // On overlayfs dropping starts writeback.
        file_calls::start_writeback(fd, started, end.saturating_sub(started).max(1));
        file_calls::drop_pages(fd, from, end - from);
    }
    if !entry.has(NEEDS_REOPEN) {
        verify(fd, entry, end, STAYS_BYTES);
    }
}

/// Continues a run of reads that has reached `end`: drops what was read. Readahead allocates large folios,
/// which are not dropped in part, so that each is dropped again as a whole.
pub(super) fn extend_reads(fd: c_int, entry: &FileEntry, end: u64) {
    let (page_end, from) = (end - end % page_bytes(), entry.cached_from.load(Relaxed));
    if page_end >= from.saturating_add(WINDOW_BYTES) {
        let start = from.saturating_sub(MAX_FOLIO_BYTES);
        file_calls::drop_pages(fd, start, page_end - start);
        entry.cached_from.store(page_end, Relaxed);
        verify(fd, entry, page_end, MAX_FOLIO_BYTES);
    }
}
