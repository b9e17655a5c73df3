//! The events that a request's path depends on. A trace may have begun a minute before the request; of the time before
//! it, only the final state of each task and each CPU matters.

use crate::trace::{Event, EventKind, Nanos, Tid};
use hashbrown::HashMap;

/// The events of a time that say what tasks and CPUs did at its end, whatever the order in which they were recorded.
#[derive(Debug, Default)]
pub struct NeededEvents {
    until: Nanos,
    /// The last time that a task entered or left a CPU.
    switched: HashMap<Tid, Nanos>,
    cpus: HashMap<u16, Nanos>,
}

impl NeededEvents {
    /// Looks for those of before `until`.
    pub fn new<'a>(events: impl Iterator<Item = &'a Event>, until: Nanos) -> Self {
        let mut needed = Self { until, ..Self::default() };
        for event in events.filter(|event| event.at < until) {
            if let Some((first, second)) = switched(event) {
                let last = needed.cpus.entry(event.cpu).or_default();
                *last = event.at.max(*last);
                for task in std::iter::once(first).chain(second) {
                    let last = needed.switched.entry(task).or_default();
                    *last = event.at.max(*last);
                }
            }
        }
        needed
    }

    /// Forks and samples are needed, since they tell about tasks, and what happened later.
    pub fn has(&self, event: &Event) -> bool {
        let is_last = |task: Tid| self.switched.get(&task) == Some(&event.at);
        event.at >= self.until
            || match event.kind {
                EventKind::SwitchOut { .. } | EventKind::SwitchIn { .. } => {
                    let (first, second) = switched(event).unzip();
                    self.cpus.get(&event.cpu) == Some(&event.at)
                        || first.is_some_and(is_last)
                        || second.flatten().is_some_and(is_last)
                }
                EventKind::Waking { task, .. } => {
                    self.switched.get(&task).is_none_or(|last| *last < event.at)
                }
                EventKind::Found { task, .. } => !self.switched.contains_key(&task),
                EventKind::Fork { .. } | EventKind::Sample { .. } => true,
            }
    }
}

/// The tasks that enter or leave the CPU.
fn switched(event: &Event) -> Option<(Tid, Option<Tid>)> {
    match event.kind {
        EventKind::SwitchOut { task, next, .. } => Some((task, Some(next))),
        EventKind::SwitchIn { task } => Some((task, None)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_trace::{CLIENT, OTHER, SERVER, TraceBuilder};
    use crate::trace::{TaskState, outside_tid};

    /// Times of the events that are kept for a request that begins at 100.
    fn kept(traced: &TraceBuilder) -> Vec<Nanos> {
        let events = &traced.trace.events;
        let needed = NeededEvents::new(events.iter(), 100);
        events.iter().filter(|event| needed.has(event)).map(|event| event.at).collect()
    }

    #[test]
    fn of_the_time_before_only_the_last_state_of_each_task_is_kept() {
        let mut traced = TraceBuilder::new(200);
        for at in (1..90).step_by(10) {
            traced.blocks(at, 0, SERVER, "do_epoll_wait").wakes(at + 2, CLIENT, SERVER);
            traced.runs(at + 4, 0, SERVER);
        }
        traced.blocks(91, 0, SERVER, "do_epoll_wait").wakes(92, OTHER, SERVER);
        traced.wakes(120, CLIENT, SERVER).runs(130, 0, SERVER);
        assert_eq!(kept(&traced), [91, 92, 120, 130]);
    }

    #[test]
    fn of_the_time_before_the_last_task_of_each_cpu_is_kept() {
        let mut traced = TraceBuilder::new(200);
        traced.runs(10, 1, OTHER).runs(20, 2, OTHER).runs(30, 0, OTHER).runs(40, 0, OTHER);
        assert_eq!(kept(&traced), [10, 20, 40]);
    }

    #[test]
    fn the_order_of_the_records_does_not_matter() {
        let mut traced = TraceBuilder::new(200);
        traced.runs(40, 1, OTHER).runs(50, 0, SERVER).runs(30, 0, OTHER).runs(20, 1, SERVER);
        assert_eq!(kept(&traced), [40, 50]);
    }

    #[test]
    fn tasks_outside_of_the_namespace_are_as_others() {
        let mut traced = TraceBuilder::new(200);
        traced.runs(10, 0, outside_tid(7)).runs(20, 0, outside_tid(7));
        assert_eq!(kept(&traced), [20]);
    }

    #[test]
    fn what_a_task_was_found_in_counts_until_it_is_switched() {
        let mut traced = TraceBuilder::new(200);
        traced.found(SERVER, TaskState::Stopped, "").found(OTHER, TaskState::Stopped, "");
        traced.runs(10, 0, OTHER).runs(20, 0, CLIENT);
        assert_eq!(kept(&traced), [0, 10, 20]);
    }
}
