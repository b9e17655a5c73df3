//! Kernel stacks by number, each kept once. Nothing is allocated for a stack that is known.

use hashbrown::{DefaultHashBuilder, HashTable};
use mw_critical_path::StackId;
use std::hash::BuildHasher;

/// Addresses that a stack has on average.
const MEAN_FRAMES: usize = 24;

#[derive(Debug)]
pub(super) struct Stacks {
    /// Those of all stacks, one after the other.
    addresses: Vec<u64>,
    /// Where each stack ends in `addresses`. The first is empty.
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

    /// The number of a stack.
    pub(super) fn id(&mut self, stack: &[u64]) -> StackId {
        if stack.is_empty() {
            return StackId::default();
        }
        let Self { addresses, ends, ids, hasher, most } = self;
        let hash = hasher.hash_one(stack);
        if let Some(id) = ids.find(hash, |id| addresses_of(addresses, ends, *id) == stack) {
            return *id;
        }
        if ends.len() >= *most {
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
        let ids: Vec<StackId> = made.iter().map(|stack| stacks.id(stack)).collect();
        assert_eq!(stacks.len(), 50);
        for (stack, id) in made.iter().zip(ids) {
            assert_eq!((stacks.id(stack), stacks.get(id)), (id, stack.as_slice()));
        }
        assert_eq!(stacks.id(&[]), StackId::default());
        assert!(stacks.get(StackId::default()).is_empty());
        assert!(stacks.get(StackId(50)).is_empty());
    }

    #[test]
    fn stacks_are_bounded() {
        let mut stacks = Stacks::new(3, 0);
        let ids: Vec<u32> = (1..5).map(|address| stacks.id(&[address]).0).collect();
        assert_eq!(ids, [1, 2, 0, 0]);
        assert_eq!(stacks.id(&[1]).0, 1, "what is known is found");
    }
}
