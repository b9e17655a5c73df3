//! Allocation of stripes to leases.

use super::{
    AttachOutcome, LeaseEntry, LeaseTable, MAX_LEASES, MAX_LEASES_PER_USER, Ownership, PoolId,
    RefusalReason, Requester, Stripe, StripeId, StripeState, refused,
};
use crate::protocol::{Contents, LeasePhase, Refusal};
use crate::spec::PoolName;

impl LeaseTable {
    /// Leases memory of a pool to a requester who may have it; its contents are kept after the lease
    /// if `keep` names them. `ownership` queries the kernel about each stripe that is about to be leased.
    ///
    /// # Errors
    /// If the request can never be granted, or nothing is about to come back.
    pub fn attach(
        &mut self,
        id: PoolId,
        requester: Requester,
        bytes: u64,
        keep: Option<PoolName>,
        ownership: &mut dyn FnMut(StripeId) -> Ownership,
    ) -> Result<AttachOutcome, RefusalReason> {
        let needed = self.stripes_needed(id, requester, bytes)?;
        if let Some(name) = &keep
            && let Some(outcome) = self.attach_kept(id, requester, needed, name, ownership)?
        {
            return Ok(outcome);
        }
        let mut chosen = Vec::new();
        for stripe in self.usable(id, requester.user) {
            if chosen.len() as u64 == needed {
                break;
            }
            match ownership(stripe) {
                Ownership::Free => chosen.push(stripe),
                // It should not be in use; if it is, the server waits.
                Ownership::InUse => self.set_state(stripe, StripeState::Returned),
                // A stripe that was never leased needs no check.
                Ownership::Unknown if self.is_unused(stripe) => chosen.push(stripe),
                Ownership::Unknown => self.exchange(stripe),
            }
        }
        if (chosen.len() as u64) < needed {
            return self.wait(id, requester.user, needed);
        }
        let entry = LeaseEntry {
            pool: id,
            user: requester.user,
            process: requester.process,
            stripes: chosen,
            dirty: keep.is_some(),
            keep,
            generation: 0,
            phase: LeasePhase::Active,
            segment: None,
        };
        Ok(self.grant(entry, Contents::Zeroed))
    }

    fn is_unused(&self, id: StripeId) -> bool {
        self.stripes.get(&id).is_some_and(|stripe| stripe.last_user.is_none())
    }

    fn stripes_needed(
        &self,
        id: PoolId,
        requester: Requester,
        bytes: u64,
    ) -> Result<u64, RefusalReason> {
        let Some(pool) = self.pools.get(&id) else {
            return refused(Refusal::NoSuchPool, "the pool was removed");
        };
        let needed = pool.stripes_for(bytes);
        let own = self.leases.values().filter(|lease| lease.user == requester.user).count();
        if needed == 0 {
            return refused(Refusal::Invalid, "invalid size: 0 bytes");
        }
        if bytes > pool.spec.bytes {
            let (requested, size) = (bytes >> 20, pool.spec.bytes >> 20);
            let why =
                format!("requested {requested} MiB of a pool of {size} MiB: memwright pool grow");
            return refused(Refusal::TooLarge, why);
        }
        if self.leases.len() >= MAX_LEASES || own >= MAX_LEASES_PER_USER {
            let why = format!(
                "too many leases (at most {MAX_LEASES_PER_USER} a user, {MAX_LEASES} in all)"
            );
            return refused(Refusal::Limit, why);
        }
        Ok(needed)
    }

    /// The user's contents of that name, if they are kept and of that size. Those of another size are
    /// discarded: they cannot be what the user wants.
    fn attach_kept(
        &mut self,
        pool: PoolId,
        requester: Requester,
        needed: u64,
        name: &PoolName,
        ownership: &mut dyn FnMut(StripeId) -> Ownership,
    ) -> Result<Option<AttachOutcome>, RefusalReason> {
        let is_own = |lease: &LeaseEntry| {
            lease.pool == pool && lease.user == requester.user && lease.keep.as_ref() == Some(name)
        };
        let found = self.leases.iter().find(|(_, lease)| is_own(lease));
        let Some((id, lease)) = found.map(|(id, lease)| (*id, lease.clone())) else {
            return Ok(None);
        };
        match lease.phase {
            LeasePhase::Active => {
                let why = format!("process {} uses the contents '{name}'", lease.process);
                return refused(Refusal::Full, why);
            }
            LeasePhase::Draining => {
                let coming = lease.stripes.len() as u64;
                return Ok(Some(AttachOutcome::Wait { ready: 0, coming }));
            }
            LeasePhase::Kept => {}
        }
        let is_free = lease.stripes.iter().all(|stripe| ownership(*stripe) == Ownership::Free);
        if !is_free || lease.stripes.len() as u64 != needed {
            self.return_stripes(id);
            return Ok(None);
        }
        self.leases.remove(&id);
        let generation = lease.generation + 1;
        let contents = Contents::Kept { generation, dirty: lease.dirty };
        let entry = LeaseEntry {
            process: requester.process,
            generation,
            dirty: true,
            phase: LeasePhase::Active,
            ..lease
        };
        Ok(Some(self.grant(entry, contents)))
    }

    /// The stripes that this user may have, those that the user had last first.
    fn usable(&self, pool: PoolId, user: u32) -> Vec<StripeId> {
        let trusting = self.pools.get(&pool).is_some_and(|pool| pool.spec.trusting);
        let rank = |stripe: &Stripe| match stripe.last_user {
            Some(last) if last == user => Some(0),
            None => Some(1),
            Some(_) => trusting.then_some(2),
        };
        let ready = self.stripes_of(pool).filter(|(_, stripe)| stripe.state == StripeState::Ready);
        let mut usable: Vec<(u8, StripeId)> =
            ready.filter_map(|(id, stripe)| Some((rank(stripe)?, id))).collect();
        usable.sort_unstable();
        usable.into_iter().map(|(_, id)| id).collect()
    }

    /// Too few are ready: stripes of other users are exchanged, the others are waited for.
    fn wait(
        &mut self,
        pool: PoolId,
        user: u32,
        needed: u64,
    ) -> Result<AttachOutcome, RefusalReason> {
        let ready = self.usable(pool, user);
        let is_ready = |s: &Stripe| s.pool == pool && s.state == StripeState::Ready;
        let of_others: Vec<StripeId> =
            self.stripes_that(is_ready).filter(|id| !ready.contains(id)).collect();
        let ready = ready.len() as u64;
        let lacking = usize::try_from(needed.saturating_sub(ready)).unwrap_or(usize::MAX);
        of_others.into_iter().take(lacking).for_each(|stripe| self.exchange(stripe));
        let is_coming = |s: &Stripe| {
            matches!(s.state, StripeState::Returned | StripeState::Zeroing | StripeState::Exchanged)
        };
        let populating = self.pools.get(&pool).map_or(0, |pool| pool.populating);
        let coming = self.missing(pool)
            + populating
            + self.stripes_of(pool).filter(|(_, stripe)| is_coming(stripe)).count() as u64;
        if ready + coming < needed {
            let why = "the rest of the pool is in use, or keeps its contents";
            return refused(Refusal::Full, why);
        }
        Ok(AttachOutcome::Wait { ready, coming })
    }

    fn grant(&mut self, entry: LeaseEntry, contents: Contents) -> AttachOutcome {
        let lease = self.next.lease;
        self.next.lease += 1;
        for id in &entry.stripes {
            if let Some(stripe) = self.stripes.get_mut(id) {
                stripe.state = StripeState::Leased(lease);
                stripe.last_user = Some(entry.user);
            }
        }
        if let Some(pool) = self.pools.get_mut(&entry.pool) {
            pool.leases_total += 1;
        }
        let stripes = entry.stripes.clone();
        self.leases.insert(lease, entry);
        AttachOutcome::Granted { lease, stripes, contents }
    }
}
