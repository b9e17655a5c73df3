//! The cost of creating, locking and destroying a segment on this machine, by plain system calls and by memwright, in
//! one run.
//!
//! - `variant`, `baseline`: the variants that are measured; `sample`: the times of one segment
//! - `zeroing_bandwidth`, `mmap_latency`, `other_load`: what is measured beside them
//! - `pool`: huge pages that are reserved meanwhile
//! - `report`: the measurements, and the ratios between them

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod baseline;
mod error;
mod mmap_latency;
mod other_load;
mod pool;
mod report;
mod sample;
mod settings;
mod variant;
mod zeroing_bandwidth;

pub use error::BenchError;
pub use settings::BenchSettings;
pub use variant::BenchPlacement;

use error::RESERVE_BYTES;
use mw_model::{Answer, BenchReport, Request, Window, caller, derived};
use mw_remedy::{PoolReservation, ReservationError};
use mw_segment::{Cancel, Options, PageSize, SegmentKind};
use mw_sys::SignalsBlocked;
use report::BenchRow;
use variant::{BenchVariant, Method};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The default size, if enough memory is available.
const DEFAULT_BYTES: u64 = 4 * GIB;
/// The largest share of available memory that the default size takes.
const DEFAULT_SHARE: f64 = 0.4;
/// Takes the name of each step, before it, and the number of all steps.
pub type BenchProgress<'a> = &'a mut dyn FnMut(&str, usize);

/// Measures all variants in several rounds. Signals that end a program are blocked meanwhile: what was taken is released
/// first.
///
/// # Errors
/// The memory is not available, huge pages were not reserved, or a signal came.
pub fn bench(
    window: &Window,
    settings: &BenchSettings<'_>,
    progress: BenchProgress<'_>,
) -> Result<BenchReport, BenchError> {
    let pages = pages(settings);
    let bytes = size(settings, &pages, window)?;
    preflight(window, bytes)?;
    let signals = SignalsBlocked::new().map_err(BenchError::Signals)?;
    let pools = reserve(settings, &pages, bytes)?;
    let variants = variants(settings, &pages);
    let measured = measure(settings, bytes, variants, &signals, progress);
    drop(pools);
    drop(signals);
    measured
}

/// The page sizes to measure: those of the command line, or all.
fn pages(settings: &BenchSettings<'_>) -> Vec<PageSize> {
    let all = [PageSize::Base, PageSize::Thp, PageSize::HUGE_2M];
    let given = if settings.pages.is_empty() { &all[..] } else { &settings.pages };
    let mut pages = given.to_vec();
    if settings.kind == SegmentKind::Hugetlb {
        pages.retain(|page| page.hugetlb_bytes().is_some());
        if pages.is_empty() {
            pages.push(PageSize::HUGE_2M);
        }
    }
    pages
}

/// The size of a segment, which leaves room for the huge pages that are reserved.
fn size(
    settings: &BenchSettings<'_>,
    pages: &[PageSize],
    window: &Window,
) -> Result<u64, BenchError> {
    let available = available(window)?;
    let pools = pages.iter().filter(|page| page.hugetlb_bytes().is_some()).count() as u64;
    let parts = if settings.reserve { 1 + pools } else { 1 };
    let most = available.saturating_sub(RESERVE_BYTES) / parts;
    let default = DEFAULT_BYTES.min((available as f64 * DEFAULT_SHARE) as u64 / parts).min(most);
    let granule = if pages.contains(&PageSize::HUGE_1G) { GIB } else { 64 * MIB };
    let bytes = settings.size_bytes.unwrap_or(default / granule * granule);
    if bytes == 0 || bytes > most {
        return Err(BenchError::TooLarge {
            requested_bytes: settings.size_bytes,
            available_bytes: available,
            has_reservation: parts > 1,
            most_bytes: most,
        });
    }
    Ok(bytes)
}

/// The memory that is available to this process, in bytes.
fn available(window: &Window) -> Result<u64, BenchError> {
    let machine = derived::available_bytes(&window.now).map_err(BenchError::NotMeasured)?;
    Ok(caller::available(&window.now, machine).bytes)
}

/// Fails if `check --for` does.
fn preflight(window: &Window, bytes: u64) -> Result<(), BenchError> {
    let request = Request { size_bytes: bytes, lock: true, page: PageSize::Base, node: None };
    let assessment =
        mw_rules::preflight::assess(window, &request).map_err(BenchError::NotMeasured)?;
    match assessment.answer() {
        Answer::No => Err(BenchError::Refused(Box::new(assessment))),
        Answer::Yes | Answer::Slowly | Answer::Unknown => Ok(()),
    }
}

fn reserve(
    settings: &BenchSettings<'_>,
    pages: &[PageSize],
    bytes: u64,
) -> Result<Vec<PoolReservation>, ReservationError> {
    if !settings.reserve {
        return Ok(Vec::new());
    }
    let sizes = pages.iter().filter_map(|page| page.hugetlb_bytes());
    let pools: Result<Vec<Vec<PoolReservation>>, ReservationError> =
        sizes.map(|size| pool::reserve_for(settings, size as u64, bytes)).collect();
    pools.map(|pools| pools.into_iter().flatten().collect())
}

/// The variants to measure: plain system calls, memwright with each page size and number of threads, and
/// the methods of other programs.
fn variants(settings: &BenchSettings<'_>, pages: &[PageSize]) -> Vec<BenchVariant> {
    let threads = threads(settings);
    let most = threads.iter().copied().max().unwrap_or(1);
    let (kind, place) = (settings.kind, &settings.place);
    let variant = |method, page, threads, slowed| BenchVariant {
        method,
        kind,
        page,
        threads,
        slowed,
        place: place.clone(),
    };
    let mut variants = vec![variant(Method::PlainCalls, PageSize::Base, 1, 1)];
    for page in pages {
        variants
            .extend(threads.iter().map(|threads| variant(Method::Memwright, *page, *threads, 1)));
    }
    if let Some(page) = pages.first().copied() {
        variants.push(variant(Method::EqualShare, page, most, 1));
        variants.push(variant(Method::PageByPage, page, 1, 1));
        if most > 1 {
            variants.push(variant(Method::Memwright, page, most, variant::SLOWED));
            variants.push(variant(Method::EqualShare, page, most, variant::SLOWED));
        }
    }
    variants
}

/// 1, 2, 4 and so on up to the CPUs that this process may use, 16 at most.
fn threads(settings: &BenchSettings<'_>) -> Vec<usize> {
    if !settings.threads.is_empty() {
        return settings.threads.clone();
    }
    let most = std::thread::available_parallelism().map_or(1, usize::from);
    let most = most.min(mw_segment::MAX_WORKERS);
    let mut threads: Vec<usize> =
        std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|n| *n < most).collect();
    threads.push(most);
    threads
}

/// All variants in turn, in several rounds. Each round starts with another variant, so that none always
/// gets the memory that the host has reclaimed.
fn measure(
    settings: &BenchSettings<'_>,
    bytes: u64,
    variants: Vec<BenchVariant>,
    signals: &SignalsBlocked,
    progress: BenchProgress<'_>,
) -> Result<BenchReport, BenchError> {
    let steps = (variants.len() + 1) * settings.rounds + 2;
    let mut run = BenchRun { bytes, signals, cancel: Cancel::new(), progress, steps };
    let mut rows: Vec<BenchRow> = variants.into_iter().map(BenchRow::new).collect();
    run.warm_up();
    let other_load = other_load::OtherLoad::start();
    let threads = threads(settings);
    let mut zeroing =
        zeroing_bandwidth::ZeroingBandwidth::new(threads.iter().copied().max().unwrap_or(1));
    for round in 0..settings.rounds {
        for number in 0..rows.len() {
            let number = (number + round) % rows.len();
            run.row(&mut rows[number])?;
        }
        run.step("zeroing bandwidth")?;
        zeroing.measure(bytes);
    }
    run.step("mmap latency")?;
    let latency = mmap_latency::measure(settings.kind, bytes);
    let other_cpus = other_load.cpus();
    Ok(BenchReport { other_cpus, ..report::report(bytes, settings, rows, zeroing, latency) })
}

/// A run in progress.
struct BenchRun<'a> {
    bytes: u64,
    signals: &'a SignalsBlocked,
    cancel: Cancel,
    progress: BenchProgress<'a>,
    /// Number of steps of all rounds.
    steps: usize,
}

impl BenchRun<'_> {
    /// Allocates as much memory as the next measurement and frees it, so that the host of a virtual
    /// machine has backed it. The kernel allocates first what was freed last.
    fn warm_up(&self) {
        let warm = Options::new(usize::try_from(self.bytes).unwrap_or(usize::MAX))
            .kind(SegmentKind::Anon)
            .page_size(PageSize::Thp)
            .lenient(true)
            .cancel(&self.cancel);
        let segment = warm.create_with(&mut |_| self.check_interrupt());
        // A failure is reported for the variant that needs the memory.
        drop(segment);
    }

    /// Cancels the creation of a segment if the program was told to end.
    fn check_interrupt(&self) {
        if self.signals.is_termination_requested() {
            self.cancel.cancel();
        }
    }

    /// Measures a variant once more; one that failed before is skipped.
    fn row(&mut self, row: &mut BenchRow) -> Result<(), BenchError> {
        self.step(&row.variant.name())?;
        if row.missing.is_some() {
            return Ok(());
        }
        self.warm_up();
        match row.variant.measure(self.bytes, &self.cancel, &|| self.check_interrupt()) {
            Ok(sample) => row.add(sample),
            Err(error) => row.missing = Some(error),
        }
        Ok(())
    }

    fn step(&mut self, name: &str) -> Result<(), BenchError> {
        (self.progress)(name, self.steps);
        if self.signals.is_termination_requested() {
            return Err(BenchError::Interrupted);
        }
        Ok(())
    }
}
