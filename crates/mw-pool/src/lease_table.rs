//! The lease table: the states of stripes and leases, without memory and without I/O.
//!
//! ```text
//!               populated          attach            the lease's socket      the kernel reports
//!                                                    is closed               that it is unused
//!   ( missing ) ─────────▶ ready ─────────▶ leased ────────────────▶ returned ───────────▶ zeroing
//!        ▲                 │   ▲             │ ▲                        │ ▲                 │    │
//!        │                 │   └─────────────┼─┼────────────────────────┼─┼─────────────────┘    │
//!        │  needed for     │      zeroed     │ │ attach by the same     │ │                      │
//!        │  another user   │                 │ │ user with that name    │ │                      │
//!        │                 │                 ▼ │                        │ │ release              │
//!        │                 │      draining ─────▶ kept ─────────────────┼─┘                      │
//!        │                 │       none of it is in use                 │ the kernel             │
//!        └─────────────────┴────────────────────────────────────────────┴ does not know ─────────┘
//!          exchanged: freed, then newly populated                                  zeroing failed
//! ```
//!
//! An exchanged stripe counts against its pool until the kernel has freed it, so that a program that
//! still has it does not make the pool use more than its size.
//!
//! The socket of a System V segment's lease does not count: the lease ends when the segment is
//! removed. A lease that keeps its contents takes the lower path: it stays together, *draining* until none
//! of its stripes is in use, then *kept*.
//!
//! Invariants, tested against a simulated kernel (tests/lease_table.rs): a stripe is leased only when
//! no other process has it, and then it is zero, or has contents that the same user left. Memory passes
//! from one user to another only through the kernel, unless the pool's owners trust each other
//! ([`PoolSpec::trusting`]): vmsplice(2), for example, holds pages without changing any count that a program
//! can read.

mod attach;
#[cfg(feature = "server")]
mod encoding;

use crate::protocol::{Contents, LeasePhase, MAX_STRIPES, PoolBytes, Refusal};
use crate::spec::{PoolName, PoolSpec};
use mw_memory::PageSize;
use std::collections::BTreeMap;

/// The most pools.
pub const MAX_POOLS: usize = 32;
/// The most leases, draining and kept ones included.
pub const MAX_LEASES: usize = 256;
/// The most leases of one user.
pub const MAX_LEASES_PER_USER: usize = 64;
/// Number of stripes that a pool is divided into, roughly: requests are rounded up to whole stripes.
const STRIPES: u64 = 64;
/// The smallest stripe of a pool that has several: each is a descriptor.
const MIN_STRIPE_BYTES: u64 = 8 << 20;
/// Every stripe is a multiple of this, however small its pages: a worker thread's chunk.
const CHUNK_BYTES: u64 = 4 << 20;

/// Bytes that one page table of 2 MiB pages maps. The kernel lets processes that map a hugetlb file in such
/// pieces share the server's tables (mm/hugetlb.c, `huge_pmd_share`): attaching then costs one fault
/// for each instead of 512. Pools of at least four of them are divided so.
pub const TABLE_BYTES: u64 = 1 << 30;

/// The number of a stripe; never reused.
pub type StripeId = u32;
/// The number of a lease; never reused.
pub type LeaseId = u64;
/// The number of a pool; never reused.
pub type PoolId = u32;

/// The state of a stripe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StripeState {
    /// Zeroed, and not in use.
    Ready,
    /// Part of a lease.
    Leased(LeaseId),
    /// Its lease has ended; it may still be in use.
    Returned,
    /// Being zeroed; not in use.
    Zeroing,
    /// Given up by this server, and not freed by the kernel yet, or still in use.
    Exchanged,
}

/// A piece of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stripe {
    /// Its pool.
    pub pool: PoolId,
    /// Its state.
    pub state: StripeState,
    /// The last user who had it.
    pub last_user: Option<u32>,
}

/// A pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Its specification, with the size that it is to have.
    pub spec: PoolSpec,
    /// The size of each stripe.
    pub stripe_bytes: u64,
    /// Number of leases that were granted.
    pub leases_total: u64,
    /// Number of its stripes that are being populated.
    pub populating: u64,
}

impl Pool {
    fn stripes_for(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.stripe_bytes.max(1))
    }
}

/// A lease, and after its end its contents as long as they are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseEntry {
    /// Its pool.
    pub pool: PoolId,
    /// The user who requested it.
    pub user: u32,
    /// The process that requested it.
    pub process: u32,
    /// Its stripes, in order.
    pub stripes: Vec<StripeId>,
    /// The name under which its contents are kept.
    pub keep: Option<PoolName>,
    /// Number of leases that its contents have had before.
    pub generation: u64,
    /// True if the contents were not reported as consistent.
    pub dirty: bool,
    /// Its phase.
    pub phase: LeasePhase,
    /// The System V segment whose memory it is, created by `process`.
    pub segment: Option<u32>,
}

/// The user and process that request memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requester {
    /// The user.
    pub user: u32,
    /// The process.
    pub process: u32,
}

/// The outcome of a request for memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttachOutcome {
    /// A lease.
    Granted {
        /// Its number.
        lease: LeaseId,
        /// Its stripes, in order.
        stripes: Vec<StripeId>,
        /// Contents.
        contents: Contents,
    },
    /// Too little is ready yet.
    Wait {
        /// Stripes that are ready.
        ready: u64,
        /// Stripes that are being populated, zeroed or returned.
        coming: u64,
    },
}

/// The kind of a refusal, and the reason in words.
pub type RefusalReason = (Refusal, String);

/// Whether another process has a stripe, according to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ownership {
    /// No other process has it.
    Free,
    /// Another process has it.
    InUse,
    /// The kernel does not report it.
    Unknown,
}

/// The numbers that are used next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct NextIds {
    pool: PoolId,
    stripe: StripeId,
    lease: LeaseId,
}

/// All pools, stripes and leases.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeaseTable {
    pools: BTreeMap<PoolId, Pool>,
    stripes: BTreeMap<StripeId, Stripe>,
    leases: BTreeMap<LeaseId, LeaseEntry>,
    next: NextIds,
}

fn refused<T>(refusal: Refusal, why: impl Into<String>) -> Result<T, RefusalReason> {
    Err((refusal, why.into()))
}

impl LeaseTable {
    /// The pool of this name.
    #[must_use]
    pub fn find(&self, name: &PoolName) -> Option<PoolId> {
        self.pools.iter().find(|(_, pool)| pool.spec.name == *name).map(|(id, _)| *id)
    }

    /// The pool after this name, or the first, of those that are `visible`.
    #[must_use]
    pub fn next(
        &self,
        after: Option<&PoolName>,
        visible: &dyn Fn(&PoolSpec) -> bool,
    ) -> Option<PoolId> {
        let later = |pool: &Pool| after.is_none_or(|after| pool.spec.name > *after);
        let pools = self.pools.iter().filter(|(_, pool)| later(pool) && visible(&pool.spec));
        pools.min_by(|a, b| a.1.spec.name.cmp(&b.1.spec.name)).map(|(id, _)| *id)
    }

    /// A pool.
    #[must_use]
    pub fn pool(&self, id: PoolId) -> Option<&Pool> {
        self.pools.get(&id)
    }

    /// All pools.
    pub fn pools(&self) -> impl Iterator<Item = (PoolId, &Pool)> {
        self.pools.iter().map(|(id, pool)| (*id, pool))
    }

    /// A stripe.
    #[must_use]
    pub fn stripe(&self, id: StripeId) -> Option<&Stripe> {
        self.stripes.get(&id)
    }

    /// The stripes for which `is` holds.
    pub fn stripes_that(&self, is: impl Fn(&Stripe) -> bool) -> impl Iterator<Item = StripeId> {
        self.stripes.iter().filter(move |(_, stripe)| is(stripe)).map(|(id, _)| *id)
    }

    /// A lease.
    #[must_use]
    pub fn lease(&self, id: LeaseId) -> Option<&LeaseEntry> {
        self.leases.get(&id)
    }

    /// The leases from this number on.
    pub fn leases_from(&self, from: LeaseId) -> impl Iterator<Item = (LeaseId, &LeaseEntry)> {
        self.leases.range(from..).map(|(id, lease)| (*id, lease))
    }

    /// The leases in a phase.
    pub fn leases_in(&self, phase: LeasePhase) -> impl Iterator<Item = LeaseId> {
        self.leases.iter().filter(move |(_, lease)| lease.phase == phase).map(|(id, _)| *id)
    }

    /// True if a lease is active.
    #[must_use]
    pub fn is_active(&self, id: LeaseId) -> bool {
        self.lease(id).is_some_and(|lease| lease.phase == LeasePhase::Active)
    }

    /// True if returned memory waits for its last owner.
    #[must_use]
    pub fn awaits_owners(&self) -> bool {
        self.stripes.values().any(|stripe| stripe.state == StripeState::Returned)
            || self.leases_in(LeasePhase::Draining).next().is_some()
    }

    /// The size of all pools.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.pools.values().map(|pool| pool.spec.bytes).fold(0, u64::saturating_add)
    }

    /// Creates a pool without stripes; its size is rounded up to whole stripes.
    ///
    /// # Errors
    /// If the name is taken, the size is invalid, or there are too many pools.
    pub fn create(&mut self, mut spec: PoolSpec) -> Result<PoolId, RefusalReason> {
        if self.find(&spec.name).is_some() {
            return refused(Refusal::Exists, format!("pool '{}' already exists", spec.name));
        }
        if self.pools.len() >= MAX_POOLS {
            return refused(Refusal::Limit, format!("too many pools (at most {MAX_POOLS})"));
        }
        let granule = spec.pages.granule_bytes(mw_sys::page_bytes() as u64).max(CHUNK_BYTES);
        let stripe = spec.bytes.div_ceil(STRIPES).max(MIN_STRIPE_BYTES.min(spec.bytes));
        let shares_tables = spec.pages == PageSize::HUGE_2M && spec.bytes >= 4 * TABLE_BYTES;
        let granule = if shares_tables { TABLE_BYTES } else { granule };
        let whole = stripe.checked_next_multiple_of(granule).filter(|bytes| *bytes > 0);
        let rounded = whole.and_then(|stripe| spec.bytes.checked_next_multiple_of(stripe));
        let (Some(stripe_bytes), Some(bytes)) = (whole, rounded) else {
            return refused(Refusal::Invalid, format!("invalid pool size: {} bytes", spec.bytes));
        };
        spec.bytes = bytes;
        let id = self.next.pool;
        self.next.pool += 1;
        self.pools.insert(id, Pool { spec, stripe_bytes, leases_total: 0, populating: 0 });
        Ok(id)
    }

    /// Removes a pool with its stripes and leases. Programs keep the memory that they have.
    pub fn remove(&mut self, pool: PoolId) {
        self.pools.remove(&pool);
        self.stripes.retain(|_, stripe| stripe.pool != pool);
        self.leases.retain(|_, lease| lease.pool != pool);
    }

    /// Makes a pool larger, by whole stripes.
    ///
    /// # Errors
    /// If it would have too many stripes.
    pub fn grow(&mut self, pool: PoolId, bytes: u64) -> Result<(), RefusalReason> {
        let Some(pool) = self.pools.get_mut(&pool) else {
            return refused(Refusal::NoSuchPool, "the pool was removed");
        };
        let size = bytes
            .checked_next_multiple_of(pool.stripe_bytes)
            .and_then(|more| pool.spec.bytes.checked_add(more));
        match size {
            Some(size) if bytes > 0 && pool.stripes_for(size) <= MAX_STRIPES as u64 => {
                pool.spec.bytes = size;
                Ok(())
            }
            _ => refused(
                Refusal::TooLarge,
                format!(
                    "a pool has at most {MAX_STRIPES} stripes, and those of this one have {} MiB: \
                     create another pool",
                    pool.stripe_bytes >> 20
                ),
            ),
        }
    }

    /// Makes a pool smaller, by whole stripes that are ready or missing.
    ///
    /// # Errors
    /// If those are too few, or nothing would be left.
    pub fn shrink(&mut self, id: PoolId, bytes: u64) -> Result<(), RefusalReason> {
        let Some(pool) = self.pools.get(&id) else {
            return refused(Refusal::NoSuchPool, "the pool was removed");
        };
        let less = pool.stripes_for(bytes);
        let all = pool.stripes_for(pool.spec.bytes);
        if less == 0 || less >= all {
            let why = "the pool must keep a part of its size, and lose another; to remove all of it: \
                       memwright pool remove";
            return refused(Refusal::Invalid, why);
        }
        let ready: Vec<StripeId> =
            self.stripes_that(|s| s.pool == id && s.state == StripeState::Ready).collect();
        let missing = all.saturating_sub(self.stripes_of(id).count() as u64);
        let unused = missing + ready.len() as u64;
        if less > unused {
            let unused_mib = (unused * pool.stripe_bytes) >> 20;
            return refused(Refusal::Full, format!("only {unused_mib} MiB of it are not in use"));
        }
        let dropped = usize::try_from(less.saturating_sub(missing)).unwrap_or(usize::MAX);
        for stripe in ready.into_iter().rev().take(dropped) {
            self.stripes.remove(&stripe);
        }
        if let Some(pool) = self.pools.get_mut(&id) {
            pool.spec.bytes -= less * pool.stripe_bytes;
        }
        Ok(())
    }

    /// Discards the contents that are kept in a pool: those of one user, or all.
    pub fn release(&mut self, pool: PoolId, user: Option<u32>) {
        let is_released = |lease: &LeaseEntry| {
            lease.pool == pool
                && lease.phase != LeasePhase::Active
                && user.is_none_or(|user| lease.user == user)
        };
        let released = self.leases.iter().filter(|(_, lease)| is_released(lease));
        let ids: Vec<LeaseId> = released.map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|lease| self.return_stripes(lease));
    }

    fn stripes_of(&self, pool: PoolId) -> impl Iterator<Item = (StripeId, &Stripe)> {
        let stripes = self.stripes.iter().map(|(id, stripe)| (*id, stripe));
        stripes.filter(move |(_, stripe)| stripe.pool == pool)
    }

    /// Number of stripes that a pool lacks and that are not being populated.
    #[must_use]
    pub fn missing(&self, id: PoolId) -> u64 {
        let Some(pool) = self.pools.get(&id) else { return 0 };
        let existing = self.stripes_of(id).count() as u64 + pool.populating;
        pool.stripes_for(pool.spec.bytes).saturating_sub(existing)
    }

    /// Notes that stripes of a pool are being populated.
    pub fn begin_populating(&mut self, pool: PoolId, stripes: u64) {
        if let Some(pool) = self.pools.get_mut(&pool) {
            pool.populating += stripes;
        }
    }

    /// Notes that they are not being populated any more, whether that succeeded or failed.
    pub fn end_populating(&mut self, pool: PoolId, stripes: u64) {
        if let Some(pool) = self.pools.get_mut(&pool) {
            pool.populating = pool.populating.saturating_sub(stripes);
        }
    }

    /// Adds a populated stripe to its pool; `None` if the pool does not lack one any more.
    pub fn add_stripe(&mut self, pool: PoolId) -> Option<StripeId> {
        if self.missing(pool) == 0 {
            return None;
        }
        let id = self.next.stripe;
        self.next.stripe += 1;
        self.stripes.insert(id, Stripe { pool, state: StripeState::Ready, last_user: None });
        Some(id)
    }

    /// Gives a stripe up, and ends the lease that has it. The pool lacks it once it is
    /// [`freed`](Self::freed).
    pub fn exchange(&mut self, id: StripeId) {
        let state = self.stripes.get(&id).map(|stripe| stripe.state);
        if let Some(StripeState::Leased(lease)) = state {
            self.return_stripes(lease);
        }
        self.set_state(id, StripeState::Exchanged);
    }

    /// Notes that the kernel has freed a stripe that was given up.
    pub fn freed(&mut self, id: StripeId) {
        if self.stripes.get(&id).is_some_and(|stripe| stripe.state == StripeState::Exchanged) {
            self.stripes.remove(&id);
        }
    }

    fn set_state(&mut self, id: StripeId, state: StripeState) {
        if let Some(stripe) = self.stripes.get_mut(&id) {
            stripe.state = state;
        }
    }

    /// Notes the client's report that the contents are consistent.
    pub fn mark_consistent(&mut self, lease: LeaseId) {
        if let Some(lease) = self.leases.get_mut(&lease) {
            lease.dirty = false;
        }
    }

    /// Makes a lease the memory of a System V segment.
    pub fn tie(&mut self, lease: LeaseId, segment: u32) {
        if let Some(lease) = self.leases.get_mut(&lease) {
            lease.segment = Some(segment);
        }
    }

    /// The lease that is a System V segment's memory.
    #[must_use]
    pub fn tied(&self, segment: u32) -> Option<(LeaseId, &LeaseEntry)> {
        let mut leases = self.leases_from(0);
        leases
            .find(|(_, lease)| lease.segment == Some(segment) && lease.phase == LeasePhase::Active)
    }

    /// Ends an active lease: its contents are kept, or its stripes are returned.
    pub fn end_lease(&mut self, id: LeaseId) {
        match self.leases.get_mut(&id) {
            Some(lease) if lease.phase == LeasePhase::Active && lease.keep.is_some() => {
                lease.phase = LeasePhase::Draining;
            }
            Some(lease) if lease.phase == LeasePhase::Active => self.return_stripes(id),
            _ => {}
        }
    }

    /// Ends a lease whose contents are not kept, or are kept no longer.
    fn return_stripes(&mut self, id: LeaseId) {
        let Some(lease) = self.leases.remove(&id) else { return };
        for stripe in lease.stripes {
            self.set_state(stripe, StripeState::Returned);
        }
    }

    /// Checks the owners of returned memory. Returns whether some of it is still in use.
    pub fn check_owners(&mut self, ownership: &mut dyn FnMut(StripeId) -> Ownership) -> bool {
        let mut in_use = false;
        let draining: Vec<LeaseId> = self.leases_in(LeasePhase::Draining).collect();
        for id in draining {
            let Some(lease) = self.leases.get_mut(&id) else { continue };
            let owners: Vec<Ownership> = lease.stripes.iter().map(|id| ownership(*id)).collect();
            if owners.iter().all(|owner| *owner == Ownership::Free) {
                lease.phase = LeasePhase::Kept;
            } else if owners.contains(&Ownership::Unknown) {
                self.return_stripes(id);
            } else {
                in_use = true;
            }
        }
        let returned: Vec<StripeId> =
            self.stripes_that(|s| s.state == StripeState::Returned).collect();
        for id in returned {
            match ownership(id) {
                Ownership::Free => self.set_state(id, StripeState::Zeroing),
                Ownership::InUse => in_use = true,
                Ownership::Unknown => self.exchange(id),
            }
        }
        in_use
    }

    /// Notes that a stripe was zeroed, or that this failed.
    pub fn end_zeroing(&mut self, id: StripeId, succeeded: bool) {
        if self.stripes.get(&id).is_some_and(|stripe| stripe.state == StripeState::Zeroing) {
            if succeeded { self.set_state(id, StripeState::Ready) } else { self.exchange(id) }
        }
    }

    /// After a restart: keeps the stripes and leases whose descriptors are there. Work that was under
    /// way starts again.
    pub fn recover(
        &mut self,
        has_stripe: &dyn Fn(StripeId) -> bool,
        has_lease: &dyn Fn(LeaseId) -> bool,
    ) {
        let lost: Vec<StripeId> =
            self.stripes.keys().copied().filter(|id| !has_stripe(*id)).collect();
        for id in lost {
            self.exchange(id);
            self.freed(id);
        }
        let active = self.leases_in(LeasePhase::Active);
        let ended: Vec<LeaseId> = active.filter(|lease| !has_lease(*lease)).collect();
        ended.into_iter().for_each(|lease| self.end_lease(lease));
        for stripe in self.stripes.values_mut().filter(|s| s.state == StripeState::Zeroing) {
            stripe.state = StripeState::Returned;
        }
        self.pools.values_mut().for_each(|pool| pool.populating = 0);
    }

    /// Use of the bytes of a pool.
    #[must_use]
    pub fn used(&self, id: PoolId) -> PoolBytes {
        let mut used = PoolBytes::default();
        let Some(pool) = self.pools.get(&id) else { return used };
        let mut existing = 0;
        for (_, stripe) in self.stripes_of(id) {
            let phase = |lease| self.leases.get(lease).map(|lease| lease.phase);
            let bytes = match &stripe.state {
                StripeState::Ready => &mut used.ready,
                StripeState::Leased(lease) => match phase(lease) {
                    Some(LeasePhase::Active) => &mut used.leased,
                    Some(LeasePhase::Kept) => &mut used.kept,
                    Some(LeasePhase::Draining) | None => &mut used.draining,
                },
                StripeState::Returned | StripeState::Exchanged => &mut used.draining,
                StripeState::Zeroing => &mut used.zeroing,
            };
            *bytes += pool.stripe_bytes;
            existing += pool.stripe_bytes;
        }
        used.missing = pool.spec.bytes.saturating_sub(existing);
        used
    }

    /// Number of leases of a pool, draining and kept ones included.
    #[must_use]
    pub fn leases_of(&self, pool: PoolId) -> u32 {
        let count = self.leases.values().filter(|lease| lease.pool == pool).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }
}
