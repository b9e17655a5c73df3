//! Leases that go on without their descriptor.
//!
//! - Of a process that has closed it and has the memory: daemons close what they do not know. Such a
//!   lease goes on until that process has ended, or until nobody has any of its memory.
//! - Of a System V segment: it goes on until that is gone.
//!
//! What then is still somebody's, a child's, is waited for as after any other lease.

use crate::lease_table::{LeaseId, Ownership};
use crate::server::Server;
use crate::sysv_segment;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::OwnedFd;

/// What such a lease goes on with.
#[derive(Debug)]
pub(crate) enum LingerUntil {
    /// The process that asked for it, by a descriptor that is readable once it has ended
    /// (pidfd_open(2)).
    Process(OwnedFd),
    /// Its segment.
    Segment,
}

impl Server {
    /// Whether a lease whose descriptor is closed goes on.
    pub(crate) fn lingers(&mut self, id: LeaseId) -> bool {
        let Some(with) = self.goes_on_with(id) else { return false };
        self.lingering.insert(id, with);
        true
    }

    fn goes_on_with(&self, id: LeaseId) -> Option<LingerUntil> {
        let lease = self.book.lease(id)?;
        if lease.segment.is_some() {
            return sysv_segment::is_there(lease).then_some(LingerUntil::Segment);
        }
        let process = Pid::from_raw(i32::try_from(lease.process).ok()?)?;
        if !self.is_somebodys(id) {
            return None;
        }
        // Another process of the same number ends it no later than the next review does.
        pidfd_open(process, PidfdFlags::empty()).ok().map(LingerUntil::Process)
    }

    /// Ends the leases that nobody has any more.
    pub(crate) fn review_lingering(&mut self) {
        let is_over = |(id, with): (&LeaseId, &LingerUntil)| {
            let goes_on = match with {
                LingerUntil::Process(_) => self.is_somebodys(*id),
                LingerUntil::Segment => self.book.lease(*id).is_some_and(sysv_segment::is_there),
            };
            (!goes_on).then_some(*id)
        };
        let over: Vec<LeaseId> = self.lingering.iter().filter_map(is_over).collect();
        over.into_iter().for_each(|id| self.over(id));
    }

    /// Whether the kernel says that somebody has memory of a lease.
    fn is_somebodys(&self, id: LeaseId) -> bool {
        let (memory, proves) = (&self.memory, self.proves());
        let held = |stripe: &u32| Self::verdict(memory, proves, *stripe) == Ownership::InUse;
        self.book.lease(id).is_some_and(|lease| lease.stripes.iter().any(held))
    }
}
