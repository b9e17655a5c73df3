//! Progress of an operation.

use mw_segment::{Phase, Progress};
use std::ffi::{c_int, c_void};
use std::time::Duration;

/// The phase of an operation.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum mw_phase {
    /// Pages are allocated, zeroed and mapped.
    MW_PHASE_CREATE = 1,
    /// Every page is verified to be populated and locked.
    MW_PHASE_CONFIRM = 2,
    /// Pages are freed.
    MW_PHASE_DESTROY = 3,
}

/// The progress of an operation. Later versions may add members at the end.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct mw_progress {
    /// The phase. Each one counts from 0 bytes.
    pub phase: mw_phase,
    /// Bytes of this phase that are completed.
    pub done_bytes: usize,
    /// Bytes of this phase in total.
    pub total_bytes: usize,
    /// Nanoseconds since the phase started.
    pub elapsed_ns: u64,
    /// Bytes per second since the phase started; 0 before anything is completed.
    pub bytes_per_s: f64,
}

/// Receives the progress of an operation, about twenty times a second, on the calling thread; not
/// called for an operation that ends sooner.
///
/// progress: valid until the function returns.
/// user: the pointer that was passed along with the function.
/// Returns: 0 to continue; anything else cancels, and the function is not called again. Destruction
/// cannot be cancelled; the result is then ignored.
///
/// The function must return: no longjmp(3), no exception, no end of the thread. It may call any
/// function of this library except those that free what the operation uses.
pub type mw_progress_fn = Option<extern "C" fn(progress: &mw_progress, user: *mut c_void) -> c_int>;

impl From<Phase> for mw_phase {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::Create => Self::MW_PHASE_CREATE,
            Phase::Confirm => Self::MW_PHASE_CONFIRM,
            Phase::Destroy => Self::MW_PHASE_DESTROY,
        }
    }
}

impl From<&Progress> for mw_progress {
    fn from(now: &Progress) -> Self {
        Self {
            phase: now.phase.into(),
            done_bytes: now.done_bytes,
            total_bytes: now.total_bytes,
            elapsed_ns: nanoseconds(now.elapsed),
            bytes_per_s: now.bytes_per_s().unwrap_or(0.0),
        }
    }
}

/// Nanoseconds; saturates after 584 years.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The program's progress function, called until it cancels.
pub(crate) struct Callback {
    function: mw_progress_fn,
    user: *mut c_void,
    /// The progress at which the function cancelled.
    pub(crate) cancelled_at: Option<Progress>,
}

impl Callback {
    pub(crate) fn new(function: mw_progress_fn, user: *mut c_void) -> Self {
        Self { function, user, cancelled_at: None }
    }

    /// Calls the function; returns whether the operation is to be cancelled.
    pub(crate) fn call(&mut self, now: &Progress) -> bool {
        if let (Some(function), None) = (self.function, self.cancelled_at)
            && function(&now.into(), self.user) != 0
        {
            self.cancelled_at = Some(*now);
        }
        self.cancelled_at.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn cancel_from_two(progress: &mw_progress, user: *mut c_void) -> c_int {
        assert!(user.is_null());
        c_int::from(progress.done_bytes > 1)
    }

    #[test]
    fn a_progress_function_is_called_until_it_cancels() {
        let now = |done_bytes| Progress {
            phase: Phase::Create,
            done_bytes,
            total_bytes: 4,
            elapsed: Duration::from_millis(2),
        };
        let mut callback = Callback::new(Some(cancel_from_two), std::ptr::null_mut());
        assert!(!callback.call(&now(1)));
        assert!(callback.call(&now(2)));
        assert!(callback.call(&now(1)), "it is not called again");
        assert_eq!(callback.cancelled_at, Some(now(2)));
        assert!(!Callback::new(None, std::ptr::null_mut()).call(&now(2)));
        let progress = mw_progress::from(&now(2));
        assert_eq!((progress.phase, progress.bytes_per_s), (mw_phase::MW_PHASE_CREATE, 1000.0));
    }
}
