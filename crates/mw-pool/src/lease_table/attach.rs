//! Who gets what.

use super::{
    AttachOutcome, LeaseEntry, LeasePhase, LeaseTable, MAX_LEASES, MAX_LEASES_PER_USER, Ownership,
    PoolId, Refused, Requester, Stripe, StripeId, StripeState, refused,
};
use crate::protocol::{Contents, Refusal};
use crate::spec::Name;

impl LeaseTable {
    /// Gives memory of a pool to who asks, may have it, and wants its contents kept under a name
    /// if one is given. `sure` asks the kernel of each stripe that is about to be handed out.
    ///
    /// # Errors
    /// Where it can never be given, or nothing is about to come back.
    pub fn attach(
        &mut self,
        id: PoolId,
        asker: Requester,
        bytes: u64,
        keep: Option<Name>,
        sure: &mut dyn FnMut(StripeId) -> Ownership,
    ) -> Result<AttachOutcome, Refused> {
        let needed = self.needed(id, asker, bytes)?;
        if let Some(name) = &keep
            && let Some(answer) = self.attach_kept(id, asker, needed, name, sure)?
        {
            return Ok(answer);
        }
        let mut chosen = Vec::new();
        for stripe in self.usable(id, asker.user) {
            if chosen.len() as u64 == needed {
                break;
            }
            match sure(stripe) {
                Ownership::Free => chosen.push(stripe),
                // Nobody should have it: whoever has is waited for.
                Ownership::InUse => self.set(stripe, StripeState::Returned),
                // What nobody has ever had needs no proof.
                Ownership::Unknown
                    if self.stripes.get(&stripe).is_some_and(|s| s.last.is_none()) =>
                {
                    chosen.push(stripe);
                }
                Ownership::Unknown => self.exchange(stripe),
            }
        }
        if (chosen.len() as u64) < needed {
            return self.wait(id, asker.user, needed);
        }
        let dirty = keep.is_some();
        Ok(self.give(id, asker, chosen, keep, (0, dirty), Contents::Zeroed))
    }

    fn needed(&self, id: PoolId, asker: Requester, bytes: u64) -> Result<u64, Refused> {
        let Some(pool) = self.pools.get(&id) else {
            return refused(Refusal::NoSuchPool, "it is gone");
        };
        let needed = pool.stripes_of(bytes);
        let mine = self.leases.values().filter(|lease| lease.user == asker.user).count();
        if needed == 0 {
            return refused(Refusal::Invalid, "0 bytes are no memory");
        }
        if bytes > pool.spec.bytes {
            let (asked, had) = (bytes >> 20, pool.spec.bytes >> 20);
            let why = format!("{asked} MiB asked, the pool has {had} MiB: memwright pool grow");
            return refused(Refusal::TooLarge, why);
        }
        if self.leases.len() >= MAX_LEASES || mine >= MAX_LEASES_PER_USER {
            let why =
                format!("{MAX_LEASES_PER_USER} leases a user and {MAX_LEASES} in all at most");
            return refused(Refusal::Limit, why);
        }
        Ok(needed)
    }

    /// The contents of that name and user, if they are there and of that size. Those of another
    /// size are given up: they cannot be what is wanted.
    fn attach_kept(
        &mut self,
        pool: PoolId,
        asker: Requester,
        needed: u64,
        name: &Name,
        sure: &mut dyn FnMut(StripeId) -> Ownership,
    ) -> Result<Option<AttachOutcome>, Refused> {
        let own = |lease: &LeaseEntry| {
            lease.pool == pool && lease.user == asker.user && lease.keep.as_ref() == Some(name)
        };
        let found = self.leases.iter().find(|(_, lease)| own(lease));
        let Some((id, lease)) = found.map(|(id, lease)| (*id, lease.clone())) else {
            return Ok(None);
        };
        match lease.phase {
            LeasePhase::Active => {
                let why = format!("process {} has the contents '{name}'", lease.process);
                return refused(Refusal::Full, why);
            }
            LeasePhase::Draining => {
                return Ok(Some(AttachOutcome::Wait {
                    ready: 0,
                    coming: lease.stripes.len() as u64,
                }));
            }
            LeasePhase::Kept => {}
        }
        let free = lease.stripes.iter().all(|stripe| sure(*stripe) == Ownership::Free);
        if !free || lease.stripes.len() as u64 != needed {
            self.give_up(id);
            return Ok(None);
        }
        self.leases.remove(&id);
        let generation = lease.generation + 1;
        let contents = Contents::Kept { generation, dirty: lease.dirty };
        let keep = Some(name.clone());
        Ok(Some(self.give(pool, asker, lease.stripes, keep, (generation, true), contents)))
    }

    /// Stripes that this user may have, those that the user had last first.
    fn usable(&self, pool: PoolId, user: u32) -> Vec<StripeId> {
        let trusting = self.pools.get(&pool).is_some_and(|pool| pool.spec.trusting);
        let rank = |stripe: &Stripe| match stripe.last {
            Some(last) if last == user => Some(0),
            None => Some(1),
            Some(_) => trusting.then_some(2),
        };
        let ready = self.of(pool).filter(|(_, stripe)| stripe.state == StripeState::Ready);
        let mut usable: Vec<(u8, StripeId)> =
            ready.filter_map(|(id, stripe)| Some((rank(stripe)?, id))).collect();
        usable.sort_unstable();
        usable.into_iter().map(|(_, id)| id).collect()
    }

    /// Too few for now: what other users had is exchanged, the rest is waited for.
    fn wait(&mut self, pool: PoolId, user: u32, needed: u64) -> Result<AttachOutcome, Refused> {
        let ready = self.usable(pool, user);
        let is_foreign = |s: &Stripe| s.pool == pool && s.state == StripeState::Ready;
        let foreign: Vec<StripeId> =
            self.stripes_that(is_foreign).filter(|id| !ready.contains(id)).collect();
        let ready = ready.len() as u64;
        let lacking = usize::try_from(needed.saturating_sub(ready)).unwrap_or(usize::MAX);
        foreign.into_iter().take(lacking).for_each(|stripe| self.exchange(stripe));
        let under_way = |s: &Stripe| {
            matches!(
                s.state,
                StripeState::Returned | StripeState::Scrubbing | StripeState::Exchanged
            )
        };
        let populating = self.pools.get(&pool).map_or(0, |pool| pool.coming);
        let coming = self.missing(pool)
            + populating
            + self.of(pool).filter(|(_, stripe)| under_way(stripe)).count() as u64;
        if ready + coming < needed {
            return refused(Refusal::Full, "all else of it is in use, or keeps its contents");
        }
        Ok(AttachOutcome::Wait { ready, coming })
    }

    fn give(
        &mut self,
        pool: PoolId,
        asker: Requester,
        stripes: Vec<StripeId>,
        keep: Option<Name>,
        (generation, dirty): (u64, bool),
        contents: Contents,
    ) -> AttachOutcome {
        let lease = self.next.2;
        self.next.2 += 1;
        for id in &stripes {
            if let Some(stripe) = self.stripes.get_mut(id) {
                stripe.state = StripeState::Leased(lease);
                stripe.last = Some(asker.user);
            }
        }
        if let Some(pool) = self.pools.get_mut(&pool) {
            pool.leases_total += 1;
        }
        let Requester { user, process } = asker;
        let given = stripes.clone();
        let phase = LeasePhase::Active;
        let segment = None;
        let held =
            LeaseEntry { pool, user, process, stripes, keep, generation, dirty, phase, segment };
        self.leases.insert(lease, held);
        AttachOutcome::Granted { lease, stripes: given, contents }
    }
}
