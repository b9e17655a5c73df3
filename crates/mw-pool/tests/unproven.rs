//! If the kernel does not report who has memory, no memory is leased twice.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{MIB, Memory, Running};
use mw_pool::Attach;
use mw_pool::protocol::Contents;
use mw_test::alone;
use std::fs;
use std::time::Duration;

const LEASES: &str = "/proc/sys/fs/leases-enable";

/// Leases as they were, when it is dropped.
struct Off(String);

impl Off {
    fn new() -> Option<Self> {
        let before = fs::read_to_string(LEASES).ok()?;
        fs::write(LEASES, "0").ok().map(|()| Self(before))
    }
}

impl Drop for Off {
    fn drop(&mut self) {
        let _ = fs::write(LEASES, self.0.trim());
    }
}

/// Promise (The pool): If the kernel does not report who has memory, returned memory is exchanged.
#[test]
fn memory_of_unknown_ownership_is_exchanged() {
    let _alone = alone();
    let off = Off::new();
    assert!(off.is_some(), "only root can take leases away");
    let server = Running::new(1 << 30);
    let state = server.client.server().unwrap();
    assert!(
        !state.owners_known && state.lacks.contains("reports who has memory"),
        "{}",
        state.lacks
    );
    let pool = server.pool("db", 16);
    let memory = Memory::own();
    let wanted = Attach::new(pool, 16 * MIB).wait(Duration::from_secs(60)).lock(false);
    let first = server.client.attach(&wanted).unwrap();
    memory.fill(&first, 7);
    let start = first.as_ptr().as_ptr().expose_provenance();
    let path = format!("/proc/self/map_files/{start:x}-{:x}", start + (8 << 20));
    let held = fs::File::open(path).unwrap();
    drop(first);
    // A lease of half the pool: the other half is still in use, and counts.
    let half = Attach::new("db".parse().unwrap(), 8 * MIB).wait(Duration::from_secs(60));
    let second = server.client.attach(&half.lock(false)).unwrap();
    assert!(memory.is_all(&second, 0));
    memory.fill(&second, 9);
    let mut seen = [0; 4096];
    std::os::unix::fs::FileExt::read_exact_at(&held, &mut seen, 0).unwrap();
    assert_eq!(seen, [7; 4096], "it is the same memory");
    let bytes = server.client.pool(&"db".parse().unwrap()).unwrap().bytes;
    assert_eq!((bytes.leased, bytes.draining), (8 * MIB, 8 * MIB));
    drop(held);
    drop(second);
    let kept = wanted.keep("cache".parse().unwrap());
    let third = server.client.attach(&kept).unwrap();
    memory.fill(&third, 1);
    drop(third);
    let fourth = server.client.attach(&kept).unwrap();
    assert_eq!(fourth.contents(), Contents::Zeroed, "contents are kept without proof");
    assert!(memory.is_all(&fourth, 0));
}

/// A mapping, or a descriptor that no count shows, of everything that a pool ever handed out.
///
/// Promise (The pool): A pool uses no more memory than its size, even if clients hold on to exchanged memory.
#[test]
fn holding_on_to_memory_gains_no_more_than_the_pool_has() {
    let _alone = alone();
    let off = Off::new();
    assert!(off.is_some(), "only root can take leases away");
    let server = Running::new(1 << 30);
    let pool = server.pool("db", 64);
    let memory = Memory::own();
    let mut held = Vec::new();
    let mut had = 0;
    for _ in 0..6 {
        let wanted = Attach::new(pool.clone(), 64 * MIB).wait(Duration::from_millis(300));
        let Ok(taken) = server.client.lease(&wanted) else { continue };
        let mapped = taken.stripes.map().unwrap();
        memory.fill(&mapped, 1);
        had += mapped.bytes() as u64;
        held.push(mapped);
    }
    assert_eq!(had, 64 * MIB, "the pool took more memory than its size");
    drop(held);
    server.whole("db");
}
