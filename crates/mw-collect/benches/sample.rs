//! The cost of looking: one passive sample, and a whole snapshot.

#![allow(clippy::expect_used, reason = "a bench that cannot look has nothing to measure")]

use divan::{AllocProfiler, Bencher};
use mw_collect::{Sampler, Source};
use mw_model::Sample;

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

/// One full passive sample through descriptors that are open already; the figures are at most
/// 200 µs and no allocation.
#[divan::bench]
fn passive_sample(bencher: Bencher<'_, '_>) {
    let source = Source::live().expect("the machine can be looked at");
    let mut sampler = Sampler::open(&source, &[0]);
    let mut sample = Sample::default();
    sampler.sample(&mut sample);
    bencher.bench_local(|| sampler.sample(&mut sample));
}

/// A whole snapshot, with opening everything.
#[divan::bench]
fn snapshot(bencher: Bencher<'_, '_>) {
    let source = Source::live().expect("the machine can be looked at");
    bencher.bench_local(|| mw_collect::snapshot(&source));
}
