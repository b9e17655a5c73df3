//! The plan of a creation: options with every choice made.

use crate::chunk::ChunkLayout;
use crate::cpus::Cpus;
use crate::error::Error;
use crate::folio_sizes::{self, FolioSizes};
use crate::machine;
use crate::node_workers::NodeWorkers;
use crate::options::Options;
use crate::segment_kind::{Placement, SegmentKind};
use crate::worker_group::WorkerGroup;
use mw_memory::{NumaPolicy, PageSize};

/// The unit of work: populating holds the mmap lock for one chunk, half a millisecond each.
pub(crate) const BASE_CHUNK_BYTES: usize = 1 << 20;
pub(crate) const HUGE_CHUNK_BYTES: usize = mw_memory::FOLIO_CHUNK_BYTES;
/// For freeing through a file, for which no other call waits: larger chunks need fewer TLB flushes.
const FREE_CHUNK_BYTES: usize = 16 << 20;
/// For reading page tables, which is 100 times as fast.
const CONFIRM_CHUNK_BYTES: usize = 64 << 20;

/// The smallest stripe and the largest number of stripes that are worth a file each.
const MIN_STRIPE_BYTES: usize = 32 << 20;
const MAX_STRIPES: usize = 64;
/// Stripes for each worker, so that two workers are seldom in one.
const STRIPES_PER_WORKER: usize = 4;

/// Method of locking a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockMethod {
    /// Not locked, or hugetlb pages, which are never reclaimed.
    None,
    /// The mapping, each page as it is populated (mlock2(2)).
    Mapping,
    /// The System V segment, for every process that maps it (`SHM_LOCK`).
    Segment,
}

#[derive(Debug, Clone)]
pub(crate) struct SegmentPlan {
    pub(crate) kind: SegmentKind,
    pub(crate) page: PageSize,
    /// The page size that ranges must be multiples of.
    pub(crate) granule: usize,
    /// The alignment of the address.
    pub(crate) align: usize,
    pub(crate) layout: ChunkLayout,
    pub(crate) confirm_layout: ChunkLayout,
    pub(crate) destroy_layout: ChunkLayout,
    /// The size of its huge pages, transparent or hugetlb.
    pub(crate) huge_page_bytes: Option<usize>,
    /// The sizes of its folios, if it is to have any.
    pub(crate) folios: Option<FolioSizes>,
    pub(crate) lock: LockMethod,
    pub(crate) placement: Placement,
    pub(crate) group: WorkerGroup,
    /// True if its files can be sealed.
    pub(crate) sealable: bool,
    pub(crate) strict_thp: bool,
}

impl SegmentPlan {
    pub(crate) fn new(options: &Options) -> Result<Self, Error> {
        contradictions(options)?;
        let page = choose_page(options)?;
        let base = mw_sys::page_bytes();
        let granule = page.hugetlb_bytes().unwrap_or(base);
        let too_large =
            || Error::Invalid(format!("invalid size: {} bytes are too many", options.bytes));
        let bytes = options.bytes.checked_next_multiple_of(granule).ok_or_else(too_large)?;
        whole_pages(&options.placement, bytes, granule)?;
        let (cpus, by_node) = place(options, bytes);
        let workers = options.workers.min(cpus.count());
        let chunk = if page == PageSize::Base { BASE_CHUNK_BYTES } else { HUGE_CHUNK_BYTES };
        let free_chunk = if options.kind == SegmentKind::Memfd { FREE_CHUNK_BYTES } else { chunk };
        let stripe = match options.stripe_bytes {
            Some(stripe) => stripe,
            None => stripe_bytes(options.kind, bytes, workers),
        };
        let layout = |chunk: usize| ChunkLayout::new(bytes, stripe, chunk.max(granule));
        Ok(Self {
            kind: options.kind,
            page,
            granule,
            align: machine::thp_bytes().unwrap_or(base).max(granule),
            layout: layout(chunk),
            confirm_layout: layout(CONFIRM_CHUNK_BYTES),
            destroy_layout: layout(free_chunk.max(chunk)),
            huge_page_bytes: match page {
                PageSize::Thp => machine::thp_bytes(),
                _ => page.hugetlb_bytes(),
            },
            folios: FolioSizes::new(options.kind, page, options.lenient),
            lock: lock(options, page),
            placement: options.placement.clone(),
            group: WorkerGroup {
                cpus,
                by_node,
                max_workers: workers,
                cancel: options.cancel.clone(),
            },
            sealable: options.stripe_bytes.is_some(),
            strict_thp: page == PageSize::Thp
                && options.page == Some(PageSize::Thp)
                && !options.lenient,
        })
    }
}

fn contradictions(options: &Options) -> Result<(), Error> {
    let invalid = |what: &str| Err(Error::Invalid(what.to_owned()));
    let named = options.name.is_some() || options.key != 0;
    match options.kind {
        _ if options.bytes == 0 => invalid("invalid size: 0 bytes"),
        SegmentKind::Posix if options.name.is_none() => invalid("a posix segment needs a name"),
        SegmentKind::Hugetlb if options.page.is_some_and(|page| !page.is_hugetlb()) => {
            invalid("a hugetlb segment has pages of 2M or 1G")
        }
        kind if options.name.is_some() && kind != SegmentKind::Posix => {
            invalid("only a posix segment has a name")
        }
        kind if options.stripe_bytes.is_some()
            && !matches!(kind, SegmentKind::Memfd | SegmentKind::Hugetlb) =>
        {
            invalid("only memfd and hugetlb segments have stripes")
        }
        kind if options.key != 0 && !kind.is_sysv() => invalid("only ism and dism have a key"),
        _ if options.kept && !named => invalid("only a segment with a name or key can be kept"),
        _ => Ok(()),
    }
}

fn lock(options: &Options, page: PageSize) -> LockMethod {
    match options.kind {
        _ if page.hugetlb_bytes().is_some() => LockMethod::None,
        SegmentKind::Ism => LockMethod::Segment,
        _ if options.locked => LockMethod::Mapping,
        _ => LockMethod::None,
    }
}

/// Workers run near the memory: on the nodes that it is bound to, or on the caller's own.
fn place(options: &Options, bytes: usize) -> (Cpus, Vec<NodeWorkers>) {
    let allowed = Cpus::allowed();
    let local = || match machine::own_node() {
        Some(node) => allowed.clone().on_nodes(&[node]),
        None => allowed.clone(),
    };
    match &options.placement {
        Placement::Uniform(NumaPolicy::Default | NumaPolicy::Local) => (local(), Vec::new()),
        Placement::Uniform(NumaPolicy::Bind(nodes)) => (allowed.on_nodes(nodes), Vec::new()),
        Placement::Uniform(NumaPolicy::Interleave(_)) => (allowed, Vec::new()),
        Placement::Ranges(ranges) => {
            let near = |nodes: &[u32]| allowed.clone().on_nodes(nodes);
            let by_node = NodeWorkers::from_ranges(ranges, bytes, near, local());
            (allowed, by_node)
        }
    }
}

/// Checks that ranges consist of whole pages inside the segment and do not overlap.
fn whole_pages(placement: &Placement, bytes: usize, granule: usize) -> Result<(), Error> {
    let Placement::Ranges(ranges) = placement else { return Ok(()) };
    let mut sorted: Vec<_> = ranges.iter().map(|(range, _)| range.clone()).collect();
    sorted.sort_by_key(|range| range.start);
    let mut end = 0;
    for range in sorted {
        let whole = [range.start, range.end].iter().all(|at| at.is_multiple_of(granule));
        if !whole || range.start >= range.end || range.start < end || range.end > bytes {
            return Err(Error::Invalid(format!(
                "invalid range {range:?}: ranges consist of whole pages of {granule} bytes, do not \
                 overlap, and end at {bytes} at most"
            )));
        }
        end = range.end;
    }
    Ok(())
}

fn stripe_bytes(kind: SegmentKind, bytes: usize, workers: usize) -> usize {
    if !matches!(kind, SegmentKind::Memfd | SegmentKind::Hugetlb) {
        return bytes;
    }
    let most = (bytes / MIN_STRIPE_BYTES).clamp(1, MAX_STRIPES);
    let stripes = (workers * STRIPES_PER_WORKER).clamp(1, most);
    bytes.div_ceil(stripes)
}

/// The requested page size, or in lenient mode the next smaller one that is available.
fn choose_page(options: &Options) -> Result<PageSize, Error> {
    let Some(mut page) = options.page else { return Ok(best_page(options)) };
    if options.lenient && page.is_folio() {
        return Ok(page);
    }
    loop {
        let smaller = match page {
            _ if !options.lenient => None,
            PageSize::HUGE_1G => Some(PageSize::HUGE_2M),
            PageSize::Hugetlb(_) if options.kind == SegmentKind::Hugetlb => None,
            PageSize::Hugetlb(_) => Some(PageSize::Thp),
            PageSize::Thp => Some(PageSize::Base),
            PageSize::Base | PageSize::Folio(_) | PageSize::Best => None,
        };
        match (is_supported(options.kind, page), smaller) {
            (Ok(()), None) => return Ok(page),
            (Ok(()), Some(_)) if has_room(page, options.bytes) => return Ok(page),
            (_, Some(smaller)) => page = smaller,
            (Err(why), None) => return Err(Error::NoSuchPages { kind: options.kind, page, why }),
        }
    }
}

/// The largest pages that are available for the whole segment without compaction, and waste less than
/// a sixteenth of it.
fn best_page(options: &Options) -> PageSize {
    let fits = |page: PageSize| {
        let wasted = page.hugetlb_bytes().map_or(0, |size| {
            options.bytes.checked_next_multiple_of(size).unwrap_or(usize::MAX) - options.bytes
        });
        wasted <= options.bytes / 16
    };
    let smallest =
        if options.kind == SegmentKind::Hugetlb { PageSize::HUGE_2M } else { PageSize::Base };
    let suitable = |page: &PageSize| {
        is_supported(options.kind, *page).is_ok() && has_room(*page, options.bytes) && fits(*page)
    };
    let usable = PageSize::ALL.into_iter().rev().find(suitable);
    usable
        .filter(|page| options.kind != SegmentKind::Hugetlb || page.hugetlb_bytes().is_some())
        .unwrap_or(smallest)
}

/// True if pages of this size are available for all of `bytes` now.
fn has_room(page: PageSize, bytes: usize) -> bool {
    let available = match (page, page.hugetlb_bytes()) {
        (_, Some(size)) => machine::pool_bytes(size),
        (PageSize::Thp, None) => machine::thp_bytes().and_then(machine::free_in_blocks_of),
        _ => return true,
    };
    available.is_some_and(|available| available >= bytes as u64)
}

/// Whether this machine has such pages for this kind, or what is missing.
fn is_supported(kind: SegmentKind, page: PageSize) -> Result<(), String> {
    match (page, page.hugetlb_bytes()) {
        (_, Some(_)) if kind == SegmentKind::Posix => {
            Err("files in /dev/shm cannot have them (use kind hugetlb)".to_owned())
        }
        (_, Some(size)) => machine::pool_bytes(size).map(drop).ok_or_else(|| {
            format!(
                "this kernel has no pool of them (boot with hugepagesz={page} hugepages=N on a CPU \
                 that supports {} MiB pages)",
                size >> 20
            )
        }),
        (PageSize::Folio(bytes), None) => folio_sizes::is_supported(kind, bytes),
        (PageSize::Thp, None) if kind == SegmentKind::Posix => {
            Err("the mount option huge= of /dev/shm decides".to_owned())
        }
        (PageSize::Thp, None) => match machine::thp_is_enabled(kind.is_shared()) {
            Some(true) => Ok(()),
            Some(false) => Err(format!(
                "/sys/kernel/mm/transparent_hugepage/{} is never (write {} to it)",
                if kind.is_shared() { "shmem_enabled" } else { "enabled" },
                if kind.is_shared() { "advise" } else { "madvise" },
            )),
            None => Err("this kernel has no transparent huge pages".to_owned()),
        },
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictory_options_are_invalid() {
        let memfd = Options::new(1 << 20);
        for bad in [
            Options::new(0),
            memfd.clone().kind(SegmentKind::Posix),
            memfd.clone().kind(SegmentKind::Hugetlb).page_size(PageSize::Base),
            memfd.clone().name("x"),
            memfd.clone().key(7),
            memfd.clone().kind(SegmentKind::Anon).stripe_bytes(4096),
            memfd.clone().kept(true),
            Options::new(usize::MAX).page_size(PageSize::Base),
        ] {
            assert!(matches!(SegmentPlan::new(&bad), Err(Error::Invalid(_))), "{bad:?}");
        }
    }

    #[test]
    fn stripes_are_few_and_large() {
        assert_eq!(stripe_bytes(SegmentKind::Anon, 1 << 30, 16), 1 << 30);
        assert_eq!(stripe_bytes(SegmentKind::Memfd, 1 << 20, 16), 1 << 20);
        assert_eq!(stripe_bytes(SegmentKind::Memfd, 1 << 30, 2), 1 << 27);
        assert_eq!(stripe_bytes(SegmentKind::Memfd, 1 << 40, 16), 1 << 34);
    }

    #[test]
    fn only_lenient_mode_takes_smaller_pages() {
        let posix =
            Options::new(1 << 20).kind(SegmentKind::Posix).name("x").page_size(PageSize::HUGE_1G);
        assert!(matches!(SegmentPlan::new(&posix), Err(Error::NoSuchPages { .. })));
        assert_eq!(SegmentPlan::new(&posix.lenient(true)).unwrap().page, PageSize::Base);
    }
}
