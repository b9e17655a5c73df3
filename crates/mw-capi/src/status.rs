//! The result of a call.

use std::ffi::{CStr, c_char, c_int};

/// The result of a call.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum mw_status {
    /// Success.
    MW_OK = 0,
    /// An argument is NULL or invalid, or options contradict each other or the machine.
    MW_INVALID = 1,
    /// A limit is below the requested amount: see mw_error_shortage().
    MW_SHORT = 2,
    /// Cancelled.
    MW_CANCELLED = 3,
    /// This machine or this kind does not have pages of this size.
    MW_NO_SUCH_PAGES = 4,
    /// Fewer transparent huge pages than requested were available: memory is fragmented.
    MW_FRAGMENTED = 5,
    /// The hardware reported an error in a page (EHWPOISON).
    MW_POISONED = 6,
    /// A system call failed for a reason that no limit explains: see mw_error_errno().
    MW_SYSTEM = 7,
    /// An error inside the library: please report it with the error's text.
    MW_INTERNAL = 8,
    /// No pool server responds.
    MW_NO_SERVER = 9,
    /// The pool server rejected the request: the pool does not exist, is full or too small, or
    /// permission is denied.
    MW_REFUSED = 10,
    /// The pool's memory was not ready in time.
    MW_NOT_READY = 11,
}

use mw_status::{
    MW_CANCELLED, MW_FRAGMENTED, MW_INTERNAL, MW_INVALID, MW_NO_SERVER, MW_NO_SUCH_PAGES,
    MW_NOT_READY, MW_OK, MW_POISONED, MW_REFUSED, MW_SHORT, MW_SYSTEM,
};

const TEXTS: [(mw_status, &CStr); 12] = [
    (MW_OK, c"success"),
    (MW_INVALID, c"invalid argument"),
    (MW_SHORT, c"a limit is below the requested amount"),
    (MW_CANCELLED, c"cancelled"),
    (MW_NO_SUCH_PAGES, c"page size not available"),
    (MW_FRAGMENTED, c"memory is fragmented"),
    (MW_POISONED, c"hardware memory error"),
    (MW_SYSTEM, c"system call failed"),
    (MW_INTERNAL, c"internal error"),
    (MW_NO_SERVER, c"no pool server responds"),
    (MW_REFUSED, c"rejected by the pool server"),
    (MW_NOT_READY, c"timed out waiting for memory of the pool"),
];

/// A short text for a status. mw_error_text() has the details.
///
/// status: an mw_status.
/// Returns: a static text, for any number.
/// Threads: may be called from any thread.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_status_text(status: c_int) -> *const c_char {
    let found = TEXTS.iter().find(|(known, _)| *known as c_int == status);
    found.map_or(c"unknown status", |(_, text)| text).as_ptr()
}
