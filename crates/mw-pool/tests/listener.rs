//! The server's socket: whose place it takes, who may connect, and that it goes with the server.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use mw_pool::{PoolServerConfig, Server, StartError};
use rustix::fd::OwnedFd;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::Path;

fn start(socket: &Path) -> Result<Server, StartError> {
    Server::start(PoolServerConfig {
        socket: socket.to_owned(),
        budget_bytes: 1 << 20,
        pools: Vec::new(),
        preflight: Box::new(|_, _| Ok(())),
        log: Box::new(|_, _| {}),
    })
}

fn socket() -> OwnedFd {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|about| about.file_type().is_socket())
}

/// Promise (The pool): The server's socket replaces only a socket without a listener, and is removed when the server
/// ends.
#[test]
fn the_socket_is_for_all_users_and_ends_with_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool.sock");
    let server = start(&path).unwrap();
    assert!(is_socket(&path));
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o666);
    assert!(matches!(start(&path), Err(StartError::Running(_))));
    assert!(is_socket(&path), "the second server took the first one's away");
    drop(server);
    assert!(!path.exists(), "it stays behind");
    let server = start(&path).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, "another's").unwrap();
    drop(server);
    assert_eq!(fs::read_to_string(&path).unwrap(), "another's");
}

#[test]
fn a_busy_server_keeps_its_socket() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool.sock");
    let address = SocketAddrUnix::new(&path).unwrap();
    let busy = socket();
    bind(&busy, &address).unwrap();
    listen(&busy, 1).unwrap();
    let mut waiting = Vec::new();
    loop {
        waiting.push(socket());
        if connect(waiting.last().unwrap(), &address).is_err() {
            break;
        }
    }
    let number = fs::metadata(&path).unwrap().ino();
    assert!(matches!(start(&path), Err(StartError::Running(_))));
    assert_eq!(fs::metadata(&path).unwrap().ino(), number, "its socket was replaced");
    drop((busy, waiting));
    drop(start(&path).unwrap());
}

#[test]
fn only_a_socket_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool.sock");
    let precious = dir.path().join("precious");
    fs::write(&precious, "precious").unwrap();
    fs::hard_link(&precious, &path).unwrap();
    let before = fs::metadata(&path).unwrap().mode();
    assert!(start(&path).is_err());
    assert_eq!(fs::metadata(&path).unwrap().mode(), before);
    fs::remove_file(&path).unwrap();
    symlink(&precious, &path).unwrap();
    assert!(start(&path).is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    assert_eq!(fs::metadata(&precious).unwrap().mode(), before);
}
