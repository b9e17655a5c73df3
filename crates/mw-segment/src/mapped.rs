//! Existing mappings of the process: their type, and parallel operations on them.

use crate::cancel::Cancel;
use crate::cgroup::LimitedCgroups;
use crate::chunk::ChunkLayout;
use crate::cpus::Cpus;
use crate::limits;
use crate::machine;
use crate::options::MAX_WORKERS;
use crate::plan::{BASE_CHUNK_BYTES, HUGE_CHUNK_BYTES};
use crate::progress::Phase;
use crate::thread_spawner::{StdThreads, ThreadSpawner};
use crate::worker_group::{OperationStop, WorkerGroup};
use mw_sys::{DirectFile, Fault, OwnMapping};
use rustix::fs::{MemfdFlags, fstat, major, memfd_create, minor, stat};
use std::io;
use std::ops::{ControlFlow, Range};
use std::os::fd::AsFd;

/// Types of memory, as far as it can be populated in parallel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryType {
    /// Anonymous memory.
    Anonymous,
    /// Shared memory: memfds, System V segments, files in /dev/shm.
    Shmem,
    /// Hugetlb pages.
    Hugetlb,
    /// Anything else: files on disks, devices, mappings of the kernel.
    Other,
}

/// Populates a chunk: its addresses, and the call that does it.
pub type PopulateChunk<'a> =
    dyn Fn(Range<usize>, &dyn Fn() -> io::Result<()>) -> io::Result<()> + Sync + 'a;

/// A mapping, or the part of it within a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedPart {
    /// The range of its addresses.
    pub addresses: Range<usize>,
    /// The type of its memory.
    pub memory: MemoryType,
    /// The fault by which mlock(2) populates it; none if that access is not permitted, which does not
    /// always make mlock(2) fail.
    pub fault: Option<Fault>,
    /// True if it is a shared mapping (`MAP_SHARED`).
    pub shared: bool,
    /// The page size in bytes.
    pub page_bytes: usize,
}

impl MappedPart {
    /// Its size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.addresses.len()
    }
}

/// Worker threads for existing mappings.
///
/// The caller provides the threads and is responsible for the memory: other threads may change the mappings
/// in the meantime.
pub struct Workers<'a> {
    group: WorkerGroup,
    spawner: &'a dyn ThreadSpawner,
}

impl std::fmt::Debug for Workers<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers").field("group", &self.group).finish_non_exhaustive()
    }
}

impl<'a> Workers<'a> {
    /// With as many workers as a [`Segment`](crate::Segment) on the node of this thread; `spawner`
    /// creates the threads.
    #[must_use]
    pub fn new(spawner: &'a dyn ThreadSpawner) -> Self {
        let allowed = Cpus::allowed();
        let cpus = match machine::own_node() {
            Some(node) => allowed.on_nodes(&[node]),
            None => allowed,
        };
        let group = WorkerGroup {
            max_workers: MAX_WORKERS.min(cpus.count()),
            cpus,
            by_node: Vec::new(),
            cancel: Cancel::new(),
        };
        Self { group, spawner }
    }

    /// With threads of the standard library ([`StdThreads`]).
    #[must_use]
    pub fn with_threads() -> Workers<'static> {
        Workers::new(&StdThreads)
    }

    /// The maximum number of worker threads, the caller included.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.group.max_workers
    }

    /// Populates a part as mlock(2) does; returns the number of threads. Populated pages do not change.
    ///
    /// # Errors
    /// The first error of a chunk; other chunks may be populated or not. `EINVAL` for a part without a
    /// fault.
    pub fn populate(&self, part: &MappedPart) -> io::Result<usize> {
        self.populate_by(part, &|_, populate| populate())
    }

    /// As [`populate`](Self::populate); `chunk` is called with the addresses of each chunk and what populates it.
    ///
    /// # Errors
    /// As [`populate`](Self::populate), and those of `chunk`.
    pub fn populate_by(&self, part: &MappedPart, chunk: &PopulateChunk<'_>) -> io::Result<usize> {
        let fault = part.fault.ok_or(io::ErrorKind::InvalidInput)?;
        let huge = match part.memory {
            MemoryType::Hugetlb => Some(part.page_bytes),
            memory => machine::thp_is_enabled(memory == MemoryType::Shmem)
                .filter(|enabled| *enabled)
                .and_then(|_| machine::thp_bytes()),
        };
        let bytes = huge.map_or(BASE_CHUNK_BYTES, |huge| huge.max(HUGE_CHUNK_BYTES));
        self.each_chunk(Phase::Create, part.addresses.clone(), bytes, &|addresses| {
            let populate = || mw_sys::populate_existing(addresses.clone(), fault, huge);
            chunk(addresses.clone(), &populate)
        })
    }

    /// Calls `work` for each chunk of the addresses; returns the number of threads. Chunks have at most
    /// `chunk_bytes` and, except for the first, start at multiples of it.
    ///
    /// # Errors
    /// The first error of `work`; chunks that were started are completed, others are not.
    pub fn each_chunk(
        &self,
        phase: Phase,
        addresses: Range<usize>,
        chunk_bytes: usize,
        work: &(dyn Fn(Range<usize>) -> io::Result<()> + Sync),
    ) -> io::Result<usize> {
        let chunk_bytes = chunk_bytes.max(mw_sys::page_bytes());
        let base = addresses.start - addresses.start % chunk_bytes;
        let bytes = addresses.end.saturating_sub(base);
        let layout = ChunkLayout::new(bytes, bytes, chunk_bytes);
        let chunk = |range: Range<usize>| {
            work((base + range.start).max(addresses.start)..(base + range.end).min(addresses.end))
        };
        let no_progress = &mut |_: &_| ControlFlow::Continue(());
        match self.group.run_on(self.spawner, phase, &layout, &chunk, no_progress) {
            Ok(workers) => Ok(workers),
            Err(OperationStop::Failed { error, .. }) => Err(error),
            Err(OperationStop::Cancelled { .. }) => Err(io::ErrorKind::Interrupted.into()),
        }
    }
}

/// The mappings of this process in a range, at most `limit`. Holes are left out.
///
/// # Errors
/// If /proc cannot be read, or there are more mappings.
pub fn parts(addresses: Range<usize>, limit: usize) -> io::Result<Vec<MappedPart>> {
    let devices = shmem_devices();
    let mut parts = Vec::new();
    each_mapping(addresses.clone(), &mut |mapping| {
        if parts.len() >= limit {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        parts.push(part(&mapping, &addresses, &devices));
        Ok(())
    })?;
    Ok(parts)
}

/// The mapping of this process that starts at an address.
///
/// # Errors
/// If /proc cannot be read.
pub fn mapping_at(address: usize) -> io::Result<Option<OwnMapping>> {
    let mut found = None;
    each_mapping(address..address.saturating_add(1), &mut |mapping| {
        found = Some(mapping);
        Ok(())
    })?;
    Ok(found.filter(|mapping| mapping.addresses.start == address))
}

fn part(mapping: &OwnMapping, within: &Range<usize>, shmem: &[(u32, u32)]) -> MappedPart {
    let start = mapping.addresses.start.max(within.start);
    let end = mapping.addresses.end.min(within.end);
    let whole = [start, end].iter().all(|at| at.is_multiple_of(mapping.page_bytes.max(1)));
    let memory = match mapping.device {
        _ if mapping.page_bytes > mw_sys::page_bytes() && whole => MemoryType::Hugetlb,
        _ if mapping.page_bytes != mw_sys::page_bytes() => MemoryType::Other,
        (0, 0) if mapping.inode == 0 => MemoryType::Anonymous,
        device if shmem.contains(&device) => MemoryType::Shmem,
        _ => MemoryType::Other,
    };
    // A write fault would make shared pages dirty; it gives this process its own copy of private pages
    // (mm/gup.c, populate_vma_page_range).
    let write = mapping.writable && !mapping.shared;
    let fault = match write {
        true => Some(Fault::Write),
        false => mapping.readable.then_some(Fault::Read),
    };
    MappedPart {
        addresses: start..end,
        memory,
        fault,
        shared: mapping.shared,
        page_bytes: mapping.page_bytes,
    }
}

/// Calls `report` for each mapping in the range: queried one by one (`PROCMAP_QUERY`, Linux 6.11), or
/// read from the text of /proc/self/maps.
fn each_mapping(
    addresses: Range<usize>,
    report: &mut dyn FnMut(OwnMapping) -> io::Result<()>,
) -> io::Result<()> {
    let maps = DirectFile::open("/proc/self/maps")?;
    let mut at = addresses.start;
    while at < addresses.end {
        match mw_sys::mapping_from(maps.as_fd(), at) {
            Ok(Some(mapping)) if mapping.addresses.start < addresses.end => {
                at = mapping.addresses.end.max(at + 1);
                report(mapping)?;
            }
            Ok(_) => break,
            Err(_) if at == addresses.start => return each_line(addresses, report),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The text does not contain page sizes, so that hugetlb mappings count as [`MemoryType::Other`].
fn each_line(
    addresses: Range<usize>,
    report: &mut dyn FnMut(OwnMapping) -> io::Result<()>,
) -> io::Result<()> {
    let lines =
        mw_proc::maps::parse(&mw_sys::read_file("/proc/self/maps")?).map_err(io::Error::other)?;
    let number = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    for line in lines {
        let range = number(line.start)..number(line.end);
        if range.end <= addresses.start || range.start >= addresses.end {
            continue;
        }
        report(OwnMapping {
            addresses: range,
            readable: line.readable,
            writable: line.writable,
            shared: line.shared,
            page_bytes: mw_sys::page_bytes(),
            device: line.device,
            inode: line.inode,
        })?;
    }
    Ok(())
}

/// The devices of shared memory: the kernel's internal mount of memfds and System V segments, and
/// /dev/shm if it is a tmpfs.
fn shmem_devices() -> Vec<(u32, u32)> {
    let split = |device: u64| (major(device), minor(device));
    let own = memfd_create("memwright", MemfdFlags::CLOEXEC)
        .and_then(|memfd| fstat(DirectFile::from(memfd)));
    let mut devices: Vec<_> = own.iter().map(|stat| split(stat.st_dev)).collect();
    let is_tmpfs = rustix::fs::statfs("/dev/shm").is_ok_and(|fs| fs.f_type == TMPFS_MAGIC);
    if let (true, Ok(shm), Ok(dev)) = (is_tmpfs, stat("/dev/shm"), stat("/dev"))
        && shm.st_dev != dev.st_dev
    {
        devices.push(split(shm.st_dev));
    }
    devices
}

/// `TMPFS_MAGIC` (linux/magic.h).
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;

/// Available memory of this process in bytes: that of the machine, or what the tightest limit leaves of it (memory cgroups,
/// the commit limit, `RLIMIT_AS`, `RLIMIT_DATA`). None if the kernel does not report it.
#[must_use]
pub fn available_bytes() -> Option<u64> {
    limits::available_bytes(&LimitedCgroups::own())
}

/// True if so much mapped memory can be populated, its page tables included.
#[must_use]
pub fn has_room(bytes: u64) -> bool {
    limits::populatable_bytes(&LimitedCgroups::own())
        .is_none_or(|available| limits::with_overhead(bytes) <= available)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread_spawner::StdThreads;
    use mw_memory::PageSize;
    use mw_sys::Region;
    use std::fs::File;
    use std::sync::Mutex;

    const MIB: usize = 1 << 20;

    fn start(region: &Region) -> usize {
        region.as_ptr().as_ptr().expose_provenance()
    }

    #[test]
    fn every_memory_type_is_recognized() {
        let region = Region::reserve(8 * MIB, 4096, 2 * MIB).unwrap();
        let at = start(&region);
        let memfd = memfd_create("mw-segment-test", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&memfd, 2 * MIB as u64).unwrap();
        let disk = File::open("/proc/self/exe").unwrap();
        region.map_anonymous(0..2 * MIB, false).unwrap();
        region.map_file(2 * MIB..4 * MIB, memfd.as_fd(), 0).unwrap();
        let on_disk = region.map_file(4 * MIB..4 * MIB + 4096, disk.as_fd(), 0);
        let parts = parts(at + MIB..at + 8 * MIB, 64).unwrap();
        let seen: Vec<_> = parts.iter().map(|part| (part.memory, part.fault)).collect();
        assert_eq!(seen[0], (MemoryType::Anonymous, Some(Fault::Write)));
        assert_eq!(parts[0].addresses, at + MIB..at + 2 * MIB);
        assert_eq!(seen[1], (MemoryType::Shmem, Some(Fault::Read)));
        if on_disk.is_ok() {
            assert_eq!(seen[2].0, MemoryType::Other);
        }
        assert_eq!(seen.last(), Some(&(MemoryType::Anonymous, None)), "reserved, not accessible");
    }

    #[test]
    fn the_text_of_maps_agrees_with_the_query() {
        let region = Region::anonymous(4 * MIB, PageSize::Base).unwrap();
        let range = start(&region)..start(&region) + 4 * MIB;
        let (mut queried, mut read) = (Vec::new(), Vec::new());
        let keep = |kept: &mut Vec<OwnMapping>, mapping| {
            kept.push(mapping);
            Ok(())
        };
        each_mapping(range.clone(), &mut |mapping| keep(&mut queried, mapping)).unwrap();
        each_line(range, &mut |mapping| keep(&mut read, mapping)).unwrap();
        assert_eq!(queried, read);
    }

    #[test]
    fn a_mapping_is_found_only_at_its_start() {
        let region = Region::reserve(8 * MIB, 4096, 2 * MIB).unwrap();
        region.map_anonymous(2 * MIB..4 * MIB, false).unwrap();
        let at = start(&region) + 2 * MIB;
        assert_eq!(mapping_at(at).unwrap().unwrap().addresses, at..at + 2 * MIB);
        assert_eq!(mapping_at(at + 4096).unwrap(), None);
        assert_eq!(mapping_at(4096).unwrap(), None);
    }

    #[test]
    fn more_parts_than_the_limit_are_an_error() {
        assert!(parts(0..usize::MAX, 1).is_err());
        assert!(parts(0..usize::MAX, 1 << 16).is_ok());
    }

    #[test]
    fn chunks_cover_odd_addresses_once() {
        let done = Mutex::new(Vec::new());
        let work = |range: Range<usize>| {
            done.lock().unwrap().push(range);
            Ok(())
        };
        Workers::new(&StdThreads).each_chunk(Phase::Create, 5000..100_000, 8192, &work).unwrap();
        let mut done = done.into_inner().unwrap();
        done.sort_by_key(|range| range.start);
        assert_eq!((done[0].clone(), done.last().unwrap().end), (5000..8192, 100_000));
        assert!(done.windows(2).all(|pair| pair[0].end == pair[1].start));
    }

    #[test]
    fn a_part_that_cannot_be_populated_is_an_error() {
        let region = Region::reserve(16 * MIB, 4096, 2 * MIB).unwrap();
        region.map_anonymous(0..8 * MIB, false).unwrap();
        let (at, existing) = (start(&region), Workers::new(&StdThreads));
        let parts = parts(at..at + 16 * MIB, 64).unwrap();
        let [rest @ .., reserved] = parts.as_slice() else { panic!("{parts:?}") };
        assert!(rest.iter().all(|part| existing.populate(part).is_ok()));
        assert_eq!(region.absent_bytes(0..8 * MIB).unwrap(), 0);
        assert!(existing.populate(reserved).is_err());
        let pretended = MappedPart { fault: Some(Fault::Write), ..reserved.clone() };
        assert!(existing.populate(&pretended).is_err());
    }

    #[test]
    fn has_room_for_one_page_but_not_for_everything() {
        assert!(has_room(4096));
        assert!(!has_room(u64::MAX));
    }
}
