//! Kernel stacks by number, each kept once. Nothing is allocated for a stack that is known.

use hashbrown::{DefaultHashBuilder, HashTable};
use mw_critical_path::StackId;
use std::hash::BuildHasher;

/// Of the stacks that are kept, one in so many is reserved for those in which tasks wait: without one, what a task
/// waited for is not known.
const RESERVED_PART: usize = 8;

/// Addresses that a stack has on average.
const MEAN_FRAMES: usize = 24;

#[derive(Debug)]
pub(super) struct Stacks {
    /// Those of all stacks, one after the other.
    addresses: Vec<u64>,
    /// End of each stack in `addresses`. The first is empty.
    ends: Vec<usize>,
    ids: HashTable<StackId>,
    hasher: DefaultHashBuilder,
    /// Different stacks that are kept; further ones are empty.
    most: usize,
}

impl Stacks {
    /// With room for `resident` stacks of which the memory is present from the start.
    pub(super) fn new(most: usize, resident: usize) -> Self {
        let mut addresses = vec![u64::MAX; resident * MEAN_FRAMES];
        addresses.clear();
        let mut ends = vec![usize::MAX; resident];
        ends.clear();
        ends.push(0);
        let ids = HashTable::with_capacity(resident);
        Self { addresses, ends, ids, hasher: DefaultHashBuilder::default(), most }
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Forgets all stacks and keeps their memory.
    pub(super) fn clear(&mut self) {
        self.addresses.clear();
        self.ends.truncate(1);
        self.ids.clear();
    }

    /// The addresses of a stack, innermost first.
    pub(super) fn get(&self, id: StackId) -> &[u64] {
        addresses_of(&self.addresses, &self.ends, id)
    }

    /// No further stack is kept, unless a task waits in it.
    pub(super) fn is_full(&self) -> bool {
        self.ends.len() >= self.most - self.most / RESERVED_PART
    }

    /// Forgets the stacks of which `is_used` does not hold, and numbers the others anew: the number of each stack by
    /// the one that it had.
    pub(super) fn retain(&mut self, is_used: impl Fn(StackId) -> bool) -> Vec<StackId> {
        let Self { addresses, ends, ids, hasher, .. } = self;
        let mut renumbered = Vec::with_capacity(ends.len());
        let (mut begin, mut kept, mut filled) = (0, 0, 0);
        for old in 0..ends.len() {
            let end = ends.get(old).copied().unwrap_or(begin);
            let id = StackId(u32::try_from(old).unwrap_or(0));
            if old > 0 && !is_used(id) {
                renumbered.push(StackId::default());
            } else {
                addresses.copy_within(begin..end, filled);
                filled += end - begin;
                if let Some(slot) = ends.get_mut(kept) {
                    *slot = filled;
                }
                renumbered.push(StackId(u32::try_from(kept).unwrap_or(0)));
                kept += 1;
            }
            begin = end;
        }
        addresses.truncate(filled);
        ends.truncate(kept);
        ids.clear();
        for id in (1..kept).filter_map(|id| u32::try_from(id).ok()).map(StackId) {
            let hash = |id: &StackId| hasher.hash_one(addresses_of(addresses, ends, *id));
            ids.insert_unique(hash(&id), id, hash);
        }
        renumbered
    }

    /// The number of a stack; of one in which a task waits there is one for longer.
    pub(super) fn id(&mut self, stack: &[u64], is_wait: bool) -> StackId {
        if stack.is_empty() {
            return StackId::default();
        }
        let is_kept = if is_wait { self.ends.len() < self.most } else { !self.is_full() };
        let Self { addresses, ends, ids, hasher, .. } = self;
        let hash = hasher.hash_one(stack);
        if let Some(id) = ids.find(hash, |id| addresses_of(addresses, ends, *id) == stack) {
            return *id;
        }
        if !is_kept {
            return StackId::default();
        }
        let id = StackId(u32::try_from(ends.len()).unwrap_or(0));
        addresses.extend_from_slice(stack);
        ends.push(addresses.len());
        ids.insert_unique(hash, id, |id| hasher.hash_one(addresses_of(addresses, ends, *id)));
        id
    }
}

fn addresses_of<'a>(addresses: &'a [u64], ends: &[usize], id: StackId) -> &'a [u64] {
    let at = usize::try_from(id.0).unwrap_or(usize::MAX);
    let begin = at.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
    let end = ends.get(at).copied().unwrap_or(begin);
    addresses.get(begin..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_kept_once() {
        let mut stacks = Stacks::new(100, 2);
        let made: Vec<Vec<u64>> = (1..50).map(|length| (0..length).collect()).collect();
        let ids: Vec<StackId> = made.iter().map(|stack| stacks.id(stack, false)).collect();
        assert_eq!(stacks.len(), 50);
        for (stack, id) in made.iter().zip(ids) {
            assert_eq!((stacks.id(stack, false), stacks.get(id)), (id, stack.as_slice()));
        }
        assert_eq!(stacks.id(&[], true), StackId::default());
        assert!(stacks.get(StackId::default()).is_empty());
        assert!(stacks.get(StackId(50)).is_empty());
    }

    #[test]
    fn stacks_are_bounded_and_the_last_are_of_waits() {
        let mut stacks = Stacks::new(16, 0);
        let others: Vec<u32> = (1..20).map(|address| stacks.id(&[address], false).0).collect();
        assert_eq!(others[..14], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 0]);
        assert!(stacks.is_full());
        let waits: Vec<u32> = (100..104).map(|address| stacks.id(&[address], true).0).collect();
        assert_eq!(waits, [14, 15, 0, 0]);
        assert_eq!(stacks.id(&[1], false).0, 1, "what is known is found");
    }

    #[test]
    fn stacks_that_nothing_refers_to_make_room() {
        let mut stacks = Stacks::new(64, 0);
        let made: Vec<Vec<u64>> = (1..40).map(|length| (0..length).collect()).collect();
        let ids: Vec<StackId> = made.iter().map(|stack| stacks.id(stack, false)).collect();
        let is_used = |id: StackId| id.0.is_multiple_of(3);
        let renumbered = stacks.retain(is_used);
        assert_eq!(stacks.len(), 14);
        for (stack, old) in made.iter().zip(ids) {
            let new = renumbered[old.0 as usize];
            if is_used(old) {
                assert_eq!(stacks.get(new), stack);
                assert_eq!(stacks.id(stack, false), new, "what was kept is found");
            } else {
                assert_eq!(new, StackId::default());
            }
        }
        assert_eq!(stacks.len(), 14);
        assert_eq!(stacks.id(&made[0], false), StackId(14), "what was forgotten is new");
    }
}
