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

/// The caller's callback, until it asks to cancel.
pub(crate) struct Listener {
    function: mw_progress_fn,
    user: *mut c_void,
    /// How far it was when the function wanted the end.
    pub(crate) stopped: Option<Progress>,
}

impl Listener {
    pub(crate) fn new(function: mw_progress_fn, user: *mut c_void) -> Self {
        Self { function, user, stopped: None }
    }

    /// Tells the function, and returns whether the operation is to end.
    pub(crate) fn tell(&mut self, now: &Progress) -> bool {
        if let (Some(function), None) = (self.function, self.stopped)
            && function(&now.into(), self.user) != 0
        {
            self.stopped = Some(*now);
        }
        self.stopped.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn stop_from_two(progress: &mw_progress, user: *mut c_void) -> c_int {
        assert!(user.is_null());
        c_int::from(progress.done_bytes > 1)
    }

    #[test]
    fn a_function_is_told_until_it_wants_the_end() {
        let now = |done_bytes| Progress {
            phase: Phase::Create,
            done_bytes,
            total_bytes: 4,
            elapsed: Duration::from_millis(2),
        };
        let mut listener = Listener::new(Some(stop_from_two), std::ptr::null_mut());
        assert!(!listener.tell(&now(1)));
        assert!(listener.tell(&now(2)));
        assert!(listener.tell(&now(1)), "it is not asked again");
        assert_eq!(listener.stopped, Some(now(2)));
        assert!(!Listener::new(None, std::ptr::null_mut()).tell(&now(2)));
        let told = mw_progress::from(&now(2));
        assert_eq!((told.phase, told.bytes_per_s), (mw_phase::MW_PHASE_CREATE, 1000.0));
    }
}
