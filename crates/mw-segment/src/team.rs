//! Who does which chunks: the helpers near a node take those of its memory first, then help others.

use crate::chunk::Layout;
use crate::cpus::Cpus;
use crate::cursor::Cursor;
use std::ops::Range;

/// The helpers near some nodes, and what is theirs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Team {
    pub(crate) cpus: Cpus,
    /// Bytes of the segment.
    ranges: Vec<Range<usize>>,
}

/// One team for each different set of nodes, and one for what is placed nowhere.
pub(crate) fn of_ranges(
    placed: &[(Range<usize>, Vec<u32>)],
    bytes: usize,
    near: impl Fn(&[u32]) -> Cpus,
    local: Cpus,
) -> Vec<Team> {
    let mut teams: Vec<(&[u32], Team)> = Vec::new();
    for (range, nodes) in placed {
        match teams.iter_mut().find(|(known, _)| *known == nodes) {
            Some((_, team)) => team.ranges.push(range.clone()),
            None => teams.push((nodes, Team { cpus: near(nodes), ranges: vec![range.clone()] })),
        }
    }
    let mut teams: Vec<Team> = teams.into_iter().map(|(_, team)| team).collect();
    let rest = gaps(placed.iter().map(|(range, _)| range.clone()).collect(), bytes);
    if !rest.is_empty() {
        teams.push(Team { cpus: local, ranges: rest });
    }
    teams
}

/// What no range covers.
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

/// The chunks of an operation, by team.
#[derive(Debug)]
pub(crate) struct Queues(Vec<Queue>);

/// A team's chunks: these numbers, or all.
#[derive(Debug)]
struct Queue {
    cursor: Cursor,
    numbers: Option<Vec<usize>>,
}

impl Queues {
    pub(crate) fn new(layout: &Layout, teams: &[Team]) -> Self {
        let chunks = layout.chunks();
        if teams.len() < 2 {
            return Self(vec![Queue { cursor: Cursor::new(chunks), numbers: None }]);
        }
        // Together, teams have all of the segment, so that a range ends where the next begins.
        let of_team = |(number, team): (usize, &'_ Team)| {
            team.ranges.iter().map(|range| (range.start, number)).collect::<Vec<_>>()
        };
        let mut starts: Vec<_> = teams.iter().enumerate().flat_map(of_team).collect();
        starts.sort_unstable();
        let mut numbers = vec![Vec::new(); teams.len()];
        for number in 0..chunks {
            let at = layout.chunk(number).start;
            let after = starts.partition_point(|(start, _)| *start <= at);
            let team = after.checked_sub(1).and_then(|before| starts.get(before));
            if let Some(numbers) = team.and_then(|(_, team)| numbers.get_mut(*team)) {
                numbers.push(number);
            }
        }
        let queue = |numbers: Vec<usize>| Queue {
            cursor: Cursor::new(numbers.len()),
            numbers: Some(numbers),
        };
        Self(numbers.into_iter().map(queue).collect())
    }

    /// The number of the next chunk for this helper: of its own team's, then of any.
    pub(crate) fn take(&self, helper: usize) -> Option<usize> {
        let (before, own) = self.0.split_at(helper % self.0.len().max(1));
        own.iter().chain(before).find_map(Queue::take)
    }

    pub(crate) fn are_exhausted(&self) -> bool {
        self.0.iter().all(|queue| queue.cursor.is_exhausted())
    }
}

impl Queue {
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

    fn teams(placed: &[(Range<usize>, Vec<u32>)], bytes: usize) -> Vec<Team> {
        of_ranges(placed, bytes, |_| Cpus::allowed(), Cpus::allowed())
    }

    #[test]
    fn a_set_of_nodes_is_a_team_and_the_rest_another() {
        let placed = [(40..60, vec![1]), (0..20, vec![0]), (80..90, vec![0]), (95..99, vec![1])];
        let teams = teams(&placed, 100);
        let ranges: Vec<_> = teams.into_iter().map(|team| team.ranges).collect();
        let [one, zero, rest] = ranges.as_slice() else { panic!("{ranges:?}") };
        assert_eq!((one, zero), (&vec![40..60, 95..99], &vec![0..20, 80..90]));
        assert_eq!(rest, &[20..40, 60..80, 90..95, 99..100]);
    }

    #[test]
    fn helpers_take_their_own_first_and_all_is_taken_once() {
        let layout = Layout::new(100, 50, 5);
        let queues = Queues::new(&layout, &teams(&[(0..30, vec![0]), (30..100, vec![1])], 100));
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
