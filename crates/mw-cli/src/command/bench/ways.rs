//! Ways to create, lock and destroy a segment.

use crate::args::Place;
use mw_segment::{Cancel, Experiment, Kind, Options, Page, Placement, Split};
use mw_sys::{Huge, Region, SysvSegment};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// How many times slower a slowed helper is.
pub(crate) const SLOWED: u32 = 4;

const GIB: f64 = (1_u64 << 30) as f64;

/// Who splits the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// One thread, base pages, plain system calls: map, mlock, unmap.
    Before,
    /// mw-segment.
    Ours,
    /// An equal share and one call for each helper.
    EqualShare,
    /// One page a call.
    PageByPage,
}

/// One way.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    pub(crate) how: How,
    pub(crate) kind: Kind,
    pub(crate) page: Page,
    /// The most threads; the processors limit them as well.
    pub(crate) threads: usize,
    /// How many times slower the last helper is; 1 is no slower.
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
        if self.how == How::Before {
            return plain(self.kind, bytes).map_err(|error| error.to_string());
        }
        let split = match self.how {
            How::EqualShare => Split::EqualShare,
            How::PageByPage => Split::PageByPage,
            How::Before | How::Ours => Split::Chunks,
        };
        let options = Options::new(bytes)
            .kind(self.kind)
            .page(self.page)
            .locked(true)
            .helpers(self.threads)
            .placement(self.placement(bytes))
            .cancel(cancel)
            .experiment(Experiment { split, slowed: self.slowed });
        let segment = options.create_with(&mut |_| look()).map_err(|error| error.to_string())?;
        let (times, bytes) = (segment.times(), segment.bytes());
        let nodes = segment.node_shares().ok();
        let destroy = segment.destroy();
        Ok(Sample {
            create: ms_per_gib(times.reserve + times.populate, bytes),
            lock: ms_per_gib(times.confirm, bytes),
            destroy: ms_per_gib(destroy, bytes),
            threads: times.helpers,
            nodes,
        })
    }

    fn placement(&self, bytes: usize) -> Placement {
        match &self.place {
            Place::Local => Placement::Local,
            Place::Bind(nodes) => Placement::Bind(nodes.clone()),
            Place::Interleave(nodes) => Placement::Interleave(nodes.clone()),
            Place::Split(nodes) => {
                let page = self.page.hugetlb_bytes().unwrap_or_else(mw_sys::page_bytes);
                let pages = bytes.div_ceil(page);
                let at = |part: usize| pages * part / nodes.len() * page;
                let part = |(part, node): (usize, &u32)| (at(part)..at(part + 1), vec![*node]);
                let parts = nodes.iter().enumerate().map(part);
                Placement::Ranges(parts.filter(|(range, _)| !range.is_empty()).collect())
            }
        }
    }
}

pub(crate) fn ms_per_gib(time: Duration, bytes: usize) -> f64 {
    time.as_secs_f64() * 1000.0 * GIB / bytes as f64
}

/// As a program does it that knows nothing better: mlock(2) creates and locks the pages in one
/// call, munmap(2) and close(2) give them back.
fn plain(kind: Kind, bytes: usize) -> io::Result<Sample> {
    let start = Instant::now();
    let region = Region::reserve(bytes, mw_sys::page_bytes(), 2 << 20)?;
    let file = map(kind, &region)?;
    // Base pages, as before there were others.
    let _ = region.choose(Huge::Declined);
    let create = start.elapsed();
    let start = Instant::now();
    region.lock(0..bytes)?;
    let lock = start.elapsed();
    let start = Instant::now();
    drop(region);
    drop(file);
    Ok(Sample {
        create: ms_per_gib(create, bytes),
        lock: ms_per_gib(lock, bytes),
        destroy: ms_per_gib(start.elapsed(), bytes),
        threads: 1,
        nodes: None,
    })
}

fn map(kind: Kind, region: &Region) -> io::Result<Option<OwnedFd>> {
    let all = 0..region.bytes();
    match kind {
        Kind::Ism | Kind::Dism => {
            let segment = SysvSegment::create(0, region.bytes(), None)?;
            let attached = region.attach(segment);
            segment.remove()?;
            attached.map(|()| None)
        }
        Kind::Anon => region.map_anonymous(all, false).map(|()| None),
        Kind::Memfd | Kind::Hugetlb | Kind::Posix => {
            let file = memfd_create("memwright", MemfdFlags::CLOEXEC)?;
            ftruncate(&file, region.bytes() as u64)?;
            region.map_file(all, file.as_fd(), 0)?;
            Ok(Some(file))
        }
    }
}
