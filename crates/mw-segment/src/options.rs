//! Options of a segment.

use crate::cancel::Cancel;
use crate::segment_kind::{Placement, SegmentKind};
use mw_memory::PageSize;

/// The default maximum of threads that work on one operation, the caller's included.
pub const MAX_WORKERS: usize = mw_memory::MAX_WORKERS;

/// Properties of a segment. [`Options::create`] creates it.
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) bytes: usize,
    pub(crate) kind: SegmentKind,
    pub(crate) page: Option<PageSize>,
    pub(crate) lenient: bool,
    pub(crate) locked: bool,
    pub(crate) placement: Placement,
    pub(crate) workers: usize,
    pub(crate) stripe_bytes: Option<usize>,
    pub(crate) name: Option<String>,
    pub(crate) key: i32,
    pub(crate) kept: bool,
    pub(crate) cancel: Cancel,
}

impl Options {
    /// A memfd segment of at least `bytes`, rounded up to whole pages, of the largest pages that are
    /// available now, not locked.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self {
            bytes,
            kind: SegmentKind::Memfd,
            page: None,
            lenient: false,
            locked: false,
            placement: Placement::default(),
            workers: MAX_WORKERS,
            stripe_bytes: None,
            name: None,
            key: 0,
            kept: false,
            cancel: Cancel::new(),
        }
    }

    /// Its kind; [`SegmentKind::Memfd`] by default.
    #[must_use]
    pub fn kind(mut self, kind: SegmentKind) -> Self {
        self.kind = kind;
        self
    }

    /// Its page size; `None` is the largest that is available now, without compaction. A size that is
    /// not available is an error, unless [`lenient`](Self::lenient).
    ///
    /// Folios ([`PageSize::Folio`], [`PageSize::Best`]) are for memfds and private memory; the kernel's
    /// switch of their size must allow them (/sys/kernel/mm/transparent_hugepage/hugepages-64kB). A segment
    /// gets the size that was requested although larger ones are allowed, and never starts compaction:
    /// what is not free in blocks of that size is an error, or in lenient mode the next smaller size.
    #[must_use]
    pub fn page_size(mut self, page: impl Into<Option<PageSize>>) -> Self {
        self.page = page.into();
        self
    }

    /// True if smaller pages are acceptable where the requested size is not available;
    /// [`Segment::page_size`](crate::Segment::page_size) is the actual size.
    #[must_use]
    pub fn lenient(mut self, lenient: bool) -> Self {
        self.lenient = lenient;
        self
    }

    /// True if it is locked in memory. [`SegmentKind::Ism`] always is; hugetlb pages need no lock.
    #[must_use]
    pub fn locked(mut self, locked: bool) -> Self {
        self.locked = locked;
        self
    }

    /// NUMA nodes that its pages come from.
    #[must_use]
    pub fn placement(mut self, placement: impl Into<Placement>) -> Self {
        self.placement = placement.into();
        self
    }

    /// The maximum number of threads that work on it, the caller's included. The CPUs that the caller
    /// may use limit it as well.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// The stripe size of a memfd or hugetlb segment, rounded up to whole chunks (4 MiB) or pages;
    /// otherwise it is chosen by size and workers. The files can then be sealed, to be passed on (see
    /// [`Segment::into_files`](crate::Segment::into_files)).
    #[must_use]
    pub fn stripe_bytes(mut self, stripe_bytes: usize) -> Self {
        self.stripe_bytes = Some(stripe_bytes);
        self
    }

    /// The name of a [`SegmentKind::Posix`] segment, with or without the leading slash.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The key of a System V segment, which must not exist; 0 is none.
    #[must_use]
    pub fn key(mut self, key: i32) -> Self {
        self.key = key;
        self
    }

    /// True if a segment with a name or key persists when it is dropped or the program ends.
    #[must_use]
    pub fn kept(mut self, kept: bool) -> Self {
        self.kept = kept;
        self
    }

    /// The token that cancels its creation.
    #[must_use]
    pub fn cancel(mut self, cancel: &Cancel) -> Self {
        self.cancel = cancel.clone();
        self
    }
}
