//! How fast one thread gets memory here: at most 50 ms, at most 64 MiB.
//!
//! It measures what the request at hand needs and nothing else, on fresh memory from the kernel's
//! free lists, chunk by chunk with a look at the clock in between. It never makes a stall itself:
//! it takes a small share of what is free above the watermarks, asks for huge pages only while
//! there are free blocks of their size (so that nothing is compacted), and stays away from a
//! machine, node or cgroup that is short.
//!
//! In a virtual machine, memory that the host has not backed yet costs up to ten times as much to
//! touch, so chunks are classified: what was discarded and populated again is certainly backed, and
//! chunks that took far longer than that were not. Base pages come from the small free blocks
//! first, which are always backed, and large requests from the large ones: those are sampled
//! separately, with huge pages.
//!
//! Speeds are of CPU time; how much of the CPU a thread gets is reported separately, from
//! the whole measurement, for it goes by turns of several milliseconds.

use mw_memory::NumaPolicy;
use mw_model::{Backing, Calibration, Missing, PageSize, Request, Snapshot};
use mw_sys::Region;
use std::time::{Duration, Instant};

mod allowance;
mod reclaimed;
mod samples;

use allowance::{Allowance, FOLIO_CHUNK};
use samples::{Samples, UNBACKED_FACTOR, UNBACKED_FACTOR_HUGE, sort_out};

pub const LIMIT: Duration = Duration::from_millis(50);

/// Time for reading the flags of free blocks.
const FLAGS_TIME: Duration = Duration::from_millis(10);
/// Time after the start at which the large blocks have been sampled enough.
const LARGE_BLOCKS_UNTIL: Duration = Duration::from_millis(16);
/// Time at which fresh memory has been populated enough.
const FRESH_UNTIL: Duration = Duration::from_millis(22);
/// Time at which everything has been measured; the rest is for releasing the memory.
const MEASURE_UNTIL: Duration = Duration::from_millis(28);

const MIB: usize = 1 << 20;
/// Memory that is populated between two checks of the clock: at most 3 ms of unbacked memory.
const BASE_CHUNK: usize = MIB;
/// Memory that is locked between two checks of the clock.
const LOCK_CHUNK: usize = 4 * MIB;
/// Chunks that are populated a second time.
const AGAIN_CHUNKS: usize = 8;
/// Huge pages that are taken to see whether the large free blocks are backed.
const LARGE_BLOCKS: usize = 16;
/// The most that is taken for base pages and large blocks together.
const MOST_TOGETHER: usize = 64 * MIB;

/// Measures what `request` needs.
///
/// # Errors
/// Too little memory would be left, or the kernel refuses to give any.
pub fn calibrate(request: &Request, snapshot: &Snapshot) -> Result<Calibration, Missing> {
    let (start, used) = (Instant::now(), mw_sys::thread_time());
    let allowance = Allowance::new(request, snapshot)?;
    let run = CalibrationRun { start, request, allowance };
    let mut calibration = Calibration { spread: 1.0, ..Calibration::default() };
    let virtual_machine = virtual_machine();
    calibration.backing = Backing {
        virtual_machine,
        gives_back: gives_back(),
        // Before memory is taken: afterwards what was taken is missing.
        layers: if virtual_machine { reclaimed::layers(snapshot, FLAGS_TIME) } else { Vec::new() },
        ..Backing::default()
    };
    // What was measured is held until the end: memory that is released in between would be
    // handed out again, and no longer be a sample of what is free.
    let mut held = Vec::new();
    run.measure(&mut calibration, &mut held).map_err(|error| refused(&error))?;
    calibration.measured_bytes = held.iter().map(|mapping| mapping.bytes() as u64).sum();
    calibration.crowding = run.crowding(held.last(), used).map_err(|error| refused(&error))?;
    drop(held);
    calibration.took_ms = start.elapsed().as_secs_f64() * 1000.0;
    Ok(calibration)
}

fn refused(error: &std::io::Error) -> Missing {
    Missing::failed("calibration", format!("the kernel gave no memory to measure with: {error}"))
}

struct CalibrationRun<'a> {
    start: Instant,
    request: &'a Request,
    allowance: Allowance,
}

/// Cost of one kind of pages.
struct PageCost {
    populate_ns_per_byte: f64,
    lock_ns_per_byte: Option<f64>,
}

impl CalibrationRun<'_> {
    fn measure(&self, out: &mut Calibration, held: &mut Vec<Region>) -> std::io::Result<()> {
        match self.request.page {
            PageSize::Base | PageSize::Best => self.base(out, held),
            PageSize::Folio(bytes) => self.folios(bytes, out, held),
            PageSize::Thp => self.thp(out, held),
            PageSize::Hugetlb(page) => {
                let page = usize::try_from(page).unwrap_or(usize::MAX);
                if self.allowance.hugetlb_bytes >= page {
                    let pages = PageSize::Hugetlb(page as u64);
                    let bytes = self.allowance.hugetlb_bytes;
                    out.hugetlb_ns_per_byte =
                        Some(self.kind(pages, bytes, page, out, held)?.populate_ns_per_byte);
                    Ok(())
                } else {
                    self.thp(out, held)
                }
            }
        }
    }

    fn base(&self, out: &mut Calibration, held: &mut Vec<Region>) -> std::io::Result<()> {
        let sampled = if out.backing.virtual_machine { self.large_blocks(held) } else { None };
        let taken: usize = held.iter().map(Region::bytes).sum();
        let bytes = self.allowance.base_bytes.min(MOST_TOGETHER.saturating_sub(taken));
        let speed = self.kind(PageSize::Base, bytes, BASE_CHUNK, out, held)?;
        out.base_ns_per_byte = Some(speed.populate_ns_per_byte);
        out.base_lock_ns_per_byte = speed.lock_ns_per_byte;
        if let Some(sampled) = sampled {
            out.backing.unbacked_share = Some(sampled.unbacked_share);
            out.backing.backed_first_bytes =
                (sampled.backed_first * self.allowance.huge_page_bytes) as u64;
            let unbacked = sampled.unbacked_ns_per_byte;
            out.backing.unbacked_ns_per_byte = unbacked.or(out.backing.unbacked_ns_per_byte);
            reclaimed::confirm(&mut out.backing, sampled.sampled * self.allowance.huge_page_bytes);
        } else if self.allowance.thp_bytes > 0 {
            // Base pages say nothing of the large blocks.
            out.backing.unbacked_share = out.backing.unbacked_share.filter(|share| *share > 0.0);
        }
        Ok(())
    }

    /// A look at the large free blocks; none where there are none or huge pages are off.
    fn large_blocks(&self, held: &mut Vec<Region>) -> Option<Samples> {
        let page = self.allowance.huge_page_bytes;
        let bytes = self.allowance.thp_bytes.min(LARGE_BLOCKS * page);
        if bytes < page {
            return None;
        }
        let pages = PageSize::Thp;
        let mapping = Region::anonymous(bytes, pages).ok()?;
        self.place(&mapping).ok()?;
        let fresh = self.populate(&mapping, page, 0..bytes, LARGE_BLOCKS_UNTIL).ok()?;
        let again = self.again(&mapping, page, fresh.len()).ok()?;
        held.push(mapping);
        sort_out(&fresh, &again, Some(UNBACKED_FACTOR_HUGE))
    }

    fn thp(&self, out: &mut Calibration, held: &mut Vec<Region>) -> std::io::Result<()> {
        let page = self.allowance.huge_page_bytes;
        if self.allowance.thp_bytes < page {
            // Without free blocks, or with huge pages off, the request gets base pages.
            return self.base(out, held);
        }
        let pages = PageSize::Thp;
        let speed = self.kind(pages, self.allowance.thp_bytes, page, out, held)?;
        out.thp_ns_per_byte = Some(speed.populate_ns_per_byte);
        let sampled = held.iter().map(Region::bytes).sum();
        reclaimed::confirm(&mut out.backing, sampled);
        out.thp_lock_ns_per_byte = speed.lock_ns_per_byte;
        Ok(())
    }

    /// Folios of one size, if the kernel allocates them without compaction.
    fn folios(
        &self,
        page_bytes: u64,
        out: &mut Calibration,
        held: &mut Vec<Region>,
    ) -> std::io::Result<()> {
        if self.allowance.folio_bytes < FOLIO_CHUNK {
            return Err(std::io::Error::other("no folios of this size are free or allowed"));
        }
        let (pages, bytes) = (PageSize::Folio(page_bytes), self.allowance.folio_bytes);
        let faults = mw_sys::thread_page_faults();
        let speed = self.kind(pages, bytes, FOLIO_CHUNK, out, held)?;
        let (faults, again) = (mw_sys::thread_page_faults() - faults, AGAIN_CHUNKS * FOLIO_CHUNK);
        let expected = (bytes + again) as u64 / page_bytes;
        if faults > expected + expected / 4 {
            return Err(std::io::Error::other("the kernel allocated smaller pages"));
        }
        out.folio_ns_per_byte = Some(speed.populate_ns_per_byte);
        let sampled = held.iter().map(Region::bytes).sum();
        reclaimed::confirm(&mut out.backing, sampled);
        out.base_lock_ns_per_byte = speed.lock_ns_per_byte;
        Ok(())
    }

    /// Populates fresh memory, a part of it again, and locks it.
    fn kind(
        &self,
        pages: PageSize,
        bytes: usize,
        chunk: usize,
        out: &mut Calibration,
        held: &mut Vec<Region>,
    ) -> std::io::Result<PageCost> {
        let mapping = Region::anonymous(bytes, pages)?;
        self.place(&mapping)?;
        let fresh = self.populate(&mapping, chunk, 0..bytes, FRESH_UNTIL)?;
        let vm = out.backing.virtual_machine;
        let again = self.again(&mapping, chunk, fresh.len())?;
        let populated = fresh.len() * chunk;
        let lock_ns_per_byte = match pages {
            PageSize::Hugetlb(_) => None,
            _ if self.request.lock => self.lock(&mapping, chunk, populated),
            _ => None,
        };
        held.push(mapping);
        let factor = match pages {
            PageSize::Base | PageSize::Best => UNBACKED_FACTOR,
            PageSize::Thp | PageSize::Folio(_) | PageSize::Hugetlb(_) => UNBACKED_FACTOR_HUGE,
        };
        let samples = sort_out(&fresh, &again, vm.then_some(factor))
            .ok_or_else(|| std::io::Error::other("no time was left to measure"))?;
        out.spread = out.spread.max(samples.spread);
        out.backing.unbacked_share = vm.then_some(samples.unbacked_share);
        out.backing.backed_first_bytes = (samples.backed_first * chunk) as u64;
        out.backing.unbacked_ns_per_byte = samples.unbacked_ns_per_byte;
        let populate_ns_per_byte = match pages {
            PageSize::Base | PageSize::Best => samples.settled_ns_per_byte,
            PageSize::Thp | PageSize::Folio(_) | PageSize::Hugetlb(_) => samples.ns_per_byte,
        };
        Ok(PageCost { populate_ns_per_byte, lock_ns_per_byte })
    }

    fn place(&self, mapping: &Region) -> std::io::Result<()> {
        self.request.node.map_or(Ok(()), |node| {
            mapping.set_policy(0..mapping.bytes(), &NumaPolicy::Bind(vec![node]))
        })
    }

    /// Populates chunk by chunk until `until`, at least one; nanoseconds a byte of each.
    fn populate(
        &self,
        mapping: &Region,
        chunk: usize,
        range: std::ops::Range<usize>,
        until: Duration,
    ) -> std::io::Result<Vec<f64>> {
        let mut times = Vec::new();
        let mut offset = range.start;
        while offset + chunk <= range.end && (times.is_empty() || self.start.elapsed() < until) {
            let before = mw_sys::thread_time();
            self.populate_chunk(mapping, offset..offset + chunk)?;
            let time = mw_sys::thread_time().saturating_sub(before);
            times.push(time.as_nanos() as f64 / chunk as f64);
            offset += chunk;
        }
        Ok(times)
    }

    /// Folios below the largest size that is allowed need guard pages.
    fn populate_chunk(
        &self,
        mapping: &Region,
        chunk: std::ops::Range<usize>,
    ) -> std::io::Result<()> {
        match self.request.page {
            PageSize::Folio(bytes) if self.allowance.are_folios_capped => {
                mapping.populate_folios(chunk, usize::try_from(bytes).unwrap_or(usize::MAX))
            }
            _ => mapping.populate(chunk),
        }
    }

    /// Gives a few chunks back and populates them again, before anybody else gets their pages.
    fn again(&self, mapping: &Region, chunk: usize, fresh: usize) -> std::io::Result<Vec<f64>> {
        let bytes = fresh.min(AGAIN_CHUNKS) * chunk;
        if bytes == 0 {
            return Ok(Vec::new());
        }
        mapping.discard(0..bytes)?;
        self.populate(mapping, chunk, 0..bytes, MEASURE_UNTIL)
    }

    /// Limit of a thread's duration, as a multiple of its CPU time. On a busy machine it goes on until all of
    /// the time is used: the first milliseconds of a thread that woke up are a present of the
    /// scheduler. What was measured says more than the number of threads, which may be nice, but a
    /// few turns of several milliseconds say little of the seconds that follow: both count, by the
    /// exponents that fitted 91 requests beside builds best.
    fn crowding(&self, mapping: Option<&Region>, used: Duration) -> std::io::Result<f64> {
        let equal_share = (running() as f64 / processors() as f64).max(1.0);
        if let Some(mapping) = mapping.filter(|_| equal_share > 1.0) {
            // Populating what is populated takes CPU time and no memory.
            while self.start.elapsed() < MEASURE_UNTIL {
                mapping.populate(0..mapping.bytes().min(self.allowance.huge_page_bytes))?;
            }
        }
        let used = mw_sys::thread_time().saturating_sub(used).as_secs_f64();
        let measured = (self.start.elapsed().as_secs_f64() / used.max(1e-6)).max(1.0);
        Ok(measured.powf(0.6) * equal_share.powf(0.25))
    }

    /// Nanoseconds a byte of locking; absent when a limit forbids it.
    fn lock(&self, mapping: &Region, chunk: usize, populated: usize) -> Option<f64> {
        let step = LOCK_CHUNK.max(chunk);
        let populated = populated.min(self.allowance.lock_bytes);
        let mut times = Vec::new();
        let mut offset = 0;
        while offset + step <= populated && self.start.elapsed() < MEASURE_UNTIL {
            let before = mw_sys::thread_time();
            mapping.lock(offset..offset + step).ok()?;
            let time = mw_sys::thread_time().saturating_sub(before);
            times.push(time.as_nanos() as f64 / step as f64);
            offset += step;
        }
        sort_out(&times, &[], None).map(|samples| samples.ns_per_byte)
    }
}

/// Threads that run or want to, this one included: the fourth field of /proc/loadavg, before the
/// slash (proc_loadavg(5)).
fn running() -> usize {
    let loadavg = mw_sys::kernel_file::read_to_string("/proc/loadavg").unwrap_or_default();
    let field = loadavg.split_whitespace().nth(3).and_then(|field| field.split_once('/'));
    field.and_then(|(running, _)| running.parse().ok()).unwrap_or(1)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn virtual_machine() -> bool {
    let virtio =
        || mw_sys::kernel_file::read_dir("/sys/bus/virtio/devices").is_ok_and(|d| d.count() > 0);
    mw_sys::under_hypervisor().unwrap_or_else(virtio)
}

/// True if a balloon device reports free pages to the host: `VIRTIO_BALLOON_F_REPORTING`, bit 5 of
/// the features of virtio device 5 (virtio 1.2, 5.5).
fn gives_back() -> bool {
    let Ok(devices) = mw_sys::kernel_file::read_dir("/sys/bus/virtio/devices") else {
        return false;
    };
    devices.flatten().any(|device| {
        let read = |file| {
            mw_sys::kernel_file::read_to_string(device.path().join(file)).unwrap_or_default()
        };
        read("device").trim() == "0x0005" && read("features").as_bytes().get(5) == Some(&b'1')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST_RUNS: usize = 50;

    /// Promise (Checking): A calibration takes at most 64 MiB, and at most 50 ms unless other threads take its CPU.
    #[test]
    fn it_ends_within_its_time_limit() {
        let source = crate::Source::live().unwrap();
        let snapshot = crate::snapshot(&source);
        for text in ["1G", "1G,lock", "1G,huge=thp,lock", "1G,huge=2M"] {
            let request: Request = text.parse().unwrap();
            // On a busy machine the CPU may be taken away in any one of them.
            let limit_ms = LIMIT.as_secs_f64() * 1000.0;
            let mut runs: Vec<Calibration> = Vec::new();
            for _ in 0..MOST_RUNS {
                runs.extend(calibrate(&request, &snapshot).ok());
                if runs.last().is_some_and(|run| run.took_ms <= limit_ms) {
                    break;
                }
            }
            let Some(best) = runs.iter().map(|c| c.took_ms).min_by(f64::total_cmp) else {
                return mw_test::skip("too little memory");
            };
            assert!(best <= limit_ms, "{text}: {best} ms");
            assert!(runs.iter().all(|c| c.measured_bytes <= 64 << 20));
        }
    }

    #[test]
    fn a_machine_that_is_short_is_left_alone() {
        let request: Request = "1G".parse().unwrap();
        let missing = calibrate(&request, &Snapshot::default()).unwrap_err();
        assert_eq!(missing.absence, mw_model::Absence::Skipped);
    }
}
