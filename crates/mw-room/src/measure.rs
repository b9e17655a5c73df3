//! The machine, measured again after each step.

use crate::error::RoomError;
use mw_collect::{
    NodeRange, Sampler, SequentialFile, Source, movable_ranges, page_blocks, refresh,
    sequential_files, snapshot,
};
use mw_model::{Missing, PageSize, Request, Sample, Snapshot, derived};
use mw_rules::room::{self, NodeState, RoomConsent};
use std::time::Duration;

/// Time for sampling page blocks.
const BLOCKS_TIME: Duration = Duration::from_millis(200);

pub(crate) struct RoomSampler {
    source: Source,
    sampler: Sampler,
    pub(crate) snapshot: Snapshot,
    pub(crate) request: Request,
    pub(crate) consent: RoomConsent,
    /// Files with cache behind a sequential reader or writer, those with the most first; taken when dropped.
    pub(crate) files: Vec<SequentialFile>,
    /// Memory that can be moved from the requested node; read when it is needed first, and taken when moved.
    ranges: Option<Vec<NodeRange>>,
    /// Evidence that could not be read.
    pub(crate) unseen: Vec<Missing>,
}

impl RoomSampler {
    pub(crate) fn start(source: Source, request: &Request, consent: RoomConsent) -> Self {
        let mut snapshot = snapshot(&source);
        let mut unseen = Vec::new();
        if request.page != PageSize::Base {
            let block_bytes = derived::page_bytes(&snapshot, request.page);
            let blocks = page_blocks(&source, &snapshot, block_bytes, BLOCKS_TIME);
            unseen.extend(blocks.as_ref().err().cloned());
            snapshot.page_blocks = blocks.into();
        }
        let files = match sequential_files(&source) {
            Ok((files, true)) => files,
            Ok((_, false)) => {
                let why = "not all processes could be read within the time limit";
                unseen.push(Missing::skipped("files read sequentially", why));
                Vec::new()
            }
            Err(missing) => {
                unseen.push(missing);
                Vec::new()
            }
        };
        let nodes = snapshot.nodes.value().into_iter().flatten().map(|node| node.id);
        let nodes: Vec<u32> = nodes.collect();
        let sampler = Sampler::open(&source, &nodes);
        Self {
            source,
            sampler,
            snapshot,
            request: request.clone(),
            consent,
            files,
            ranges: None,
            unseen,
        }
    }

    pub(crate) fn refresh(&mut self) {
        refresh(&self.source, &mut self.sampler, &mut self.snapshot);
    }

    /// Memory of other programs that can be moved from this node.
    pub(crate) fn movable(&mut self, node: u32) -> &mut Vec<NodeRange> {
        if self.ranges.is_none() {
            let found = movable_ranges(&self.source, node);
            self.unseen.extend(found.as_ref().err().cloned());
            self.ranges = Some(found.unwrap_or_default());
        }
        self.ranges.get_or_insert_default()
    }

    pub(crate) fn sample(&self) -> &Sample {
        &self.snapshot.sample
    }

    /// The nodes that the request may use.
    ///
    /// # Errors
    /// The kernel's counters were not read, or the requested pages or node do not exist.
    pub(crate) fn states(&self) -> Result<Vec<NodeState>, RoomError> {
        let behind = derived::total(self.files.iter().map(|file| file.clean_bytes));
        room::node_states(&self.snapshot, &self.request, behind, self.consent)
            .map_err(RoomError::NotMeasured)
    }
}
