//! Options of a segment.

use crate::cancel::mw_cancel;
use crate::kind::{parse_kind, parse_page};
use crate::raw::{self, c_string, guard};
use crate::status::mw_status;
use mw_segment::{Cancel, NumaPolicy, Options, Placement};
use std::ffi::{CString, c_char, c_int};
use std::ops::Range;
use std::ptr;

/// The maximum number of ranges: each is a mapping of its own, of which a process may have 65,530
/// (`vm.max_map_count`).
const MAX_RANGES: usize = 4096;

/// Properties of a segment. Options can be used for any number of segments.
///
/// A function that sets an option returns MW_OK, or MW_INVALID and changes nothing. The options
/// remember the first invalid value, and creating a segment then fails: a program may set all
/// options without checking each result, and only check mw_segment_create().
pub struct mw_options {
    options: Options,
    placement: Placement,
    cancel: Option<Cancel>,
    /// The reason why the first invalid value was rejected.
    refusal: Option<CString>,
}

/// The options of one call and its token.
pub(crate) struct CallOptions {
    pub(crate) options: Options,
    pub(crate) cancel: Cancel,
}

impl mw_options {
    fn new(bytes: usize) -> Self {
        Self {
            options: Options::new(bytes),
            placement: Placement::default(),
            cancel: None,
            refusal: None,
        }
    }

    /// The options of a call, or why a value was rejected.
    pub(crate) fn for_call(&self) -> Result<CallOptions, String> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.to_string_lossy().into_owned());
        }
        let cancel = self.cancel.clone().unwrap_or_default();
        let options = self.options.clone().placement(self.placement.clone()).cancel(&cancel);
        Ok(CallOptions { options, cancel })
    }

    fn place_range(&mut self, range: Option<Range<usize>>, nodes: &[u32]) -> Result<(), String> {
        let Some(range) = range.filter(|range| !range.is_empty()) else {
            return Err("invalid range: it is empty or ends beyond the address space".into());
        };
        match &mut self.placement {
            Placement::Ranges(ranges) if ranges.len() >= MAX_RANGES => {
                return Err(format!("too many ranges (at most {MAX_RANGES}; use larger ones)"));
            }
            Placement::Ranges(ranges) => ranges.push((range, nodes.to_vec())),
            other => *other = Placement::Ranges(vec![(range, nodes.to_vec())]),
        }
        Ok(())
    }
}

/// Changes options, which remember the first invalid value.
fn change(
    options: Option<&mut mw_options>,
    change: impl FnOnce(&mut mw_options) -> Result<(), String>,
) -> mw_status {
    guard(mw_status::MW_INTERNAL, || {
        let Some(options) = options else { return mw_status::MW_INVALID };
        let Err(why) = change(options) else { return mw_status::MW_OK };
        options.refusal.get_or_insert_with(|| c_string(&why));
        mw_status::MW_INVALID
    })
}

fn set(
    options: Option<&mut mw_options>,
    to: impl FnOnce(Options) -> Result<Options, String>,
) -> mw_status {
    change(options, |options| {
        options.options = to(options.options.clone())?;
        Ok(())
    })
}

/// Creates the options of a memfd segment of the largest pages that are available now, not locked.
///
/// bytes: the size of the segment, rounded up to whole pages when it is created; 0 is an error
/// then.
/// Returns: options, to be freed with mw_options_free(); NULL only after an internal error.
/// Threads: may be called from any thread.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_options_new(bytes: usize) -> Option<Box<mw_options>> {
    guard(None, || Some(Box::new(mw_options::new(bytes))))
}

/// Sets the kind of the segment.
///
/// options: the options to change.
/// kind: an mw_kind.
/// Returns: MW_OK; MW_INVALID for NULL or an invalid kind.
/// Threads: may be called from any thread while no other call uses these options.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_options_set_kind(options: Option<&mut mw_options>, kind: c_int) -> mw_status {
    set(options, |options| Ok(options.kind(parse_kind(kind)?)))
}

/// Sets the page size. A size that is not available is an error when the segment is created, unless
/// mw_options_set_lenient() was called.
///
/// options: the options to change.
/// page: an mw_page.
/// Returns: MW_OK; MW_INVALID for NULL or an invalid page size.
/// Threads: as mw_options_set_kind().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_options_set_page(options: Option<&mut mw_options>, page: c_int) -> mw_status {
    set(options, |options| Ok(options.page_size(parse_page(page)?)))
}

/// Sets whether smaller pages are acceptable where the requested size is not available;
/// mw_segment_page() returns the actual size. Default: no.
///
/// options: the options to change.
/// lenient: 0 for no, any other value for yes.
/// Returns: MW_OK; MW_INVALID for NULL.
/// Threads: as mw_options_set_kind().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_options_set_lenient(
    options: Option<&mut mw_options>,
    lenient: c_int,
) -> mw_status {
    set(options, |options| Ok(options.lenient(lenient != 0)))
}

/// Sets whether the segment is locked in memory. MW_KIND_ISM always is; hugetlb pages need no lock.
/// Locking is subject to RLIMIT_MEMLOCK.
///
/// options: the options to change.
/// locked: 0 for no, any other value for yes.
/// Returns: MW_OK; MW_INVALID for NULL.
/// Threads: as mw_options_set_kind().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_options_set_locked(
    options: Option<&mut mw_options>,
    locked: c_int,
) -> mw_status {
    set(options, |options| Ok(options.locked(locked != 0)))
}

/// Sets the maximum number of worker threads, the caller included. Default: 16. The CPUs that the
/// caller may use limit it as well.
///
/// options: the options to change.
/// workers: a number of threads; 0 counts as 1.
/// Returns: MW_OK; MW_INVALID for NULL.
/// Threads: as mw_options_set_kind().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_options_set_workers(
    options: Option<&mut mw_options>,
    workers: usize,
) -> mw_status {
    set(options, |options| Ok(options.workers(workers)))
}

/// Sets the name of a segment of kind MW_KIND_POSIX (shm_open(3)); it must not exist when the
/// segment is created.
///
/// options: the options to change.
/// name: a name in UTF-8, with or without the leading slash; it is copied.
/// Returns: MW_OK; MW_INVALID for NULL or a name that is not UTF-8.
/// Threads: as mw_options_set_kind().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function with a string")]
#[allow(clippy::missing_safety_doc, reason = "documented for C")]
pub unsafe extern "C" fn mw_options_set_name(
    options: Option<&mut mw_options>,
    name: *const c_char,
) -> mw_status {
    set(options, |options| {
        // SAFETY: the caller passes NULL or a string.
        let name = unsafe { raw::text(name) };
        Ok(options.name(name.map_err(|why| format!("name: {why}"))?))
    })
}

/// Sets the key of a segment of kind MW_KIND_ISM or MW_KIND_DISM (shmget(2)); it must not exist
/// when the segment is created.
///
/// options: the options to change.
/// key: a key, for example of ftok(3); 0 (default) is none.
/// Returns: MW_OK; MW_INVALID for NULL.
/// Threads: as mw_options_set_kind().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_options_set_key(options: Option<&mut mw_options>, key: i32) -> mw_status {
    set(options, |options| Ok(options.key(key)))
}

/// Sets whether a segment with a name or a key persists when it is destroyed or the program exits.
/// Default: no.
///
/// options: the options to change.
/// kept: 0 for no, any other value for yes.
/// Returns: MW_OK; MW_INVALID for NULL.
/// Threads: as mw_options_set_kind().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_options_set_kept(options: Option<&mut mw_options>, kept: c_int) -> mw_status {
    set(options, |options| Ok(options.kept(kept != 0)))
}

/// Sets the token that cancels the creation of segments.
///
/// options: the options to change.
/// cancel: a token, which may be freed at any time afterwards; NULL (default) for none.
/// Returns: MW_OK; MW_INVALID if options is NULL.
/// Threads: as mw_options_set_kind().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_options_set_cancel(
    options: Option<&mut mw_options>,
    cancel: Option<&mw_cancel>,
) -> mw_status {
    change(options, |options| {
        options.cancel = cancel.map(|cancel| cancel.token.clone());
        Ok(())
    })
}

/// Allocates pages by the memory policy of the caller of mw_segment_create() (set_mempolicy(2)),
/// which is normally the node that it runs on. This is the default. Replaces earlier calls of the
/// mw_options_place functions.
///
/// options: the options to change.
/// Returns: MW_OK; MW_INVALID for NULL.
/// Threads: as mw_options_set_kind().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_options_place_local(options: Option<&mut mw_options>) -> mw_status {
    change(options, |options| {
        options.placement = Placement::default();
        Ok(())
    })
}

/// Allocates pages only from these NUMA nodes. Replaces earlier calls of the mw_options_place
/// functions.
///
/// options: the options to change.
/// nodes: numbers of nodes, as in /sys/devices/system/node; they are copied.
/// count: the number of nodes: 1 to 1024.
/// Returns: MW_OK; MW_INVALID for NULL or another count. A node that does not exist is an error
/// when the segment is created.
/// Threads: as mw_options_set_kind().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function with an array")]
#[allow(clippy::missing_safety_doc, reason = "documented for C")]
pub unsafe extern "C" fn mw_options_place_bind(
    options: Option<&mut mw_options>,
    nodes: *const u32,
    count: usize,
) -> mw_status {
    change(options, |options| {
        // SAFETY: the caller passes NULL or an array of this length.
        let nodes = unsafe { raw::nodes(nodes, count) }?;
        options.placement = NumaPolicy::Bind(nodes.to_vec()).into();
        Ok(())
    })
}

/// Allocates pages from these NUMA nodes in turn, page by page. Replaces earlier calls of the
/// mw_options_place functions.
///
/// options, nodes, count, Returns, Threads: as mw_options_place_bind().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function with an array")]
#[allow(clippy::missing_safety_doc, reason = "documented for C")]
pub unsafe extern "C" fn mw_options_place_interleave(
    options: Option<&mut mw_options>,
    nodes: *const u32,
    count: usize,
) -> mw_status {
    change(options, |options| {
        // SAFETY: the caller passes NULL or an array of this length.
        let nodes = unsafe { raw::nodes(nodes, count) }?;
        options.placement = NumaPolicy::Interleave(nodes.to_vec()).into();
        Ok(())
    })
}

/// Allocates the pages of a range of the segment only from these NUMA nodes. Each call adds a
/// range; the rest is placed as by mw_options_place_local(). Replaces earlier calls of the other
/// mw_options_place functions.
///
/// options: the options to change.
/// offset: the start of the range, in bytes from the start of the segment.
/// bytes: its length.
/// nodes: numbers of nodes, as in /sys/devices/system/node; they are copied.
/// count: the number of nodes: 1 to 1024.
/// Returns: MW_OK; MW_INVALID for NULL, another count, a range of 0 bytes or beyond SIZE_MAX, or
/// more than 4096 ranges. A range that is not of whole pages, ends beyond the segment or overlaps
/// another, or a node that does not exist, is an error when the segment is created.
/// Threads: as mw_options_set_kind().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function with an array")]
#[allow(clippy::missing_safety_doc, reason = "documented for C")]
pub unsafe extern "C" fn mw_options_place_range(
    options: Option<&mut mw_options>,
    offset: usize,
    bytes: usize,
    nodes: *const u32,
    count: usize,
) -> mw_status {
    change(options, |options| {
        // SAFETY: the caller passes NULL or an array of this length.
        let nodes = unsafe { raw::nodes(nodes, count) }?;
        options.place_range(offset.checked_add(bytes).map(|end| offset..end), nodes)
    })
}

/// The first invalid value that was set, and the valid ones: why creating a segment fails.
///
/// options: options, or NULL.
/// Returns: a text owned by the options and valid as long as they are; NULL if all values are valid.
/// Threads: may be called from any thread while no other call changes these options.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_options_refusal(options: Option<&mw_options>) -> *const c_char {
    let refusal = options.and_then(|options| options.refusal.as_ref());
    refusal.map_or(ptr::null(), |refusal| refusal.as_ptr())
}

/// Frees options. Segments that were created with them are not affected.
///
/// options: options, which must not be used afterwards; NULL is ignored.
/// Threads: may be called from any thread while no other call uses these options.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_options_free(options: Option<Box<mw_options>>) {
    guard((), || drop(options));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_is_kept() {
        let mut options = mw_options::new(1 << 20);
        assert!(mw_options_refusal(Some(&options)).is_null());
        assert_eq!(mw_options_set_kind(Some(&mut options), 42), mw_status::MW_INVALID);
        assert_eq!(mw_options_set_page(Some(&mut options), -1), mw_status::MW_INVALID);
        assert_eq!(mw_options_set_kind(Some(&mut options), 3), mw_status::MW_OK);
        assert!(options.for_call().is_err_and(|why| why.starts_with("invalid mw_kind 42")));
        assert!(!mw_options_refusal(Some(&options)).is_null());
    }

    #[test]
    fn ranges_are_limited_and_replace_other_placements() {
        let mut options = mw_options::new(1 << 20);
        options.placement = NumaPolicy::Bind(vec![3]).into();
        for range in 0..MAX_RANGES {
            assert_eq!(options.place_range(Some(range..range + 1), &[0, 1]), Ok(()));
        }
        assert!(matches!(&options.placement, Placement::Ranges(all) if all.len() == MAX_RANGES));
        assert!(options.place_range(Some(0..1), &[0]).is_err());
        assert!(options.place_range(Some(1..1), &[0]).is_err());
        assert!(options.place_range(None, &[0]).is_err());
        assert_eq!(mw_options_place_local(Some(&mut options)), mw_status::MW_OK);
        assert_eq!(options.placement, Placement::default());
    }

    #[test]
    fn options_hold_a_reference_to_a_token() {
        let mut options = mw_options::new(1 << 20);
        let cancel = mw_cancel { token: Cancel::new() };
        mw_options_set_cancel(Some(&mut options), Some(&cancel));
        cancel.token.cancel();
        assert!(options.for_call().is_ok_and(|call| call.cancel.is_cancelled()));
        mw_options_set_cancel(Some(&mut options), None);
        assert!(options.for_call().is_ok_and(|call| !call.cancel.is_cancelled()));
    }
}
