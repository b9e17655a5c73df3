use super::*;
use crate::test_trace::{CLIENT, OTHER, SERVER, TraceBuilder};

/// A probe looks at its socket while it waits.
#[test]
fn a_probe_waits_for_what_ends_the_last_of_its_looks() {
    let kind = |tracer, to| {
        let mut traced = TraceBuilder::new(2000);
        traced.trace.tracer = Some(tracer);
        traced.runs(0, 0, CLIENT).blocks(100, 0, CLIENT, "schedule < do_sys_poll");
        for at in [350, 600, 850] {
            traced.interrupt(at, CLIENT, "hrtimer_wakeup").runs(at, 0, CLIENT);
            traced.blocks(at + 5, 0, CLIENT, "schedule < do_sys_poll");
        }
        let packet = "sock_def_readable < tcp_v4_rcv < net_rx_action";
        traced.interrupt(1100, CLIENT, packet).runs(1100, 0, CLIENT);
        traced.shares(100, to)[0].0
    };
    assert_eq!(kind(CLIENT, 1100), TimeKind::Waiting(Wait::Network));
    assert_eq!(kind(OTHER, 1100), TimeKind::TimedOut(Wait::Poll));
    assert_eq!(
        kind(CLIENT, 852),
        TimeKind::TimedOut(Wait::Poll),
        "the packet is of the next request"
    );
}

/// A proxy waits for whom it asked while the probe looks at its socket: the whole of its wait counts.
#[test]
fn a_probe_that_looks_follows_a_proxy_to_its_upstream() {
    let mut traced = TraceBuilder::new(2000);
    traced.trace.tracer = Some(CLIENT);
    traced.runs(0, 0, CLIENT).blocks(100, 0, CLIENT, "schedule < do_sys_poll");
    traced
        .blocks(50, 1, SERVER, "schedule < ep_poll")
        .wakes(100, CLIENT, SERVER)
        .runs(101, 1, SERVER);
    traced.blocks(40, 2, OTHER, "schedule < ep_poll").wakes(110, SERVER, OTHER).runs(111, 2, OTHER);
    traced.blocks(120, 1, SERVER, "schedule < ep_poll");
    traced.blocks(130, 2, OTHER, "io_schedule < submit_bio_wait < blkdev_issue_flush");
    for at in [350, 600, 850] {
        traced.interrupt(at, CLIENT, "hrtimer_wakeup").runs(at, 0, CLIENT);
        traced.blocks(at + 5, 0, CLIENT, "schedule < do_sys_poll");
    }
    traced.interrupt(1080, OTHER, "bio_endio").runs(1080, 2, OTHER);
    traced.wakes(1085, OTHER, SERVER).runs(1086, 1, SERVER);
    traced.wakes(1095, SERVER, CLIENT).runs(1100, 0, CLIENT);
    let (kind, total) = traced.shares(100, 1100)[0];
    assert_eq!(kind, TimeKind::Waiting(Wait::FileWrite));
    assert!(total > 900, "{total}");
}

/// What woke the one that answered says nothing, and a thread of the service was stuck all the time.
#[test]
fn a_probe_that_looks_falls_back_on_who_was_stuck() {
    let mut traced = TraceBuilder::new(2000);
    traced.trace.tracer = Some(CLIENT);
    traced.runs(0, 0, CLIENT).blocks(100, 0, CLIENT, "schedule < do_sys_poll");
    traced.blocks(50, 1, SERVER, "schedule < ep_poll");
    traced.runs(60, 2, OTHER).blocks(
        130,
        2,
        OTHER,
        "io_schedule < submit_bio_wait < blkdev_issue_flush",
    );
    for at in [350, 600, 850] {
        traced.interrupt(at, CLIENT, "hrtimer_wakeup").runs(at, 0, CLIENT);
        traced.blocks(at + 5, 0, CLIENT, "schedule < do_sys_poll");
    }
    traced.interrupt(1080, OTHER, "bio_endio").runs(1080, 2, OTHER);
    traced.interrupt(1090, SERVER, "unknown_interrupt").runs(1090, 1, SERVER);
    traced.wakes(1095, SERVER, CLIENT).runs(1100, 0, CLIENT);
    let path = traced.served_path(100, 1100, &[OTHER]);
    let first = &path.shares()[0];
    assert_eq!(first.kind, TimeKind::Waiting(Wait::FileWrite), "{path:?}");
}
