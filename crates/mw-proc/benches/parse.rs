//! The time that the sampled parsers take on this kernel's text, 6.18 with 2 CPUs and one node.

use divan::{Bencher, black_box};
use mw_proc::buddyinfo::Buddyinfo;
use mw_proc::cgroup::{MemoryEvents, MemoryStat};
use mw_proc::extfrag::Extfrag;
use mw_proc::meminfo::Meminfo;
use mw_proc::pressure::Pressure;
use mw_proc::vmstat::Vmstat;
use mw_proc::zoneinfo::Zoneinfo;

fn main() {
    divan::main();
}

#[divan::bench]
fn meminfo(bencher: Bencher) {
    let text = include_bytes!("../tests/data/meminfo");
    bencher.bench(|| Meminfo::parse(black_box(text)));
}

#[divan::bench]
fn node_meminfo(bencher: Bencher) {
    let text = include_bytes!("../tests/data/node_meminfo");
    bencher.bench(|| Meminfo::parse(black_box(text)));
}

#[divan::bench]
fn vmstat(bencher: Bencher) {
    let text = include_bytes!("../tests/data/vmstat");
    let mut vmstat = Vmstat::default();
    bencher.bench_local(|| vmstat.parse_into(black_box(text)));
}

#[divan::bench]
fn zoneinfo(bencher: Bencher) {
    let text = include_bytes!("../tests/data/zoneinfo");
    let mut zoneinfo = Zoneinfo::default();
    bencher.bench_local(|| zoneinfo.parse_into(black_box(text)));
}

#[divan::bench]
fn buddyinfo(bencher: Bencher) {
    let text = include_bytes!("../tests/data/buddyinfo");
    let mut buddyinfo = Buddyinfo::default();
    bencher.bench_local(|| buddyinfo.parse_into(black_box(text)));
}

#[divan::bench]
fn extfrag(bencher: Bencher) {
    let text = include_bytes!("../tests/data/unusable_index");
    let mut extfrag = Extfrag::default();
    bencher.bench_local(|| extfrag.parse_into(black_box(text)));
}

#[divan::bench]
fn pressure(bencher: Bencher) {
    let text = include_bytes!("../tests/data/pressure");
    bencher.bench(|| Pressure::parse(black_box(text)));
}

#[divan::bench]
fn memory_stat_v1(bencher: Bencher) {
    let text = include_bytes!("../tests/data/memory_stat_v1");
    bencher.bench(|| MemoryStat::parse(black_box(text)));
}

#[divan::bench]
fn memory_stat_v2(bencher: Bencher) {
    let text = include_bytes!("../tests/data/memory_stat_v2");
    bencher.bench(|| MemoryStat::parse(black_box(text)));
}

#[divan::bench]
fn memory_events(bencher: Bencher) {
    let text = include_bytes!("../tests/data/memory_events");
    bencher.bench(|| MemoryEvents::parse(black_box(text)));
}
