//! Leases whose descriptor nobody has any more, but whose memory the process that asked for it maps:
//! what `memwright run --pool` takes for a program, or a program that has closed all descriptors.
//! Such a lease goes on until that process has ended, or until nobody has any of its memory. What then
//! is still somebody's, a child's, is waited for as after any other lease.

use crate::book::{LeaseId, Verdict};
use crate::server::Server;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

impl Server {
    /// Whether a lease whose descriptor is closed goes on; its process is then known, by a descriptor
    /// that is readable once it has ended (pidfd_open(2)).
    pub(crate) fn lingers(&mut self, id: LeaseId) -> bool {
        let process = self.book.lease(id).and_then(|lease| i32::try_from(lease.process).ok());
        let Some(process) = process.and_then(Pid::from_raw) else { return false };
        if !self.is_somebodys(id) {
            return false;
        }
        // Another process of the same number ends it no later than the next review does.
        let Ok(process) = pidfd_open(process, PidfdFlags::empty()) else { return false };
        self.lingering.insert(id, process);
        true
    }

    /// Ends the leases that nobody has memory of any more.
    pub(crate) fn review_lingering(&mut self) {
        let ids: Vec<LeaseId> = self.lingering.keys().copied().collect();
        for id in ids {
            if !self.is_somebodys(id) {
                self.over(id);
            }
        }
    }

    /// Whether the kernel says that somebody has memory of a lease.
    fn is_somebodys(&self, id: LeaseId) -> bool {
        let (memory, proves) = (&self.memory, self.proves());
        let held = |stripe: &u32| Self::verdict(memory, proves, *stripe) == Verdict::Held;
        self.book.lease(id).is_some_and(|lease| lease.stripes.iter().any(held))
    }
}
