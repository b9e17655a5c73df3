//! Requests for evidence: from the control thread to the trigger thread, and what came of them back from the evidence
//! thread. One is under way at a time: the control thread serves one client after the other.

use crate::wakeup::WakeupFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct EvidenceRequests {
    asked: AtomicBool,
    state: Mutex<RequestState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct RequestState {
    progress: RequestProgress,
    stopped: bool,
}

/// Progress of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum RequestProgress {
    /// No evidence is taken yet.
    #[default]
    Asked,
    /// Evidence is taken for the incident of this number.
    Begun(u64),
    /// The incident is kept: its verdict.
    Kept(u64, String),
    /// It could not be kept.
    NotKept(String),
}

impl EvidenceRequests {
    /// Asks for evidence.
    pub(crate) fn ask(&self, trigger: &WakeupFd) {
        self.state().progress = RequestProgress::Asked;
        self.asked.store(true, Ordering::Release);
        trigger.wake();
    }

    /// True if evidence was requested since the last call. Takes no lock.
    pub(crate) fn take(&self) -> bool {
        self.asked.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn report(&self, progress: RequestProgress) {
        self.state().progress = progress;
        self.changed.notify_all();
    }

    /// Changes since `known`, waited for at most so long; none where the recorder stops or nothing has changed.
    pub(crate) fn next(
        &self,
        known: &RequestProgress,
        at_most: Duration,
    ) -> Option<RequestProgress> {
        let same = |state: &mut RequestState| state.progress == *known && !state.stopped;
        let waited = self.changed.wait_timeout_while(self.state(), at_most, same);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (state.progress != *known).then(|| state.progress.clone())
    }

    pub(crate) fn stop(&self) {
        self.state().stopped = true;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, RequestState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
