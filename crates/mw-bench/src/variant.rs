//! Variants of creating, locking and destroying a segment.

use crate::baseline::{self, BaselineSegment, Split};
use crate::sample::{SegmentTimes, ms_per_gib};
use mw_segment::{Cancel, NumaPolicy, Options, PageSize, Placement, SegmentKind};
use std::collections::BTreeMap;
use std::ops::Range;

/// The factor by which a slowed thread is slower.
pub(crate) const SLOWED: u32 = 4;

/// The memory policy of a segment that is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BenchPlacement {
    /// One policy for all of them.
    Uniform(NumaPolicy),
    /// An equal part from each of these nodes.
    Split(Vec<u32>),
}

/// Division of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// One thread, base pages, plain system calls: map, mlock, unmap.
    PlainCalls,
    /// mw-segment.
    Memwright,
    /// An equal share and one call for each thread.
    EqualShare,
    /// One call for each page.
    PageByPage,
}

#[derive(Debug, Clone)]
pub(crate) struct BenchVariant {
    pub(crate) method: Method,
    pub(crate) kind: SegmentKind,
    pub(crate) page: PageSize,
    /// The maximum number of threads; the CPUs limit it as well.
    pub(crate) threads: usize,
    /// The factor by which the last thread is slower; 1 for none.
    pub(crate) slowed: u32,
    pub(crate) place: BenchPlacement,
}

impl BenchVariant {
    pub(crate) fn name(&self) -> String {
        let method = match self.method {
            Method::PlainCalls => "plain calls",
            Method::Memwright => "memwright",
            Method::EqualShare => "equal shares",
            Method::PageByPage => "page by page",
        };
        let slowed = if self.slowed > 1 { ", one slowed 4x" } else { "" };
        format!("{method} {}{slowed}", self.page)
    }

    /// Creates and destroys one segment; `check_interrupt` is called regularly and may cancel it.
    pub(crate) fn measure(
        &self,
        bytes: u64,
        cancel: &Cancel,
        check_interrupt: &dyn Fn(),
    ) -> Result<SegmentTimes, String> {
        let bytes = usize::try_from(bytes).map_err(|error| error.to_string())?;
        let split = match self.method {
            Method::PlainCalls => {
                return baseline::plain(self.kind, bytes).map_err(|e| e.to_string());
            }
            Method::Memwright if self.slowed == 1 => {
                return self.memwright(bytes, cancel, check_interrupt);
            }
            Method::Memwright => Split::Chunks,
            Method::EqualShare => Split::EqualShare,
            Method::PageByPage => Split::PageByPage,
        };
        // These calls check no limit: the OOM killer would run where memwright reports an error.
        self.options(bytes).check().map_err(|error| error.to_string())?;
        let baseline = BaselineSegment {
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

    fn memwright(
        &self,
        bytes: usize,
        cancel: &Cancel,
        check_interrupt: &dyn Fn(),
    ) -> Result<SegmentTimes, String> {
        let options = self.options(bytes).cancel(cancel);
        let segment =
            options.create_with(&mut |_| check_interrupt()).map_err(|error| error.to_string())?;
        let (times, bytes) = (segment.times(), segment.bytes());
        let nodes = segment.node_shares().ok();
        let share = |(size, part): (&usize, &usize)| (*size, *part as f64 / bytes as f64);
        let page_shares: BTreeMap<_, _> = segment.folio_bytes().iter().map(share).collect();
        let no_folios = segment.why_no_folios().map(str::to_owned);
        let destroy = segment.destroy();
        Ok(SegmentTimes {
            create: ms_per_gib(times.reserve + times.populate, bytes),
            lock: ms_per_gib(times.confirm, bytes),
            destroy: ms_per_gib(destroy, bytes),
            threads: times.workers,
            nodes,
            page_shares: (!page_shares.is_empty()).then_some(page_shares),
            no_folios,
        })
    }

    fn placement(&self, bytes: usize) -> Placement {
        match &self.place {
            BenchPlacement::Uniform(policy) => Placement::Uniform(policy.clone()),
            BenchPlacement::Split(nodes) => Placement::Ranges(self.equal_parts(nodes, bytes)),
        }
    }

    fn policies(&self, bytes: usize) -> Vec<(Range<usize>, NumaPolicy)> {
        match &self.place {
            BenchPlacement::Uniform(NumaPolicy::Default) => Vec::new(),
            BenchPlacement::Uniform(policy) => {
                let page = self.page.hugetlb_bytes().unwrap_or_else(mw_sys::page_bytes);
                vec![(0..bytes.next_multiple_of(page), policy.clone())]
            }
            BenchPlacement::Split(nodes) => {
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
