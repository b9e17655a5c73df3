//! A connection that is retained only because of unread descriptors does not keep the server awake.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::strange::connected;
use common::{MIB, Running, eventually};
use mw_pool::protocol::ClientRequest;
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

#[test]
fn an_ended_connection_with_unread_descriptors_costs_nothing() {
    let server = Running::new(1 << 30);
    let pool = server.pool("db", 8);
    let to = connected(&server.socket);
    let wanted = ClientRequest::Attach { pool, bytes: MIB, keep: None, segment: None };
    send(&to, &wanted.encode(), SendFlags::NOSIGNAL).unwrap();
    eventually("the lease is granted", || server.client.leases().unwrap().len() == 1);
    send(&to, b"nonsense", SendFlags::NOSIGNAL).unwrap();
    shutdown(&to, Shutdown::Both).unwrap();
    eventually("the message is read", || server.client.server().unwrap().bad_messages_total == 1);
    // The server finishes its work; then its CPU time is measured over a second.
    std::thread::sleep(Duration::from_millis(100));
    let before = cpu_time();
    std::thread::sleep(Duration::from_secs(1));
    let used = cpu_time() - before;
    assert!(used < Duration::from_millis(200), "the server does not sleep: {used:?}");
    drop(to);
    server.whole("db");
}
