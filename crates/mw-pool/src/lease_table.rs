//! Which stripe is whose: the states of stripes and leases, without memory and without I/O.
//!
//! ```text
//!               populated          attach            the lease's last        the kernel says
//!                                                    descriptor closed       that nobody has it
//!   ( missing ) ─────────▶ ready ─────────▶ held ──────────────────▶ returned ───────────▶ scrubbing
//!        ▲                 │   ▲             │ ▲                        │ ▲                 │    │
//!        │                 │   └─────────────┼─┼────────────────────────┼─┼─────────────────┘    │
//!        │  wanted by      │      zeroed     │ │ attach, by the same    │ │                      │
//!        │  another user   │                 │ │ user under that name   │ │                      │
//!        │                 │                 ▼ │                        │ │ release              │
//!        │                 │      draining ─────▶ kept ─────────────────┼─┘                      │
//!        │                 │       all of it is nobody's                │ the kernel             │
//!        └─────────────────┴────────────────────────────────────────────┴ cannot say ────────────┘
//!          exchanged: given back to the kernel, populated anew                       zeroing failed
//! ```
//!
//! What is exchanged counts as the pool's until the kernel has freed it, so that whoever holds on to
//! it does not have the pool take more than its size.
//!
//! The lease of a System V segment has no descriptor that counts: it ends when the segment is gone.
//! A lease that keeps its contents takes the lower way: it stays together, *draining* until none of
//! its stripes is anybody's, then *kept*.
//!
//! What holds whatever happens, and is tested against a kernel that is made up
//! (tests/states.rs): a stripe is handed out only when nobody else has it, and then it is zero, or
//! is contents that the same user left. Memory that one user has had goes to another only through
//! the kernel, unless the pool's owners trust each other ([`Spec::trusting`]): pages can be held by
//! what leaves no trace in any count that a program can read (vmsplice(2)).

mod attach;

use crate::protocol::{Contents, MAX_STRIPES, PoolBytes, Refusal};
use crate::spec::{Name, Spec};
use mw_memory::PageSize;
use std::collections::BTreeMap;

/// The most pools.
pub const MAX_POOLS: usize = 32;
/// The most leases, those that drain and are kept included.
pub const MAX_LEASES: usize = 256;
/// The most leases of one user.
pub const MAX_LEASES_PER_USER: usize = 64;
/// Into how many stripes a pool is cut, roughly: what is asked for is rounded up to whole ones.
const STRIPES: u64 = 64;
/// The smallest stripe, of a pool that has several: each is a descriptor.
const MIN_STRIPE_BYTES: u64 = 8 << 20;
/// What every stripe is a multiple of, however small its pages: what helpers take at a time.
const CHUNK_BYTES: u64 = 4 << 20;

/// What one table of 2 MiB pages maps. The kernel lets processes that map a hugetlb file in such
/// pieces share the server's tables (mm/hugetlb.c, `huge_pmd_share`): attaching is then one fault
/// for each, and no 512. Pools of at least four of them are cut so.
pub const TABLE_BYTES: u64 = 1 << 30;

/// The number of a stripe; never used again.
pub type StripeId = u32;
/// The number of a lease; never used again.
pub type LeaseId = u64;
/// The number of a pool; never used again.
pub type PoolId = u32;

/// What a stripe is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StripeState {
    /// Zero, and nobody's.
    Ready,
    /// Of a lease.
    Leased(LeaseId),
    /// Its lease has ended; somebody may still have it.
    Returned,
    /// Nobody's, being zeroed.
    Scrubbing,
    /// Given up by this server; the kernel has not freed it yet, or somebody still has it.
    Exchanged,
}

/// A piece of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stripe {
    /// The pool that it is of.
    pub pool: PoolId,
    /// What it is.
    pub state: StripeState,
    /// The last user who had it.
    pub last: Option<u32>,
}

/// A pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// What it is to be.
    pub spec: Spec,
    /// The bytes of each stripe.
    pub stripe_bytes: u64,
    /// How many leases there were.
    pub leases_total: u64,
    /// How many of its stripes are being populated.
    pub coming: u64,
}

impl Pool {
    fn stripes_of(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.stripe_bytes.max(1))
    }
}

/// What a lease is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeasePhase {
    /// Somebody has its descriptor, or the process that asked for it still has its memory, or the
    /// System V segment is there whose memory it is.
    Active,
    /// Nobody has; somebody may still have its memory, which is to be kept.
    Draining,
    /// Nobody has anything of it; its contents wait for their user.
    Kept,
}

/// What a user has, or left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseEntry {
    /// The pool that it is of.
    pub pool: PoolId,
    /// Whose it is.
    pub user: u32,
    /// The process that asked for it.
    pub process: u32,
    /// Its stripes, in order.
    pub stripes: Vec<StripeId>,
    /// The name under which its contents are kept.
    pub keep: Option<Name>,
    /// How often its contents were handed out before.
    pub generation: u64,
    /// Whether nobody has said that the contents are consistent.
    pub dirty: bool,
    /// What it is.
    pub phase: LeasePhase,
    /// The System V segment whose memory it is, which `process` made.
    pub segment: Option<u32>,
}

/// Who asks for memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requester {
    /// The user.
    pub user: u32,
    /// The process.
    pub process: u32,
}

/// The answer to who asks for memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttachOutcome {
    /// A lease.
    Granted {
        /// Its number.
        lease: LeaseId,
        /// Its stripes, in order.
        stripes: Vec<StripeId>,
        /// What is in them.
        contents: Contents,
    },
    /// Not yet.
    Wait {
        /// Stripes that could be had now.
        ready: u64,
        /// Stripes that are on their way.
        coming: u64,
    },
}

/// Why not, and in words.
pub type Refused = (Refusal, String);

/// What the kernel says of a stripe that was given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ownership {
    /// Nobody has it.
    Free,
    /// Somebody has it.
    InUse,
    /// It cannot say.
    Unknown,
}

/// All pools, stripes and leases.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeaseTable {
    pub(crate) pools: BTreeMap<PoolId, Pool>,
    pub(crate) stripes: BTreeMap<StripeId, Stripe>,
    pub(crate) leases: BTreeMap<LeaseId, LeaseEntry>,
    /// The next numbers, of pools, stripes and leases.
    pub(crate) next: (PoolId, StripeId, LeaseId),
}

fn refused<T>(refusal: Refusal, why: impl Into<String>) -> Result<T, Refused> {
    Err((refusal, why.into()))
}

impl LeaseTable {
    /// A pool of this name.
    #[must_use]
    pub fn find(&self, name: &Name) -> Option<PoolId> {
        self.pools.iter().find(|(_, pool)| pool.spec.name == *name).map(|(id, _)| *id)
    }

    /// The pool after this name, or the first, for which `visible` holds.
    #[must_use]
    pub fn next(&self, after: Option<&Name>, visible: &dyn Fn(&Spec) -> bool) -> Option<PoolId> {
        let later = |pool: &Pool| after.is_none_or(|after| pool.spec.name > *after);
        let pools = self.pools.iter().filter(|(_, pool)| later(pool) && visible(&pool.spec));
        pools.min_by(|a, b| a.1.spec.name.cmp(&b.1.spec.name)).map(|(id, _)| *id)
    }

    /// A pool.
    #[must_use]
    pub fn pool(&self, id: PoolId) -> Option<&Pool> {
        self.pools.get(&id)
    }

    /// A stripe.
    #[must_use]
    pub fn stripe(&self, id: StripeId) -> Option<&Stripe> {
        self.stripes.get(&id)
    }

    /// A lease.
    #[must_use]
    pub fn lease(&self, id: LeaseId) -> Option<&LeaseEntry> {
        self.leases.get(&id)
    }

    /// The numbers of all stripes that are `state`.
    pub fn stripes_that(&self, is: impl Fn(&Stripe) -> bool) -> impl Iterator<Item = StripeId> {
        self.stripes.iter().filter(move |(_, stripe)| is(stripe)).map(|(id, _)| *id)
    }

    /// The numbers of all leases in a phase.
    pub fn leases_in(&self, phase: LeasePhase) -> impl Iterator<Item = LeaseId> {
        self.leases.iter().filter(move |(_, lease)| lease.phase == phase).map(|(id, _)| *id)
    }

    /// The bytes that all pools may have.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.pools.values().map(|pool| pool.spec.bytes).fold(0, u64::saturating_add)
    }

    /// Makes a pool; its size is rounded up to whole stripes. It has no stripe yet.
    ///
    /// # Errors
    /// Where the name is taken, the size is none, or there are too many pools.
    pub fn create(&mut self, mut spec: Spec) -> Result<PoolId, Refused> {
        if self.find(&spec.name).is_some() {
            return refused(Refusal::Exists, format!("there is a pool '{}' already", spec.name));
        }
        if self.pools.len() >= MAX_POOLS {
            return refused(Refusal::Limit, format!("there are {MAX_POOLS} pools; no more fit"));
        }
        let granule = spec.pages.granule_bytes(mw_sys::page_bytes() as u64).max(CHUNK_BYTES);
        let stripe = spec.bytes.div_ceil(STRIPES).max(MIN_STRIPE_BYTES.min(spec.bytes));
        let shares_tables = spec.pages == PageSize::HUGE_2M && spec.bytes >= 4 * TABLE_BYTES;
        let granule = if shares_tables { TABLE_BYTES } else { granule };
        let whole = stripe.checked_next_multiple_of(granule).filter(|bytes| *bytes > 0);
        let rounded = whole.and_then(|stripe| spec.bytes.checked_next_multiple_of(stripe));
        let (Some(stripe_bytes), Some(bytes)) = (whole, rounded) else {
            return refused(Refusal::Invalid, format!("{} bytes are no size", spec.bytes));
        };
        spec.bytes = bytes;
        let id = self.next.0;
        self.next.0 += 1;
        self.pools.insert(id, Pool { spec, stripe_bytes, leases_total: 0, coming: 0 });
        Ok(id)
    }

    /// Forgets a pool with its stripes and leases. Who has some of its memory keeps it.
    pub fn remove(&mut self, pool: PoolId) {
        self.pools.remove(&pool);
        self.stripes.retain(|_, stripe| stripe.pool != pool);
        self.leases.retain(|_, lease| lease.pool != pool);
    }

    /// Has a pool be larger, by whole stripes.
    ///
    /// # Errors
    /// Where it would have too many.
    pub fn grow(&mut self, pool: PoolId, bytes: u64) -> Result<(), Refused> {
        let Some(pool) = self.pools.get_mut(&pool) else {
            return refused(Refusal::NoSuchPool, "it is gone");
        };
        let size = bytes
            .checked_next_multiple_of(pool.stripe_bytes)
            .and_then(|more| pool.spec.bytes.checked_add(more));
        match size {
            Some(size) if bytes > 0 && pool.stripes_of(size) <= MAX_STRIPES as u64 => {
                pool.spec.bytes = size;
                Ok(())
            }
            _ => refused(
                Refusal::TooLarge,
                format!(
                    "a pool has at most {MAX_STRIPES} stripes, and this one's are of {} MiB: make \
                     another",
                    pool.stripe_bytes >> 20
                ),
            ),
        }
    }

    /// Has a pool be smaller, by whole stripes, of those that are ready or missing.
    ///
    /// # Errors
    /// Where those are too few, or nothing would be left.
    pub fn shrink(&mut self, id: PoolId, bytes: u64) -> Result<(), Refused> {
        let Some(pool) = self.pools.get(&id) else {
            return refused(Refusal::NoSuchPool, "it is gone");
        };
        let less = pool.stripes_of(bytes);
        let all = pool.stripes_of(pool.spec.bytes);
        if less == 0 || less >= all {
            return refused(Refusal::Invalid, "it would be empty, or as it is; remove takes all");
        }
        let ready: Vec<StripeId> =
            self.stripes_that(|s| s.pool == id && s.state == StripeState::Ready).collect();
        let missing = all.saturating_sub(self.of(id).count() as u64);
        let unused = missing + ready.len() as u64;
        if less > unused {
            let stripe = pool.stripe_bytes;
            return refused(
                Refusal::Full,
                format!("only {} MiB of it are not in use", (unused * stripe) >> 20),
            );
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

    /// Gives up contents that are kept in a pool; those of this user alone, if one is given.
    pub fn release(&mut self, pool: PoolId, user: Option<u32>) {
        let gone = |lease: &LeaseEntry| {
            lease.pool == pool
                && lease.phase != LeasePhase::Active
                && user.is_none_or(|user| lease.user == user)
        };
        let ids: Vec<LeaseId> =
            self.leases.iter().filter(|(_, lease)| gone(lease)).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|lease| self.give_up(lease));
    }

    /// The stripes of a pool.
    fn of(&self, pool: PoolId) -> impl Iterator<Item = (StripeId, &Stripe)> {
        let stripes = self.stripes.iter().map(|(id, stripe)| (*id, stripe));
        stripes.filter(move |(_, stripe)| stripe.pool == pool)
    }

    /// How many stripes a pool lacks that nobody populates yet.
    #[must_use]
    pub fn missing(&self, id: PoolId) -> u64 {
        let Some(pool) = self.pools.get(&id) else { return 0 };
        let there = self.of(id).count() as u64 + pool.coming;
        pool.stripes_of(pool.spec.bytes).saturating_sub(there)
    }

    /// Notes that somebody populates so many stripes of a pool.
    pub fn populating(&mut self, pool: PoolId, stripes: u64) {
        if let Some(pool) = self.pools.get_mut(&pool) {
            pool.coming += stripes;
        }
    }

    /// Notes the end of it.
    pub fn populated(&mut self, pool: PoolId, stripes: u64) {
        if let Some(pool) = self.pools.get_mut(&pool) {
            pool.coming = pool.coming.saturating_sub(stripes);
        }
    }

    /// Takes a stripe that was populated into its pool; none where it is not wanted any more.
    pub fn add(&mut self, pool: PoolId) -> Option<StripeId> {
        if self.missing(pool) == 0 {
            return None;
        }
        let id = self.next.1;
        self.next.1 += 1;
        self.stripes.insert(id, Stripe { pool, state: StripeState::Ready, last: None });
        Some(id)
    }

    /// Gives a stripe up, and the lease that has it ends. It is missing from its pool once it is
    /// [`freed`](Self::freed).
    pub fn exchange(&mut self, id: StripeId) {
        let state = self.stripes.get(&id).map(|stripe| stripe.state);
        if let Some(StripeState::Leased(lease)) = state {
            self.give_up(lease);
        }
        self.set(id, StripeState::Exchanged);
    }

    /// Notes that the kernel has freed what was given up.
    pub fn freed(&mut self, id: StripeId) {
        if self.stripes.get(&id).is_some_and(|stripe| stripe.state == StripeState::Exchanged) {
            self.stripes.remove(&id);
        }
    }

    fn set(&mut self, id: StripeId, state: StripeState) {
        if let Some(stripe) = self.stripes.get_mut(&id) {
            stripe.state = state;
        }
    }

    /// Notes the holder's word that the contents are consistent.
    pub fn consistent(&mut self, lease: LeaseId) {
        if let Some(lease) = self.leases.get_mut(&lease) {
            lease.dirty = false;
        }
    }

    /// Notes whose memory a lease is, from now on: a System V segment's.
    pub fn tie(&mut self, lease: LeaseId, segment: u32) {
        if let Some(lease) = self.leases.get_mut(&lease) {
            lease.segment = Some(segment);
        }
    }

    /// The lease that is a System V segment's memory.
    #[must_use]
    pub fn tied(&self, segment: u32) -> Option<(LeaseId, &LeaseEntry)> {
        let mut leases = self.leases.iter().map(|(id, lease)| (*id, lease));
        leases
            .find(|(_, lease)| lease.segment == Some(segment) && lease.phase == LeasePhase::Active)
    }

    /// Notes that a lease is over: nobody has its descriptor any more.
    pub fn ended(&mut self, id: LeaseId) {
        match self.leases.get_mut(&id) {
            Some(lease) if lease.phase == LeasePhase::Active && lease.keep.is_some() => {
                lease.phase = LeasePhase::Draining;
            }
            Some(lease) if lease.phase == LeasePhase::Active => self.give_up(id),
            _ => {}
        }
    }

    /// Ends a lease whose contents nobody keeps, or nobody keeps any more.
    fn give_up(&mut self, id: LeaseId) {
        let Some(lease) = self.leases.remove(&id) else { return };
        for stripe in lease.stripes {
            self.set(stripe, StripeState::Returned);
        }
    }

    /// Asks the kernel of all that was given back. Returns whether somebody still has some of it.
    pub fn check_owners(&mut self, verdict: &mut dyn FnMut(StripeId) -> Ownership) -> bool {
        let mut held = false;
        let draining: Vec<LeaseId> = self.leases_in(LeasePhase::Draining).collect();
        for id in draining {
            let Some(lease) = self.leases.get_mut(&id) else { continue };
            let verdicts: Vec<Ownership> = lease.stripes.iter().map(|id| verdict(*id)).collect();
            match () {
                () if verdicts.iter().all(|v| *v == Ownership::Free) => {
                    lease.phase = LeasePhase::Kept
                }
                () if verdicts.contains(&Ownership::Unknown) => self.give_up(id),
                () => held = true,
            }
        }
        let returned: Vec<StripeId> =
            self.stripes_that(|s| s.state == StripeState::Returned).collect();
        for id in returned {
            match verdict(id) {
                Ownership::Free => self.set(id, StripeState::Scrubbing),
                Ownership::InUse => held = true,
                Ownership::Unknown => self.exchange(id),
            }
        }
        held
    }

    /// Notes that a stripe is zero again, or that it could not be made so.
    pub fn scrubbed(&mut self, id: StripeId, zero: bool) {
        if self.stripes.get(&id).is_some_and(|stripe| stripe.state == StripeState::Scrubbing) {
            if zero { self.set(id, StripeState::Ready) } else { self.exchange(id) }
        }
    }

    /// After a restart: the stripes and the leases of which a descriptor is there. What was being
    /// done is begun again.
    pub fn recover(
        &mut self,
        stripes: &dyn Fn(StripeId) -> bool,
        leases: &dyn Fn(LeaseId) -> bool,
    ) {
        let gone: Vec<StripeId> = self.stripes.keys().copied().filter(|id| !stripes(*id)).collect();
        for id in gone {
            self.exchange(id);
            self.freed(id);
        }
        let ended: Vec<LeaseId> =
            self.leases_in(LeasePhase::Active).filter(|lease| !leases(*lease)).collect();
        ended.into_iter().for_each(|lease| self.ended(lease));
        for stripe in self.stripes.values_mut().filter(|s| s.state == StripeState::Scrubbing) {
            stripe.state = StripeState::Returned;
        }
        self.pools.values_mut().for_each(|pool| pool.coming = 0);
    }

    /// How the bytes of a pool are used.
    #[must_use]
    pub fn used(&self, id: PoolId) -> PoolBytes {
        let mut used = PoolBytes::default();
        let Some(pool) = self.pools.get(&id) else { return used };
        let mut there = 0;
        for (_, stripe) in self.of(id) {
            let phase = |lease| self.leases.get(lease).map(|lease| lease.phase);
            let bytes = match &stripe.state {
                StripeState::Ready => &mut used.ready,
                StripeState::Leased(lease) if phase(lease) == Some(LeasePhase::Active) => {
                    &mut used.leased
                }
                StripeState::Leased(lease) if phase(lease) == Some(LeasePhase::Kept) => {
                    &mut used.kept
                }
                StripeState::Leased(_) | StripeState::Returned | StripeState::Exchanged => {
                    &mut used.draining
                }
                StripeState::Scrubbing => &mut used.scrubbing,
            };
            *bytes += pool.stripe_bytes;
            there += pool.stripe_bytes;
        }
        used.missing = pool.spec.bytes.saturating_sub(there);
        used
    }

    /// How many leases a pool has, those that drain and are kept included.
    #[must_use]
    pub fn leases_of(&self, pool: PoolId) -> u32 {
        let count = self.leases.values().filter(|lease| lease.pool == pool).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }
}
