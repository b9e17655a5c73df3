//! Pauses of a Java virtual machine.

use crate::made::Made;
use crate::paths::{MS, explained, link, made, task};
use mw_critical_path::{
    CpuHolder, MachineOperation, MachinePause, PathTask, RunMode, TimeKind, Wait,
};

/// A thread of a pool waited for another thread, and that one for the virtual machine's, which did most of it.
fn paused(kind: TimeKind, operation: MachineOperation, pause_ms: u64) -> Made {
    let mut made = made(&[(kind, 95)]);
    let path = made.incident.path.as_mut().unwrap();
    let thread = |tid, name| PathTask {
        process: 5538,
        process_name: Some("java".to_owned()),
        ..task(tid, name)
    };
    let [pool, dispatcher, machine] = [
        thread(5728, "pool-1-thread-2"),
        thread(5637, "HTTP-Dispatcher"),
        thread(5546, "VM Thread"),
    ];
    path.chain = vec![
        link(&path.task, Wait::Poll, &pool),
        link(&pool, Wait::Futex, &dispatcher),
        link(&dispatcher, Wait::Futex, &machine),
    ];
    path.parts[0].task = machine;
    let process = task(5538, "java");
    path.pause = Some(MachinePause { process, operation, total_ns: pause_ms * MS });
    made
}

#[track_caller]
fn check(kind: TimeKind, (operation, pause_ms): (MachineOperation, u64), expected: &str) {
    let made = paused(kind, operation, pause_ms);
    let causes = explained(&made).causes;
    assert_eq!(causes[0].finding.headline, expected, "{causes:#?}");
}

const COMPUTING: TimeKind = TimeKind::Running(RunMode::User);

/// A request that waited for a collection of garbage.
pub(crate) fn collection() -> Made {
    paused(COMPUTING, MachineOperation::Collection, 7800)
}

/// Promise (Tracing: why): A collection of garbage is the cause, and no lock that threads of the program wait for meanwhile.
#[test]
fn a_collection_is_no_lock() {
    check(COMPUTING, (MachineOperation::Collection, 7800), "java (5538) collected garbage");
    let stopped = "java (5538) stopped its threads, probably to collect garbage";
    check(COMPUTING, (MachineOperation::Safepoint, 7800), stopped);
}

#[test]
fn a_short_collection_does_not_explain_a_lock() {
    let blocked = "VM Thread (5546) blocked HTTP-Dispatcher (5637)";
    check(COMPUTING, (MachineOperation::Collection, 1000), blocked);
}

/// That the collector had no CPU is the reason of the long pause.
#[test]
fn a_collector_without_a_cpu_is_contention() {
    let contended = TimeKind::Runnable(CpuHolder::Task(99));
    let made = paused(contended, MachineOperation::Collection, 7800);
    assert_eq!(explained(&made).causes[0].finding.subject.to_string(), "CPUs");
}
