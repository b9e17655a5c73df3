//! What a segment's memory belongs to: files, a System V segment, or the process.

use crate::error::{Error, Limit};
use crate::limits;
use crate::plan::Plan;
use crate::segment_kind::Kind;
use mw_sys::{Region, SysvSegment};
use rustix::fs::{FallocateFlags, MemfdFlags, Mode, fallocate, ftruncate, memfd_create};
use rustix::io::pwritev;
use rustix::shm;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

/// What is written of a chunk at a time: little enough to stay in the processor's nearest cache.
static ZEROS: [u8; 16 << 10] = [0; 16 << 10];
const PIECES: usize = 64;

/// What a segment's memory belongs to.
#[derive(Debug)]
pub(crate) enum Backing {
    /// The process alone.
    Process,
    /// Files, one a stripe.
    Files(Vec<OwnedFd>),
    /// A file of /dev/shm; its name is removed when the segment is dropped.
    Named(OwnedFd, String),
    /// A System V segment; `named` if it is to be removed when the segment is dropped, else it
    /// was marked for removal already.
    Sysv { segment: SysvSegment, named: bool },
}

impl Backing {
    /// Makes it and maps it into `region`. What was made goes again when a later step fails.
    pub(crate) fn map(
        plan: &Plan,
        region: &Region,
        key: i32,
        name: Option<&str>,
    ) -> Result<Self, Error> {
        match plan.kind {
            Kind::Anon => {
                let hugetlb = plan.page.hugetlb_bytes().is_some();
                region
                    .map_anonymous(0..region.bytes(), hugetlb)
                    .map_err(|error| limits::explain(plan, "mmap", error))?;
                Ok(Self::Process)
            }
            Kind::Memfd | Kind::Hugetlb => Self::files(plan, region),
            Kind::Posix => Self::named(plan, region, name.unwrap_or_default()),
            Kind::Ism | Kind::Dism => Self::sysv(plan, region, key),
        }
    }

    fn files(plan: &Plan, region: &Region) -> Result<Self, Error> {
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

    fn named(plan: &Plan, region: &Region, name: &str) -> Result<Self, Error> {
        let name = format!("/{}", name.trim_start_matches('/'));
        let flags = shm::OFlags::CREATE | shm::OFlags::EXCL | shm::OFlags::RDWR;
        let file = shm::open(name.as_str(), flags, Mode::RUSR | Mode::WUSR)
            .map_err(|error| Error::system("shm_open")(error.into()))?;
        let mapped = ftruncate(&file, region.bytes() as u64)
            .map_err(io::Error::from)
            .and_then(|()| region.map_file(0..region.bytes(), file.as_fd(), 0));
        let backing = Self::Named(file, name);
        mapped.map_err(|error| {
            backing.forget_name();
            limits::explain(plan, "mmap", error)
        })?;
        Ok(backing)
    }

    /// A segment without a name is marked for removal as soon as it is attached, so that a program
    /// that is killed leaves nothing; Linux still lets others attach it by its number.
    fn sysv(plan: &Plan, region: &Region, key: i32) -> Result<Self, Error> {
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

    /// Gives `range` its pages. Base pages of files are written through their descriptors and then
    /// mapped, several at a time: a fault for each costs 1.3 times as much, and holds the lock that
    /// the process's mmap(2) calls wait for.
    pub(crate) fn populate(
        &self,
        plan: &Plan,
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

    /// Gives pages in `range` back, or as much of that as the kernel does in parallel. Stripes are
    /// files of their own: punching a hole takes their inode's lock.
    pub(crate) fn give_back(
        &self,
        plan: &Plan,
        region: &Region,
        range: Range<usize>,
    ) -> io::Result<()> {
        let (file, offset) = match self {
            // System V segments have no descriptor to punch through; taking the pages out of the
            // page tables is the part that is done in parallel, and the last unmapping frees them.
            Self::Process | Self::Sysv { .. } => return region.discard(range),
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

    /// Removes the name under which others find it.
    pub(crate) fn forget_name(&self) {
        match self {
            // Somebody may have removed it already.
            Self::Named(_, name) => drop(shm::unlink(name.as_str())),
            Self::Sysv { segment, named: true } => drop(segment.remove()),
            Self::Process | Self::Files(_) | Self::Sysv { .. } => {}
        }
    }

    /// Locks it for all who map it.
    pub(crate) fn lock(&self, plan: &Plan) -> Result<(), Error> {
        match self {
            Self::Sysv { segment, .. } => {
                segment.lock().map_err(|error| limits::explain(plan, "shmctl(SHM_LOCK)", error))
            }
            _ => Err(Error::Invalid("only a System V segment is locked as a whole".to_owned())),
        }
    }
}

/// Writes zeros until all are written: a signal may end a call early.
fn write_zeros(file: &OwnedFd, offset: usize, bytes: usize) -> io::Result<()> {
    let mut done = 0;
    while done < bytes {
        let pieces: [IoSlice<'_>; PIECES] = std::array::from_fn(|piece| {
            let left = (bytes - done).saturating_sub(piece * ZEROS.len());
            IoSlice::new(&ZEROS[..left.min(ZEROS.len())])
        });
        match pwritev(file, &pieces, (offset + done) as u64)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => done += written,
        }
    }
    Ok(())
}

fn memfd(plan: &Plan) -> io::Result<OwnedFd> {
    let huge = mw_sys::memfd_page_flags(plan.page);
    let seals = if plan.sealable { MemfdFlags::ALLOW_SEALING } else { MemfdFlags::empty() };
    Ok(memfd_create("memwright", MemfdFlags::CLOEXEC | huge | seals)?)
}

/// The limit that a full file is about.
pub(crate) fn file_limit(kind: Kind) -> Limit {
    if kind == Kind::Posix { Limit::DevShm } else { Limit::Memory }
}
