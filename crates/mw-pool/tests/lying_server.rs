//! A server that lies: a client takes no more of it than a server has, and waits no longer than for a list of that.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use mw_pool::protocol::{
    ClientRequest, LeasePhase, LeaseStatus, MAX_MESSAGE_BYTES, PoolBytes, PoolStatus, Reply,
};
use mw_pool::{Client, Error, NumaPolicy, Owners, PageSize, PoolSpec};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept, bind,
    listen, recv, send, socket_with,
};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// Serves one connection on a thread, after a pause each time.
fn serve(path: &Path, pause: Duration, reply: fn(u64) -> Reply) {
    let kind = SocketType::SEQPACKET;
    let listener = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    bind(&listener, &SocketAddrUnix::new(path).unwrap()).unwrap();
    listen(&listener, 1).unwrap();
    std::thread::spawn(move || {
        let client: OwnedFd = accept(&listener).unwrap();
        let mut bytes = [0; MAX_MESSAGE_BYTES];
        for number in 1.. {
            match recv(&client, &mut bytes[..], RecvFlags::empty()) {
                Ok((0, _)) | Err(_) => return,
                Ok((length, _)) => drop(ClientRequest::decode(&bytes[..length]).unwrap()),
            }
            std::thread::sleep(pause);
            if send(&client, &reply(number).encode(), SendFlags::NOSIGNAL).is_err() {
                return;
            }
        }
    });
}

fn pool(number: u64) -> Reply {
    let spec = PoolSpec {
        name: format!("p{number:020}").parse().unwrap(),
        bytes: 1,
        pages: PageSize::Base,
        nodes: NumaPolicy::Default,
        owners: Owners::default(),
        trusting: false,
    };
    Reply::Pool(Box::new(PoolStatus {
        spec,
        stripe_bytes: 1,
        bytes: PoolBytes::default(),
        leases: 0,
        leases_total: 0,
        zeroed_bytes_total: 0,
        locked: true,
        trouble: String::new(),
    }))
}

fn lease(id: u64) -> Reply {
    Reply::Lease(LeaseStatus {
        id,
        pool: "db".parse().unwrap(),
        user: 0,
        process: 1,
        bytes: 1,
        phase: LeasePhase::Active,
        keep: None,
        segment: None,
    })
}

fn refused<T>(answer: Result<T, Error>) -> String {
    match answer {
        Err(error @ Error::Protocol(_)) => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("a list"),
    }
}

#[test]
fn pools_and_leases_without_end_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("pools");
    serve(&socket, Duration::ZERO, pool);
    assert!(refused(Client::new(&socket).pools()).contains("too many pools"));
    let socket = dir.path().join("leases");
    serve(&socket, Duration::ZERO, lease);
    assert!(refused(Client::new(&socket).leases()).contains("too many leases"));
}

#[test]
fn a_list_that_takes_too_long_ends() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("pools");
    serve(&socket, Duration::from_millis(700), pool);
    let begun = Instant::now();
    assert!(refused(Client::new(&socket).pools()).contains("in time"));
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
}
