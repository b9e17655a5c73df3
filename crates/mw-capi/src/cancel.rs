//! Cancellation from another thread.

use crate::raw::guard;
use mw_segment::Cancel;

/// Cancels the creation of segments from another thread or a signal handler. One token may serve
/// many operations and can be cancelled once; the next operation needs a new one.
pub struct mw_cancel {
    pub(crate) token: Cancel,
}

/// Creates a token.
///
/// Returns: a token, to be freed with mw_cancel_free(); NULL only after an internal error.
/// Threads: may be called from any thread.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_cancel_new() -> Option<Box<mw_cancel>> {
    guard(None, || Some(Box::new(mw_cancel { token: Cancel::new() })))
}

/// Cancels every current and future operation whose options have this token: it frees what it has
/// allocated and returns MW_CANCELLED within one chunk of work, which is about a millisecond, or
/// one page of 1 GiB.
///
/// cancel: a token; NULL is ignored.
/// Threads: may be called from any thread, at any time, and from a signal handler.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_cancel_set(cancel: Option<&mw_cancel>) {
    if let Some(cancel) = cancel {
        cancel.token.cancel();
    }
}

/// True if a token is cancelled.
///
/// cancel: a token; NULL is not cancelled.
/// Threads: as mw_cancel_set().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_cancel_is_set(cancel: Option<&mw_cancel>) -> bool {
    cancel.is_some_and(|cancel| cancel.token.is_cancelled())
}

/// Frees a token. Options and operations that have it keep what they need.
///
/// cancel: a token, which must not be used afterwards. NULL is ignored.
/// Threads: may be called from any thread while no other call uses this token.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_cancel_free(cancel: Option<Box<mw_cancel>>) {
    guard((), || drop(cancel));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_never_cancelled() {
        let cancel = mw_cancel_new();
        assert!(!mw_cancel_is_set(cancel.as_deref()));
        mw_cancel_set(cancel.as_deref());
        assert!(mw_cancel_is_set(cancel.as_deref()));
        mw_cancel_free(cancel);
        mw_cancel_set(None);
        assert!(!mw_cancel_is_set(None));
        mw_cancel_free(None);
    }
}
