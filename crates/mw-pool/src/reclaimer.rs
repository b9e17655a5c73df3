//! Reclaiming memory: which leases have ended, and whether returned memory is still in use.
//!
//! A lease ends when its socket is closed by the last process that has it, with two exceptions, in
//! which it *lingers*:
//! - The process that requested it has closed the socket and still maps the memory: daemons close
//!   descriptors that they do not know. Its lease lasts until that process ends, or none of its memory
//!   is in use.
//! - It is the memory of a System V segment: it lasts until the segment is removed.
//!
//! If another process, for example a child, still uses the memory then, the server waits for it as after
//! any other lease.

use crate::freed_watch::FreedWatch;
use crate::lease_table::{LeaseId, LeaseTable, Ownership, StripeId};
use crate::stripes::Stripes;
use crate::sysv_segment;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Returned memory is checked after this interval, then after twice as long, up to the last.
const CHECK_FIRST: Duration = Duration::from_millis(1);
const CHECK_LAST: Duration = Duration::from_secs(1);

/// Duration of a lingering lease.
#[derive(Debug)]
enum LingerUntil {
    /// The process ends, by a descriptor that is then readable (pidfd_open(2)).
    ProcessExit(OwnedFd),
    SegmentRemoval,
}

/// Time at which the owners of returned memory are checked next.
#[derive(Debug, Clone, Copy)]
struct OwnerCheck {
    at: Instant,
    next_interval: Duration,
}

#[derive(Debug)]
pub(crate) struct Reclaimer {
    check: Option<OwnerCheck>,
    lingering: BTreeMap<LeaseId, LingerUntil>,
    /// Of stripes that were given up while they may have been in use.
    freed: FreedWatch,
}

impl Reclaimer {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { check: None, lingering: BTreeMap::new(), freed: FreedWatch::new()? })
    }

    pub(crate) fn check_owners_soon(&mut self) {
        self.check = Some(OwnerCheck { at: Instant::now(), next_interval: CHECK_FIRST });
    }

    pub(crate) fn has_check(&self) -> bool {
        self.check.is_some()
    }

    /// Time for which the server may sleep until the next check.
    pub(crate) fn until_check(&self, now: Instant) -> Option<Duration> {
        self.check.map(|check| check.at.saturating_duration_since(now))
    }

    /// Checks the owners of returned memory and of lingering leases, when it is time.
    pub(crate) fn check_owners(&mut self, table: &mut LeaseTable, stripes: &Stripes) {
        let now = Instant::now();
        let Some(check) = self.check.filter(|check| now >= check.at) else { return };
        self.end_lingering(table, stripes);
        let in_use = table.check_owners(&mut |id| stripes.ownership(id));
        self.check = (in_use || !self.lingering.is_empty()).then(|| OwnerCheck {
            at: now + check.next_interval,
            next_interval: (check.next_interval * 2).min(CHECK_LAST),
        });
    }

    /// Notes which stripes the kernel has freed.
    pub(crate) fn note_freed(&mut self, table: &mut LeaseTable) {
        for stripe in self.freed.freed() {
            table.freed(stripe);
        }
    }

    /// Readable when a stripe was freed.
    pub(crate) fn freed_events(&self) -> BorrowedFd<'_> {
        self.freed.as_fd()
    }

    /// Watches for the end of a stripe's file, which other processes may still use.
    pub(crate) fn watch_freed(&mut self, id: StripeId, file: BorrowedFd<'_>) -> io::Result<()> {
        self.freed.add(id, file)
    }

    /// Ends a lease whose socket is closed, or has it linger.
    pub(crate) fn socket_closed(&mut self, id: LeaseId, table: &mut LeaseTable, stripes: &Stripes) {
        let is_lingering = self.lingering.contains_key(&id);
        match lingers_until(id, table, stripes).filter(|_| !is_lingering) {
            Some(until) => {
                self.lingering.insert(id, until);
                self.check_owners_soon();
            }
            None => self.end(id, table),
        }
    }

    pub(crate) fn end(&mut self, id: LeaseId, table: &mut LeaseTable) {
        table.end_lease(id);
        self.lingering.remove(&id);
        self.check_owners_soon();
    }

    /// Forgets a lease that the table does not have any more.
    pub(crate) fn forget(&mut self, id: LeaseId) {
        self.lingering.remove(&id);
    }

    /// Ends the lingering leases whose memory is no longer in use.
    pub(crate) fn end_lingering(&mut self, table: &mut LeaseTable, stripes: &Stripes) {
        let is_over = |(id, until): (&LeaseId, &LingerUntil)| {
            let goes_on = match until {
                LingerUntil::ProcessExit(_) => is_in_use(*id, table, stripes),
                LingerUntil::SegmentRemoval => table.lease(*id).is_some_and(sysv_segment::exists),
            };
            (!goes_on).then_some(*id)
        };
        let over: Vec<LeaseId> = self.lingering.iter().filter_map(is_over).collect();
        over.into_iter().for_each(|id| self.end(id, table));
    }

    /// The process whose exit ends a lease, if there is one; whether the lease lingers at all.
    pub(crate) fn lingering(&self, id: LeaseId) -> Option<Option<BorrowedFd<'_>>> {
        self.lingering.get(&id).map(|until| match until {
            LingerUntil::ProcessExit(process) => Some(process.as_fd()),
            LingerUntil::SegmentRemoval => None,
        })
    }
}

fn lingers_until(id: LeaseId, table: &LeaseTable, stripes: &Stripes) -> Option<LingerUntil> {
    let lease = table.lease(id)?;
    if lease.segment.is_some() {
        return sysv_segment::exists(lease).then_some(LingerUntil::SegmentRemoval);
    }
    let process = Pid::from_raw(i32::try_from(lease.process).ok()?)?;
    if !is_in_use(id, table, stripes) {
        return None;
    }
    // Another process of the same number ends it no later than the next check does.
    pidfd_open(process, PidfdFlags::empty()).ok().map(LingerUntil::ProcessExit)
}

/// True if the kernel reports that memory of a lease is in use.
fn is_in_use(id: LeaseId, table: &LeaseTable, stripes: &Stripes) -> bool {
    let in_use = |stripe: &StripeId| stripes.ownership(*stripe) == Ownership::InUse;
    table.lease(id).is_some_and(|lease| lease.stripes.iter().any(in_use))
}
