//! Ways to create, lock and destroy a segment.

use super::baseline::{self, Baseline, Split};
use crate::args::Place;
use mw_segment::{Cancel, Kind, NumaPolicy, Options, PageSize, Placement};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// How many times slower a slowed thread is.
pub(crate) const SLOWED: u32 = 4;

const GIB: f64 = (1_u64 << 30) as f64;

/// Who splits the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// One thread, base pages, plain system calls: map, mlock, unmap.
    Before,
    /// mw-segment.
    Ours,
    /// An equal share and one call for each thread.
    EqualShare,
    /// One page a call.
    PageByPage,
}

/// One way.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    pub(crate) how: How,
    pub(crate) kind: Kind,
    pub(crate) page: PageSize,
    /// The most threads; the processors limit them as well.
    pub(crate) threads: usize,
    /// How many times slower the last thread is; 1 is no slower.
    pub(crate) slowed: u32,
    pub(crate) place: Place,
}

/// What one segment took, in milliseconds for each GiB.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) create: f64,
    pub(crate) lock: f64,
    pub(crate) destroy: f64,
    /// The threads that worked.
    pub(crate) threads: usize,
    /// The share of each node in its memory, where the kernel can say.
    pub(crate) nodes: Option<BTreeMap<u32, f64>>,
}

impl Sample {
    pub(crate) fn total(&self) -> f64 {
        self.create + self.lock + self.destroy
    }
}

impl Way {
    pub(crate) fn name(&self) -> String {
        let how = match self.how {
            How::Before => "plain calls",
            How::Ours => "memwright",
            How::EqualShare => "equal shares",
            How::PageByPage => "page by page",
        };
        let slowed = if self.slowed > 1 { ", one slowed 4x" } else { "" };
        format!("{how} {}{slowed}", self.page)
    }

    /// Makes and destroys one segment; `look` is called now and then and may cancel it.
    pub(crate) fn measure(
        &self,
        bytes: u64,
        cancel: &Cancel,
        look: &dyn Fn(),
    ) -> Result<Sample, String> {
        let bytes = usize::try_from(bytes).map_err(|error| error.to_string())?;
        let split = match self.how {
            How::Before => return baseline::plain(self.kind, bytes).map_err(|e| e.to_string()),
            How::Ours if self.slowed == 1 => return self.ours(bytes, cancel, look),
            How::Ours => Split::Chunks,
            How::EqualShare => Split::EqualShare,
            How::PageByPage => Split::PageByPage,
        };
        // These calls know no limit and would be killed where memwright fails.
        self.options(bytes).check().map_err(|error| error.to_string())?;
        let baseline = Baseline {
            split,
            kind: self.kind,
            page: self.page,
            threads: self.threads,
            slowed: self.slowed,
            policies: self.policies(bytes),
        };
        baseline.measure(bytes).map_err(|error| error.to_string())
    }

    fn options(&self, bytes: usize) -> Options {
        Options::new(bytes)
            .kind(self.kind)
            .page_size(self.page)
            .locked(true)
            .workers(self.threads)
            .placement(self.placement(bytes))
    }

    fn ours(&self, bytes: usize, cancel: &Cancel, look: &dyn Fn()) -> Result<Sample, String> {
        let options = self.options(bytes).cancel(cancel);
        let segment = options.create_with(&mut |_| look()).map_err(|error| error.to_string())?;
        let (times, bytes) = (segment.times(), segment.bytes());
        let nodes = segment.node_shares().ok();
        let destroy = segment.destroy();
        Ok(Sample {
            create: ms_per_gib(times.reserve + times.populate, bytes),
            lock: ms_per_gib(times.confirm, bytes),
            destroy: ms_per_gib(destroy, bytes),
            threads: times.workers,
            nodes,
        })
    }

    fn placement(&self, bytes: usize) -> Placement {
        match &self.place {
            Place::Uniform(policy) => Placement::Uniform(policy.clone()),
            Place::Split(nodes) => Placement::Ranges(self.equal_parts(nodes, bytes)),
        }
    }

    fn policies(&self, bytes: usize) -> Vec<(Range<usize>, NumaPolicy)> {
        match &self.place {
            Place::Uniform(NumaPolicy::Default) => Vec::new(),
            Place::Uniform(policy) => {
                let page = self.page.hugetlb_bytes().unwrap_or_else(mw_sys::page_bytes);
                vec![(0..bytes.next_multiple_of(page), policy.clone())]
            }
            Place::Split(nodes) => {
                let parts = self.equal_parts(nodes, bytes).into_iter();
                parts.map(|(range, nodes)| (range, NumaPolicy::Bind(nodes))).collect()
            }
        }
    }

    /// A part of whole pages for each node.
    fn equal_parts(&self, nodes: &[u32], bytes: usize) -> Vec<(Range<usize>, Vec<u32>)> {
        let page = self.page.hugetlb_bytes().unwrap_or_else(mw_sys::page_bytes);
        let pages = bytes.div_ceil(page);
        let at = |part: usize| pages * part / nodes.len() * page;
        let part = |(part, node): (usize, &u32)| (at(part)..at(part + 1), vec![*node]);
        nodes.iter().enumerate().map(part).filter(|(range, _)| !range.is_empty()).collect()
    }
}

pub(crate) fn ms_per_gib(time: Duration, bytes: usize) -> f64 {
    time.as_secs_f64() * 1000.0 * GIB / bytes as f64
}
