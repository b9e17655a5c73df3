//! What will be done: options made definite.

use crate::chunk::Layout;
use crate::cpus::Cpus;
use crate::error::Error;
use crate::machine;
use crate::node_workers::NodeWorkers;
use crate::options::Options;
use crate::segment_kind::{Kind, Page, Placement};
use crate::worker_group::WorkerGroup;

/// What a worker takes at a time: populating holds the mmap lock for it, half a millisecond each.
pub(crate) const BASE_CHUNK_BYTES: usize = 1 << 20;
pub(crate) const HUGE_CHUNK_BYTES: usize = 4 << 20;
/// Of what is given back through a file, for which no other call waits: fewer rounds of telling all
/// processors to forget the addresses.
const GIVE_BACK_CHUNK_BYTES: usize = 16 << 20;
/// Of page tables, which are read 100 times as fast.
const CONFIRM_CHUNK_BYTES: usize = 64 << 20;

/// The smallest and the most stripes that are worth a file each.
const MIN_STRIPE_BYTES: usize = 32 << 20;
const MAX_STRIPES: usize = 64;
/// Stripes for each worker: two workers seldom meet at one.
const STRIPES_PER_WORKER: usize = 4;

/// How a segment is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lock {
    /// Not at all, or pages of the pool, which nobody reclaims.
    None,
    /// The mapping, page by page as they come (mlock2(2)).
    Mapping,
    /// The System V segment, whoever maps it (`SHM_LOCK`).
    Segment,
}

/// What will be done.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) kind: Kind,
    pub(crate) page: Page,
    /// The size of the pages that ranges must be made of.
    pub(crate) granule: usize,
    /// What the address is a multiple of.
    pub(crate) align: usize,
    pub(crate) layout: Layout,
    pub(crate) confirm_layout: Layout,
    pub(crate) destroy_layout: Layout,
    /// The size of its huge pages, transparent or of the pool.
    pub(crate) huge_page_bytes: Option<usize>,
    pub(crate) lock: Lock,
    pub(crate) placement: Placement,
    pub(crate) group: WorkerGroup,
    /// Whether its files can be sealed.
    pub(crate) sealable: bool,
    pub(crate) strict_thp: bool,
}

impl Plan {
    pub(crate) fn of(options: &Options) -> Result<Self, Error> {
        contradictions(options)?;
        let page = choose_page(options)?;
        let base = mw_sys::page_bytes();
        let granule = page.hugetlb_bytes().unwrap_or(base);
        let too_large = || Error::Invalid(format!("{} bytes are too many", options.bytes));
        let bytes = options.bytes.checked_next_multiple_of(granule).ok_or_else(too_large)?;
        whole_pages(&options.placement, bytes, granule)?;
        let (cpus, by_node) = place(options, bytes);
        let workers = options.workers.min(cpus.count());
        let chunk = if page == Page::Base { BASE_CHUNK_BYTES } else { HUGE_CHUNK_BYTES };
        let give_back = if options.kind == Kind::Memfd { GIVE_BACK_CHUNK_BYTES } else { chunk };
        let stripe = match options.stripe_bytes {
            Some(stripe) => stripe,
            None => stripe_bytes(options.kind, bytes, workers),
        };
        let layout = |chunk: usize| Layout::new(bytes, stripe, chunk.max(granule));
        Ok(Self {
            kind: options.kind,
            page,
            granule,
            align: machine::thp_bytes().unwrap_or(base).max(granule),
            layout: layout(chunk),
            confirm_layout: layout(CONFIRM_CHUNK_BYTES),
            destroy_layout: layout(give_back.max(chunk)),
            huge_page_bytes: match page {
                Page::Thp => machine::thp_bytes(),
                _ => page.hugetlb_bytes(),
            },
            lock: lock(options, page),
            placement: options.placement.clone(),
            group: WorkerGroup {
                cpus,
                by_node,
                max_workers: workers,
                cancel: options.cancel.clone(),
            },
            sealable: options.stripe_bytes.is_some(),
            strict_thp: page == Page::Thp && options.page == Page::Thp && !options.lenient,
        })
    }
}

fn contradictions(options: &Options) -> Result<(), Error> {
    let invalid = |what: &str| Err(Error::Invalid(what.to_owned()));
    let named = options.name.is_some() || options.key != 0;
    match options.kind {
        _ if options.bytes == 0 => invalid("a segment of 0 bytes"),
        Kind::Posix if options.name.is_none() => invalid("a posix segment needs a name"),
        Kind::Hugetlb if matches!(options.page, Page::Base | Page::Thp) => {
            invalid("a hugetlb segment is made of 2M or 1G pages")
        }
        kind if options.name.is_some() && kind != Kind::Posix => {
            invalid("only a posix segment has a name")
        }
        kind if options.stripe_bytes.is_some() && !matches!(kind, Kind::Memfd | Kind::Hugetlb) => {
            invalid("only memfd and hugetlb segments have stripes")
        }
        kind if options.key != 0 && !kind.is_sysv() => invalid("only ism and dism have a key"),
        _ if options.kept && !named => invalid("only a named segment can be kept"),
        _ => Ok(()),
    }
}

fn lock(options: &Options, page: Page) -> Lock {
    match options.kind {
        _ if page.hugetlb_bytes().is_some() => Lock::None,
        Kind::Ism => Lock::Segment,
        _ if options.locked => Lock::Mapping,
        _ => Lock::None,
    }
}

/// Workers run where the memory is: on the nodes that it is bound to, or on the caller's own.
fn place(options: &Options, bytes: usize) -> (Cpus, Vec<NodeWorkers>) {
    let allowed = Cpus::allowed();
    let local = || match machine::own_node() {
        Some(node) => allowed.clone().of_nodes(&[node]),
        None => allowed.clone(),
    };
    match &options.placement {
        Placement::Local => (local(), Vec::new()),
        Placement::Bind(nodes) => (allowed.of_nodes(nodes), Vec::new()),
        Placement::Interleave(_) => (allowed, Vec::new()),
        Placement::Ranges(ranges) => {
            let near = |nodes: &[u32]| allowed.clone().of_nodes(nodes);
            let by_node = NodeWorkers::from_ranges(ranges, bytes, near, local());
            (allowed, by_node)
        }
    }
}

/// Whether ranges are of whole pages, inside the segment, and apart.
fn whole_pages(placement: &Placement, bytes: usize, granule: usize) -> Result<(), Error> {
    let Placement::Ranges(ranges) = placement else { return Ok(()) };
    let mut sorted: Vec<_> = ranges.iter().map(|(range, _)| range.clone()).collect();
    sorted.sort_by_key(|range| range.start);
    let mut end = 0;
    for range in sorted {
        let whole = [range.start, range.end].iter().all(|at| at.is_multiple_of(granule));
        if !whole || range.start >= range.end || range.start < end || range.end > bytes {
            return Err(Error::Invalid(format!(
                "the range {range:?} cannot be placed: ranges are of whole pages of {granule} \
                 bytes, do not overlap, and end at {bytes} at most"
            )));
        }
        end = range.end;
    }
    Ok(())
}

fn stripe_bytes(kind: Kind, bytes: usize, workers: usize) -> usize {
    if !matches!(kind, Kind::Memfd | Kind::Hugetlb) {
        return bytes;
    }
    let most = (bytes / MIN_STRIPE_BYTES).clamp(1, MAX_STRIPES);
    let stripes = (workers * STRIPES_PER_WORKER).clamp(1, most);
    bytes.div_ceil(stripes)
}

/// The page size asked for, or in lenient mode the next smaller that can be had.
fn choose_page(options: &Options) -> Result<Page, Error> {
    if options.page == Page::Auto {
        return Ok(best_page(options));
    }
    let mut page = options.page;
    loop {
        let smaller = match page {
            _ if !options.lenient => None,
            Page::Huge1G => Some(Page::Huge2M),
            Page::Huge2M if options.kind == Kind::Hugetlb => None,
            Page::Huge2M => Some(Page::Thp),
            Page::Thp => Some(Page::Base),
            Page::Base | Page::Auto => None,
        };
        match (is_offered(options.kind, page), smaller) {
            (Ok(()), None) => return Ok(page),
            (Ok(()), Some(_)) if has_room(page, options.bytes) => return Ok(page),
            (_, Some(smaller)) => page = smaller,
            (Err(why), None) => return Err(Error::NoSuchPages { kind: options.kind, page, why }),
        }
    }
}

/// The largest pages that are there for the whole segment without compaction, and waste less than
/// a sixteenth of it.
fn best_page(options: &Options) -> Page {
    let fits = |page: Page| {
        let wasted = page.hugetlb_bytes().map_or(0, |size| {
            options.bytes.checked_next_multiple_of(size).unwrap_or(usize::MAX) - options.bytes
        });
        wasted <= options.bytes / 16
    };
    let smallest = if options.kind == Kind::Hugetlb { Page::Huge2M } else { Page::Base };
    let offered = |page: &Page| {
        is_offered(options.kind, *page).is_ok() && has_room(*page, options.bytes) && fits(*page)
    };
    let usable = Page::ALL.into_iter().rev().find(offered);
    usable
        .filter(|page| options.kind != Kind::Hugetlb || page.hugetlb_bytes().is_some())
        .unwrap_or(smallest)
}

/// Whether pages of this size are there for all of `bytes` at once.
fn has_room(page: Page, bytes: usize) -> bool {
    let had = match (page, page.hugetlb_bytes()) {
        (_, Some(size)) => machine::pool_bytes(size),
        (Page::Thp, None) => machine::thp_bytes().and_then(machine::free_in_blocks_of),
        _ => return true,
    };
    had.is_some_and(|had| had >= bytes as u64)
}

/// Whether this machine has such pages for this kind; what is missing if not.
fn is_offered(kind: Kind, page: Page) -> Result<(), String> {
    match (page, page.hugetlb_bytes()) {
        (_, Some(_)) if kind == Kind::Posix => {
            Err("files of /dev/shm cannot be made of them; kind hugetlb can".to_owned())
        }
        (_, Some(size)) => machine::pool_bytes(size).map(drop).ok_or_else(|| {
            format!(
                "this kernel has no pool of them; start it with hugepagesz={page} \
                 hugepages=N, on a processor that has them ({} MiB)",
                size >> 20
            )
        }),
        (Page::Thp, None) if kind == Kind::Posix => {
            Err("/dev/shm decides it for its files when it is mounted (huge=)".to_owned())
        }
        (Page::Thp, None) => match machine::thp_is_offered(kind.is_shared()) {
            Some(true) => Ok(()),
            Some(false) => Err(format!(
                "/sys/kernel/mm/transparent_hugepage/{} says never; write {} to it",
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
    fn contradictions_are_refused() {
        let memfd = Options::new(1 << 20);
        for bad in [
            Options::new(0),
            memfd.clone().kind(Kind::Posix),
            memfd.clone().kind(Kind::Hugetlb).page(Page::Base),
            memfd.clone().name("x"),
            memfd.clone().key(7),
            memfd.clone().kind(Kind::Anon).stripe_bytes(4096),
            memfd.clone().kept(true),
            Options::new(usize::MAX).page(Page::Base),
        ] {
            assert!(matches!(Plan::of(&bad), Err(Error::Invalid(_))), "{bad:?}");
        }
    }

    #[test]
    fn stripes_are_few_and_large() {
        assert_eq!(stripe_bytes(Kind::Anon, 1 << 30, 16), 1 << 30);
        assert_eq!(stripe_bytes(Kind::Memfd, 1 << 20, 16), 1 << 20);
        assert_eq!(stripe_bytes(Kind::Memfd, 1 << 30, 2), 1 << 27);
        assert_eq!(stripe_bytes(Kind::Memfd, 1 << 40, 16), 1 << 34);
    }

    #[test]
    fn lenient_mode_takes_smaller_pages_and_strict_mode_none() {
        let posix = Options::new(1 << 20).kind(Kind::Posix).name("x").page(Page::Huge1G);
        assert!(matches!(Plan::of(&posix), Err(Error::NoSuchPages { .. })));
        assert_eq!(Plan::of(&posix.lenient(true)).unwrap().page, Page::Base);
    }
}
