//! System V segments whose memory is a pool's.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{MIB, Memory, Running, eventually, spec};
use mw_pool::protocol::Refusal;
use mw_pool::{Attach, Client, Error, Owners, PoolSpec};
use mw_sys::SysvSegment;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const USERS: [u32; 2] = [4001, 4002];
const SIZE: u64 = 8 * MIB;

/// A segment, removed when it is dropped.
struct Segment(SysvSegment);

impl Segment {
    fn new() -> Self {
        Self(SysvSegment::create(0, usize::try_from(SIZE).unwrap(), None).unwrap())
    }

    fn id(&self) -> u32 {
        self.0.id().try_into().unwrap()
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        let _ = self.0.remove();
    }
}

fn wanted() -> Attach {
    Attach::new("db".parse().unwrap(), SIZE).wait(Duration::from_secs(60))
}

fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> Refusal {
    match result {
        Err(Error::Refused(refusal, _)) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_segments_memory_lasts_until_it_is_removed() {
    let server = Running::new(1 << 30);
    server.pool("db", 16);
    let (segment, memory) = (Segment::new(), Memory::own());
    drop(server.client.lease(&wanted().segment(segment.id())).unwrap());
    for byte in [0, 1, 2] {
        let mapped = server.client.segment(segment.id()).unwrap().map().unwrap();
        assert!(memory.is_all(&mapped, byte), "the contents are not those of before");
        memory.fill(&mapped, byte + 1);
        drop(mapped);
        // Long enough for the server to check the owners while it is not in use.
        std::thread::sleep(Duration::from_millis(100));
    }
    let lease = server.client.leases().unwrap().remove(0);
    assert_eq!(lease.segment, Some(segment.id()));
    assert_eq!(server.client.pool(&"db".parse().unwrap()).unwrap().bytes.leased, SIZE);
    let mapped = server.client.segment(segment.id()).unwrap().map().unwrap();
    let id = segment.id();
    drop(segment);
    eventually("the lease is over", || server.client.leases().unwrap().is_empty());
    assert_eq!(refusal(server.client.segment(id)), Refusal::NoSuchSegment);
    let bytes = server.client.pool(&"db".parse().unwrap()).unwrap().bytes;
    assert_eq!(bytes.draining, SIZE, "it is in use");
    assert!(memory.is_all(&mapped, 3));
    drop(mapped);
    server.whole("db");
}

/// Promise (The pool): A segment's memory goes to its creator and those who may attach it; to other users only in a
/// `--trusting` pool.
#[test]
fn only_the_creator_of_a_segment_binds_its_memory() {
    let server = Running::new(1 << 30);
    server.pool("db", 64);
    let segment = Segment::new();
    let of = |attach: Attach| server.client.lease(&attach);
    assert_eq!(refusal(of(wanted().segment(u32::MAX))), Refusal::NoSuchSegment);
    let kept = wanted().segment(segment.id()).keep("cache".parse().unwrap());
    assert_eq!(refusal(of(kept)), Refusal::Invalid);
    assert_eq!(refusal(server.client.segment(segment.id())), Refusal::NoSuchSegment);
    drop(of(wanted().segment(segment.id())).unwrap());
    assert_eq!(refusal(of(wanted().segment(segment.id()))), Refusal::Invalid);
    let foreign = Command::new("ipcmk").args(["-M", "8388608", "-p", "0600"]).output().unwrap();
    let foreign = String::from_utf8(foreign.stdout).unwrap();
    let foreign: i32 = foreign.split_whitespace().last().unwrap().parse().unwrap();
    let foreign = Segment(SysvSegment::from_id(foreign));
    assert_eq!(refusal(of(wanted().segment(foreign.id()))), Refusal::NoSuchSegment);
}

#[test]
fn other_users_of_the_pool_do_not_get_a_segments_memory() {
    if !rustix::process::geteuid().is_root() {
        mw_test::skip("needs root");
        return;
    }
    let server = Running::new(1 << 30);
    let dir = server.socket.parent().unwrap();
    std::fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for trusting in [false, true] {
        let owners = Owners { users: USERS.to_vec(), groups: Vec::new() };
        server.client.create(&PoolSpec { owners, trusting, ..spec("db", 16) }).unwrap();
        server.whole("db");
        let made = as_user(USERS[0], "maker_process", &server, 0);
        let id: u32 =
            made.lines().find_map(|line| line.strip_prefix("made ")).unwrap().parse().unwrap();
        let segment = Segment(SysvSegment::from_id(id.try_into().unwrap()));
        assert!(as_user(USERS[0], "other_process", &server, id).contains("has it"));
        assert!(as_user(USERS[1], "other_process", &server, id).contains("Denied"));
        assert!(server.client.segment(id).is_ok(), "root may");
        drop(segment);
        server.whole("db");
        server.client.remove(&"db".parse().unwrap()).unwrap();
    }
}

/// Output of a test of this program as another user.
fn as_user(user: u32, role: &str, server: &Running, segment: u32) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", role, "--ignored", "--nocapture"]);
    command.env("MW_POOL_SOCKET", &server.socket).env("MW_POOL_SEGMENT", segment.to_string());
    let output = command.uid(user).gid(user).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn given() -> (Client, u32) {
    let variable = |name| std::env::var_os(name).unwrap();
    let segment = variable("MW_POOL_SEGMENT").into_string().unwrap().parse().unwrap();
    (Client::new(PathBuf::from(variable("MW_POOL_SOCKET"))), segment)
}

#[test]
#[ignore = "a process of the tests"]
fn maker_process() {
    let segment = Segment::new();
    drop(given().0.lease(&wanted().segment(segment.id())).unwrap());
    println!("\nmade {}", segment.id());
    std::mem::forget(segment);
}

#[test]
#[ignore = "a process of the tests"]
fn other_process() {
    let (client, segment) = given();
    match client.segment(segment) {
        Ok(_) => println!("has it"),
        other => println!("{:?}", refusal(other)),
    }
}
