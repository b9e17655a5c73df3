//! Traces of real stalls, recorded on Linux 6.18 with PostgreSQL 15, Redis 7, etcd 3.4, OpenJDK 17 and programs in Go
//! and Rust: the largest part is what was done.
//!
//! Each file has the request and the events of the tasks on its path and of the service; times count from the
//! request's begin.
#![allow(clippy::unwrap_used, reason = "tests may stop at what they did not expect")]

use mw_critical_path::{
    Basis, MachineOperation, PathSummary, RequestSpan, Tid, TimeKind, Trace, Wait, critical_path,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Recorded {
    request: Asked,
    trace: Trace,
}

#[derive(Deserialize)]
struct Asked {
    task: Tid,
    from: u64,
    to: u64,
    servers: Vec<Tid>,
}

/// Explains a recorded request: the largest part is of this kind and task, and at least 90% of it.
#[track_caller]
fn check(json: &str, kind: TimeKind, task: &str) -> PathSummary {
    check_share(json, kind, task, 90)
}

#[track_caller]
fn check_share(json: &str, kind: TimeKind, task: &str, least: u64) -> PathSummary {
    let Recorded { request, trace } = serde_json::from_str(json).unwrap();
    let Asked { task: client, from, to, servers } = request;
    let path = critical_path(
        &trace,
        RequestSpan { task: client, from, to, servers, ..RequestSpan::default() },
    );
    let summary = path.summary(&trace);
    let sum: u64 = summary.parts.iter().map(|part| part.total_ns).sum();
    assert_eq!(sum + summary.rest_ns, summary.total_ns);
    let largest = &summary.parts[0];
    assert_eq!((largest.kind, largest.task.name.as_str()), (kind, task), "{summary:#?}");
    let percent = largest.total_ns * 100 / summary.total_ns;
    assert!(percent >= least, "{percent}%: {summary:#?}");
    summary
}

/// From the request's own task: whom each waited for, and whether that is inferred.
fn chain(summary: &PathSummary) -> Vec<(&str, bool)> {
    summary.chain.iter().map(|link| (link.other.name.as_str(), link.inferred)).collect()
}

/// A session had locked the table and slept; its stack was not read when tracing began.
#[test]
fn lock_table() {
    let json = include_str!("recorded/lock-table.json");
    let summary = check(json, TimeKind::TimedOut(Wait::Unknown), "postgres");
    assert_eq!(chain(&summary), [("postgres", false), ("postgres", false)]);
    assert_ne!(summary.chain[0].other.tid, summary.chain[1].other.tid, "the blocker");
}

/// The same while it lasts: only PostgreSQL knows who has the lock.
#[test]
fn lock_table_open() {
    let json = include_str!("recorded/lock-table-open.json");
    let summary = check(json, TimeKind::Idle(Wait::Poll), "postgres");
    assert_eq!(chain(&summary), [("postgres", true)]);
}

#[test]
fn stopped() {
    let summary = check(include_str!("recorded/stopped.json"), TimeKind::Stopped, "redis-server");
    assert_eq!(chain(&summary), [("redis-server", false)]);
}

#[test]
fn stopped_open() {
    let summary =
        check(include_str!("recorded/stopped-open.json"), TimeKind::Stopped, "redis-server");
    assert_eq!(chain(&summary), [("redis-server", true)]);
}

#[test]
fn stopped_polled() {
    let json = include_str!("recorded/stopped-polled.json");
    let summary = check(json, TimeKind::Stopped, "redis-server");
    assert_eq!((summary.basis, chain(&summary)), (Basis::Polling, vec![("redis-server", true)]));
}

/// A file on a loop device, in a group that may read 4 MiB a second from it.
#[test]
fn throttled_read() {
    let json = include_str!("recorded/throttled-read.json");
    let summary = check(json, TimeKind::Waiting(Wait::FileRead), "dd");
    assert!(summary.parts[0].waker_stack.iter().any(|function| function == "blk_mq_end_request"));
}

/// etcd 3.4 answers with 503 after a second while its log is synced to a slow disk: no thread that is woken or wakes shows
/// it.
#[test]
fn etcd_slow_disk() {
    let json = include_str!("recorded/etcd-slow-disk.json");
    let summary = check_share(json, TimeKind::Waiting(Wait::Writeback), "etcd", 60);
    assert_eq!(chain(&summary), [("etcd", false), ("etcd", true)]);
    let on_disk: u64 = summary.parts[..2].iter().map(|part| part.total_ns).sum();
    assert_eq!(summary.parts[1].kind, TimeKind::Waiting(Wait::FileWrite));
    assert!(on_disk * 100 / summary.total_ns >= 90, "{summary:#?}");
    let sibling = summary.sibling.unwrap();
    assert_eq!((sibling.wait, sibling.task.tid), (Wait::Writeback, summary.parts[0].task.tid));
}

/// OpenJDK 17 with the serial collector and a heap that is nearly full, beside compilers: a thread of the pool waited for the
/// dispatcher, which stood at a safepoint.
#[test]
fn java_serial_collection() {
    let Recorded { request, trace } =
        serde_json::from_str(include_str!("recorded/java-serial-collection.json")).unwrap();
    let Asked { task, from, to, servers } = request;
    let request = RequestSpan { task, from, to, servers, ..RequestSpan::default() };
    let summary = critical_path(&trace, request).summary(&trace);
    let expected = [("pool-1-thread-2", false), ("HTTP-Dispatcher", false), ("VM Thread", false)];
    assert_eq!(chain(&summary), expected);
    let pause = summary.pause.unwrap();
    assert_eq!(pause.operation, MachineOperation::Safepoint);
    assert_eq!(pause.process.name, "java");
    assert!(pause.total_ns * 100 / summary.total_ns >= 90, "{pause:?} of {}", summary.total_ns);
}

/// A handler of Go 1.26 waits through a channel for a goroutine that syncs a file: the thread that did answers as well.
#[test]
fn go_fsync() {
    let json = include_str!("recorded/go-fsync.json");
    let summary = check(json, TimeKind::Waiting(Wait::Writeback), "gosync-stripped");
    assert_eq!(chain(&summary), [("gosync-stripped", false)]);
}

/// A task of Tokio waits for one that syncs a file on a blocking thread.
#[test]
fn tokio_fsync() {
    let json = include_str!("recorded/tokio-fsync.json");
    let summary = check(json, TimeKind::Waiting(Wait::Writeback), "tokio-rt-worker");
    assert_eq!(chain(&summary), [("tokio-rt-worker", false), ("tokio-rt-worker", false)]);
}
