//! What the server does for a client that asks.

use crate::descriptor_store::{self, StoredName};
use crate::lease_table::{
    AttachOutcome, LeaseEntry, LeaseId, PoolId, Refused, Requester, StripeId,
};
use crate::peer::Peer;
use crate::protocol::{Contents, Lease, LeaseStatus, PoolStatus, Refusal, Reply, Request};
use crate::server::{Level, Server};
use crate::spec::{Name, Spec};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

pub(crate) type Granted = Result<(Reply, Vec<OwnedFd>), Refused>;

fn done() -> Granted {
    Ok((Reply::Done, Vec::new()))
}

impl Server {
    pub(crate) fn grant(&mut self, peer: &Peer, request: Request) -> Granted {
        match request {
            Request::Attach { pool, bytes, keep, segment: None } => {
                let given = self.attach(peer, &pool, bytes, keep)?;
                self.given(given, None)
            }
            Request::Attach { pool, bytes, keep: None, segment: Some(segment) } => {
                self.may_tie(peer, &pool, segment)?;
                let given = self.attach(peer, &pool, bytes, None)?;
                self.given(given, Some(segment))
            }
            Request::Attach { .. } => {
                Err((Refusal::Invalid, "a segment's contents are kept by the segment".to_owned()))
            }
            Request::Segment(id) => self.segment(peer, id),
            Request::Create(spec) => {
                admin(peer)?;
                self.create(spec).and_then(|_| done())
            }
            Request::Remove(name) => {
                admin(peer)?;
                let pool = self.named(peer, &name)?;
                self.book.remove(pool);
                self.log(Level::Notice, &format!("pool '{name}' is removed"));
                done()
            }
            Request::Grow(name, bytes) => {
                admin(peer)?;
                let pool = self.named(peer, &name)?;
                self.grow(pool, bytes).and_then(|()| done())
            }
            Request::Shrink(name, bytes) => {
                admin(peer)?;
                let pool = self.named(peer, &name)?;
                self.book.shrink(pool, bytes).and_then(|()| done())
            }
            Request::Release(name) => {
                let pool = self.named(peer, &name)?;
                self.book.release(pool, (!peer.admin).then_some(peer.user));
                done()
            }
            Request::Next(after) => {
                let next = self.book.next(after.as_ref(), &|spec| peer.may_use(spec));
                let reply = next.and_then(|pool| self.described(pool));
                Ok((reply.unwrap_or(Reply::End), Vec::new()))
            }
            Request::NextLease(from) => {
                let reply = self.next_lease(peer, from).map_or(Reply::End, Reply::Lease);
                Ok((reply, Vec::new()))
            }
            Request::Server => {
                let mut state = self.state.clone();
                state.pools_bytes = self.book.bytes();
                Ok((Reply::Server(Box::new(state)), Vec::new()))
            }
        }
    }

    /// The pool, where this peer may know of it.
    pub(crate) fn named(&self, peer: &Peer, name: &Name) -> Result<PoolId, Refused> {
        let pool = self
            .book
            .find(name)
            .filter(|id| self.book.pool(*id).is_some_and(|pool| peer.may_use(&pool.spec)));
        pool.ok_or_else(|| {
            let why = format!("no pool '{name}' that is yours; memwright pool list shows those");
            (Refusal::NoSuchPool, why)
        })
    }

    pub(crate) fn create(&mut self, spec: Spec) -> Result<PoolId, Refused> {
        self.room(spec.bytes)?;
        let mut book = self.book.clone();
        let id = book.create(spec)?;
        let spec = &book.pool(id).ok_or((Refusal::Failed, String::new()))?.spec;
        self.room(spec.bytes)?;
        self.preflight(spec, spec.bytes)?;
        let line = format!("pool '{}' of {} MiB is being populated", spec.name, spec.bytes >> 20);
        self.book = book;
        self.log(Level::Notice, &line);
        Ok(id)
    }

    fn grow(&mut self, id: PoolId, bytes: u64) -> Result<(), Refused> {
        let mut book = self.book.clone();
        book.grow(id, bytes)?;
        let more = book.bytes().saturating_sub(self.book.bytes());
        self.room(more)?;
        if let Some(pool) = book.pool(id) {
            self.preflight(&pool.spec, more)?;
        }
        self.book = book;
        Ok(())
    }

    /// Whether the machine can give so much more, beside what it is yet to give to pools of the same
    /// kind.
    fn preflight(&self, spec: &Spec, bytes: u64) -> Result<(), Refused> {
        let kind = |spec: &Spec| {
            spec.pages.is_hugetlb().then(|| spec.pages.granule_bytes(mw_sys::page_bytes() as u64))
        };
        let same = self.book.pools.iter().filter(|(_, pool)| kind(&pool.spec) == kind(spec));
        let coming: u64 = same.map(|(id, _)| self.book.used(*id).missing).sum();
        let bytes = bytes.saturating_add(coming);
        (self.config.preflight)(spec, bytes).map_err(|why| (Refusal::TooLarge, why))
    }

    /// Whether the budget has room for so much more.
    fn room(&self, bytes: u64) -> Result<(), Refused> {
        let (budget, had) = (self.config.budget_bytes, self.book.bytes());
        if had.saturating_add(bytes) <= budget {
            return Ok(());
        }
        let why = format!(
            "{} MiB more, and pools have {} MiB of a budget of {} MiB: raise it in [pool] budget \
             or with pool serve --budget, or remove a pool",
            bytes >> 20,
            had >> 20,
            budget >> 20
        );
        Err((Refusal::TooLarge, why))
    }

    fn attach(
        &mut self,
        peer: &Peer,
        name: &Name,
        bytes: u64,
        keep: Option<Name>,
    ) -> Result<(PoolId, AttachOutcome), Refused> {
        let id = self.named(peer, name)?;
        let asker = Requester { user: peer.user, process: peer.process };
        self.review_lingering();
        let (memory, proves) = (&self.memory, self.proves());
        let mut sure = |stripe| Self::verdict(memory, proves, stripe);
        Ok((id, self.book.attach(id, asker, bytes, keep, &mut sure)?))
    }

    /// Hands out what the book gave.
    fn given(&mut self, (pool, answer): (PoolId, AttachOutcome), segment: Option<u32>) -> Granted {
        let (lease, stripes, contents) = match answer {
            AttachOutcome::Wait { ready, coming } => {
                let stripe = self.book.pool(pool).map_or(0, |pool| pool.stripe_bytes);
                let (ready_bytes, coming_bytes) = (ready * stripe, coming * stripe);
                return Ok((Reply::Wait { ready_bytes, coming_bytes }, Vec::new()));
            }
            AttachOutcome::Granted { lease, stripes, contents } => (lease, stripes, contents),
        };
        if let Some(segment) = segment {
            self.book.tie(lease, segment);
        }
        let files = self.hand_out(lease, &stripes).map_err(|error| {
            // The book has it, nobody else does: it comes back as any other.
            self.book.ended(lease);
            (Refusal::Failed, format!("the descriptors of the lease: {error}"))
        })?;
        self.state.leases_total += 1;
        Ok((Reply::Attached(self.told(lease, contents)?), files))
    }

    /// A lease, as its client is told.
    pub(crate) fn told(&self, id: LeaseId, contents: Contents) -> Result<Lease, Refused> {
        let held = self.book.lease(id);
        let of = held.and_then(|held| Some((held, self.book.pool(held.pool)?)));
        let (held, pool) = of.ok_or((Refusal::Failed, "the lease is gone".to_owned()))?;
        Ok(Lease {
            id,
            bytes: held.stripes.len() as u64 * pool.stripe_bytes,
            stripe_bytes: pool.stripe_bytes,
            granule_bytes: pool.spec.pages.granule_bytes(mw_sys::page_bytes() as u64),
            locked: self.is_locked(held.pool),
            contents,
        })
    }

    /// The client's descriptors of a lease, once whatever would be needed after a kill is written.
    fn hand_out(&mut self, lease: u64, stripes: &[u32]) -> io::Result<Vec<OwnedFd>> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (own, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        // Before Linux 6.16 the kernel drops them as they are read (socket.rs).
        let _ = mw_sys::refuse_descriptors(own.as_fd());
        descriptor_store::keep(StoredName::Lease(lease), own.as_fd())?;
        self.leases.insert(lease, own);
        if !self.save() {
            return Err(io::Error::other("the book cannot be written"));
        }
        let mut files = vec![other];
        files.extend(self.descriptors(stripes)?);
        Ok(files)
    }

    /// Descriptors of stripes for somebody else.
    pub(crate) fn descriptors(&self, stripes: &[StripeId]) -> io::Result<Vec<OwnedFd>> {
        let another = |id| self.memory.get(id).ok_or(io::ErrorKind::NotFound)?.another();
        stripes.iter().map(another).collect()
    }

    fn is_locked(&self, id: PoolId) -> bool {
        let stripes = self.book.stripes_that(|stripe| stripe.pool == id);
        let mut memory = stripes.filter_map(|stripe| self.memory.get(&stripe));
        memory.all(|memory| memory.is_locked())
    }

    fn described(&self, id: PoolId) -> Option<Reply> {
        let pool = self.book.pool(id)?;
        let aside = self.aside.get(&id);
        Some(Reply::Pool(Box::new(PoolStatus {
            spec: pool.spec.clone(),
            stripe_bytes: pool.stripe_bytes,
            bytes: self.book.used(id),
            leases: self.book.leases_of(id),
            leases_total: pool.leases_total,
            scrubbed_bytes_total: aside.map_or(0, |aside| aside.scrubbed_bytes),
            locked: self.is_locked(id),
            trouble: aside.map(|aside| aside.trouble.clone()).unwrap_or_default(),
        })))
    }

    /// The first lease from this number on that this peer may know of.
    fn next_lease(&self, peer: &Peer, from: u64) -> Option<LeaseStatus> {
        let own = |lease: &LeaseEntry| peer.admin || lease.user == peer.user;
        let (id, lease) = self.book.leases.range(from..).find(|(_, lease)| own(lease))?;
        let pool = self.book.pool(lease.pool)?;
        Some(LeaseStatus {
            id: *id,
            pool: pool.spec.name.clone(),
            user: lease.user,
            process: lease.process,
            bytes: lease.stripes.len() as u64 * pool.stripe_bytes,
            phase: lease.phase,
            keep: lease.keep.clone(),
            segment: lease.segment,
        })
    }
}

/// Only root and who runs the server change pools.
fn admin(peer: &Peer) -> Result<(), Refused> {
    match peer.admin {
        true => Ok(()),
        false => Err((Refusal::Denied, "only root and who runs the server may".to_owned())),
    }
}
