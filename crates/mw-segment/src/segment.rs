//! A segment, from its creation to its end.

use crate::backing::Backing;
use crate::cancel::Cancel;
use crate::cgroup::Groups;
use crate::error::{Error, Shortage};
use crate::limits;
use crate::options::Options;
use crate::plan::{Lock, Plan};
use crate::progress::{Phase, Progress};
use crate::segment_kind::Kind;
use crate::worker_group::{Stopped, WorkerGroup};
use mw_memory::PageSize;
use mw_sys::{Region, ThpAdvice};
use std::collections::BTreeMap;
use std::io;
use std::ops::{ControlFlow, Range};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::time::{Duration, Instant};

/// How long each part of a creation took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// Looking at limits, mapping, and saying where pages come from and that they are locked.
    pub reserve: Duration,
    /// Populating.
    pub populate: Duration,
    /// Seeing that every page is there and locked; zero for what is not locked by mapping.
    pub confirm: Duration,
    /// The threads that populated, the caller's included.
    pub workers: usize,
}

/// A segment of memory, destroyed in parallel when it is dropped.
///
/// In a fork of the process that made it, dropping takes it out of that fork only.
#[derive(Debug)]
pub struct Segment {
    /// Unmapped last: after it, a System V segment is gone.
    region: Region,
    backing: Backing,
    plan: Plan,
    /// Who made it.
    pid: u32,
    /// Whether there may be pages.
    populated: bool,
    /// Whether the pages stay when it is dropped.
    kept: bool,
    times: Times,
}

impl Segment {
    pub(crate) fn create(
        options: &Options,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Self, Error> {
        let start = Instant::now();
        let plan = Plan::new(options)?;
        let groups = Groups::own();
        limits::check(&plan, &groups)?;
        let mut segment = Self::reserve(options, plan)?;
        segment.place()?;
        segment.lock_on_fault()?;
        segment.times.reserve = start.elapsed();
        segment.populate(&groups, progress)?;
        segment.confirm(progress)?;
        segment.see_huge_pages()?;
        segment.kept = options.kept;
        Ok(segment)
    }

    pub(crate) fn check(options: &Options) -> Result<(), Error> {
        limits::check(&Plan::new(options)?, &Groups::own())
    }

    /// Addresses and what is behind them, without a page.
    fn reserve(options: &Options, plan: Plan) -> Result<Self, Error> {
        let region = Region::reserve(plan.layout.bytes(), plan.granule, plan.align)
            .map_err(|error| limits::explain(&plan, "mmap", error))?;
        let backing = Backing::map(&plan, &region, options.key, options.name.as_deref())?;
        Ok(Self {
            region,
            backing,
            plan,
            pid: std::process::id(),
            populated: false,
            kept: false,
            times: Times::default(),
        })
    }

    fn place(&self) -> Result<(), Error> {
        let chosen = match self.plan.page {
            PageSize::Thp => self.region.advise_thp(ThpAdvice::Enable),
            // A kernel without transparent huge pages has nothing to decline.
            PageSize::Base => self.region.advise_thp(ThpAdvice::Disable).or(Ok(())),
            PageSize::Hugetlb(_) => Ok(()),
        };
        chosen.map_err(Error::system("madvise"))?;
        for (range, policy) in self.plan.placement.policies(self.bytes()) {
            self.region.set_policy(range, &policy).map_err(|error| {
                Error::Invalid(format!("{policy:?}: {error}; /sys/devices/system/node has them"))
            })?;
        }
        Ok(())
    }

    /// Locked before it is populated, memory is locked page by page as it comes; locking it
    /// afterwards costs another walk with a lock for each page.
    fn lock_on_fault(&self) -> Result<(), Error> {
        match self.plan.lock {
            Lock::None => Ok(()),
            Lock::Segment => self.backing.lock(&self.plan),
            Lock::Mapping => self
                .region
                .lock_on_fault(self.all())
                .map_err(|error| limits::explain(&self.plan, "mlock2", error)),
        }
    }

    fn populate(
        &mut self,
        groups: &Groups,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<(), Error> {
        self.populated = true;
        let start = Instant::now();
        let mut shortage: Option<Shortage> = None;
        let mut tell = |now: &Progress| {
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
        let work = |range: Range<usize>| self.backing.populate(&self.plan, &self.region, range);
        let run = self.plan.group.run(Phase::Create, &self.plan.layout, &work, &mut tell);
        let workers = match (run, shortage) {
            (Ok(workers), _) => workers,
            (Err(_), Some(shortage)) => return Err(shortage.into()),
            (Err(stopped), None) => return Err(self.failed(Phase::Create, stopped)),
        };
        self.times.workers = workers;
        self.times.populate = start.elapsed();
        Ok(())
    }

    /// Sees that every page is there; what is mapped and locked then stays. An mlock(2) says the
    /// same but visits every page's own record, for 42 ms/GiB of base pages where a look at the
    /// page tables took 1; it is one call for which the process's other mmap(2) calls wait, and in
    /// chunks it would split the mapping at each. A kernel that has no such look (before 6.7)
    /// populates once more, which finds out the same at mlock's cost.
    fn confirm(&mut self, progress: &mut dyn FnMut(&Progress)) -> Result<(), Error> {
        if self.plan.lock != Lock::Mapping {
            return Ok(());
        }
        let start = Instant::now();
        let mut tell = |now: &Progress| {
            progress(now);
            ControlFlow::Continue(())
        };
        let work = |range: Range<usize>| match self.region.absent_bytes(range.clone()) {
            Ok(0) => Ok(()),
            _ => self.region.populate(range),
        };
        self.plan
            .group
            .run(Phase::Confirm, &self.plan.confirm_layout, &work, &mut tell)
            .map_err(|stopped| self.failed(Phase::Confirm, stopped))?;
        self.times.confirm = start.elapsed();
        Ok(())
    }

    /// The kernel takes base pages in silence where it finds no huge ones.
    fn see_huge_pages(&self) -> Result<(), Error> {
        let size = crate::machine::thp_bytes().unwrap_or(1);
        let requested_bytes = self.bytes() - self.bytes() % size;
        match self.plan.strict_thp.then(|| self.huge_bytes()).flatten() {
            Some(available_bytes) if available_bytes < requested_bytes => {
                Err(Error::Fragmented { requested_bytes, available_bytes })
            }
            _ => Ok(()),
        }
    }

    /// How many bytes are in huge pages now, transparent or of the pool, as this process maps
    /// them; none where the kernel cannot say (before 6.7).
    #[must_use]
    pub fn huge_bytes(&self) -> Option<usize> {
        self.region.huge_bytes(self.all()).ok()
    }

    /// The share of each NUMA node in its memory, from a sample of at most 4,096 pages. Pages that are
    /// not populated count for no node.
    ///
    /// # Errors
    /// move_pages(2)'s: `ENOSYS` on a kernel without NUMA.
    pub fn node_shares(&self) -> io::Result<BTreeMap<u32, f64>> {
        self.region.node_shares()
    }

    fn failed(&self, phase: Phase, stopped: Stopped) -> Error {
        match stopped {
            Stopped::Cancelled { done_bytes } => Error::Cancelled { phase, done_bytes },
            Stopped::Failed { offset, error } if limits::is_poison(&error) => {
                Error::Poisoned { offset }
            }
            Stopped::Failed { error, .. } => limits::explain(&self.plan, "populate", error),
        }
    }

    /// Gives everything back now, and says how long it took; dropping does the same.
    pub fn destroy(self) -> Duration {
        self.destroy_with(&mut |_| ())
    }

    /// As [`destroy`](Self::destroy), and tells of progress on this thread.
    pub fn destroy_with(mut self, progress: &mut dyn FnMut(&Progress)) -> Duration {
        let start = Instant::now();
        self.give_back(progress);
        drop(self);
        start.elapsed()
    }

    /// The part of the destruction that is done in parallel. What a call refuses, the unmapping
    /// and closing that follow give back.
    fn give_back(&mut self, progress: &mut dyn FnMut(&Progress)) {
        if !std::mem::take(&mut self.populated) || self.kept || self.pid != std::process::id() {
            return;
        }
        let group = WorkerGroup { cancel: Cancel::new(), ..self.plan.group.clone() };
        let mut tell = |now: &Progress| {
            progress(now);
            ControlFlow::Continue(())
        };
        let work = |range: Range<usize>| self.backing.give_back(&self.plan, &self.region, range);
        drop(group.run(Phase::Destroy, &self.plan.destroy_layout, &work, &mut tell));
    }

    /// Where it starts. What is read there is zero until something is written. References made
    /// from it must be gone before the segment is.
    #[must_use]
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.region.as_ptr()
    }

    /// Its size in bytes, of whole pages.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.region.bytes()
    }

    /// What it is made of.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.plan.kind
    }

    /// The pages that it came to: never less than asked for in strict mode.
    #[must_use]
    pub fn page_size(&self) -> PageSize {
        self.plan.page
    }

    /// Whether its pages stay in memory.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.plan.lock != Lock::None || self.plan.page.hugetlb_bytes().is_some()
    }

    /// How long the parts of its creation took.
    #[must_use]
    pub fn times(&self) -> Times {
        self.times
    }

    /// The number of a System V segment, for shmat(2) elsewhere.
    #[must_use]
    pub fn sysv_id(&self) -> Option<i32> {
        match &self.backing {
            Backing::Sysv { segment, .. } => Some(segment.id()),
            _ => None,
        }
    }

    /// Its files, in the order of their bytes, and the bytes of each. Whoever gets one of them
    /// sees it emptied when the segment is dropped here.
    pub fn stripes(&self) -> impl Iterator<Item = (BorrowedFd<'_>, usize)> {
        let files: &[OwnedFd] = match &self.backing {
            Backing::Files(files) => files,
            Backing::Named(file, _) => std::slice::from_ref(file),
            Backing::Process | Backing::Sysv { .. } => &[],
        };
        let bytes = |stripe| self.plan.layout.stripe(stripe).len();
        files.iter().enumerate().map(move |(stripe, file)| (file.as_fd(), bytes(stripe)))
    }

    /// Its files, in the order of their bytes, with all their pages: they are the caller's now, and
    /// the memory goes when the last that has them closes and unmaps them. Here it is unmapped.
    #[must_use]
    pub fn into_files(mut self) -> Vec<OwnedFd> {
        self.kept = true;
        match std::mem::replace(&mut self.backing, Backing::Process) {
            Backing::Files(files) => files,
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
        self.give_back(&mut |_| ());
        if !self.kept && self.pid == std::process::id() {
            self.backing.forget_name();
        }
    }
}
