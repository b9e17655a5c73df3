//! What the server does for each request.

use super::Server;
use crate::config::Level;
use crate::descriptor_store::StoredName;
use crate::lease_sockets::LeaseSockets;
use crate::lease_table::{
    AttachOutcome, LeaseEntry, LeaseId, PoolId, RefusalReason, Requester, StripeId,
};
use crate::peer::ClientPeer;
use crate::protocol::{
    ClientRequest, Contents, Lease, LeaseStatus, PoolStatus, Refusal, Reply, ServerStatus,
};
use crate::spec::{PoolName, PoolSpec};
use crate::sysv_segment;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// A reply and its descriptors, or why the request is refused.
type RequestOutcome = Result<(Reply, Vec<OwnedFd>), RefusalReason>;

impl Server {
    pub(super) fn serve(&mut self, peer: &ClientPeer, request: ClientRequest) -> RequestOutcome {
        let reply = match request {
            ClientRequest::Attach { pool, bytes, keep, segment } => {
                return self.attach(peer, &pool, bytes, keep, segment);
            }
            ClientRequest::Segment(id) => return self.segment(peer, id),
            ClientRequest::Create(spec) => {
                check_admin(peer)?;
                self.create(spec).map(|_| Reply::Done)?
            }
            ClientRequest::Remove(name) => {
                check_admin(peer)?;
                self.table.remove(self.find(peer, &name)?);
                self.log(Level::Notice, &format!("pool '{name}' was removed"));
                Reply::Done
            }
            ClientRequest::Grow(name, bytes) => {
                check_admin(peer)?;
                self.grow(self.find(peer, &name)?, bytes).map(|()| Reply::Done)?
            }
            ClientRequest::Shrink(name, bytes) => {
                check_admin(peer)?;
                let pool = self.find(peer, &name)?;
                self.table.shrink(pool, bytes).map(|()| Reply::Done)?
            }
            ClientRequest::Release(name) => {
                let pool = self.find(peer, &name)?;
                self.table.release(pool, (!peer.admin).then_some(peer.user));
                Reply::Done
            }
            ClientRequest::Next(after) => {
                let next = self.table.next(after.as_ref(), &|spec| peer.may_use(spec));
                let status = next.and_then(|pool| self.pool_status(pool));
                status.map_or(Reply::End, |status| Reply::Pool(Box::new(status)))
            }
            ClientRequest::NextLease(from) => {
                self.next_lease(peer, from).map_or(Reply::End, Reply::Lease)
            }
            ClientRequest::Server => Reply::Server(Box::new(self.status())),
        };
        Ok((reply, Vec::new()))
    }

    /// The pool of this name, if this peer may use it.
    fn find(&self, peer: &ClientPeer, name: &PoolName) -> Result<PoolId, RefusalReason> {
        let may_use =
            |id: &PoolId| self.table.pool(*id).is_some_and(|pool| peer.may_use(&pool.spec));
        self.table.find(name).filter(may_use).ok_or_else(|| {
            let why = format!("no pool '{name}' for this user (memwright pool list shows them)");
            (Refusal::NoSuchPool, why)
        })
    }

    pub(super) fn create(&mut self, spec: PoolSpec) -> Result<PoolId, RefusalReason> {
        self.check_budget(spec.bytes)?;
        let mut table = self.table.clone();
        let id = table.create(spec)?;
        let spec = &table.pool(id).ok_or((Refusal::Failed, String::new()))?.spec;
        self.check_budget(spec.bytes)?;
        self.preflight(spec, spec.bytes)?;
        let line = format!("populating pool '{}' of {} MiB", spec.name, spec.bytes >> 20);
        self.table = table;
        self.log(Level::Notice, &line);
        Ok(id)
    }

    fn grow(&mut self, id: PoolId, bytes: u64) -> Result<(), RefusalReason> {
        let mut table = self.table.clone();
        table.grow(id, bytes)?;
        let more = table.bytes().saturating_sub(self.table.bytes());
        self.check_budget(more)?;
        if let Some(pool) = table.pool(id) {
            self.preflight(&pool.spec, more)?;
        }
        self.table = table;
        Ok(())
    }

    /// Checks that the machine has room for `bytes` more, beside what pools with the same kind
    /// of pages have yet to get.
    fn preflight(&self, spec: &PoolSpec, bytes: u64) -> Result<(), RefusalReason> {
        let hugetlb_size = |spec: &PoolSpec| {
            spec.pages.is_hugetlb().then(|| spec.pages.granule_bytes(mw_sys::page_bytes() as u64))
        };
        let same =
            self.table.pools().filter(|(_, pool)| hugetlb_size(&pool.spec) == hugetlb_size(spec));
        let missing: u64 = same.map(|(id, _)| self.table.used(id).missing).sum();
        let bytes = bytes.saturating_add(missing);
        (self.config.preflight)(spec, bytes).map_err(|why| (Refusal::TooLarge, why))
    }

    fn check_budget(&self, bytes: u64) -> Result<(), RefusalReason> {
        let (budget, used) = (self.config.budget_bytes, self.table.bytes());
        if used.saturating_add(bytes) <= budget {
            return Ok(());
        }
        let why = format!(
            "requested {} MiB, and pools use {} MiB of a budget of {} MiB: raise [pool] budget or \
             pool serve --budget, or remove a pool",
            bytes >> 20,
            used >> 20,
            budget >> 20
        );
        Err((Refusal::TooLarge, why))
    }

    fn attach(
        &mut self,
        peer: &ClientPeer,
        name: &PoolName,
        bytes: u64,
        keep: Option<PoolName>,
        segment: Option<u32>,
    ) -> RequestOutcome {
        if segment.is_some() && keep.is_some() {
            let why = "the contents of a System V segment are not kept after its removal";
            return Err((Refusal::Invalid, why.to_owned()));
        }
        let pool = self.find(peer, name)?;
        if let Some(segment) = segment {
            let is_trusting = self.table.pool(pool).is_some_and(|pool| pool.spec.trusting);
            sysv_segment::check_tie(segment, peer, is_trusting, &self.table)?;
        }
        let requester = Requester { user: peer.user, process: peer.process };
        self.reclaimer.end_lingering(&mut self.table, &self.stripes);
        let stripes = &self.stripes;
        let ownership = &mut |stripe| stripes.ownership(stripe);
        match self.table.attach(pool, requester, bytes, keep, ownership)? {
            AttachOutcome::Wait { ready, coming } => {
                let stripe = self.table.pool(pool).map_or(0, |pool| pool.stripe_bytes);
                let (ready_bytes, coming_bytes) = (ready * stripe, coming * stripe);
                Ok((Reply::Wait { ready_bytes, coming_bytes }, Vec::new()))
            }
            AttachOutcome::Granted { lease, stripes, contents } => {
                if let Some(segment) = segment {
                    self.table.tie(lease, segment);
                }
                self.grant(lease, &stripes, contents)
            }
        }
    }

    fn grant(
        &mut self,
        lease: LeaseId,
        stripes: &[StripeId],
        contents: Contents,
    ) -> RequestOutcome {
        let files = self.lease_descriptors(lease, stripes).map_err(|error| {
            // The lease is in the table, and not in use: it ends as any other.
            self.table.end_lease(lease);
            (Refusal::Failed, format!("cannot send the lease's descriptors: {error}"))
        })?;
        self.leases_total += 1;
        Ok((Reply::Attached(self.lease(lease, contents)?), files))
    }

    /// The client's descriptors of a lease, once everything is written that a server started after
    /// a kill needs.
    fn lease_descriptors(&mut self, id: LeaseId, stripes: &[StripeId]) -> io::Result<Vec<OwnedFd>> {
        let (own, other) = LeaseSockets::pair()?;
        self.store.keep(StoredName::Lease(id), own.as_fd())?;
        self.lease_sockets.insert(id, own);
        if !self.save() {
            return Err(io::Error::other("cannot write the state file"));
        }
        let mut files = vec![other];
        files.extend(self.stripes.descriptors(stripes)?);
        Ok(files)
    }

    /// The memory of a System V segment, for a peer who may attach it.
    fn segment(&self, peer: &ClientPeer, id: u32) -> RequestOutcome {
        let (lease, entry) = sysv_segment::lease_for(id, peer, &self.table)?;
        let failed =
            |error| (Refusal::Failed, format!("cannot open the segment's stripes: {error}"));
        let files = self.stripes.descriptors(&entry.stripes).map_err(failed)?;
        Ok((Reply::Attached(self.lease(lease, Contents::Zeroed)?), files))
    }

    fn lease(&self, id: LeaseId, contents: Contents) -> Result<Lease, RefusalReason> {
        let entry = self.table.lease(id);
        let both = entry.and_then(|entry| Some((entry, self.table.pool(entry.pool)?)));
        let (entry, pool) = both.ok_or((Refusal::Failed, "the lease has ended".to_owned()))?;
        Ok(Lease {
            id,
            bytes: entry.stripes.len() as u64 * pool.stripe_bytes,
            stripe_bytes: pool.stripe_bytes,
            granule_bytes: pool.spec.pages.granule_bytes(mw_sys::page_bytes() as u64),
            locked: self.is_locked(entry.pool),
            contents,
        })
    }

    fn is_locked(&self, pool: PoolId) -> bool {
        self.stripes.are_locked(self.table.stripes_that(|stripe| stripe.pool == pool))
    }

    fn pool_status(&self, id: PoolId) -> Option<PoolStatus> {
        let pool = self.table.pool(id)?;
        let health = self.replenisher.health(id);
        Some(PoolStatus {
            spec: pool.spec.clone(),
            stripe_bytes: pool.stripe_bytes,
            bytes: self.table.used(id),
            leases: self.table.leases_of(id),
            leases_total: pool.leases_total,
            zeroed_bytes_total: health.map_or(0, |health| health.zeroed_bytes),
            locked: self.is_locked(id),
            trouble: health.map(|health| health.trouble.clone()).unwrap_or_default(),
        })
    }

    /// The first lease from this number on that this peer may see.
    fn next_lease(&self, peer: &ClientPeer, from: LeaseId) -> Option<LeaseStatus> {
        let may_see = |lease: &LeaseEntry| peer.admin || lease.user == peer.user;
        let (id, lease) = self.table.leases_from(from).find(|(_, lease)| may_see(lease))?;
        let pool = self.table.pool(lease.pool)?;
        Some(LeaseStatus {
            id,
            pool: pool.spec.name.clone(),
            user: lease.user,
            process: lease.process,
            bytes: lease.stripes.len() as u64 * pool.stripe_bytes,
            phase: lease.phase,
            keep: lease.keep.clone(),
            segment: lease.segment,
        })
    }

    fn status(&self) -> ServerStatus {
        let counters = self.clients.counters();
        ServerStatus {
            budget_bytes: self.config.budget_bytes,
            pools_bytes: self.table.bytes(),
            leases_total: self.leases_total,
            requests_total: counters.requests,
            refused_total: counters.refused,
            bad_messages_total: counters.bad_messages,
            stray_descriptors_total: counters.stray_descriptors,
            owners_known: self.stripes.shmem_owners_known(),
            stored: self.store.has_manager(),
            lacks: self.lacks.clone(),
        }
    }
}

/// Only root and the user who runs the server may change pools.
fn check_admin(peer: &ClientPeer) -> Result<(), RefusalReason> {
    if peer.admin {
        Ok(())
    } else {
        let why = "permission denied: only root and the user who runs the server may change pools";
        Err((Refusal::Denied, why.to_owned()))
    }
}
