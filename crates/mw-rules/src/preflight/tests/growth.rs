//! How far an empty pool can be grown.

use super::machine::{Machine, Memory};
use super::{GIB, IDLE};
use mw_model::{HugePool, PageBlocks, Preflight, Reading};
use mw_proc::buddyinfo::Buddyinfo;

const MIB: u64 = 1 << 20;
const POOL: HugePool = HugePool {
    page_bytes: 2 << 20,
    total_pages: 0,
    free_pages: 0,
    reserved_pages: 0,
    surplus_pages: 0,
    overcommit_pages: 0,
};

/// Of 16 GiB, 8,192 blocks, so many are movable, and all were looked at.
fn blocks(movable: u64, uncertain: u64, stuck_free_pages: u64) -> PageBlocks {
    PageBlocks {
        node: 0,
        block_bytes: 2 << 20,
        blocks: 8192,
        sampled: 8192,
        movable,
        uncertain,
        unflagged: 0,
        slab: 0,
        stuck_free_pages,
    }
}

fn ask(memory: Memory, blocks: Vec<PageBlocks>, request: &str) -> Preflight {
    let sampled = |snapshot: &mut mw_model::Snapshot| snapshot.page_blocks = Reading::Value(blocks);
    Machine::new(&[memory]).pool(POOL).with(sampled).ask(request)
}

/// The least and the most in MiB, and the summary's end.
#[track_caller]
fn check(memory: Memory, blocks: PageBlocks, range: (u64, u64), end: &str) {
    let preflight = ask(memory, vec![blocks], "4G,huge=2M");
    let growth = preflight.pool_growth.unwrap();
    let mib = |bytes: Option<u64>| bytes.unwrap() / MIB;
    assert_eq!((mib(growth.least_bytes), mib(growth.most_bytes)), range, "{growth:?}");
    assert!(preflight.summary.ends_with(end), "{}", preflight.summary);
}

/// Promise (Findings): How far a pool can be grown is stated now by free blocks, and as a range by blocks without a
/// page that cannot be moved.
#[test]
fn an_empty_pool_says_what_can_be_reserved() {
    // The watermarks keep 96 MiB, and a part of the cache stays.
    let after = "no pages are reserved; 13.9 GiB can be reserved now, 14.4 to 14.9 GiB after reclaim and compaction";
    check(IDLE, blocks(8000, 0, 0), (14764, 15264), after);
}

#[test]
fn blocks_with_a_page_that_stays_are_no_huge_pages() {
    let cached = Memory { free: 1024, file: 14336, ..IDLE };
    check(cached, blocks(3000, 0, 0), (6000, 6000), ", 5.9 GiB after reclaim and compaction");
    check(
        cached,
        blocks(3000, 100, 0),
        (6000, 6200),
        ", 5.9 to 6.1 GiB after reclaim and compaction",
    );
}

#[test]
fn free_pages_beside_pages_that_stay_are_not_counted_as_memory_for_huge_pages() {
    let fragmented = Memory { free: 12288, file: 1024, ..IDLE };
    // 2 GiB of what is free is in blocks that stay, and no block of a huge page is free.
    let mut machine = Machine::new(&[fragmented]).pool(POOL).build();
    let mut buddyinfo = Buddyinfo::default();
    let line = format!("Node 0, zone Normal {} 0 0 0 0 0 0 0 0 0 0\n", 12288 << 8);
    buddyinfo.parse_into(line.as_bytes()).unwrap();
    machine.snapshot.sample.buddyinfo = Reading::Value(buddyinfo);
    machine.snapshot.page_blocks = Reading::Value(vec![blocks(7000, 0, 2 * GIB / 4096)]);
    let growth = machine.ask_as_it_is("4G,huge=2M").pool_growth.unwrap();
    let least = growth.least_bytes.unwrap();
    assert_eq!(growth.now_bytes, 0);
    assert!(least < 11 * GIB && least > 10 * GIB, "{}", least / MIB);
}

#[test]
fn the_remedy_is_to_make_room_where_that_may_reach_it() {
    let cached = Memory { free: 1024, file: 14336, ..IDLE };
    let lift = |request| ask(cached, vec![blocks(3000, 0, 0)], request).obstacles[0].lift.clone();
    assert!(
        lift("4G,huge=2M").starts_with("run memwright make-room 4G,huge=2M, or write 2048 to ")
    );
    assert!(lift("7G,huge=2M").starts_with("write 3584 to "), "{}", lift("7G,huge=2M"));
    assert!(
        lift("4G,huge=2M,node=0")
            .ends_with("node0/hugepages/hugepages-2048kB/nr_hugepages by 2048 pages")
    );
}

#[test]
fn without_the_flags_of_pages_only_free_blocks_count() {
    let preflight = ask(IDLE, Vec::new(), "4G,huge=2M");
    let growth = preflight.pool_growth.unwrap();
    assert_eq!((growth.now_bytes, growth.least_bytes), (14240 * MIB, None));
    assert!(preflight.summary.ends_with("; 13.9 GiB can be reserved now"), "{}", preflight.summary);
}

#[test]
fn pinned_pages_may_each_hold_a_block() {
    let pinned = |snapshot: &mut mw_model::Snapshot| {
        let text = b"nr_foll_pin_acquired 1500\nnr_foll_pin_released 500\n";
        let mut vmstat = mw_proc::vmstat::Vmstat::default();
        vmstat.parse_into(text).unwrap();
        snapshot.sample.vmstat = Reading::Value(vmstat);
        snapshot.page_blocks = Reading::Value(vec![blocks(3000, 0, 0)]);
    };
    let cached = Memory { free: 1024, file: 14336, ..IDLE };
    let preflight = Machine::new(&[cached]).pool(POOL).with(pinned).ask("4G,huge=2M");
    let growth = preflight.pool_growth.unwrap();
    assert_eq!(growth.least_bytes, Some(2000 * 2 * MIB));
    assert_eq!(growth.most_bytes, Some(3000 * 2 * MIB));
}
