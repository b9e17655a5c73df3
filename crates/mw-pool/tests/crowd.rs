//! Idle and unread connections: no user is locked out, and descriptors in flight are limited.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;
#[path = "common/process.rs"]
mod process;

use common::strange::connected;
use common::{MIB, Running, eventually, spec};
use mw_pool::protocol::{ClientRequest, MAX_MESSAGE_BYTES, Refusal, Reply};
use mw_pool::{Attach, Client, Owners, PoolSpec};
use mw_sys::SysvSegment;
use process::{Process, this_program};
use rustix::fd::OwnedFd;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags, recvmsg, send,
};
use std::io::{IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Number of users that have all connections, and one more.
const STRANGERS: std::ops::Range<u32> = 4010..4019;
const OWNER: u32 = 4001;

fn role(role: &str, user: u32, server: &Running) -> Command {
    let dir = server.socket.parent().unwrap();
    let mut command = process::role(this_program(), role, dir);
    command.uid(user).gid(user);
    command
}

fn given_socket() -> PathBuf {
    process::socket(&process::dir())
}

fn reachable() -> Running {
    let server = Running::new(1 << 30);
    let dir = server.socket.parent().unwrap();
    std::fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    server
}

/// Promise (The pool): Users who take all connections lock out neither root, nor the owner of a pool, nor other
/// users.
#[test]
fn idle_users_without_a_pool_are_evicted_for_others() {
    if !mw_test::is_root() {
        return;
    }
    let server = reachable();
    let owners = Owners { users: vec![OWNER], groups: Vec::new() };
    server.client.create(&PoolSpec { owners, ..spec("db", 16) }).unwrap();
    let crowd = |user: u32| {
        let mut command = role("idle_process", user, &server);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut seen = Vec::new();
        let out = child.stdout.as_mut().unwrap();
        while !seen.ends_with(b"idle\n") {
            let mut byte = [0];
            out.read_exact(&mut byte).unwrap();
            seen.push(byte[0]);
        }
        Process(child)
    };
    let _crowd: Vec<Process> = STRANGERS.map(crowd).collect();
    server.client.server().unwrap();
    let is_served = |user| role("served_process", user, &server).status().unwrap().success();
    assert!(is_served(OWNER), "the owner is refused");
    assert!(is_served(STRANGERS.end), "one more user without a pool is refused");
}

#[test]
#[ignore = "a process of the tests"]
fn idle_process() {
    let _idle: Vec<OwnedFd> = (0..40).map(|_| connected(&given_socket())).collect();
    // Until the server has accepted or refused them all, which this process cannot observe.
    std::thread::sleep(Duration::from_millis(200));
    println!("idle");
    // Until the test kills it.
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
#[ignore = "a process of the tests"]
fn served_process() {
    Client::new(given_socket()).server().unwrap();
}

/// Reads a connection; returns the number of replies with descriptors, and of refusals for a limit.
fn read_all(from: &OwnedFd) -> (usize, usize) {
    let (mut with, mut limited) = (0, 0);
    loop {
        let mut bytes = [0; MAX_MESSAGE_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let Ok(got) = recvmsg(from, &mut parts, &mut control, flags) else { break };
        if got.bytes == 0 {
            break;
        }
        assert!(!got.flags.contains(ReturnFlags::CTRUNC));
        let has_rights = |message| matches!(message, RecvAncillaryMessage::ScmRights(_));
        with += usize::from(control.drain().any(has_rights));
        let reply = Reply::decode(&bytes[..got.bytes]).unwrap();
        limited += usize::from(matches!(reply, Reply::Refused(Refusal::Limit, _)));
    }
    (with, limited)
}

/// Promise (The pool): Unread replies keep a limited number of descriptors in flight.
#[test]
fn unread_replies_keep_a_limited_number_of_descriptors_in_flight() {
    const STRIPES: usize = 62;
    let server = Running::new(1 << 30);
    server.pool("db", 8 * STRIPES as u64);
    let bytes = STRIPES as u64 * 8 * MIB;
    let segment = SysvSegment::create(0, usize::try_from(bytes).unwrap(), None).unwrap();
    let id: u32 = segment.id().try_into().unwrap();
    let wanted = Attach::new("db".parse().unwrap(), bytes).segment(id);
    drop(server.client.lease(&wanted.wait(Duration::from_secs(60))).unwrap());
    let request = ClientRequest::Segment(id).encode();
    let ask = |to: &OwnedFd| send(to, &request, SendFlags::NOSIGNAL);
    // Several requests over each connection; some connections then send a malformed message.
    let unread: Vec<OwnedFd> = (0..24)
        .map(|number| {
            let to = connected(&server.socket);
            for _ in 0..5 {
                let _ = ask(&to);
            }
            if number % 2 == 0 {
                let _ = send(&to, b"nonsense", SendFlags::NOSIGNAL);
            }
            to
        })
        .collect();
    eventually("all is answered", || {
        server.client.server().is_ok_and(|state| state.requests_total >= 24)
    });
    // Any more replies, which must not come, would be sent by now.
    std::thread::sleep(Duration::from_millis(200));
    let read: Vec<(usize, usize)> = unread.iter().map(read_all).collect();
    let _ = segment.remove();
    assert!(read.iter().all(|(with, _)| *with <= 1), "several are unread: {read:?}");
    let with: usize = read.iter().map(|(with, _)| with).sum();
    let limited: usize = read.iter().map(|(_, limited)| limited).sum();
    assert!((2..=1024 / STRIPES + 1).contains(&with), "{with} unread replies have descriptors");
    assert!(limited > 0);
}
