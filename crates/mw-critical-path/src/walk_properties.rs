//! Properties of the path of any request, for all traces.

use super::*;
use crate::test_trace::assert_partition;
use crate::thinning::Thinning;
use crate::trace::{Event, EventKind, Task, TaskState, UserStackId, WakeContext};
use proptest::prelude::*;

fn event() -> impl Strategy<Value = Event> {
    let task = || 0_u32..6;
    let stack = || (0_u32..8).prop_map(StackId);
    let state = prop_oneof![
        Just(TaskState::Runnable),
        Just(TaskState::Waiting),
        Just(TaskState::Stopped),
        Just(TaskState::Dead)
    ];
    let context = prop_oneof![
        Just(WakeContext::Task),
        Just(WakeContext::SoftIrq),
        Just(WakeContext::HardIrq)
    ];
    let kind = prop_oneof![
        4 => (task(), state.clone(), stack(), task())
            .prop_map(|(task, state, stack, next)| EventKind::SwitchOut { task, state, stack, next }),
        2 => task().prop_map(|task| EventKind::SwitchIn { task }),
        4 => (task(), task(), context, stack())
            .prop_map(|(task, by, context, stack)| EventKind::Waking { task, by, context, stack }),
        1 => (task(), task()).prop_map(|(parent, child)| EventKind::Fork { parent, child }),
        2 => (task(), stack()).prop_map(|(task, stack)| EventKind::Sample { task, stack }),
        1 => (task(), state, stack()).prop_map(|(task, state, stack)| EventKind::Found { task, state, stack }),
    ];
    (0_u64..1200, 0_u16..3, kind).prop_map(|(at, cpu, kind)| Event {
        at,
        cpu,
        user_stack: UserStackId::default(),
        kind,
    })
}

proptest! {
    /// Whatever the events, the parts cover the request without gap or overlap.
    ///
    /// Promise (Tracing: why): The parts of a critical path exclude each other and add up to the request, whatever
    /// the trace.
    #[test]
    fn parts_exclude_each_other_and_add_up(
        events in proptest::collection::vec(event(), 0..200),
        from in 0_u64..1000, length in 0_u64..1000, task in 1_u32..6,
        servers in proptest::collection::vec(0_u32..6, 0..3), began in 0_u64..600,
        gaps in proptest::collection::vec((0_u64..1200, 0_u64..1200), 0..4),
        command in proptest::option::of(0_u32..6), is_one_process in any::<bool>(),
    ) {
        let stacks = ["", "ep_poll", "futex_wait", "try_to_free_pages", "do_nanosleep", "tcp_sendmsg", "bio_endio"];
        let stacks = stacks.map(|function| vec![function.to_owned()]).to_vec();
        let thread = |tid: Tid| (tid, Task { name: String::new(), process: 2 });
        let tasks = (2..6).filter(|_| is_one_process).map(thread).collect();
        let trace = Trace { from: began, to: 1200, events, stacks, gaps, tasks, ..Trace::default() };
        let path = critical_path(&trace, RequestSpan { task, from, to: from + length, servers: servers.clone(), command, ..RequestSpan::default() });
        assert_partition(&path);
        let summary = path.summary(&trace);
        let sum: Nanos = summary.parts.iter().map(|part| part.total_ns).sum();
        assert_eq!(sum + summary.rest_ns, summary.total_ns);
    }

    /// Of what happened before the request only the state matters in which it left tasks and CPUs.
    ///
    /// Promise (The recorder): The critical path is computed from the part of the trace that it depends on, and is
    /// the same as with all of it.
    #[test]
    fn the_path_is_that_of_all_events(
        steps in proptest::collection::vec((0_u16..3, 0_u32..6, 0_u32..6, 0_u32..8), 0..300),
        from in 0_u64..1000, length in 0_u64..1000, task in 1_u32..6,
        servers in proptest::collection::vec(1_u32..6, 0..3),
    ) {
        let stacks = ["", "ep_poll", "futex_wait", "try_to_free_pages", "do_nanosleep", "tcp_sendmsg", "kswapd"];
        let stacks = stacks.map(|function| vec![function.to_owned()]).to_vec();
        let trace = Trace { to: 1200, events: scheduled(&steps), stacks, ..Trace::default() };
        let request = RequestSpan { task, from, to: from + length, servers, ..RequestSpan::default() };
        let of_all = path_within(&trace, &Timelines::new(&trace), request.clone());
        prop_assert_eq!(critical_path(&trace, request), of_all);
    }

    /// Promise (Tracing: why): Where the trace is full, tasks that switch all the time make room for those that do not; what
    /// the path then has of a task is as with all events, or not traced.
    #[test]
    fn what_is_left_of_a_full_trace_is_true(
        steps in proptest::collection::vec((0_u16..3, 0_u32..6, 0_u32..6, 0_u32..8), 0..300),
        cuts in (0_u64..1200, 0_u64..1200), room in 0_usize..100,
    ) {
        let stacks = ["", "ep_poll", "futex_wait", "try_to_free_pages", "do_nanosleep", "tcp_sendmsg", "kswapd"];
        let stacks = stacks.map(|function| vec![function.to_owned()]).to_vec();
        let trace = Trace { to: 1200, events: scheduled(&steps), stacks, ..Trace::default() };
        let mut full = trace.clone();
        for cut in [cuts.0.min(cuts.1), cuts.0.max(cuts.1)] {
            let thinned = std::mem::take(&mut full.thinned);
            let thinning = Thinning::new(full.events.iter(), cut, room, thinned);
            full.events.retain(|event| thinning.keeps(event));
            (full.complete_from, full.thinned) = (cut, thinning.into_thinned());
        }
        let (of_all, of_left) = (Timelines::new(&trace), Timelines::new(&full));
        for task in of_all.tasks() {
            let all: Vec<Interval> = of_all.within(task, 0, 1200).collect();
            let left: Vec<Interval> = of_left.within(task, 0, 1200).collect();
            let complete_from = full.complete_from(task);
            let since = all.iter().filter(|interval| interval.to > complete_from);
            prop_assert_eq!(since.collect::<Vec<_>>(), left.iter().collect::<Vec<_>>());
            if !full.thinned.contains(&task) {
                prop_assert_eq!(of_all.woken_by(task, 0, 1200), of_left.woken_by(task, 0, 1200));
            }
        }
        for cpu in 0..3 {
            prop_assert_eq!(of_all.on_cpu(cpu, full.complete_from, 1200), of_left.on_cpu(cpu, full.complete_from, 1200));
        }
    }
}

/// Events of a scheduler that runs a task on one CPU at a time: in each step a CPU goes on to another task, and a task is
/// woken; now and then one is sampled.
fn scheduled(steps: &[(u16, Tid, Tid, u32)]) -> Vec<Event> {
    let mut current = [0; 3];
    let mut events = Vec::new();
    for (at, (cpu, next, woken, stack)) in (0..).step_by(4).zip(steps) {
        let stack = StackId(*stack);
        let event = |at, kind| Event { at, cpu: *cpu, user_stack: UserStackId::default(), kind };
        let task = current[usize::from(*cpu)];
        let is_elsewhere = *next != 0 && current.contains(next);
        if task != *next && !is_elsewhere {
            let state = if stack.0 == 0 { TaskState::Runnable } else { TaskState::Waiting };
            events.push(event(at, EventKind::SwitchOut { task, state, stack, next: *next }));
            current[usize::from(*cpu)] = *next;
        }
        let task = current[usize::from(*cpu)];
        if task != 0 && stack.0 % 3 == 1 {
            events.push(event(at + 2, EventKind::Sample { task, stack }));
        }
        if *woken != 0 {
            let by = current[usize::from(*cpu)];
            let context = WakeContext::Task;
            events.push(event(at + 1, EventKind::Waking { task: *woken, by, context, stack }));
        }
    }
    events
}
