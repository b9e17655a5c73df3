use crate::path::{TimeKind, UnseenReason};
use crate::request::RequestSpan;
use crate::test_trace::{CLIENT, OTHER, SERVER, TraceBuilder, assert_partition};
use crate::trace::{EventKind, Nanos, StackId, Task, TaskState, Tid};
use crate::wait::Wait;
use crate::walk::critical_path;

/// The client has asked at 100, has no answer at 1100, and tracing began at 200.
fn unanswered() -> TraceBuilder {
    let mut traced = TraceBuilder::new(2000);
    traced.trace.from = 200;
    traced.found(CLIENT, TaskState::Waiting, "schedule < do_sys_poll");
    traced
}

/// Makes tasks threads of one process.
fn threads(traced: &mut TraceBuilder, process: Tid, threads: &[Tid]) {
    for tid in threads {
        let task = Task { name: "service".to_owned(), process };
        traced.trace.tasks.insert(*tid, task);
    }
}

/// Largest part, its share, and the tasks that lead to it with whether each is inferred.
fn largest(traced: &TraceBuilder, servers: &[Tid]) -> (TimeKind, Nanos, Vec<(Tid, bool)>) {
    let path = traced.served_path(100, 1100, servers);
    let shares = path.shares();
    let chain = path.chain(shares[0].hop);
    (shares[0].kind, shares[0].total, chain.iter().map(|hop| (hop.task, hop.inferred)).collect())
}

/// A command that a probe runs does not end: it is explained only where it is stuck itself.
///
/// Promise (Tracing: why): A command of a probe is the reason where it is stuck, and not where it waits for an
/// answer.
#[test]
fn a_command_holds_the_request_where_it_is_stuck() {
    let kind = |functions: &str| {
        let mut traced = TraceBuilder::new(2000);
        traced.runs(0, 0, CLIENT).blocks(100, 0, CLIENT, "schedule < do_sys_poll");
        traced.interrupt(1100, CLIENT, "hrtimer_wakeup").runs(1100, 0, CLIENT);
        traced.blocks(50, 1, OTHER, functions);
        let command = Some(OTHER);
        let request =
            RequestSpan { task: CLIENT, from: 100, to: 1100, command, ..RequestSpan::default() };
        critical_path(&traced.trace, request).shares()[0].kind
    };
    assert_eq!(
        kind("schedule < shrink_node < try_to_free_pages"),
        TimeKind::Waiting(Wait::DirectReclaim)
    );
    assert_eq!(kind("schedule < unix_stream_read_generic"), TimeKind::TimedOut(Wait::Poll));
}

#[test]
fn without_servers_it_is_a_wait_that_nobody_ended() {
    let unseen = TimeKind::Unseen(UnseenReason::NotWoken(Wait::Poll));
    assert_eq!(largest(&unanswered(), &[]), (unseen, 1000, vec![(CLIENT, false)]));
}

#[test]
fn the_only_thread_of_the_server_holds_the_request() {
    let mut traced = unanswered();
    traced.found(SERVER, TaskState::Stopped, "");
    let expected = (TimeKind::Stopped, 1000, vec![(CLIENT, false), (SERVER, true)]);
    assert_eq!(largest(&traced, &[SERVER]), expected);
}

#[test]
fn a_server_that_was_not_seen_is_said_to_have_done_nothing() {
    let (kind, _, chain) = largest(&unanswered(), &[77]);
    assert_eq!(
        (kind, chain),
        (TimeKind::Unseen(UnseenReason::NeverRan), vec![(CLIENT, false), (77, true)])
    );
}

/// Promise (Tracing: why): Of a request that was not answered, the server's stuck thread is named, as probable.
#[test]
fn of_several_threads_the_stuck_one_and_not_those_that_wait_for_work() {
    let mut traced = unanswered();
    threads(&mut traced, SERVER, &[SERVER, 21, 22, 23]);
    traced.found(SERVER, TaskState::Waiting, "schedule < ep_poll");
    traced.found(21, TaskState::Waiting, "schedule < futex_wait_queue < do_futex");
    traced.found(22, TaskState::Waiting, "io_schedule < folio_wait_bit_common < filemap_get_pages");
    traced.found(23, TaskState::Waiting, "schedule < inet_csk_accept");
    let expected = (TimeKind::Waiting(Wait::FileRead), 1000, vec![(CLIENT, false), (22, true)]);
    assert_eq!(largest(&traced, &[SERVER]), expected);
}

#[test]
fn of_threads_that_are_all_stopped_the_main_one() {
    let mut traced = unanswered();
    threads(&mut traced, SERVER, &[SERVER, 21, 22]);
    for tid in [SERVER, 21, 22] {
        traced.found(tid, TaskState::Stopped, "");
    }
    assert_eq!(largest(&traced, &[SERVER]).2, [(CLIENT, false), (SERVER, true)]);
    traced.wakes(210, CLIENT, 21);
    let (_, _, chain) = largest(&traced, &[SERVER]);
    assert_eq!(chain.last(), Some(&(21, true)), "it spoke to the client");
}

#[test]
fn a_time_limit_of_the_client_is_no_answer() {
    let mut traced = unanswered();
    traced.interrupt(1050, CLIENT, "hrtimer_wakeup < __hrtimer_run_queues").runs(1050, 0, CLIENT);
    traced.found(SERVER, TaskState::Waiting, "schedule < do_nanosleep < hrtimer_nanosleep");
    let expected = (TimeKind::Waiting(Wait::Sleep), 950, vec![(CLIENT, false), (SERVER, true)]);
    assert_eq!(largest(&traced, &[SERVER]), expected);
}

#[test]
fn who_kills_a_client_is_no_answer() {
    let mut traced = unanswered();
    let stack = traced.stack("try_to_wake_up < complete_signal < kill_pid_info < __x64_sys_kill");
    let context = crate::trace::WakeContext::Task;
    traced.event(1100, 0, EventKind::Waking { task: CLIENT, by: OTHER, context, stack });
    traced.found(SERVER, TaskState::Stopped, "");
    let expected = (TimeKind::Stopped, 1000, vec![(CLIENT, false), (SERVER, true)]);
    assert_eq!(largest(&traced, &[SERVER]), expected);
    let (_, _, chain) = largest(&traced, &[]);
    assert_eq!(chain, [(CLIENT, false), (OTHER, false)], "without servers it is what there is");
}

#[test]
fn an_idle_server_is_not_explained_by_its_other_clients() {
    let mut traced = unanswered();
    traced.found(SERVER, TaskState::Waiting, "schedule < ep_poll");
    traced.wakes(600, OTHER, SERVER).runs(600, 1, SERVER).blocks(
        620,
        1,
        SERVER,
        "schedule < ep_poll",
    );
    let (kind, total, chain) = largest(&traced, &[SERVER]);
    assert_eq!((kind, total), (TimeKind::Idle(Wait::Poll), 980));
    assert_eq!(chain, [(CLIENT, false), (SERVER, true)]);
}

#[test]
fn behind_a_proxy_the_stuck_upstream_is_followed_where_it_is_known() {
    let mut traced = unanswered();
    traced.found(SERVER, TaskState::Waiting, "schedule < ep_poll");
    traced.found(OTHER, TaskState::Waiting, "schedule < do_nanosleep < hrtimer_nanosleep");
    let expected = (TimeKind::Waiting(Wait::Sleep), 1000, vec![(CLIENT, false), (OTHER, true)]);
    assert_eq!(largest(&traced, &[SERVER, OTHER]), expected);
    assert_eq!(largest(&traced, &[SERVER]).0, TimeKind::Idle(Wait::Poll));
}

#[test]
fn a_lock_that_another_thread_holds_is_what_that_thread_does() {
    let mut traced = unanswered();
    threads(&mut traced, SERVER, &[SERVER, 21, 22]);
    traced.found(SERVER, TaskState::Waiting, "schedule < rwsem_down_read_slowpath < down_read");
    traced.found(22, TaskState::Waiting, "schedule < ep_poll");
    traced.event(300, 1, EventKind::Sample { task: 21, stack: StackId::default() });
    let (kind, _, chain) = largest(&traced, &[SERVER]);
    assert!(matches!(kind, TimeKind::Running(_)), "{kind:?}");
    assert_eq!(chain, [(CLIENT, false), (SERVER, true), (21, true)]);
}

#[test]
fn where_nobody_is_stuck_the_thread_that_spoke_to_the_client_last_is_followed() {
    let mut traced = unanswered();
    threads(&mut traced, SERVER, &[SERVER, 21, 22]);
    for tid in [SERVER, 21, 22] {
        traced.found(tid, TaskState::Waiting, "schedule < ep_poll");
    }
    assert_eq!(largest(&traced, &[SERVER]).2, [(CLIENT, false)], "any of them may hold it");
    traced.wakes(210, CLIENT, 21).runs(210, 1, 21).blocks(220, 1, 21, "schedule < ep_poll");
    assert_eq!(largest(&traced, &[SERVER]).2, [(CLIENT, false), (21, true)]);
}

#[test]
fn a_process_that_the_server_created_is_the_server() {
    let mut traced = unanswered();
    traced.found(SERVER, TaskState::Waiting, "schedule < do_wait");
    traced.event(250, 1, EventKind::Fork { parent: SERVER, child: OTHER });
    traced.runs(250, 1, OTHER).blocks(300, 1, OTHER, "io_schedule < filemap_read");
    let (kind, total, chain) = largest(&traced, &[SERVER]);
    assert_eq!((kind, total), (TimeKind::Waiting(Wait::FileRead), 800));
    assert_eq!(chain.last(), Some(&(OTHER, true)));
}

/// The request's task gives up on a command, which waits for a backend that reclaims memory.
///
/// Promise (Tracing: why): Where a command was given up on, whom it had asked is explained.
#[test]
fn whom_a_command_asked_is_followed_where_the_command_was_given_up() {
    let mut traced = TraceBuilder::new(2000);
    traced.runs(0, 0, CLIENT).blocks(110, 0, CLIENT, "schedule < do_sys_poll");
    traced.interrupt(1100, CLIENT, "hrtimer_wakeup").runs(1100, 0, CLIENT);
    traced.runs(100, 1, SERVER).wakes(150, SERVER, OTHER);
    traced.blocks(160, 1, SERVER, "schedule < unix_stream_read_generic").runs(160, 1, OTHER);
    traced.blocks(170, 1, OTHER, "io_schedule < shrink_node < try_to_free_pages");
    let request = RequestSpan {
        task: CLIENT,
        from: 100,
        to: 1100,
        command: Some(SERVER),
        ..RequestSpan::default()
    };
    let path = critical_path(&traced.trace, request);
    assert_partition(&path);
    let share = &path.shares()[0];
    assert_eq!(share.kind, TimeKind::Waiting(Wait::DirectReclaim));
    let chain: Vec<_> = path.chain(share.hop).iter().map(|hop| (hop.task, hop.inferred)).collect();
    assert_eq!(chain, [(CLIENT, false), (SERVER, true), (OTHER, true)]);
}

/// A child that was created just before records were lost, and was not seen after them, seems to wait for a CPU.
#[test]
fn a_child_that_may_have_ended_in_a_gap_holds_nothing() {
    let kind = |gaps: &[(Nanos, Nanos)]| {
        let mut traced = unanswered();
        traced.runs(210, 1, SERVER);
        traced.event(250, 1, EventKind::Fork { parent: SERVER, child: OTHER });
        traced.trace.gaps = gaps.to_vec();
        largest(&traced, &[SERVER]).0
    };
    assert!(matches!(kind(&[]), TimeKind::Runnable(_)), "it gets no CPU");
    assert!(matches!(kind(&[(260, 300)]), TimeKind::Running(_)), "{:?}", kind(&[(260, 300)]));
}
