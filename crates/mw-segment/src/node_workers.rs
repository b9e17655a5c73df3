//! Which workers take which chunks: those near a node take the chunks of its memory first, then help
//! the others.

use crate::chunk::ChunkLayout;
use crate::cpus::Cpus;
use crate::cursor::Cursor;
use std::ops::Range;

/// The workers of one set of NUMA nodes and the parts of the segment that are bound to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeWorkers {
    pub(crate) cpus: Cpus,
    /// Offsets in bytes in the segment.
    ranges: Vec<Range<usize>>,
}

impl NodeWorkers {
    /// One for each distinct set of nodes, and one for what is bound to none.
    pub(crate) fn from_ranges(
        bound: &[(Range<usize>, Vec<u32>)],
        bytes: usize,
        near: impl Fn(&[u32]) -> Cpus,
        local: Cpus,
    ) -> Vec<Self> {
        let mut sets: Vec<(&[u32], Self)> = Vec::new();
        for (range, nodes) in bound {
            match sets.iter_mut().find(|(known, _)| *known == nodes) {
                Some((_, workers)) => workers.ranges.push(range.clone()),
                None => sets.push((nodes, Self { cpus: near(nodes), ranges: vec![range.clone()] })),
            }
        }
        let mut all: Vec<Self> = sets.into_iter().map(|(_, workers)| workers).collect();
        let rest = gaps(bound.iter().map(|(range, _)| range.clone()).collect(), bytes);
        if !rest.is_empty() {
            all.push(Self { cpus: local, ranges: rest });
        }
        all
    }
}

/// Range that no other range covers.
fn gaps(mut ranges: Vec<Range<usize>>, bytes: usize) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| range.start);
    ranges.push(bytes..bytes);
    let mut end = 0;
    let gap = |range: Range<usize>| {
        let gap = end..range.start;
        end = range.end;
        gap
    };
    ranges.into_iter().map(gap).filter(|gap| !gap.is_empty()).collect()
}

/// The chunks of an operation, one queue for each [`NodeWorkers`].
#[derive(Debug)]
pub(crate) struct Queues(Vec<ChunkQueue>);

/// The chunks with these numbers, or all.
#[derive(Debug)]
struct ChunkQueue {
    cursor: Cursor,
    numbers: Option<Vec<usize>>,
}

impl Queues {
    pub(crate) fn new(layout: &ChunkLayout, by_node: &[NodeWorkers]) -> Self {
        let chunks = layout.chunks();
        if by_node.len() < 2 {
            return Self(vec![ChunkQueue { cursor: Cursor::new(chunks), numbers: None }]);
        }
        // Together the ranges cover the whole segment, so that one ends where the next starts.
        let starts_of = |(queue, workers): (usize, &'_ NodeWorkers)| {
            workers.ranges.iter().map(|range| (range.start, queue)).collect::<Vec<_>>()
        };
        let mut starts: Vec<_> = by_node.iter().enumerate().flat_map(starts_of).collect();
        starts.sort_unstable();
        let mut numbers = vec![Vec::new(); by_node.len()];
        for number in 0..chunks {
            let at = layout.chunk(number).start;
            let after = starts.partition_point(|(start, _)| *start <= at);
            let queue = after.checked_sub(1).and_then(|before| starts.get(before));
            if let Some(numbers) = queue.and_then(|(_, queue)| numbers.get_mut(*queue)) {
                numbers.push(number);
            }
        }
        let queue = |numbers: Vec<usize>| ChunkQueue {
            cursor: Cursor::new(numbers.len()),
            numbers: Some(numbers),
        };
        Self(numbers.into_iter().map(queue).collect())
    }

    /// The number of the next chunk for this worker: first of its own queue, then of any.
    pub(crate) fn take(&self, worker: usize) -> Option<usize> {
        let (before, own) = self.0.split_at(worker % self.0.len().max(1));
        own.iter().chain(before).find_map(ChunkQueue::take)
    }

    pub(crate) fn are_exhausted(&self) -> bool {
        self.0.iter().all(|queue| queue.cursor.is_exhausted())
    }
}

impl ChunkQueue {
    fn take(&self) -> Option<usize> {
        let number = self.cursor.take()?;
        match &self.numbers {
            None => Some(number),
            Some(numbers) => numbers.get(number).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_ranges(bound: &[(Range<usize>, Vec<u32>)], bytes: usize) -> Vec<NodeWorkers> {
        NodeWorkers::from_ranges(bound, bytes, |_| Cpus::allowed(), Cpus::allowed())
    }

    #[test]
    fn each_set_of_nodes_and_the_rest_have_their_own_workers() {
        let bound = [(40..60, vec![1]), (0..20, vec![0]), (80..90, vec![0]), (95..99, vec![1])];
        let ranges: Vec<_> =
            from_ranges(&bound, 100).into_iter().map(|workers| workers.ranges).collect();
        let [one, zero, rest] = ranges.as_slice() else { panic!("{ranges:?}") };
        assert_eq!((one, zero), (&vec![40..60, 95..99], &vec![0..20, 80..90]));
        assert_eq!(rest, &[20..40, 60..80, 90..95, 99..100]);
    }

    #[test]
    fn workers_take_chunks_of_their_own_node_first_and_every_chunk_is_taken_once() {
        let layout = ChunkLayout::new(100, 50, 5);
        let workers = from_ranges(&[(0..30, vec![0]), (30..100, vec![1])], 100);
        let queues = Queues::new(&layout, &workers);
        let start = |number| layout.chunk(number).start;
        let first: Vec<_> = (0..6).map(|_| start(queues.take(0).unwrap())).collect();
        assert!(first.iter().all(|start| *start < 30), "{first:?}");
        let other = start(queues.take(1).unwrap());
        assert!(other >= 30);
        let mut all = first;
        all.push(other);
        all.extend(std::iter::from_fn(|| queues.take(2)).map(start));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), layout.chunks());
        assert!(queues.are_exhausted());
    }
}
