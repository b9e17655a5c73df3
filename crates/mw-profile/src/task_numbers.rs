//! Numbers of tasks in a nested PID namespace.
//!
//! The kernel numbers the current task of a record twice:
//!
//! - fields of tracepoints (`prev_pid`, `next_pid`, `pid`, and `common_pid`, the current task) have the `pid` of
//!   task_struct, its number in the initial PID namespace (include/trace/events/sched.h; tracing_generic_entry_update()
//!   in include/linux/trace_events.h);
//! - the header and the trailer of a perf record have the number in the namespace of the process that opened the event:
//!   0 for a task outside of it, as for the idle task, and -1 for one that has been released (perf_event_pid_type() in
//!   kernel/events/core.c).
//!
//! A record of a tracepoint therefore has both numbers of the current task, and the `next_pid` of a switch is that of
//! the task whose `PERF_RECORD_SWITCH` follows on the same CPU: the kernel switches with interrupts disabled. These
//! pairs translate the numbers of all tasks that run.

use hashbrown::HashMap;
use mw_critical_path::{Tid, UNKNOWN_OUTSIDE, outside_number, outside_tid};
use mw_model::Missing;
use mw_sys::PidNamespace;
use std::collections::BTreeMap;

/// Pairs that are kept.
const MAX_PAIRS: usize = 1 << 16;

/// The number of a released task in the header of a record.
pub(crate) const RELEASED: Tid = u32::MAX;

/// The numbers of tasks in the namespace of this process, by those of the initial one.
#[derive(Debug, Clone, Default)]
pub(crate) struct TaskNumbers {
    /// None in the initial namespace, where the two are the same.
    pairs: Option<HashMap<Tid, Tid>>,
}

impl TaskNumbers {
    /// For records of events that this process opens.
    ///
    /// # Errors
    /// /proc numbers tasks as neither the initial namespace nor that of this process does.
    pub(crate) fn of_this_process() -> Result<Self, Missing> {
        match PidNamespace::of_this_process() {
            Ok(PidNamespace::Initial) => Ok(Self::default()),
            Ok(PidNamespace::Nested) => Ok(Self::nested()),
            Ok(PidNamespace::NotOfProc) => Err(Missing::skipped(
                "scheduler trace",
                "/proc belongs to another PID namespace than memwright, so that the numbers of tasks are those of \
                 others there: `unshare --mount-proc` or `mount -t proc proc /proc` mounts one for this namespace",
            )),
            Err(error) => Err(Missing::failed("/proc/self/ns/pid", error.to_string())),
        }
    }

    /// Of a namespace below the initial one.
    pub(crate) fn nested() -> Self {
        Self { pairs: Some(HashMap::new()) }
    }

    pub(crate) fn is_nested(&self) -> bool {
        self.pairs.is_some()
    }

    /// The task with this number in the initial namespace.
    pub(crate) fn task(&self, initial: Tid) -> Tid {
        match &self.pairs {
            Some(pairs) if initial != 0 => {
                pairs.get(&initial).copied().unwrap_or_else(|| outside_tid(initial))
            }
            _ => initial,
        }
    }

    /// Notes both numbers of the current task of a record, and returns the task. Without its number in the initial
    /// namespace, a header's 0 is the idle task.
    pub(crate) fn current(&mut self, initial: Option<Tid>, header: Tid) -> Tid {
        let Some(pairs) = &mut self.pairs else {
            return if header == RELEASED { initial.unwrap_or(0) } else { header };
        };
        match (initial, header) {
            (Some(initial), RELEASED) => self.task(initial),
            (None, RELEASED) => 0,
            (Some(0), _) | (None, 0) => 0,
            (Some(initial), 0) => {
                // Its number may have been that of a task within the namespace before.
                pairs.remove(&initial);
                outside_tid(initial)
            }
            (Some(initial), own) => {
                if pairs.len() < MAX_PAIRS || pairs.contains_key(&initial) {
                    pairs.insert(initial, own);
                }
                own
            }
            (None, own) => own,
        }
    }

    /// The task that enters a CPU: `next` is what the record of the switch said, where it came just before. `None` where
    /// it is not known.
    pub(crate) fn entering(&mut self, next: Option<Tid>, header: Tid) -> Option<Tid> {
        match (next.filter(|next| *next != 0), header) {
            (None, RELEASED) if !self.is_nested() => None,
            // The tracepoints of an idle task may be silent: it is left for this task.
            (None, 0 | RELEASED) if next.is_none() && self.is_nested() => Some(UNKNOWN_OUTSIDE),
            (next, header) => Some(self.current(next, header)),
        }
    }

    /// The task of a number that was recorded before its pair was known.
    pub(crate) fn resolved(pairs: &BTreeMap<Tid, Tid>, tid: Tid) -> Tid {
        outside_number(tid).and_then(|initial| pairs.get(&initial)).copied().unwrap_or(tid)
    }

    /// All pairs so far.
    pub(crate) fn pairs(&self) -> BTreeMap<Tid, Tid> {
        self.pairs.iter().flatten().map(|(initial, own)| (*initial, *own)).collect()
    }

    pub(crate) fn clear(&mut self) {
        self.pairs.iter_mut().for_each(HashMap::clear);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_the_initial_namespace_numbers_stay() {
        let mut numbers = TaskNumbers::default();
        assert_eq!(
            (numbers.current(Some(7), 7), numbers.current(None, 7), numbers.task(9)),
            (7, 7, 9)
        );
        assert_eq!(numbers.current(Some(7), RELEASED), 7);
        assert_eq!((numbers.entering(Some(7), 7), numbers.entering(None, 7)), (Some(7), Some(7)));
        assert_eq!((numbers.entering(Some(0), 0), numbers.entering(None, 0)), (Some(0), Some(0)));
        assert_eq!(
            (numbers.entering(Some(7), RELEASED), numbers.entering(None, RELEASED)),
            (Some(7), None)
        );
        assert!(numbers.pairs().is_empty());
    }

    #[test]
    fn a_record_with_both_numbers_translates_the_others() {
        let mut numbers = TaskNumbers::nested();
        assert_eq!(numbers.task(1000), outside_tid(1000));
        assert_eq!(numbers.current(Some(1000), 2), 2);
        assert_eq!((numbers.task(1000), numbers.current(Some(1000), RELEASED)), (2, 2));
        assert_eq!(numbers.entering(Some(1001), 3), Some(3));
        assert_eq!(numbers.task(1001), 3);
        assert_eq!(TaskNumbers::resolved(&numbers.pairs(), outside_tid(1001)), 3);
        assert_eq!(TaskNumbers::resolved(&numbers.pairs(), outside_tid(9)), outside_tid(9));
        assert_eq!(TaskNumbers::resolved(&numbers.pairs(), 9), 9);
    }

    #[test]
    fn tasks_outside_are_no_idle_task() {
        let mut numbers = TaskNumbers::nested();
        assert_eq!(numbers.current(Some(50), 0), outside_tid(50));
        assert_eq!(numbers.entering(Some(50), 0), Some(outside_tid(50)));
        assert_eq!(numbers.entering(None, 0), Some(UNKNOWN_OUTSIDE));
        assert_eq!(numbers.entering(Some(0), 0), Some(0));
        assert_eq!((numbers.current(Some(0), 0), numbers.task(0)), (0, 0));
    }

    #[test]
    fn a_number_that_is_used_again_is_the_later_tasks() {
        let mut numbers = TaskNumbers::nested();
        numbers.current(Some(1000), 2);
        numbers.current(Some(1000), 0);
        assert_eq!(numbers.task(1000), outside_tid(1000));
        numbers.current(Some(1000), 5);
        assert_eq!(numbers.task(1000), 5);
        numbers.clear();
        assert!(numbers.is_nested() && numbers.pairs().is_empty());
    }
}
