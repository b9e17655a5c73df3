//! Segments.

use crate::error::mw_error;
use crate::kind::{mw_kind, mw_page};
use crate::options::mw_options;
use crate::progress::{Callback, mw_progress_fn, nanoseconds};
use crate::raw::guard;
use crate::status::mw_status;
use ::mw_segment::{Error, Segment};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::ptr;

/// A segment of memory. Other processes may map it as well. It lasts until the segment is destroyed
/// and is zero until it is written.
pub struct mw_segment {
    segment: Segment,
    times: mw_times,
}

/// Duration of each part of the creation. Owned by the segment. Later versions may add members at
/// the end.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct mw_times {
    /// Nanoseconds: checking limits, mapping, setting the memory policy and the lock.
    pub reserve_ns: u64,
    /// Nanoseconds: populating.
    pub populate_ns: u64,
    /// Nanoseconds: verifying that every page is populated and locked; 0 where the mapping is not
    /// locked.
    pub confirm_ns: u64,
    /// An older name of workers.
    pub helpers: usize,
    /// Worker threads that populated it, the caller included.
    pub workers: usize,
}

impl From<Segment> for Box<mw_segment> {
    fn from(segment: Segment) -> Self {
        let times = segment.times();
        let times = mw_times {
            reserve_ns: nanoseconds(times.reserve),
            populate_ns: nanoseconds(times.populate),
            confirm_ns: nanoseconds(times.confirm),
            helpers: times.workers,
            workers: times.workers,
        };
        Box::new(mw_segment { segment, times })
    }
}

/// Creates a segment: reserves, places, locks (if requested) and populates it, with several threads
/// that have ended when the call returns. All or nothing: after an error nothing is left behind.
///
/// options: properties of the segment.
/// progress: is called with the progress and can cancel; may be NULL. To cancel, it sets the token
/// of the options, if they have one.
/// user: passed to progress.
/// segment: receives the segment, to be destroyed with mw_segment_destroy(); NULL on failure.
/// error: receives the error, to be freed with mw_error_free(); NULL on success. May be NULL.
/// Returns: MW_OK; MW_INVALID also if options or segment is NULL; else the status of the error.
/// Threads: may be called from any thread, also concurrently with the same options; concurrent
/// calls share the CPUs. No other call may change these options during the call.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_segment_create(
    options: Option<&mw_options>,
    progress: mw_progress_fn,
    user: *mut c_void,
    segment: Option<&mut MaybeUninit<Option<Box<mw_segment>>>>,
    error: Option<&mut MaybeUninit<Option<Box<mw_error>>>>,
) -> mw_status {
    let created = match (options, &segment) {
        (None, _) => Err(mw_error::invalid("options is NULL (create them with mw_options_new())")),
        (_, None) => {
            Err(mw_error::invalid("segment is NULL (pass a pointer that receives the segment)"))
        }
        (Some(options), Some(_)) => guard(Err(mw_error::internal()), || {
            create(options, Callback::new(progress, user)).map(Box::from)
        }),
    };
    let status = created.as_ref().map_or_else(|error| error.status(), |_| mw_status::MW_OK);
    let (created, why) =
        created.map_or_else(|error| (None, Some(error)), |created| (Some(created), None));
    if let Some(segment) = segment {
        segment.write(created);
    }
    if let Some(error) = error {
        error.write(why);
    }
    status
}

fn create(options: &mw_options, mut callback: Callback) -> Result<Segment, Box<mw_error>> {
    let call = options.for_call().map_err(|why| mw_error::invalid(&why))?;
    let segment = call.options.create_with(&mut |now| {
        if callback.call(now) {
            call.cancel.cancel();
        }
    })?;
    // The callback cancelled when all chunks were taken.
    if let Some(now) = callback.cancelled_at {
        segment.destroy();
        return Err(Error::Cancelled { phase: now.phase, done_bytes: now.done_bytes }.into());
    }
    Ok(segment)
}

/// The address of a segment: mw_segment_bytes() bytes can be read and written from there.
///
/// segment: a segment, or NULL.
/// Returns: an address aligned to a page, valid until the segment is destroyed; NULL for NULL.
/// Threads: may be called from any thread while no other call destroys the segment. The program
/// synchronizes its own accesses to the memory.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_segment_address(segment: Option<&mw_segment>) -> *mut c_void {
    segment.map_or(ptr::null_mut(), |segment| segment.segment.as_ptr().as_ptr().cast())
}

/// The size of a segment in bytes: the requested size, rounded up to whole pages.
///
/// segment: a segment; NULL has 0.
/// Threads: as mw_segment_address().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_segment_bytes(segment: Option<&mw_segment>) -> usize {
    segment.map_or(0, |segment| segment.segment.bytes())
}

/// The kind of a segment.
///
/// segment: a segment; NULL has MW_KIND_NONE.
/// Threads: as mw_segment_address().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_segment_kind(segment: Option<&mw_segment>) -> mw_kind {
    segment.map_or(mw_kind::MW_KIND_NONE, |segment| segment.segment.kind().into())
}

/// The page size of a segment: the requested one, or a smaller one if the options were lenient.
///
/// segment: a segment; NULL returns MW_PAGE_AUTO, which no segment has.
/// Threads: as mw_segment_address().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_segment_page(segment: Option<&mw_segment>) -> mw_page {
    segment.map_or(mw_page::MW_PAGE_AUTO, |segment| Some(segment.segment.page_size()).into())
}

/// True if a segment's pages stay in memory: locked, or hugetlb pages.
///
/// segment: a segment; NULL is not locked.
/// Threads: as mw_segment_address().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_segment_is_locked(segment: Option<&mw_segment>) -> bool {
    segment.is_some_and(|segment| segment.segment.is_locked())
}

/// Bytes of a segment that are in huge pages now, transparent or hugetlb.
///
/// segment: a segment, or NULL.
/// bytes: receives the number; unchanged if it is unknown.
/// Returns: whether the number is known: from kernel 6.7 on.
/// Threads: as mw_segment_address().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_segment_huge_bytes(
    segment: Option<&mw_segment>,
    bytes: Option<&mut MaybeUninit<usize>>,
) -> bool {
    let huge_bytes = || segment.and_then(|segment| segment.segment.huge_bytes());
    match (bytes, guard(None, huge_bytes)) {
        (Some(bytes), Some(huge_bytes)) => {
            bytes.write(huge_bytes);
            true
        }
        _ => false,
    }
}

/// The id of a System V segment, for shmat(2) in other processes.
///
/// segment: a segment, or NULL.
/// Returns: the id; -1 for other kinds and NULL.
/// Threads: as mw_segment_address().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_segment_sysv_id(segment: Option<&mw_segment>) -> c_int {
    segment.and_then(|segment| segment.segment.sysv_id()).unwrap_or(-1)
}

/// Number of files that back a segment, in the order of their bytes: a process that receives them all
/// (SCM_RIGHTS of unix(7)) can map the same memory.
///
/// segment: a segment, or NULL.
/// Returns: the number; 0 for kinds without files and NULL.
/// Threads: as mw_segment_address().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_segment_stripes(segment: Option<&mw_segment>) -> usize {
    guard(0, || segment.map_or(0, |segment| segment.segment.stripes().count()))
}

/// The file descriptor of one of a segment's files. The file is emptied when the segment is
/// destroyed, for every process that maps it.
///
/// segment: a segment, or NULL.
/// index: the file, from 0.
/// Returns: a file descriptor (close-on-exec) owned by the segment, which must not be closed; -1 if
/// there is no such file.
/// Threads: as mw_segment_address().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_segment_stripe_fd(segment: Option<&mw_segment>, index: usize) -> c_int {
    let found = || Some(segment?.segment.stripes().nth(index)?.0.as_raw_fd());
    guard(None, found).unwrap_or(-1)
}

/// The size of one of a segment's files in bytes; together they make up the segment.
///
/// segment: a segment, or NULL.
/// index: the file, from 0.
/// Returns: a number of bytes; 0 if there is no such file.
/// Threads: as mw_segment_address().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_segment_stripe_bytes(segment: Option<&mw_segment>, index: usize) -> usize {
    let found = || Some(segment?.segment.stripes().nth(index)?.1);
    guard(None, found).unwrap_or(0)
}

/// Duration of each part of a segment's creation.
///
/// segment: a segment, or NULL.
/// Returns: times owned by the segment and valid as long as it is; NULL for NULL.
/// Threads: as mw_segment_address().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_segment_times(segment: Option<&mw_segment>) -> Option<&mw_times> {
    segment.map(|segment| &segment.times)
}

/// Destroys a segment: frees its memory with several threads that have ended when the call returns.
/// In a fork of the process that created it, only unmaps it in that fork.
///
/// segment: a segment; neither it nor its memory may be used afterwards. NULL is ignored.
/// Threads: may be called from any thread while no other call uses this segment.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_segment_destroy(segment: Option<Box<mw_segment>>) {
    guard((), || drop(segment));
}

/// As mw_segment_destroy(), with progress; returns how long it took.
///
/// segment: as for mw_segment_destroy().
/// progress: is called with the progress; its result is ignored. May be NULL.
/// user: passed to progress.
/// Returns: nanoseconds; 0 for NULL.
/// Threads: as mw_segment_destroy().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_segment_destroy_with(
    segment: Option<Box<mw_segment>>,
    progress: mw_progress_fn,
    user: *mut c_void,
) -> u64 {
    guard(0, || {
        let Some(segment) = segment else { return 0 };
        let took = segment.segment.destroy_with(&mut |now| {
            if let Some(progress) = progress {
                progress(&now.into(), user);
            }
        });
        nanoseconds(took)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_send_and_sync() {
        fn check<T: Send + Sync>() {}
        check::<mw_segment>();
        check::<mw_options>();
        check::<crate::cancel::mw_cancel>();
    }
}
