//! A server stops promptly, at whatever moment it is told to.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::spec;
use mw_pool::{NumaPolicy, PoolServerConfig, PoolSpec, Server};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// The server's longest wait is a second: a stop that is noticed only after it exceeds this.
const LIMIT: Duration = Duration::from_millis(500);

/// A pool on a node that does not exist cannot be populated: the server logs that in the middle of its
/// loop, after it has checked for a stop and before it waits.
#[test]
fn a_stop_between_check_and_wait_is_not_missed() {
    let dir = tempfile::tempdir().unwrap();
    let (stop, stopped) = UnixStream::pair().unwrap();
    let told = Arc::new(OnceLock::new());
    let (stop, noted) = (Mutex::new(Some(stop)), Arc::clone(&told));
    let mut server = Server::start(PoolServerConfig {
        socket: dir.path().join("pool.sock"),
        budget_bytes: 1 << 30,
        pools: vec![PoolSpec { nodes: NumaPolicy::Bind(vec![1023]), ..spec("db", 8) }],
        preflight: Box::new(|_, _| Ok(())),
        log: Box::new(move |_, line| {
            if line.contains("not fully populated") {
                stop.lock().unwrap().take();
                let _ = noted.set(Instant::now());
            }
        }),
    })
    .unwrap();
    server.run(stopped.as_fd(), &mut || ()).unwrap();
    let took = told.get().unwrap().elapsed();
    assert!(took < LIMIT, "it stopped after {took:?}");
}
