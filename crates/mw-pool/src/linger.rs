//! Leases whose descriptor nobody has any more, but whose memory the process that asked for it maps:
//! what `memwright run --pool` takes for a program, or a program that has closed all descriptors.
//! Such a lease goes on until that process has ended, or until nobody has any of its memory. What then
//! is still somebody's, a child's, is waited for as after any other lease.

use crate::book::{LeaseId, State, StripeId, Verdict};
use crate::server::Server;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Between two looks at whether anybody has memory of them.
const REVIEW: Duration = Duration::from_secs(1);

/// The leases, each with its process (pidfd_open(2)), which is readable once that has ended.
#[derive(Debug, Default)]
pub(crate) struct Lingering {
    pub(crate) processes: BTreeMap<LeaseId, OwnedFd>,
    reviewed: Option<Instant>,
}

impl Server {
    /// Whether a lease whose descriptor is closed goes on.
    pub(crate) fn lingers(&mut self, id: LeaseId) -> bool {
        let process = self.book.lease(id).and_then(|lease| i32::try_from(lease.process).ok());
        let Some(process) = process.and_then(Pid::from_raw) else { return false };
        if !self.is_somebodys(id) {
            return false;
        }
        // Another process of the same number ends it no later than the next review does.
        let Ok(process) = pidfd_open(process, PidfdFlags::empty()) else { return false };
        self.lingering.processes.insert(id, process);
        true
    }

    /// Ends the leases that nobody has memory of any more.
    pub(crate) fn review_lingering(&mut self) {
        self.lingering.reviewed = Some(Instant::now());
        let ids: Vec<LeaseId> = self.lingering.processes.keys().copied().collect();
        for id in ids {
            if !self.is_somebodys(id) {
                self.over(id);
            }
        }
    }

    /// The same, where it is time.
    pub(crate) fn review_lingering_in_time(&mut self) {
        let due = self.lingering.reviewed.is_none_or(|at| at.elapsed() >= REVIEW);
        if due && !self.lingering.processes.is_empty() {
            self.review_lingering();
        }
    }

    /// Whether the kernel says that somebody has memory of a lease.
    fn is_somebodys(&self, id: LeaseId) -> bool {
        let (memory, proves) = (&self.memory, self.proves());
        let mut stripes = self.book.stripes_that(|stripe| stripe.state == State::Held(id));
        stripes.any(|stripe: StripeId| Self::verdict(memory, proves, stripe) == Verdict::Held)
    }
}
