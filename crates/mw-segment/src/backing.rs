//! The backing of a segment: files, a System V segment, or anonymous memory.

use crate::error::Error;
use crate::limits;
use crate::plan::SegmentPlan;
use crate::segment_kind::SegmentKind;
use mw_sys::{Region, SysvSegment};
use rustix::fs::{FallocateFlags, MemfdFlags, Mode, fallocate, ftruncate, memfd_create};
use rustix::io::pwritev;
use rustix::shm;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

/// The buffer that is written: it stays in the L1 cache.
static ZEROS: [u8; 16 << 10] = [0; 16 << 10];
/// Number of buffers that one pwritev(2) writes.
const BUFFERS: usize = 64;

/// The backing of a segment.
#[derive(Debug)]
pub(crate) enum SegmentBacking {
    /// Private anonymous memory.
    Anonymous,
    /// A file for each stripe.
    Files(Vec<OwnedFd>),
    /// A file of /dev/shm; its name is removed when the segment is dropped.
    Named(OwnedFd, String),
    /// A System V segment; `named` if it is to be removed when the segment is dropped, otherwise it is
    /// marked for removal already.
    Sysv { segment: SysvSegment, named: bool },
}

impl SegmentBacking {
    /// Creates it and maps it into `region`. If a later step fails, it is removed again.
    pub(crate) fn map(
        plan: &SegmentPlan,
        region: &Region,
        key: i32,
        name: Option<&str>,
    ) -> Result<Self, Error> {
        match plan.kind {
            SegmentKind::Anon => {
                let hugetlb = plan.page.hugetlb_bytes().is_some();
                region
                    .map_anonymous(0..region.bytes(), hugetlb)
                    .map_err(|error| limits::explain(plan, "mmap", error))?;
                Ok(Self::Anonymous)
            }
            SegmentKind::Memfd | SegmentKind::Hugetlb => Self::files(plan, region),
            SegmentKind::Posix => Self::named(plan, region, name.unwrap_or_default()),
            SegmentKind::Ism | SegmentKind::Dism => Self::sysv(plan, region, key),
        }
    }

    fn files(plan: &SegmentPlan, region: &Region) -> Result<Self, Error> {
        let mut files = Vec::new();
        for stripe in 0..plan.layout.stripes() {
            let range = plan.layout.stripe(stripe);
            let file = memfd(plan).map_err(Error::system("memfd_create"))?;
            let mapped = ftruncate(&file, range.len() as u64)
                .map_err(io::Error::from)
                .and_then(|()| region.map_file(range, file.as_fd(), 0));
            mapped.map_err(|error| limits::explain(plan, "mmap", error))?;
            files.push(file);
        }
        Ok(Self::Files(files))
    }

    fn named(plan: &SegmentPlan, region: &Region, name: &str) -> Result<Self, Error> {
        let name = format!("/{}", name.trim_start_matches('/'));
        let flags = shm::OFlags::CREATE | shm::OFlags::EXCL | shm::OFlags::RDWR;
        let file = shm::open(name.as_str(), flags, Mode::RUSR | Mode::WUSR)
            .map_err(|error| Error::system("shm_open")(error.into()))?;
        let mapped = ftruncate(&file, region.bytes() as u64)
            .map_err(io::Error::from)
            .and_then(|()| region.map_file(0..region.bytes(), file.as_fd(), 0));
        let backing = Self::Named(file, name);
        mapped.map_err(|error| {
            backing.remove_name();
            limits::explain(plan, "mmap", error)
        })?;
        Ok(backing)
    }

    /// A segment without a key is marked for removal as soon as it is attached, so that a program that is
    /// killed leaves nothing; Linux still permits attaching it by its id.
    fn sysv(plan: &SegmentPlan, region: &Region, key: i32) -> Result<Self, Error> {
        let segment = SysvSegment::create(key, region.bytes(), plan.page.hugetlb_bytes())
            .map_err(|error| limits::explain(plan, "shmget", error))?;
        let attached = region.attach(segment);
        let named = key != 0;
        if attached.is_err() || !named {
            segment.remove().map_err(Error::system("shmctl"))?;
        }
        attached.map_err(|error| limits::explain(plan, "shmat", error))?;
        Ok(Self::Sysv { segment, named })
    }

    /// Populates `range`. Base pages of files are allocated by writing to their descriptors and then mapped
    /// several at a time: faulting on each page costs 1.3 times as much, and holds the mmap lock.
    pub(crate) fn populate(
        &self,
        plan: &SegmentPlan,
        region: &Region,
        range: Range<usize>,
    ) -> io::Result<()> {
        match (self, plan.huge_page_bytes) {
            (_, Some(huge)) => region.populate_huge(range, huge),
            (Self::Files(files), None) => {
                let (stripe, offset) = plan.layout.locate(range.start);
                let file = files.get(stripe).ok_or(io::ErrorKind::InvalidInput)?;
                write_zeros(file, offset, range.len())?;
                region.map_cached(range)
            }
            _ => region.populate(range),
        }
    }

    /// Maps its files into `window` once more, `shift` bytes behind its start.
    pub(crate) fn map_files(
        &self,
        plan: &SegmentPlan,
        window: &Region,
        shift: usize,
    ) -> io::Result<()> {
        let Self::Files(files) = self else { return Err(io::ErrorKind::InvalidInput.into()) };
        files.iter().enumerate().try_for_each(|(number, file)| {
            let stripe = plan.layout.stripe(number);
            window.map_file(stripe.start + shift..stripe.end + shift, file.as_fd(), 0)
        })
    }

    /// Frees the pages of `range`, as far as the kernel does that in parallel. Each stripe is a file of
    /// its own, because punching a hole takes the inode's lock.
    pub(crate) fn free(
        &self,
        plan: &SegmentPlan,
        region: &Region,
        range: Range<usize>,
    ) -> io::Result<()> {
        let (file, offset) = match self {
            // System V segments have no descriptor to punch a hole through: only removing the pages from
            // the page tables is done in parallel, and the last unmapping frees them.
            Self::Anonymous | Self::Sysv { .. } => return region.discard(range),
            Self::Named(file, _) => (file, range.start),
            Self::Files(files) => {
                let (stripe, offset) = plan.layout.locate(range.start);
                let file = files.get(stripe).ok_or(io::ErrorKind::InvalidInput)?;
                (file, offset)
            }
        };
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(file, hole, offset as u64, range.len() as u64)?)
    }

    /// Removes its name or key.
    pub(crate) fn remove_name(&self) {
        match self {
            // Another process may have removed it already.
            Self::Named(_, name) => drop(shm::unlink(name.as_str())),
            Self::Sysv { segment, named: true } => drop(segment.remove()),
            Self::Anonymous | Self::Files(_) | Self::Sysv { .. } => {}
        }
    }

    /// Locks it for every process that maps it.
    pub(crate) fn lock(&self, plan: &SegmentPlan) -> Result<(), Error> {
        match self {
            Self::Sysv { segment, .. } => {
                segment.lock().map_err(|error| limits::explain(plan, "shmctl(SHM_LOCK)", error))
            }
            _ => Err(Error::Invalid("only a System V segment is locked as a whole".to_owned())),
        }
    }
}

/// Repeats short writes, which signals cause.
fn write_zeros(file: &OwnedFd, offset: usize, bytes: usize) -> io::Result<()> {
    let mut done = 0;
    while done < bytes {
        let buffers: [IoSlice<'_>; BUFFERS] = std::array::from_fn(|number| {
            let left = (bytes - done).saturating_sub(number * ZEROS.len());
            IoSlice::new(&ZEROS[..left.min(ZEROS.len())])
        });
        match pwritev(file, &buffers, (offset + done) as u64)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => done += written,
        }
    }
    Ok(())
}

fn memfd(plan: &SegmentPlan) -> io::Result<OwnedFd> {
    let huge = mw_sys::memfd_page_flags(plan.page);
    let seals = if plan.sealable { MemfdFlags::ALLOW_SEALING } else { MemfdFlags::empty() };
    Ok(memfd_create("memwright", MemfdFlags::CLOEXEC | huge | seals)?)
}
