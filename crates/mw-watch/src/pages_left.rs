//! Huge pages that are left, as they are recorded.

use mw_collect::{Sampler, Source, free_memory, page_blocks_up_to, refresh};
use mw_model::{HolderSize, Snapshot, derived};
use mw_rules::room::huge_pages_left;
use std::time::Duration;

/// Time for sampling blocks. The sample ends by its number of blocks: one that this thread's low priority cut
/// short would have a wider error than the others, and the same blocks show a change best.
const BLOCKS_TIME: Duration = Duration::from_secs(2);

/// Blocks of a zone that are sampled: their share is known to four percent.
const BLOCKS: u64 = 512;

pub(crate) struct PagesLeft {
    sampler: Sampler,
    snapshot: Snapshot,
}

impl PagesLeft {
    pub(crate) fn new(source: &Source) -> Self {
        let (sampler, mut snapshot) = free_memory(source);
        // It is asked for the machine, not for the recorder.
        (snapshot.origin.memory_nodes, snapshot.origin.policy_nodes) = (None, None);
        Self { sampler, snapshot }
    }

    /// Supplies that are left now; what cannot be read is left out.
    pub(crate) fn collect(&mut self, source: &Source) -> Vec<HolderSize> {
        let Self { sampler, snapshot } = self;
        refresh(source, sampler, snapshot);
        let page_bytes = derived::huge_page_bytes(snapshot);
        snapshot.page_blocks =
            page_blocks_up_to(source, snapshot, page_bytes, BLOCKS_TIME, BLOCKS).into();
        huge_pages_left(snapshot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::SizedHolder;
    use std::time::Instant;

    #[test]
    fn this_machine_s_huge_pages_are_counted_within_milliseconds() {
        let source = Source::live().unwrap();
        let mut pages = PagesLeft::new(&source);
        let begun = Instant::now();
        let sizes = pages.collect(&source);
        // A hundred times as long as on an idle machine.
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        let memory = derived::memory_bytes(&pages.snapshot.sample).unwrap();
        assert!(sizes.iter().all(|size| size.bytes <= memory), "{sizes:?}");
        let is_whole = |size: &&HolderSize| matches!(size.holder, SizedHolder::Contiguous { .. });
        assert_eq!(
            sizes.iter().any(|size| is_whole(&size)),
            pages.snapshot.page_blocks.value().is_some()
        );
    }

    #[test]
    #[ignore = "a measurement"]
    fn cost_of_a_sample() {
        let source = Source::live().unwrap();
        let mut pages = PagesLeft::new(&source);
        for _ in 0..12 {
            let (begun, cpu) = (Instant::now(), mw_sys::thread_time());
            let sizes = pages.collect(&source);
            let cpu = mw_sys::thread_time() - cpu;
            println!("{sizes:?} in {:?}, {cpu:?} of it on this thread", begun.elapsed());
        }
    }
}
