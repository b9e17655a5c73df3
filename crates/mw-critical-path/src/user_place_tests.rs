use super::*;
use crate::test_trace::{CLIENT, OTHER, SERVER, TraceBuilder};
use crate::trace::UserStack;
use crate::wait::Wait;

/// Gives the last event a user stack.
fn at_place(traced: &mut TraceBuilder, user_stack: u32) {
    traced.trace.events.last_mut().unwrap().user_stack = UserStackId(user_stack);
}

/// The client waits for the server from 100 to 1000, which is sampled at 300, 500 and 700.
fn traced() -> TraceBuilder {
    let mut traced = TraceBuilder::new(1000);
    traced.runs(0, 0, CLIENT);
    traced.blocks(100, 0, CLIENT, "pipe_read");
    at_place(&mut traced, 1);
    traced.runs(100, 1, SERVER);
    for (at, user_stack) in [(300, 2), (500, 3), (700, 3)] {
        traced.event(at, 1, EventKind::Sample { task: SERVER, stack: StackId::default() });
        at_place(&mut traced, user_stack);
    }
    // Of another task, and before the wait.
    traced.event(600, 2, EventKind::Sample { task: OTHER, stack: StackId::default() });
    at_place(&mut traced, 4);
    traced.wakes(1000, SERVER, CLIENT);
    traced.runs(1000, 0, CLIENT);
    traced
}

#[test]
fn parts_and_waiters_have_the_stacks_that_were_recorded_of_them() {
    let traced = traced();
    let path = traced.path(0, 1000).summary(&traced.trace);
    let part = path.parts.iter().find(|part| part.task.tid == SERVER).unwrap();
    assert_eq!(part.user.stacks, [(UserStackId(3), 2), (UserStackId(2), 1)]);
    let [link] = path.chain.as_slice() else { panic!("{path:?}") };
    assert_eq!((link.waiter.tid, link.wait), (CLIENT, Wait::Pipe));
    assert_eq!(link.user.stacks, [(UserStackId(1), 1)]);
}

#[test]
fn a_wait_has_the_stack_at_which_it_began() {
    let mut traced = traced();
    // Nobody is known to wake the client: the wait is explained by itself.
    traced.trace.events.retain(|event| !matches!(event.kind, EventKind::Waking { .. }));
    let path = traced.path(0, 1000).summary(&traced.trace);
    let part =
        path.parts.iter().find(|part| part.task.tid == CLIENT && part.total_ns > 500).unwrap();
    assert_eq!(part.user.stacks, [(UserStackId(1), part.total_ns)], "{path:?}");
}

/// The ring of user stacks may overflow where the trace does not.
#[test]
fn a_wait_whose_stack_is_not_known_does_not_have_that_of_an_earlier_one() {
    let mut traced = TraceBuilder::new(1000);
    traced.runs(0, 0, CLIENT);
    traced.blocks(100, 0, CLIENT, "pipe_read");
    at_place(&mut traced, 1);
    traced.runs(150, 0, CLIENT);
    traced.blocks(200, 0, CLIENT, "pipe_read");
    traced.runs(1000, 0, CLIENT);
    let path = traced.path(0, 1000).summary(&traced.trace);
    let waits = path.parts.iter().filter(|part| part.kind == TimeKind::Waiting(Wait::Pipe));
    let waits: Vec<_> = waits.map(|part| (part.total_ns, part.user.stacks.clone())).collect();
    assert_eq!(waits, [(850, vec![(UserStackId(1), 50)])], "{path:?}");
}

/// Promise (Tracing: why): Of user stacks only names of functions are stored.
#[test]
fn addresses_and_copies_are_not_stored() {
    let mut traced = traced();
    let secret = 0x7365_6372_6574;
    let stack =
        UserStack { copy: vec![secret], by_frame_pointers: vec![secret], ..UserStack::default() };
    traced.trace.user_stacks = vec![UserStack::default(), stack];
    let mut path = traced.path(0, 1000).summary(&traced.trace);
    let stored = serde_json::to_string(&(&traced.trace, &path)).unwrap();
    assert!(!stored.contains(&secret.to_string()) && !stored.contains("user_stack"), "{stored}");
    path.user_places_mut().for_each(|place| place.functions = vec!["handle_get".to_owned()]);
    let stored = serde_json::to_string(&path).unwrap();
    assert_eq!(
        serde_json::from_str::<crate::PathSummary>(&stored).unwrap().parts[0].user.functions,
        ["handle_get"]
    );
}
