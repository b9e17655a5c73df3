//! A segment, from its creation to its destruction.

use crate::backing::SegmentBacking;
use crate::cancel::Cancel;
use crate::cgroup::LimitedCgroups;
use crate::error::{Error, Shortage};
use crate::folio_pages::FolioPages;
use crate::folio_sizes::FolioSizes;
use crate::limits;
use crate::options::Options;
use crate::plan::{LockMethod, SegmentPlan};
use crate::progress::{Phase, Progress};
use crate::segment_kind::SegmentKind;
use crate::worker_group::{OperationStop, WorkerGroup};
use mw_memory::PageSize;
use mw_sys::{Region, ThpAdvice};
use std::collections::BTreeMap;
use std::io;
use std::ops::{ControlFlow, Range};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::time::{Duration, Instant};

/// The duration of each part of a creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CreationTimes {
    /// Checking limits, mapping, setting the memory policy and the lock.
    pub reserve: Duration,
    /// Allocating, zeroing and mapping pages.
    pub populate: Duration,
    /// Verifying that every page is populated and locked; zero if the mapping is not locked.
    pub confirm: Duration,
    /// The number of worker threads that populated it, the caller included.
    pub workers: usize,
}

/// A segment of memory, destroyed in parallel when it is dropped.
///
/// In a fork of the process that created it, dropping only unmaps it in that fork.
#[derive(Debug)]
pub struct Segment {
    /// Unmapped last, which removes a System V segment.
    region: Region,
    backing: SegmentBacking,
    plan: SegmentPlan,
    /// The process that created it.
    pid: u32,
    /// True if there may be pages.
    populated: bool,
    /// True if the pages persist when it is dropped.
    kept: bool,
    times: CreationTimes,
    folio_bytes: BTreeMap<usize, usize>,
}

impl Options {
    /// Checks limits and options without creating anything, as [`create`](Self::create) does first.
    ///
    /// # Errors
    /// As [`create`](Self::create), as far as can be known in advance.
    pub fn check(&self) -> Result<(), Error> {
        limits::check(&SegmentPlan::new(self)?, &LimitedCgroups::own())
    }

    /// Creates the segment: reserves, places, locks (if requested) and populates it.
    ///
    /// # Errors
    /// Nothing is left behind; [`Error`] names the limit.
    pub fn create(&self) -> Result<Segment, Error> {
        self.create_with(&mut |_| ())
    }

    /// As [`create`](Self::create), with progress about twenty times a second, on this thread.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn create_with(&self, progress: &mut dyn FnMut(&Progress)) -> Result<Segment, Error> {
        Segment::create(self, progress)
    }
}

impl Segment {
    fn create(options: &Options, progress: &mut dyn FnMut(&Progress)) -> Result<Self, Error> {
        let start = Instant::now();
        let plan = SegmentPlan::new(options)?;
        let groups = LimitedCgroups::own();
        limits::check(&plan, &groups)?;
        let mut segment = Self::reserve(options, plan)?;
        segment.place()?;
        segment.lock_on_fault()?;
        segment.times.reserve = start.elapsed();
        segment.populate(&groups, progress)?;
        segment.confirm(progress)?;
        segment.verify_huge_pages()?;
        segment.kept = options.kept;
        Ok(segment)
    }

    /// Reserves addresses and maps the backing, without populating it.
    fn reserve(options: &Options, plan: SegmentPlan) -> Result<Self, Error> {
        let region = Region::reserve(plan.layout.bytes(), plan.granule, plan.align)
            .map_err(|error| limits::explain(&plan, "mmap", error))?;
        let backing = SegmentBacking::map(&plan, &region, options.key, options.name.as_deref())?;
        Ok(Self {
            region,
            backing,
            plan,
            pid: std::process::id(),
            populated: false,
            kept: false,
            times: CreationTimes::default(),
            folio_bytes: BTreeMap::new(),
        })
    }

    fn place(&self) -> Result<(), Error> {
        let has_folios = self.plan.folios.as_ref().is_some_and(|folios| !folios.sizes.is_empty());
        let advised = match self.plan.page {
            // Files get folios through windows that are advised instead.
            _ if has_folios && self.plan.kind.is_shared() => Ok(()),
            _ if has_folios => self.region.advise_thp(ThpAdvice::Enable),
            PageSize::Thp => self.region.advise_thp(ThpAdvice::Enable),
            // A kernel without transparent huge pages has nothing to decline.
            PageSize::Base | PageSize::Folio(_) | PageSize::Best => {
                self.region.advise_thp(ThpAdvice::Disable).or(Ok(()))
            }
            PageSize::Hugetlb(_) => Ok(()),
        };
        advised.map_err(Error::system("madvise"))?;
        for (range, policy) in self.plan.placement.policies(self.bytes()) {
            self.region.set_policy(range, &policy).map_err(|error| {
                Error::Invalid(format!(
                    "{policy:?}: {error}; /sys/devices/system/node lists the nodes"
                ))
            })?;
        }
        Ok(())
    }

    /// Locks the memory before it is populated, so that each page is locked when it is allocated. Locking
    /// it afterwards would take the lock of each page again.
    fn lock_on_fault(&self) -> Result<(), Error> {
        let is_private = matches!(self.backing, SegmentBacking::Anonymous);
        match self.plan.lock {
            // Each chunk is locked when it is populated.
            LockMethod::Mapping if is_private && self.plan.folios.is_some() => Ok(()),
            LockMethod::None => Ok(()),
            LockMethod::Segment => self.backing.lock(&self.plan),
            LockMethod::Mapping => self
                .region
                .lock_on_fault(self.all())
                .map_err(|error| limits::explain(&self.plan, "mlock2", error)),
        }
    }

    fn populate(
        &mut self,
        groups: &LimitedCgroups,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<(), Error> {
        self.populated = true;
        let start = Instant::now();
        let mut shortage: Option<Shortage> = None;
        let mut on_progress = |now: &Progress| {
            progress(now);
            let left = now.total_bytes.saturating_sub(now.done_bytes) as u64;
            match limits::room(&self.plan, groups, left, now.total_bytes as u64) {
                Ok(()) => ControlFlow::Continue(()),
                Err(short) => {
                    shortage = Some(short);
                    ControlFlow::Break(())
                }
            }
        };
        let folios = self.plan.folios.as_ref().map(|sizes| self.folio_pages(sizes)).transpose()?;
        let work = |range: Range<usize>| match &folios {
            Some(folios) => folios.populate(range),
            None => self.backing.populate(&self.plan, &self.region, range),
        };
        let run = self.plan.group.run(Phase::Create, &self.plan.layout, &work, &mut on_progress);
        let workers = match (run, shortage) {
            (Ok(workers), _) => workers,
            (Err(_), Some(shortage)) => return Err(shortage.into()),
            (Err(stopped), None) => return Err(self.failed(Phase::Create, stopped)),
        };
        self.folio_bytes = folios.map(|folios| folios.bytes_by_size()).unwrap_or_default();
        if self.plan.folios.is_some() && !self.plan.kind.is_shared() {
            // khugepaged would compact memory, to replace the folios by huge pages.
            drop(self.region.advise_thp(ThpAdvice::Disable));
        }
        self.times.workers = workers;
        self.times.populate = start.elapsed();
        Ok(())
    }

    /// Fails if all pages must be of one size, of which too few are free.
    fn folio_pages(&self, folios: &FolioSizes) -> Result<FolioPages<'_>, Error> {
        let pages = FolioPages::new(&self.plan, folios, &self.region, &self.backing)
            .map_err(|error| limits::explain(&self.plan, "mmap", error))?;
        let size = folios.sizes.first().filter(|_| folios.strict).map(|size| size.bytes);
        size.map_or(Ok(()), |size| self.has_all_in_pages_of(size, pages.available_bytes(size)))?;
        Ok(pages)
    }

    /// Whether the whole segment fits into `available_bytes` in pages of this size.
    fn has_all_in_pages_of(&self, page_bytes: usize, available_bytes: u64) -> Result<(), Error> {
        let requested_bytes = self.bytes() - self.bytes() % page_bytes;
        if available_bytes >= requested_bytes as u64 {
            return Ok(());
        }
        let available_bytes = usize::try_from(available_bytes).unwrap_or(usize::MAX);
        Err(Error::Fragmented { page: self.plan.page, requested_bytes, available_bytes })
    }

    /// Verifies that every page is populated; a populated page of a locked mapping stays. mlock(2)
    /// verifies the same, but visits the struct page of every page: 42 ms/GiB of base pages, against 1
    /// for reading the page tables (`PAGEMAP_SCAN`). It is also one call for which other mmap(2) calls of
    /// the process wait, and in chunks it would split the mapping. Before Linux 6.7 the range is
    /// populated once more, which verifies the same at the cost of mlock(2).
    fn confirm(&mut self, progress: &mut dyn FnMut(&Progress)) -> Result<(), Error> {
        if self.plan.lock != LockMethod::Mapping {
            return Ok(());
        }
        let start = Instant::now();
        let mut on_progress = |now: &Progress| {
            progress(now);
            ControlFlow::Continue(())
        };
        let work = |range: Range<usize>| match self.region.absent_bytes(range.clone()) {
            Ok(0) => Ok(()),
            _ => self.region.populate(range),
        };
        self.plan
            .group
            .run(Phase::Confirm, &self.plan.confirm_layout, &work, &mut on_progress)
            .map_err(|stopped| self.failed(Phase::Confirm, stopped))?;
        self.times.confirm = start.elapsed();
        Ok(())
    }

    /// The kernel silently allocates base pages if it finds no huge ones.
    fn verify_huge_pages(&self) -> Result<(), Error> {
        if let Some(folios) = self.plan.folios.as_ref().filter(|folios| folios.strict)
            && let Some(size) = folios.sizes.first()
        {
            let populated = self.folio_bytes.get(&size.bytes).copied().unwrap_or(0);
            return self.has_all_in_pages_of(size.bytes, populated as u64);
        }
        let size = crate::machine::thp_bytes().unwrap_or(1);
        let huge_bytes = self.plan.strict_thp.then(|| self.huge_bytes()).flatten();
        huge_bytes.map_or(Ok(()), |bytes| self.has_all_in_pages_of(size, bytes as u64))
    }

    /// Bytes that this process maps by huge pages now, transparent or hugetlb; none if the kernel
    /// does not report it (before 6.7).
    #[must_use]
    pub fn huge_bytes(&self) -> Option<usize> {
        self.region.huge_bytes(self.all()).ok()
    }

    /// Bytes of it in pages of each size in bytes, if it was created with folios
    /// ([`PageSize::Folio`] or [`PageSize::Best`]); otherwise empty. Counted when it was created, by page
    /// faults, so that a size has at least as many as it says, and the smallest at most.
    #[must_use]
    pub fn folio_bytes(&self) -> &BTreeMap<usize, usize> {
        &self.folio_bytes
    }

    /// The reason why a segment that may have folios has none: the kernel's switch that is off, and what to write to
    /// it.
    #[must_use]
    pub fn why_no_folios(&self) -> Option<&str> {
        self.plan.folios.as_ref()?.why_none.as_deref()
    }

    /// The share of each NUMA node in its memory, from a sample of at most 4,096 pages. Pages that are
    /// not populated count for no node.
    ///
    /// # Errors
    /// Those of move_pages(2): `ENOSYS` on a kernel without NUMA.
    pub fn node_shares(&self) -> io::Result<BTreeMap<u32, f64>> {
        self.region.node_shares()
    }

    fn failed(&self, phase: Phase, stopped: OperationStop) -> Error {
        match stopped {
            OperationStop::Cancelled { done_bytes } => Error::Cancelled { phase, done_bytes },
            OperationStop::Failed { offset, error } if limits::is_poison(&error) => {
                Error::Poisoned { offset }
            }
            OperationStop::Failed { error, .. } => limits::explain(&self.plan, "populate", error),
        }
    }

    /// Destroys it now and returns how long that took; dropping does the same.
    pub fn destroy(self) -> Duration {
        self.destroy_with(&mut |_| ())
    }

    /// As [`destroy`](Self::destroy), with progress on this thread.
    pub fn destroy_with(mut self, progress: &mut dyn FnMut(&Progress)) -> Duration {
        let start = Instant::now();
        self.free_in_parallel(progress);
        drop(self);
        start.elapsed()
    }

    /// The part of the destruction that is done in parallel. After an error, the unmapping and closing that
    /// follow free the rest.
    fn free_in_parallel(&mut self, progress: &mut dyn FnMut(&Progress)) {
        if !std::mem::take(&mut self.populated) || self.kept || self.pid != std::process::id() {
            return;
        }
        let group = WorkerGroup { cancel: Cancel::new(), ..self.plan.group.clone() };
        let mut on_progress = |now: &Progress| {
            progress(now);
            ControlFlow::Continue(())
        };
        let work = |range: Range<usize>| self.backing.free(&self.plan, &self.region, range);
        drop(group.run(Phase::Destroy, &self.plan.destroy_layout, &work, &mut on_progress));
    }

    /// Its address. The memory is zero until it is written. References to it must not outlive the segment.
    #[must_use]
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.region.as_ptr()
    }

    /// Its size in bytes: the requested size, rounded up to whole pages.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.region.bytes()
    }

    /// The kind that was requested.
    #[must_use]
    pub fn kind(&self) -> SegmentKind {
        self.plan.kind
    }

    /// The actual page size: smaller than requested only in lenient mode. For folios in lenient mode and
    /// [`PageSize::Best`] the largest that was allowed; [`Self::folio_bytes`] has what it consists of.
    #[must_use]
    pub fn page_size(&self) -> PageSize {
        self.plan.page
    }

    /// True if its pages stay in memory: locked, or hugetlb pages.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.plan.lock != LockMethod::None || self.plan.page.hugetlb_bytes().is_some()
    }

    /// The duration of each part of its creation.
    #[must_use]
    pub fn times(&self) -> CreationTimes {
        self.times
    }

    /// The id of a System V segment, for shmat(2) in other processes.
    #[must_use]
    pub fn sysv_id(&self) -> Option<i32> {
        match &self.backing {
            SegmentBacking::Sysv { segment, .. } => Some(segment.id()),
            _ => None,
        }
    }

    /// Its files in the order of their offsets, and the size of each in bytes. When the segment is
    /// dropped, the files are emptied for every process that maps them.
    pub fn stripes(&self) -> impl Iterator<Item = (BorrowedFd<'_>, usize)> {
        let files: &[OwnedFd] = match &self.backing {
            SegmentBacking::Files(files) => files,
            SegmentBacking::Named(file, _) => std::slice::from_ref(file),
            SegmentBacking::Anonymous | SegmentBacking::Sysv { .. } => &[],
        };
        let bytes = |stripe| self.plan.layout.stripe(stripe).len();
        files.iter().enumerate().map(move |(stripe, file)| (file.as_fd(), bytes(stripe)))
    }

    /// Its files in the order of their offsets, with all their pages. They belong to the caller: the
    /// memory is freed when the last process has closed and unmapped them. This unmaps it.
    #[must_use]
    pub fn into_files(mut self) -> Vec<OwnedFd> {
        self.kept = true;
        match std::mem::replace(&mut self.backing, SegmentBacking::Anonymous) {
            SegmentBacking::Files(files) => files,
            other => {
                self.backing = other;
                self.kept = false;
                Vec::new()
            }
        }
    }

    fn all(&self) -> Range<usize> {
        0..self.region.bytes()
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.free_in_parallel(&mut |_| ());
        if !self.kept && self.pid == std::process::id() {
            self.backing.remove_name();
        }
    }
}
