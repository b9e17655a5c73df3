use super::*;
use crate::test_trace::{CLIENT, TraceBuilder};
use crate::trace::Task;

const JAVA: Tid = 50;
const WORKER: Tid = 51;
const OPERATOR: Tid = 52;
const COLLECTOR: Tid = 53;

/// A client waits from 100 to 1100 for a thread of a Java program, that one for `VM Thread`, and that one for a thread
/// of this name.
fn paused_by(name: &str) -> TraceBuilder {
    let mut traced = TraceBuilder::new(2000);
    let threads =
        [(JAVA, "java"), (WORKER, "HTTP-Dispatcher"), (OPERATOR, OPERATIONS), (COLLECTOR, name)];
    for (tid, name) in threads {
        traced.trace.tasks.insert(tid, Task { name: name.to_owned(), process: JAVA });
    }
    let futex = "futex_wait_queue < futex_wait < do_futex";
    traced.runs(90, 0, CLIENT).blocks(100, 0, CLIENT, "schedule < unix_stream_read_generic");
    traced.runs(90, 1, WORKER).blocks(110, 1, WORKER, futex);
    traced.runs(110, 1, OPERATOR).blocks(130, 1, OPERATOR, futex);
    traced.runs(130, 1, COLLECTOR).wakes(1050, COLLECTOR, OPERATOR);
    traced.blocks(1050, 1, COLLECTOR, futex).runs(1050, 1, OPERATOR);
    traced.wakes(1080, OPERATOR, WORKER).blocks(1080, 1, OPERATOR, futex).runs(1080, 1, WORKER);
    traced.wakes(1100, WORKER, CLIENT).runs(1100, 0, CLIENT);
    traced
}

#[track_caller]
fn check(traced: &TraceBuilder, expected: Option<(MachineOperation, Nanos)>) {
    let path = traced.path(100, 1100);
    let found = machine_time(&traced.trace, &path);
    assert!(found.is_none_or(|found| found.process == JAVA));
    let found = found.map(|found| (found.operation, found.total));
    assert_eq!(found, expected, "{path:#?}");
}

/// Promise (Tracing: why): A pause of a Java virtual machine is recognized by the threads that collect garbage.
#[test]
fn threads_of_each_collector_are_known() {
    for name in ["GC Thread#1", "G1 Conc#0", "ZDriver", "ZWorkerYoung#0", "Shenandoah GC T"] {
        check(&paused_by(name), Some((MachineOperation::Collection, 970)));
    }
}

#[test]
fn an_operation_without_a_collector_is_a_safepoint() {
    check(&paused_by("Monitor Deflati"), Some((MachineOperation::Safepoint, 970)));
}

#[test]
fn a_wait_for_a_thread_of_the_program_is_no_pause() {
    let mut traced = paused_by("pool-1-thread-1");
    traced.trace.tasks.get_mut(&OPERATOR).unwrap().name = "pool-1-thread-2".to_owned();
    check(&traced, None);
}

#[test]
fn a_name_alone_makes_no_virtual_machine() {
    let mut traced = paused_by("GC Thread#1");
    traced.trace.tasks.get_mut(&OPERATOR).unwrap().name = "other".to_owned();
    check(&traced, None);
}
