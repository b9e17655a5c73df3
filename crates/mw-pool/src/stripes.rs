//! The memory of all stripes that the server has.

use crate::lease_table::{Ownership, StripeId};
use crate::stripe_memory::{StripeMemory, kernel_knows_owners};
use mw_memory::PageSize;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Stripes {
    memory: BTreeMap<StripeId, Arc<StripeMemory>>,
    /// True if the kernel reports who has memory, for shmem and for hugetlb files.
    shmem_owners_known: bool,
    hugetlb_owners_known: bool,
}

impl Stripes {
    pub(crate) fn new() -> Self {
        Self {
            memory: BTreeMap::new(),
            shmem_owners_known: kernel_knows_owners(PageSize::Base),
            hugetlb_owners_known: kernel_knows_owners(PageSize::HUGE_2M),
        }
    }

    pub(crate) fn shmem_owners_known(&self) -> bool {
        self.shmem_owners_known
    }

    pub(crate) fn hugetlb_owners_known(&self) -> bool {
        self.hugetlb_owners_known
    }

    pub(crate) fn insert(&mut self, id: StripeId, memory: Arc<StripeMemory>) {
        self.memory.insert(id, memory);
    }

    pub(crate) fn remove(&mut self, id: StripeId) -> Option<Arc<StripeMemory>> {
        self.memory.remove(&id)
    }

    pub(crate) fn get(&self, id: StripeId) -> Option<&Arc<StripeMemory>> {
        self.memory.get(&id)
    }

    pub(crate) fn contains(&self, id: StripeId) -> bool {
        self.memory.contains_key(&id)
    }

    pub(crate) fn len(&self) -> usize {
        self.memory.len()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = StripeId> {
        self.memory.keys().copied()
    }

    /// Whether another process has a stripe, according to the kernel.
    pub(crate) fn ownership(&self, id: StripeId) -> Ownership {
        let Some(memory) = self.get(id) else { return Ownership::Unknown };
        let known =
            if memory.is_hugetlb() { self.hugetlb_owners_known } else { self.shmem_owners_known };
        if known { memory.ownership() } else { Ownership::Unknown }
    }

    /// New descriptors of stripes, for a client.
    pub(crate) fn descriptors(&self, ids: &[StripeId]) -> io::Result<Vec<OwnedFd>> {
        let reopen = |id: &StripeId| self.get(*id).ok_or(io::ErrorKind::NotFound)?.reopen();
        ids.iter().map(reopen).collect()
    }

    /// True if all of these stripes are locked in memory.
    pub(crate) fn are_locked(&self, mut ids: impl Iterator<Item = StripeId>) -> bool {
        ids.all(|id| self.get(id).is_none_or(|memory| memory.is_locked()))
    }
}
