//! A segment, from its creation to its end.

use crate::error::mw_error;
use crate::kind::{mw_kind, mw_page};
use crate::options::mw_options;
use crate::progress::{Listener, mw_progress_fn, nanoseconds};
use crate::raw::guard;
use crate::status::mw_status;
use ::mw_segment::{Error, Segment};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::ptr;

/// A segment of memory. Its memory is shared with whoever else maps it, and lasts until the segment
/// is destroyed; what is read there is zero until something is written.
pub struct mw_segment {
    segment: Segment,
    times: mw_times,
}

/// How long the parts of a creation took. It belongs to its segment. Later versions may add members
/// at the end.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct mw_times {
    /// Nanoseconds: looking at limits, mapping, saying where pages come from and that they are
    /// locked.
    pub reserve_ns: u64,
    /// Nanoseconds: populating.
    pub populate_ns: u64,
    /// Nanoseconds: seeing that every page is there and locked; 0 for what is not locked by
    /// mapping.
    pub confirm_ns: u64,
    /// The threads that populated, the caller's included.
    pub helpers: usize,
}

impl From<Segment> for Box<mw_segment> {
    fn from(segment: Segment) -> Self {
        let times = segment.times();
        let times = mw_times {
            reserve_ns: nanoseconds(times.reserve),
            populate_ns: nanoseconds(times.populate),
            confirm_ns: nanoseconds(times.confirm),
            helpers: times.workers,
        };
        Box::new(mw_segment { segment, times })
    }
}

/// Creates a segment: reserved, placed, locked if wanted, and populated, by several threads, which
/// are gone when the call returns. All or nothing: after an error nothing is left behind.
///
/// options: what the segment is to be like.
/// progress: is told how far it is, and can cancel; NULL for nobody. To cancel, it sets the token
/// of the options, if they have one.
/// user: what progress is called with.
/// segment: where the segment is put, to be destroyed with mw_segment_destroy(); NULL is put there
/// if it cannot be made.
/// error: where it is put why not, to be freed with mw_error_free(); NULL is put there if the
/// segment is made. May be NULL for who does not want to know.
/// Returns: MW_OK; MW_INVALID also if options or segment is NULL; else the status of the error.
/// Threads: may be called from any, several at a time also with the same options, which share the
/// processors; while no other call changes these options.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "a name for C")]
pub extern "C" fn mw_segment_create(
    options: Option<&mw_options>,
    progress: mw_progress_fn,
    user: *mut c_void,
    segment: Option<&mut MaybeUninit<Option<Box<mw_segment>>>>,
    error: Option<&mut MaybeUninit<Option<Box<mw_error>>>>,
) -> mw_status {
    let made = match (options, &segment) {
        (None, _) => Err(mw_error::invalid("options is NULL; mw_options_new() makes them")),
        (_, None) => Err(mw_error::invalid("segment is NULL; say where it is to be put")),
        (Some(options), Some(_)) => guard(Err(mw_error::internal()), || {
            create(options, Listener::new(progress, user)).map(Box::from)
        }),
    };
    let status = made.as_ref().map_or_else(|error| error.status(), |_| mw_status::MW_OK);
    let (made, why) = made.map_or_else(|error| (None, Some(error)), |made| (Some(made), None));
    if let Some(segment) = segment {
        segment.write(made);
    }
    if let Some(error) = error {
        error.write(why);
    }
    status
}

fn create(options: &mw_options, mut listener: Listener) -> Result<Segment, Box<mw_error>> {
    let call = options.definite().map_err(|why| mw_error::invalid(&why))?;
    let segment = call.options.create_with(&mut |now| {
        if listener.tell(now) {
            call.cancel.cancel();
        }
    })?;
    // Nothing was left to cancel when the end was wanted.
    if let Some(now) = listener.stopped {
        segment.destroy();
        return Err(Error::Cancelled { phase: now.phase, done_bytes: now.done_bytes }.into());
    }
    Ok(segment)
}

/// Where a segment's memory starts: as many bytes as mw_segment_bytes() says can be read and
/// written from there on.
///
/// segment: a segment, or NULL.
/// Returns: an address that is aligned to whole pages and valid until the segment is destroyed;
/// NULL for NULL.
/// Threads: may be called from any, while no other call destroys the segment. Accesses to the
/// memory are the program's to put in order.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "a name for C")]
pub extern "C" fn mw_segment_address(segment: Option<&mw_segment>) -> *mut c_void {
    segment.map_or(ptr::null_mut(), |segment| segment.segment.as_ptr().as_ptr().cast())
}

/// The size of a segment in bytes: what was asked for, rounded up to whole pages.
///
/// segment: a segment; NULL has 0.
/// Threads: as mw_segment_address().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "a name for C")]
pub extern "C" fn mw_segment_bytes(segment: Option<&mw_segment>) -> usize {
    segment.map_or(0, |segment| segment.segment.bytes())
}

/// What a segment is made of.
///
/// segment: a segment; NULL has MW_KIND_NONE.
/// Threads: as mw_segment_address().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "a name for C")]
pub extern "C" fn mw_segment_kind(segment: Option<&mw_segment>) -> mw_kind {
    segment.map_or(mw_kind::MW_KIND_NONE, |segment| segment.segment.kind().into())
}

/// The pages that a segment came to: those asked for, or smaller ones if the options were lenient.
///
/// segment: a segment; NULL has MW_PAGE_AUTO, which no segment has.
/// Threads: as mw_segment_address().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "a name for C")]
pub extern "C" fn mw_segment_page(segment: Option<&mw_segment>) -> mw_page {
    segment.map_or(mw_page::MW_PAGE_AUTO, |segment| segment.segment.page().into())
}

/// Whether a segment's pages stay in memory: locked, or of the pool of huge pages.
///
/// segment: a segment; NULL is not locked.
/// Threads: as mw_segment_address().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "a name for C")]
pub extern "C" fn mw_segment_is_locked(segment: Option<&mw_segment>) -> bool {
    segment.is_some_and(|segment| segment.segment.is_locked())
}

/// How many bytes of a segment are in huge pages now, transparent or of the pool.
///
/// segment: a segment, or NULL.
/// bytes: where the number is put; it is left alone if there is none.
/// Returns: whether there is a number: the kernel can say from version 6.7 on.
/// Threads: as mw_segment_address().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "a name for C")]
pub extern "C" fn mw_segment_huge_bytes(
    segment: Option<&mw_segment>,
    bytes: Option<&mut MaybeUninit<usize>>,
) -> bool {
    let seen = || segment.and_then(|segment| segment.segment.huge_bytes());
    match (bytes, guard(None, seen)) {
        (Some(bytes), Some(seen)) => {
            bytes.write(seen);
            true
        }
        _ => false,
    }
}

/// The number of a System V segment, for shmat(2) in other processes.
///
/// segment: a segment, or NULL.
/// Returns: the number; -1 for other kinds and NULL.
/// Threads: as mw_segment_address().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "a name for C")]
pub extern "C" fn mw_segment_sysv_id(segment: Option<&mw_segment>) -> c_int {
    segment.and_then(|segment| segment.segment.sysv_id()).unwrap_or(-1)
}

/// How many files a segment is made of, side by side in the order of their bytes: others that get
/// them all (SCM_RIGHTS of unix(7)) can map the same memory.
///
/// segment: a segment, or NULL.
/// Returns: the number; 0 for kinds without files and NULL.
/// Threads: as mw_segment_address().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "a name for C")]
pub extern "C" fn mw_segment_stripes(segment: Option<&mw_segment>) -> usize {
    guard(0, || segment.map_or(0, |segment| segment.segment.stripes().count()))
}

/// The descriptor of one of a segment's files. Whoever maps it sees it emptied when the segment is
/// destroyed.
///
/// segment: a segment, or NULL.
/// index: which file, from 0 on.
/// Returns: a descriptor, close-on-exec, that belongs to the segment and must not be closed; -1
/// where there is no such file.
/// Threads: as mw_segment_address().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "a name for C")]
pub extern "C" fn mw_segment_stripe_fd(segment: Option<&mw_segment>, index: usize) -> c_int {
    let found = || Some(segment?.segment.stripes().nth(index)?.0.as_raw_fd());
    guard(None, found).unwrap_or(-1)
}

/// The bytes of one of a segment's files; all together are the segment's.
///
/// segment: a segment, or NULL.
/// index: which file, from 0 on.
/// Returns: a number of bytes; 0 where there is no such file.
/// Threads: as mw_segment_address().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "a name for C")]
pub extern "C" fn mw_segment_stripe_bytes(segment: Option<&mw_segment>, index: usize) -> usize {
    let found = || Some(segment?.segment.stripes().nth(index)?.1);
    guard(None, found).unwrap_or(0)
}

/// How long the parts of a segment's creation took.
///
/// segment: a segment, or NULL.
/// Returns: times that belong to the segment and go with it; NULL for NULL.
/// Threads: as mw_segment_address().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "a name for C")]
pub extern "C" fn mw_segment_times(segment: Option<&mw_segment>) -> Option<&mw_times> {
    segment.map(|segment| &segment.times)
}

/// Destroys a segment: gives its memory back, by several threads, which are gone when the call
/// returns. In a fork of the process that made it, takes it out of that fork only.
///
/// segment: a segment, which must not be used afterwards, nor must its memory; NULL is ignored.
/// Threads: may be called from any, while no other call uses this segment.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "a name for C")]
pub extern "C" fn mw_segment_destroy(segment: Option<Box<mw_segment>>) {
    guard((), || drop(segment));
}

/// As mw_segment_destroy(), and tells how far it is and how long it took.
///
/// segment: as there.
/// progress: is told how far it is; what it returns is ignored. NULL for nobody.
/// user: what progress is called with.
/// Returns: nanoseconds; 0 for NULL.
/// Threads: as there.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "a name for C")]
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
    fn handles_go_from_thread_to_thread() {
        fn shared<T: Send + Sync>() {}
        shared::<mw_segment>();
        shared::<mw_options>();
        shared::<crate::cancel::mw_cancel>();
    }
}
