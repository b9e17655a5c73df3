//! User stacks of tasks that left a CPU, until their switches are read. They have rings of their own: where these
//! overflow, a place is unknown, and no event of the trace is lost.

use hashbrown::HashMap;
use mw_critical_path::{Nanos, Tid, UserStackId};
use std::collections::VecDeque;

/// Longest time between the record of a switch and that of its user stack.
const SAME_SWITCH_NS: Nanos = 100_000;

/// Stacks that are kept of one CPU.
const MAX_OF_CPU: usize = 1 << 14;

/// A user stack, with the task's number in the record.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeftStack {
    pub(super) task: Tid,
    pub(super) at: Nanos,
    pub(super) id: UserStackId,
}

/// Such stacks of each CPU, in the order of their times.
#[derive(Debug, Default)]
pub(super) struct LeftStacks(HashMap<u16, VecDeque<LeftStack>>);

impl LeftStacks {
    pub(super) fn add(&mut self, cpu: u16, stack: LeftStack) {
        let stacks = self.0.entry(cpu).or_default();
        if stacks.len() >= MAX_OF_CPU {
            stacks.pop_front();
        }
        stacks.push_back(stack);
    }

    /// Removes the stack of the switch of a task at this time, and those before it.
    pub(super) fn take(&mut self, cpu: u16, task: Tid, at: Nanos) -> UserStackId {
        let Some(stacks) = self.0.get_mut(&cpu) else { return UserStackId::default() };
        while stacks.front().is_some_and(|stack| stack.at + SAME_SWITCH_NS < at) {
            stacks.pop_front();
        }
        let near = stacks.iter().take_while(|stack| stack.at <= at.saturating_add(SAME_SWITCH_NS));
        let same = near.enumerate().filter(|(_, stack)| stack.task == task);
        let nearest = same.min_by_key(|(_, stack)| stack.at.abs_diff(at)).map(|(place, _)| place);
        let found = nearest.and_then(|place| {
            let found = stacks.get(place).map(|stack| stack.id);
            stacks.drain(..=place);
            found
        });
        found.unwrap_or_default()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_has_the_nearest_stack_of_its_task() {
        let mut stacks = LeftStacks::default();
        for (task, at, id) in [(7, 1_000, 1), (7, 500_000, 2), (8, 501_000, 3), (7, 560_000, 4)] {
            stacks.add(0, LeftStack { task, at, id: UserStackId(id) });
        }
        assert_eq!(stacks.take(1, 7, 1_000), UserStackId::default(), "another CPU");
        assert_eq!(stacks.take(0, 7, 502_000), UserStackId(2));
        assert_eq!(stacks.take(0, 7, 558_000), UserStackId(4));
        assert_eq!(stacks.take(0, 8, 501_000), UserStackId::default(), "it was before that");
    }
}
