//! The events that a request's path depends on. A trace may have begun a minute before the request; of the time before
//! it, only the final state of each task and each CPU matters.

use crate::trace::{Event, EventKind, Nanos, Tid};

/// The highest number of a thread (include/linux/threads.h, `PID_MAX_LIMIT`). Events of tasks beyond it are all kept.
const MAX_TID: usize = 1 << 22;

/// Of events in the order of time: all from `from` on, and of those before it the ones that say what tasks and CPUs did
/// at that moment. Forks, samples and what was found when the trace began are kept: they are few, and tell about tasks.
pub(crate) fn needed(mut events: Vec<&Event>, from: Nanos) -> Vec<&Event> {
    let (mut tasks, mut cpus) = (NumberSet::default(), NumberSet::default());
    let begins = events.partition_point(|event| event.at < from);
    let mut is_needed = |event: &Event| match event.kind {
        EventKind::SwitchOut { task, next, .. } => {
            let (leaves, enters) = (tasks.add(task), tasks.add(next));
            cpus.add(event.cpu.into()) || leaves || enters
        }
        EventKind::SwitchIn { task } => {
            let enters = tasks.add(task);
            cpus.add(event.cpu.into()) || enters
        }
        EventKind::Waking { task, .. } => !tasks.has(task),
        EventKind::Fork { .. } | EventKind::Sample { .. } | EventKind::Found { .. } => true,
    };
    let before = events.get(..begins).unwrap_or_default().iter().rev();
    let mut kept: Vec<&Event> = before.copied().filter(|event| is_needed(event)).collect();
    kept.reverse();
    kept.append(&mut events.split_off(begins));
    kept
}

/// A set of small numbers.
#[derive(Default)]
struct NumberSet {
    words: Vec<u64>,
}

impl NumberSet {
    /// True if it is new, or too large to be kept.
    fn add(&mut self, number: Tid) -> bool {
        let Some((at, bit)) = place(number) else { return true };
        if at >= self.words.len() {
            self.words.resize(at + 1, 0);
        }
        let Some(word) = self.words.get_mut(at) else { return true };
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    fn has(&self, number: Tid) -> bool {
        let known =
            |(at, bit): (usize, u64)| self.words.get(at).is_some_and(|word| word & bit != 0);
        place(number).is_some_and(known)
    }
}

fn place(number: Tid) -> Option<(usize, u64)> {
    let number = usize::try_from(number).ok().filter(|number| *number <= MAX_TID)?;
    Some((number / 64, 1 << (number % 64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_trace::{CLIENT, OTHER, SERVER, TraceBuilder};

    /// Times of the events that are kept for a request that begins at 100.
    fn kept(traced: &TraceBuilder) -> Vec<Nanos> {
        needed(traced.trace.events.iter().collect(), 100).iter().map(|event| event.at).collect()
    }

    #[test]
    fn of_the_time_before_only_the_last_state_of_each_task_is_kept() {
        let mut traced = TraceBuilder::new(200);
        for at in (0..90).step_by(10) {
            traced.blocks(at, 0, SERVER, "do_epoll_wait").wakes(at + 2, CLIENT, SERVER);
            traced.runs(at + 4, 0, SERVER);
        }
        traced.blocks(90, 0, SERVER, "do_epoll_wait").wakes(92, OTHER, SERVER);
        traced.wakes(120, CLIENT, SERVER).runs(130, 0, SERVER);
        assert_eq!(kept(&traced), [90, 92, 120, 130]);
    }

    #[test]
    fn of_the_time_before_the_last_task_of_each_cpu_is_kept() {
        let mut traced = TraceBuilder::new(200);
        traced.runs(10, 1, OTHER).runs(20, 2, OTHER).runs(30, 0, OTHER).runs(40, 0, OTHER);
        assert_eq!(kept(&traced), [10, 20, 40]);
    }

    #[test]
    fn tasks_that_no_kernel_has_are_all_kept() {
        let mut traced = TraceBuilder::new(200);
        traced.runs(10, 0, Tid::MAX).runs(20, 0, Tid::MAX);
        assert_eq!(kept(&traced), [10, 20]);
    }
}
