//! A pool of huge pages: handed out, zeroed, filled up again, and all of it back at the end.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{MIB, Memory, Running, eventually, huge_pages, spec};
use mw_pool::{Attach, PageSize, PoolSpec};
use mw_test::{FolioSwitchGuard, HugePages, alone};
use rustix::fs::{FallocateFlags, fallocate};
use std::fs;
use std::time::Duration;

#[test]
fn huge_pages_are_leased_and_returned() {
    let _alone = alone();
    let Some(_reserved) = HugePages::more(2 * MIB as usize, 16) else {
        mw_test::skip("no huge pages");
        return;
    };
    let free = huge_pages("free_hugepages");
    let server = Running::new(1 << 30);
    server.client.create(&PoolSpec { pages: PageSize::HUGE_2M, ..spec("db", 32) }).unwrap();
    server.whole("db");
    assert_eq!(huge_pages("free_hugepages"), free - 16);
    let memory = Memory::own();
    let wanted = Attach::new("db".parse().unwrap(), 32 * MIB).wait(Duration::from_secs(60));
    for _ in 0..3 {
        let attached = server.client.attach(&wanted).unwrap();
        assert!(attached.is_locked_by_server() && memory.is_all(&attached, 0));
        memory.fill(&attached, 7);
        let start = attached.as_ptr().as_ptr().expose_provenance();
        let path = format!("/proc/self/map_files/{start:x}-{:x}", start + (8 << 20));
        let file = fs::File::options().read(true).write(true).open(path).unwrap();
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&file, hole, 0, 4 << 20).unwrap();
        assert_eq!(huge_pages("free_hugepages") - (free - 16), 2);
    }
    server.whole("db");
    assert_eq!(huge_pages("free_hugepages"), free - 16, "holes are filled again");
    let state = server.client.server().unwrap();
    if state.owners_known {
        let pool = server.client.pools().unwrap().remove(0);
        // One stripe in four had a hole, and was exchanged.
        assert_eq!(pool.zeroed_bytes_total, 3 * 24 * MIB, "zeroed in place");
    }
    server.client.remove(&"db".parse().unwrap()).unwrap();
    eventually("they are free again", || huge_pages("free_hugepages") == free);
}

#[test]
fn folios_are_leased_and_returned() {
    let _alone = alone();
    let Some(_switches) = FolioSwitchGuard::only(&[64, 1024]) else {
        return mw_test::skip("needs root and switches for folio sizes (Linux 6.11)");
    };
    let server = Running::new(1 << 30);
    server.client.create(&PoolSpec { pages: PageSize::Best, ..spec("db", 64) }).unwrap();
    server.whole("db");
    let memory = Memory::own();
    let wanted = Attach::new("db".parse().unwrap(), 64 * MIB).wait(Duration::from_secs(60));
    for _ in 0..2 {
        let attached = server.client.attach(&wanted).unwrap();
        assert!(memory.is_all(&attached, 0));
        memory.fill(&attached, 7);
    }
    server.whole("db");
    server.client.remove(&"db".parse().unwrap()).unwrap();
}
