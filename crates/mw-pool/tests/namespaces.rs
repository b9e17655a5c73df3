//! A client that the server cannot number, since it runs in another PID namespace.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{MIB, eventually, spec};
use mw_pool::protocol::Refusal;
use mw_pool::{Attach, Client, Config, Error, Server};
use mw_sys::SysvSegment;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const SOCKET: &str = "MW_POOL_SOCKET";

/// The first process of the server's namespace ends with it.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "a process of the tests"]
fn server_process() {
    let config = Config {
        socket: PathBuf::from(std::env::var_os(SOCKET).unwrap()),
        budget_bytes: 64 * MIB,
        pools: Vec::new(),
        preflight: Box::new(|_, _| Ok(())),
        log: Box::new(|_, _| {}),
    };
    Server::start(config).unwrap().run(&AtomicBool::new(false)).unwrap();
}

#[test]
fn a_process_without_a_number_has_memory_and_no_other_process_s_segment() {
    assert!(rustix::process::geteuid().is_root(), "only root can make a PID namespace");
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("pool.sock");
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", "server_process", "--ignored", "--nocapture"]);
    command.env(SOCKET, &socket).stdout(Stdio::null());
    let _server = Process(command.spawn().unwrap());
    let client = Client::new(&socket);
    eventually("it answers", || client.server().is_ok());
    client.create(&spec("db", 16)).unwrap();
    let wanted = || Attach::new("db".parse().unwrap(), 8 * MIB).wait(Duration::from_secs(60));
    let held = client.attach(&wanted()).unwrap();
    let leases = client.leases().unwrap();
    assert_eq!((leases.len(), leases[0].process), (1, 0));
    // To the server every process here is the one that made it.
    let segment = SysvSegment::create(0, 8 << 20, None).unwrap();
    let tied = client.take(&wanted().segment(segment.id().try_into().unwrap()));
    let _ = segment.remove();
    assert!(matches!(tied, Err(Error::Refused(Refusal::NoSuchSegment, _))), "{tied:?}");
    drop(held);
    eventually("it comes back", || client.leases().unwrap().is_empty());
}
