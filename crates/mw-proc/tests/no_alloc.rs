//! What is sampled allocates nothing from its second call on.

use std::alloc::System;
use std::hint::black_box;

use mw_proc::ParseError;
use mw_proc::buddyinfo::Buddyinfo;
use mw_proc::cgroup::{
    CpuMax, CpuStat, MemoryEvents, MemoryStat, parse_frozen, parse_io_stat, parse_limit,
    parse_oom_control,
};
use mw_proc::extfrag::Extfrag;
use mw_proc::meminfo::Meminfo;
use mw_proc::pressure::Pressure;
use mw_proc::vmstat::Vmstat;
use mw_proc::zoneinfo::Zoneinfo;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The counts are those of the whole process, other threads included: the least of several rounds
/// is the parser's own.
fn check(name: &str, mut parse: impl FnMut()) {
    parse();
    let rounds = (0..10).map(|_| {
        let region = Region::new(ALLOCATOR);
        parse();
        let change = region.change();
        change.allocations + change.reallocations
    });
    assert_eq!(rounds.min(), Some(0), "{name}");
}

/// Promise (Checking): A sampled parser allocates nothing after its first call.
#[test]
fn sampled_parsers_allocate_nothing() {
    let mut zones = Zoneinfo::default();
    let mut buddy = Buddyinfo::default();
    let mut extfrag = Extfrag::default();
    let mut vmstat = Vmstat::default();
    let mut devices = Vec::new();
    check("zoneinfo", || zones.parse_into(include_bytes!("data/zoneinfo")).unwrap());
    check("buddyinfo", || buddy.parse_into(include_bytes!("data/buddyinfo")).unwrap());
    check("extfrag", || extfrag.parse_into(include_bytes!("data/unusable_index")).unwrap());
    check("vmstat", || vmstat.parse_into(include_bytes!("data/vmstat")).unwrap());
    check("meminfo", || keep(Meminfo::parse(include_bytes!("data/meminfo"))));
    check("node meminfo", || keep(Meminfo::parse(include_bytes!("data/node_meminfo"))));
    check("pressure", || keep(Pressure::parse(include_bytes!("data/pressure"))));
    check("memory.stat", || keep(MemoryStat::parse(include_bytes!("data/memory_stat_v2"))));
    check("memory.stat v1", || keep(MemoryStat::parse(include_bytes!("data/memory_stat_v1"))));
    check("memory.events", || keep(MemoryEvents::parse(include_bytes!("data/memory_events"))));
    check("memory.oom_control", || keep(parse_oom_control(b"oom_kill_disable 0\nunder_oom 0\n")));
    check("cgroup.events", || keep(parse_frozen(b"populated 1\nfrozen 0\n")));
    check("cpu.stat", || keep(CpuStat::parse(b"usage_usec 7\nnr_throttled 0\n")));
    check("cpu.max", || keep(CpuMax::parse(b"max 100000\n")));
    check("io.stat", || keep(parse_io_stat(b"8:0 rbytes=1 wbytes=2\n", &mut devices)));
    check("memory.max", || keep(parse_limit(b"max\n")));
}

fn keep<T>(result: Result<T, ParseError>) {
    assert!(black_box(result).is_ok());
}

#[test]
fn the_counter_counts() {
    let region = Region::new(ALLOCATOR);
    black_box(vec![1_u8; 100]);
    assert!(region.change().allocations > 0);
}
