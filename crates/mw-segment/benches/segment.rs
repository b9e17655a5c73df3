//! The overhead of the library: a segment of 1 MiB, for which the library's checks and threads cost more
//! than the kernel's work; and the time for 512 MiB.

use divan::Bencher;
use divan::counter::BytesCount;
use mw_segment::{Options, PageSize, SegmentKind};

const MIB: usize = 1 << 20;
const KINDS: [SegmentKind; 4] =
    [SegmentKind::Anon, SegmentKind::Memfd, SegmentKind::Dism, SegmentKind::Ism];

fn main() {
    divan::main();
}

#[divan::bench(args = KINDS)]
fn one_mebibyte(bencher: Bencher, kind: SegmentKind) {
    let options = Options::new(MIB).kind(kind).page_size(PageSize::Base);
    bencher.bench(|| drop(options.create()));
}

#[divan::bench(args = KINDS)]
fn one_mebibyte_without_workers(bencher: Bencher, kind: SegmentKind) {
    let options = Options::new(MIB).kind(kind).page_size(PageSize::Base).workers(1);
    bencher.bench(|| drop(options.create()));
}

#[divan::bench(args = KINDS, sample_count = 10, sample_size = 1)]
fn create_half_a_gibibyte(bencher: Bencher, kind: SegmentKind) {
    let options = Options::new(512 * MIB).kind(kind).page_size(PageSize::Base).locked(true);
    bencher.counter(BytesCount::new(512 * MIB)).bench(|| options.create());
}

#[divan::bench(args = KINDS, sample_count = 10, sample_size = 1)]
fn destroy_half_a_gibibyte(bencher: Bencher, kind: SegmentKind) {
    let options = Options::new(512 * MIB).kind(kind).page_size(PageSize::Base);
    bencher.counter(BytesCount::new(512 * MIB)).with_inputs(|| options.create()).bench_values(drop);
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn create_half_a_gibibyte_of_huge_pages(bencher: Bencher) {
    let options =
        Options::new(512 * MIB).kind(SegmentKind::Anon).page_size(PageSize::Thp).lenient(true);
    bencher.counter(BytesCount::new(512 * MIB)).bench(|| options.create());
}
