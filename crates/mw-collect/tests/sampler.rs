//! The sampler allocates nothing after its first sample.

use mw_collect::{DiskSampler, Sampler, Source};
use mw_model::Sample;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOC: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Promise (Checking): A passive sample allocates nothing after the first.
#[test]
fn a_sample_allocates_nothing_after_the_first() {
    let source = Source::live().unwrap();
    let mut sampler = Sampler::open(&source, &[0]);
    let mut sample = Sample::default();
    sampler.sample(&mut sample);
    let mut disks = DiskSampler::open(&source);
    let mut ticks = Vec::new();
    disks.sample(&mut ticks);
    assert!(sample.vmstat.value().is_some() && sample.zoneinfo.value().is_some());
    // The counts are those of the whole process, other threads included: the least of several rounds
    // is the sampler's own.
    let rounds = (0..10).map(|_| {
        let region = Region::new(ALLOC);
        for _ in 0..10 {
            sampler.sample(&mut sample);
            disks.sample(&mut ticks);
        }
        let change = region.change();
        change.allocations + change.reallocations
    });
    assert_eq!(rounds.min(), Some(0));
}
