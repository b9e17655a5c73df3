//! A client that the server cannot number, since it runs in another PID namespace.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;
#[path = "common/process.rs"]
mod process;

use common::{MIB, eventually, spec};
use mw_pool::protocol::Refusal;
use mw_pool::{Attach, Error};
use mw_sys::SysvSegment;
use process::{Process, client, dir, role, serve};
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
#[ignore = "a process of the tests"]
fn server_process() {
    serve(&dir(), 64 * MIB, || ());
}

/// Promise (The pool): A client without a PID in the server's PID namespace is served, and is not mistaken for
/// another process.
#[test]
fn a_client_without_a_pid_is_served_but_binds_no_segment() {
    if !mw_test::is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    // The first process of the server's namespace ends with it.
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
    command.arg(std::env::current_exe().unwrap());
    let mut command = role(command, "server_process", dir.path());
    let _server = Process::spawn(command.stdout(Stdio::null()));
    let client = client(dir.path());
    client.create(&spec("db", 16)).unwrap();
    let wanted = || Attach::new("db".parse().unwrap(), 8 * MIB).wait(Duration::from_secs(60));
    let held = client.attach(&wanted()).unwrap();
    let leases = client.leases().unwrap();
    assert_eq!((leases.len(), leases[0].process), (1, 0));
    // To the server every process here is the one that made it.
    let segment = SysvSegment::create(0, 8 << 20, None).unwrap();
    let tied = client.lease(&wanted().segment(segment.id().try_into().unwrap()));
    let _ = segment.remove();
    assert!(matches!(tied, Err(Error::Refused(Refusal::NoSuchSegment, _))), "{tied:?}");
    drop(held);
    eventually("it comes back", || client.leases().unwrap().is_empty());
}
