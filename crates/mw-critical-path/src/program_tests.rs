//! Programs whose threads are idle, serve, and wait for each other.

use super::*;
use crate::path::TimeKind;
use crate::test_trace::{CLIENT, OTHER, SERVER, TraceBuilder};
use crate::trace::WakeContext;

const POLL: &str = "schedule < ep_poll < do_epoll_wait";
const FUTEX: &str = "schedule < futex_wait_queue < futex_wait";
const READ: &str = "schedule < folio_wait_bit_common < filemap_read";

fn time(traced: &TraceBuilder, processes: &[Tid], listens: bool) -> ProgramTime {
    let time = TracedProgram { processes: processes.to_vec(), listens }.time(&traced.trace);
    let busy: Nanos = time.cycles.iter().map(Cycle::duration).sum();
    assert_eq!(busy, time.busy.duration(), "{time:?}");
    time
}

fn cycles(time: &ProgramTime) -> Vec<(Tid, Nanos, Nanos)> {
    time.cycles.iter().map(|cycle| (cycle.task, cycle.from, cycle.to)).collect()
}

/// A client asks the server at 100, which reads a file from 110 to 700 and answers at 800.
fn served() -> TraceBuilder {
    let mut traced = TraceBuilder::new(1000);
    traced.blocks(10, 0, SERVER, POLL);
    traced.runs(90, 1, CLIENT).wakes(100, CLIENT, SERVER).runs(105, 0, SERVER);
    traced.blocks(101, 1, CLIENT, POLL);
    traced.blocks(110, 0, SERVER, READ).interrupt(700, SERVER, "blk_mq_complete_request");
    traced.runs(710, 0, SERVER).wakes(800, SERVER, CLIENT).runs(805, 1, CLIENT);
    traced.blocks(810, 0, SERVER, POLL);
    traced
}

#[test]
fn a_cycle_is_from_one_wait_for_work_to_the_next() {
    let time = time(&served(), &[SERVER], true);
    assert_eq!(cycles(&time)[0], (SERVER, 100, 810));
    assert_eq!(time.threads, 1);
    let shares = time.busy.shares();
    assert_eq!((shares[0].kind, shares[0].total), (TimeKind::Waiting(Wait::FileRead), 590));
}

#[test]
fn who_is_waited_for_by_its_client_is_not_idle() {
    // The server polls for another program from 200 to 600, while its client waits.
    let mut traced = TraceBuilder::new(1000);
    traced.blocks(10, 0, SERVER, POLL);
    traced.runs(90, 1, CLIENT).wakes(100, CLIENT, SERVER).blocks(101, 1, CLIENT, POLL);
    traced.runs(105, 0, SERVER).wakes(190, SERVER, OTHER).blocks(200, 0, SERVER, POLL);
    traced.wakes(600, OTHER, SERVER).runs(605, 0, SERVER).wakes(650, SERVER, CLIENT);
    traced.runs(660, 1, CLIENT).blocks(700, 0, SERVER, POLL);
    let time = time(&traced, &[SERVER], true);
    assert_eq!(cycles(&time)[0], (SERVER, 100, 700));
}

#[test]
fn a_request_that_was_read_is_not_answered() {
    // As unix(7) sockets do, reading wakes the client, which goes on waiting; the server sleeps then.
    for again in [108, 120] {
        let mut traced = TraceBuilder::new(1000);
        traced.blocks(10, 0, SERVER, POLL);
        traced.runs(90, 1, CLIENT).wakes(100, CLIENT, SERVER).blocks(101, 1, CLIENT, POLL);
        traced.runs(105, 0, SERVER);
        let stack = traced.stack("__wake_up_sync_key < unix_write_space < sock_wfree");
        let read =
            EventKind::Waking { task: CLIENT, by: SERVER, context: WakeContext::Task, stack };
        traced.event(106, 0, read);
        traced.blocks(110, 0, SERVER, "schedule < do_nanosleep < hrtimer_nanosleep");
        traced.runs(again, 1, CLIENT).blocks(again + 1, 1, CLIENT, POLL);
        traced.interrupt(700, SERVER, "hrtimer_wakeup").runs(705, 0, SERVER);
        traced.wakes(720, SERVER, CLIENT).blocks(730, 0, SERVER, POLL).runs(735, 1, CLIENT);
        let time = time(&traced, &[SERVER], true);
        assert_eq!(cycles(&time)[0], (SERVER, 100, 730), "{again}");
        assert_eq!(time.busy.shares()[0].kind, TimeKind::Waiting(Wait::Sleep), "{again}");
    }
}

#[test]
fn a_program_that_does_not_listen_waits_for_others() {
    let time = time(&served(), &[CLIENT], false);
    assert_eq!(cycles(&time), [(CLIENT, 0, 1000)], "{time:?}");
    let shares = time.busy.shares();
    assert_eq!((shares[0].kind, shares[0].total), (TimeKind::Waiting(Wait::Poll), 699));
}

#[test]
fn threads_that_nobody_wakes_are_idle() {
    let mut traced = TraceBuilder::new(1000);
    traced.blocks(10, 0, SERVER, FUTEX).blocks(20, 1, OTHER, POLL);
    let time = time(&traced, &[SERVER, OTHER], true);
    assert_eq!((time.threads, cycles(&time)), (2, vec![(OTHER, 0, 20), (SERVER, 0, 10)]));
}

#[test]
fn a_lock_that_a_sibling_releases_is_not_idle() {
    // OTHER gives SERVER work at 100; a third thread releases the lock that it waits for.
    const HOLDER: Tid = 40;
    let mut traced = TraceBuilder::new(1000);
    traced.blocks(10, 0, SERVER, FUTEX);
    traced.runs(90, 1, OTHER).wakes(100, OTHER, SERVER).runs(105, 0, SERVER);
    traced.blocks(110, 0, SERVER, FUTEX).runs(120, 2, HOLDER).wakes(700, HOLDER, SERVER);
    traced.runs(705, 0, SERVER).blocks(720, 0, SERVER, FUTEX);
    traced.wakes(900, OTHER, SERVER).runs(905, 0, SERVER).blocks(910, 0, SERVER, FUTEX);
    let time = time(&traced, &[SERVER, OTHER, HOLDER], true);
    let of_server: Vec<_> = time.cycles.iter().filter(|cycle| cycle.task == SERVER).collect();
    assert_eq!((of_server[0].from, of_server[0].to), (100, 720), "{time:?}");
}

#[test]
fn who_hands_a_request_over_is_idle_meanwhile() {
    // SERVER is asked, gives the work to OTHER, and polls again; OTHER answers.
    let mut traced = TraceBuilder::new(1000);
    traced.blocks(10, 0, SERVER, POLL).blocks(20, 2, OTHER, FUTEX);
    traced.runs(90, 1, CLIENT).wakes(100, CLIENT, SERVER).blocks(101, 1, CLIENT, POLL);
    traced.runs(105, 0, SERVER).wakes(110, SERVER, OTHER).blocks(120, 0, SERVER, POLL);
    traced.runs(115, 2, OTHER).blocks(125, 2, OTHER, READ);
    traced.interrupt(600, OTHER, "blk_mq_complete_request").runs(605, 2, OTHER);
    traced.wakes(650, OTHER, CLIENT).runs(655, 1, CLIENT).blocks(660, 2, OTHER, FUTEX);
    traced.wakes(900, CLIENT, SERVER).runs(905, 0, SERVER).blocks(910, 0, SERVER, POLL);
    let time = time(&traced, &[SERVER, OTHER], true);
    assert_eq!(cycles(&time)[..2], [(OTHER, 110, 660), (SERVER, 100, 120)], "{time:?}");
}

#[test]
fn who_creates_a_process_for_each_request_is_idle_meanwhile() {
    // SERVER is asked, and creates a process, whose end wakes it; the client goes on with that process.
    const CHILD: Tid = 50;
    let mut traced = TraceBuilder::new(1000);
    traced.blocks(10, 0, SERVER, POLL);
    traced.runs(90, 1, CLIENT).wakes(100, CLIENT, SERVER).blocks(101, 1, CLIENT, POLL);
    traced.runs(105, 0, SERVER).event(110, 0, EventKind::Fork { parent: SERVER, child: CHILD });
    traced.blocks(120, 0, SERVER, POLL).runs(125, 2, CHILD).wakes(130, CHILD, CLIENT);
    traced.runs(135, 1, CLIENT).wakes(140, CLIENT, CHILD).blocks(150, 1, CLIENT, POLL);
    traced.wakes(800, CHILD, CLIENT).runs(805, 1, CLIENT).wakes(900, CHILD, SERVER);
    traced.runs(905, 0, SERVER).blocks(910, 0, SERVER, POLL);
    let time = time(&traced, &[SERVER], true);
    let of_server: Vec<_> = time.cycles.iter().filter(|cycle| cycle.task == SERVER).collect();
    assert_eq!((of_server[0].from, of_server[0].to), (100, 120), "{time:?}");
}
