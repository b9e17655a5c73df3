use crate::path::TimeKind;
use crate::request::RequestSpan;
use crate::test_trace::{CLIENT, OTHER, SERVER, TraceBuilder, assert_partition};
use crate::trace::{EventKind, StackId, Task, TaskState, Tid, WakeContext};
use crate::wait::Wait;
use crate::walk::critical_path;

const UPSTREAM: Tid = 40;
const WORKER: Tid = 41;
const SENDS: &str = "sock_def_readable < tcp_v4_rcv < do_softirq < tcp_sendmsg < __sys_sendto";

/// The client has asked at 100, before the trace began at 200. The proxy waits for its upstream, which has a worker.
fn proxied() -> TraceBuilder {
    let mut traced = TraceBuilder::new(2000);
    traced.trace.from = 200;
    for (tid, process) in [
        (CLIENT, CLIENT),
        (SERVER, SERVER),
        (OTHER, OTHER),
        (UPSTREAM, UPSTREAM),
        (WORKER, UPSTREAM),
    ] {
        traced.trace.tasks.insert(tid, Task { name: tid.to_string(), process });
    }
    traced.found(CLIENT, TaskState::Waiting, "schedule < do_sys_poll");
    traced.found(SERVER, TaskState::Waiting, "schedule < do_epoll_wait < ep_poll");
    traced.found(UPSTREAM, TaskState::Waiting, "schedule < inet_csk_accept");
    traced
}

/// The largest part of the request, and the tasks that lead to it, each with a mark if it is inferred.
fn largest(traced: &TraceBuilder, upstreams: &[(Tid, Tid)]) -> (TimeKind, Vec<(Tid, bool)>) {
    let request = RequestSpan {
        task: CLIENT,
        from: 100,
        to: 1100,
        servers: vec![SERVER],
        upstreams: upstreams.to_vec(),
        ..RequestSpan::default()
    };
    let path = critical_path(&traced.trace, request);
    assert_partition(&path);
    let share = &path.shares()[0];
    let chain = path.chain(share.hop);
    (share.kind, chain.iter().map(|hop| (hop.task, hop.inferred)).collect())
}

/// Promise (Tracing: why): An idle proxy is explained by the upstream that was stuck, not by one that is idle as
/// well, nor by another client.
#[test]
fn the_upstream_of_an_idle_proxy_is_followed_where_it_is_stuck() {
    let mut traced = proxied();
    traced.found(WORKER, TaskState::Waiting, "io_schedule < folio_wait_writeback");
    let held = TimeKind::Waiting(Wait::Writeback);
    let chain = vec![(CLIENT, false), (SERVER, true), (WORKER, true)];
    assert_eq!(largest(&traced, &[(SERVER, UPSTREAM)]), (held, chain));
    let idle = (TimeKind::Idle(Wait::Poll), vec![(CLIENT, false), (SERVER, true)]);
    assert_eq!(largest(&traced, &[]), idle);
    assert_eq!(largest(&traced, &[(OTHER, UPSTREAM)]), idle, "another asks it");
}

#[test]
fn an_upstream_that_is_idle_as_well_is_not_followed() {
    let mut traced = proxied();
    traced.found(WORKER, TaskState::Waiting, "schedule < futex_wait_queue < do_futex");
    let idle = (TimeKind::Idle(Wait::Poll), vec![(CLIENT, false), (SERVER, true)]);
    assert_eq!(largest(&traced, &[(SERVER, UPSTREAM)]), idle);
}

#[test]
fn the_upstream_of_an_idle_upstream_is_followed() {
    let mut traced = proxied();
    traced.found(OTHER, TaskState::Stopped, "");
    let (kind, chain) = largest(&traced, &[(SERVER, UPSTREAM), (UPSTREAM, OTHER)]);
    assert_eq!((kind, chain.last()), (TimeKind::Stopped, Some(&(OTHER, true))));
}

/// Another client, which sleeps for most of the time, sends a request of its own over an open connection.
#[test]
fn a_client_of_a_proxy_is_not_what_it_waited_for() {
    let mut traced = proxied();
    traced.found(WORKER, TaskState::Waiting, "io_schedule < folio_wait_writeback");
    traced.found(OTHER, TaskState::Waiting, "do_nanosleep < hrtimer_nanosleep");
    traced.interrupt(990, OTHER, "hrtimer_wakeup").runs(990, 0, OTHER);
    sends(&mut traced, 1000, OTHER, SERVER);
    traced.runs(1001, 1, SERVER);
    sends(&mut traced, 1100, SERVER, CLIENT);
    assert_eq!(largest(&traced, &[]).0, TimeKind::Waiting(Wait::Sleep), "nobody knows");
    let (kind, chain) = largest(&traced, &[(SERVER, UPSTREAM)]);
    assert_eq!((kind, chain.last()), (TimeKind::Waiting(Wait::Writeback), Some(&(WORKER, true))));
}

/// Other clients wake the proxy a hundred times, so that each of its waits is short.
#[test]
fn the_upstream_of_a_busy_proxy_is_followed_where_it_is_stuck() {
    let held = |upstreams: &[(Tid, Tid)]| {
        let mut traced = proxied();
        traced.found(WORKER, TaskState::Waiting, "io_schedule < folio_wait_writeback");
        traced.found(OTHER, TaskState::Waiting, "schedule < do_sys_poll");
        for at in (210..1100).step_by(10) {
            sends(&mut traced, at, OTHER, SERVER);
            traced.runs(at + 1, 1, SERVER).blocks(
                at + 3,
                1,
                SERVER,
                "schedule < do_epoll_wait < ep_poll",
            );
        }
        sends(&mut traced, 1100, SERVER, CLIENT);
        largest(&traced, upstreams)
    };
    let (kind, chain) = held(&[(SERVER, UPSTREAM)]);
    assert_eq!((kind, chain.last()), (TimeKind::Waiting(Wait::Writeback), Some(&(WORKER, true))));
    assert_ne!(held(&[]).0, TimeKind::Waiting(Wait::Writeback));
}

/// A script starts a client, after it has slept for most of the time.
#[test]
fn a_client_that_did_not_exist_yet_is_not_what_a_server_waited_for() {
    const NEW: Tid = 50;
    let path = |parent: Tid| {
        let mut traced = proxied();
        traced.found(OTHER, TaskState::Waiting, "do_nanosleep < hrtimer_nanosleep");
        traced.interrupt(980, OTHER, "hrtimer_wakeup").runs(980, 0, OTHER);
        traced.trace.tasks.insert(NEW, Task { name: "ask".to_owned(), process: NEW });
        traced.event(990, 0, EventKind::Fork { parent, child: NEW }).runs(991, 0, NEW);
        sends(&mut traced, 1000, NEW, SERVER);
        traced.runs(1001, 1, SERVER);
        sends(&mut traced, 1100, SERVER, CLIENT);
        largest(&traced, &[]).1
    };
    assert_eq!(path(OTHER), [(CLIENT, false), (SERVER, false)]);
    assert!(path(SERVER).len() > 1, "its own child may have worked for it");
}

fn sends(traced: &mut TraceBuilder, at: u64, by: Tid, task: Tid) {
    let stack = traced.stack(SENDS);
    assert_ne!(stack, StackId::default());
    traced.event(at, 0, EventKind::Waking { task, by, context: WakeContext::SoftIrq, stack });
}

/// The upstream goes on, and ksoftirqd delivers its answer to the proxy.
#[test]
fn an_upstream_that_was_stuck_is_followed_where_only_its_packet_is_seen() {
    let kind = |state| {
        let mut traced = proxied();
        traced.found(WORKER, state, "schedule < inet_csk_accept");
        let stack =
            traced.stack("ep_poll_callback < sock_def_readable < tcp_v4_rcv < net_rx_action");
        let waking =
            EventKind::Waking { task: SERVER, by: 0, context: WakeContext::HardIrq, stack };
        traced.event(900, 0, waking).runs(901, 1, SERVER);
        traced.wakes(1100, SERVER, CLIENT).runs(1100, 0, CLIENT);
        largest(&traced, &[(SERVER, UPSTREAM)]).0
    };
    assert_eq!(kind(TaskState::Stopped), TimeKind::Stopped);
    assert_eq!(kind(TaskState::Waiting), TimeKind::Waiting(Wait::Network));
}
