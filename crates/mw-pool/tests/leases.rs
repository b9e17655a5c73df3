//! What a client gets of a server, and when it comes back.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{MIB, Memory, Running, spec};
use mw_memory::NumaPolicy;
use mw_pool::protocol::LeasePhase;
use mw_pool::protocol::{Contents, Refusal};
use mw_pool::{Attach, Error};
use mw_sys::testing::policy_mode;
use rustix::fs::{FallocateFlags, fallocate};
use std::os::fd::AsRawFd;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

fn refusal(error: Error) -> Refusal {
    match error {
        Error::Refused(refusal, _) => refusal,
        other => panic!("{other}"),
    }
}

/// Promise (The pool): Memory is handed out zeroed, and a mapping alone prevents it from being handed out again.
#[test]
fn memory_is_zeroed_and_returned() {
    let server = Running::new(1 << 30);
    let pool = server.pool("db", 64);
    let memory = Memory::own();
    for round in 1..4 {
        let wanted = Attach::new(pool.clone(), 64 * MIB).wait(LONG);
        let attached = server.client.attach(&wanted).unwrap();
        assert_eq!((attached.bytes() as u64, attached.contents()), (64 * MIB, Contents::Zeroed));
        assert!(memory.is_all(&attached, 0), "round {round}");
        memory.fill(&attached, 0xA5);
        let error = server.client.attach(&Attach::new(pool.clone(), MIB)).unwrap_err();
        assert_eq!(refusal(error), Refusal::Full);
        drop(attached);
    }
    server.whole("db");
    let state = server.client.pools().unwrap().remove(0);
    assert_eq!((state.leases, state.leases_total), (0, 3));
    assert_eq!(state.zeroed_bytes_total, 3 * 64 * MIB);
}

/// Promise (The pool): A pool can be used before all of its memory is populated.
#[test]
fn a_pool_is_usable_before_it_is_fully_populated() {
    let server = Running::new(4 << 30);
    server.client.create(&spec("db", 512)).unwrap();
    let pool = server.client.pools().unwrap().remove(0).spec.name;
    let all = Attach::new(pool.clone(), 512 * MIB);
    let part = Attach::new(pool, 16 * MIB).wait(LONG).lock(false);
    let part = server.client.attach(&part).unwrap();
    match server.client.attach(&all) {
        Err(Error::NotReady { ready_bytes, coming_bytes, .. }) => {
            assert!(ready_bytes + coming_bytes <= 512 * MIB);
        }
        Err(error) => assert_eq!(refusal(error), Refusal::Full),
        Ok(_) => panic!("a part of it is handed out"),
    }
    drop(part);
    drop(server.client.attach(&all.wait(LONG).lock(false)).unwrap());
}

/// Promise (The pool): Contents are kept only for their user, with a generation and whether they were marked
/// consistent.
#[test]
fn contents_are_kept_for_the_same_user_with_a_generation_and_a_dirty_flag() {
    let server = Running::new(1 << 30);
    let pool = server.pool("db", 64);
    let memory = Memory::own();
    let name: mw_pool::PoolName = "cache".parse().unwrap();
    let wanted = Attach::new(pool.clone(), 32 * MIB).keep(name).wait(LONG);
    let first = server.client.attach(&wanted).unwrap();
    assert_eq!(first.contents(), Contents::Zeroed);
    memory.fill(&first, 7);
    let leases = server.client.leases().unwrap();
    assert_eq!((leases.len(), leases[0].bytes, leases[0].phase), (1, 32 * MIB, LeasePhase::Active));
    assert_eq!((leases[0].process, leases[0].id), (std::process::id(), first.lease()));
    let error = server.client.attach(&wanted).unwrap_err();
    assert_eq!(refusal(error), Refusal::Full, "they are in use");
    drop(first);
    let second = server.client.attach(&wanted).unwrap();
    assert_eq!(second.contents(), Contents::Kept { generation: 1, dirty: true });
    assert!(memory.is_all(&second, 7));
    second.mark_consistent().unwrap();
    drop(second);
    let third = server.client.attach(&wanted).unwrap();
    assert_eq!(third.contents(), Contents::Kept { generation: 2, dirty: false });
    drop(third);
    let error = server.client.attach(&Attach::new(pool.clone(), 64 * MIB)).unwrap_err();
    assert_eq!(refusal(error), Refusal::Full, "contents are kept");
    server.client.release(&pool).unwrap();
    drop(server.client.attach(&Attach::new(pool, 64 * MIB).wait(LONG)).unwrap());
}

#[test]
fn a_mapping_alone_keeps_the_memory() {
    let server = Running::new(1 << 30);
    let pool = server.pool("db", 16);
    let memory = Memory::own();
    let wanted = Attach::new(pool, 16 * MIB).wait(LONG);
    let attached = server.client.attach(&wanted).unwrap();
    memory.fill(&attached, 9);
    // As in a program that closes all descriptors: only the mapping.
    let start = attached.as_ptr().as_ptr().expose_provenance();
    let maps = std::fs::read_dir("/proc/self/map_files").unwrap();
    let own = maps.flatten().find(|entry| {
        let name = entry.file_name().into_string().unwrap();
        name.starts_with(&format!("{start:x}-"))
    });
    let Ok(held) = std::fs::File::options().read(true).open(own.unwrap().path()) else {
        return mw_test::skip("needs root");
    };
    drop(attached);
    // Long enough for the server to end the lease, which must not happen.
    std::thread::sleep(Duration::from_millis(100));
    // This process has not ended: its lease continues, and no request waits for it.
    if server.client.server().unwrap().owners_known {
        assert_eq!(server.client.pools().unwrap().remove(0).bytes.leased, 16 * MIB);
        assert_eq!(refusal(server.client.attach(&wanted).unwrap_err()), Refusal::Full);
    }
    drop(held);
    let again = server.client.attach(&wanted).unwrap();
    assert!(memory.is_all(&again, 0));
}

/// Promise (The pool): Holes that a client has punched are replenished by exchanging the memory, if there is room.
#[test]
fn punched_holes_are_replenished() {
    let server = Running::new(1 << 30);
    let pool = server.pool("db", 16);
    let memory = Memory::own();
    let wanted = Attach::new(pool, 16 * MIB).wait(LONG);
    let attached = server.client.attach(&wanted).unwrap();
    let id = attached.as_ptr().as_ptr().expose_provenance();
    // Through /proc, as a client that kept its descriptors could.
    let path = format!("/proc/self/map_files/{id:x}-{:x}", id + (8 << 20));
    if let Ok(file) = std::fs::File::options().read(true).write(true).open(path) {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&file, hole, 0, 4 << 20).unwrap();
        assert!(file.as_raw_fd() > 0);
    }
    drop(attached);
    let again = server.client.attach(&wanted).unwrap();
    assert!(memory.is_all(&again, 0));
}

/// mbind(2) of shared memory is kept with the file.
///
/// Promise (The pool): A memory policy does not pass to the next user.
#[test]
fn a_memory_policy_does_not_pass_to_the_next_user() {
    let server = Running::new(1 << 30);
    let wanted = Attach::new(server.pool("db", 16), 16 * MIB).wait(LONG);
    let policies = |attached: &mw_pool::Attachment| {
        [0, 12 << 20].map(|offset| policy_mode(attached.region(), offset).unwrap())
    };
    let attached = server.client.attach(&wanted).unwrap();
    assert_eq!(policies(&attached), [0; 2]);
    attached.region().set_policy(0..attached.bytes(), &NumaPolicy::Bind(vec![0])).unwrap();
    assert_ne!(policies(&attached), [0; 2]);
    drop(attached);
    let again = server.client.attach(&wanted).unwrap();
    assert_eq!(policies(&again), [0; 2], "another's policy is on it");
}

/// Promise (The pool): Pools stay within the budget and are refused if the machine has no room.
#[test]
fn pools_grow_shrink_and_are_removed_within_the_budget() {
    let server = Running::new(256 * MIB);
    let pool = server.pool("db", 64);
    let size = || server.client.pools().unwrap().remove(0).spec.bytes / MIB;
    server.client.grow(&pool, 64 * MIB).unwrap();
    server.whole("db");
    assert_eq!(size(), 128);
    assert_eq!(refusal(server.client.grow(&pool, 256 * MIB).unwrap_err()), Refusal::TooLarge);
    assert_eq!(refusal(server.client.create(&spec("db", 8)).unwrap_err()), Refusal::Exists);
    assert_eq!(refusal(server.client.create(&spec("x", 512)).unwrap_err()), Refusal::TooLarge);
    assert_eq!(refusal(server.client.create(&spec("refused", 8)).unwrap_err()), Refusal::TooLarge);
    assert_eq!(refusal(server.client.create(&spec("none", 0)).unwrap_err()), Refusal::Invalid);
    let held = server.client.attach(&Attach::new(pool.clone(), 32 * MIB).lock(false)).unwrap();
    assert_eq!(refusal(server.client.shrink(&pool, 104 * MIB).unwrap_err()), Refusal::Full);
    server.client.shrink(&pool, 96 * MIB).unwrap();
    assert_eq!(size(), 32);
    server.client.remove(&pool).unwrap();
    assert!(server.client.pools().unwrap().is_empty());
    let memory = Memory::own();
    memory.fill(&held, 3);
    assert!(memory.is_all(&held, 3), "memory in use stays");
    let error = server.client.attach(&Attach::new(pool, MIB)).unwrap_err();
    assert_eq!(refusal(error), Refusal::NoSuchPool);
}
