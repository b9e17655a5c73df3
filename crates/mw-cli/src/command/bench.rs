//! `memwright bench`: the cost of creating, locking and destroying a segment on this machine, by plain
//! system calls and by memwright, in one run.

mod baseline;
mod mmap_latency;
mod other_load;
mod pool;
pub(crate) mod report;
mod sample;
mod svg;
mod table;
mod variant;
mod zeroing_bandwidth;

use crate::args::BenchArgs;
use crate::config::Config;
use crate::{Exit, Failure, live};
use indicatif::{ProgressBar, ProgressStyle};
use mw_model::{Answer, Request, Window, caller, derived, format_bytes};
use mw_remedy::PoolReservation;
use mw_render::preflight_words::describe;
use mw_segment::{Cancel, Options, PageSize, SegmentKind};
use mw_sys::SignalsBlocked;
use report::{BenchReport, BenchRow};
use variant::{BenchVariant, Method};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The default size, if enough memory is available.
const DEFAULT_BYTES: u64 = 4 * GIB;
/// The largest share of available memory that the default size takes.
const DEFAULT_SHARE: f64 = 0.4;
/// Memory that is always left free.
const RESERVE_BYTES: u64 = 2 * GIB;

pub(crate) fn run(args: &BenchArgs, config: &Config) -> Result<Exit, Failure> {
    args.svg.as_deref().map_or(Ok(()), svg::check)?;
    let pages = pages(args);
    let window = live::window()?;
    let bytes = size(args, &pages, &window)?;
    preflight(&window, bytes)?;
    // When it is interrupted, it frees its memory and huge pages, and then ends by the signal.
    let signals =
        SignalsBlocked::new().map_err(|error| Failure::new(Exit::CouldNotCheck, error))?;
    let pools = reserve(args, config, &pages, bytes)?;
    let variants = variants(args, &pages);
    let measured = measure(args, bytes, variants, &signals);
    drop(pools);
    drop(signals);
    let report = measured?;
    if let Some(path) = &args.svg {
        svg::write(&report, path)?;
    }
    if args.format.is_json() {
        super::print_json(&report)?;
    } else {
        crate::terminal::print(&table::text(&report));
    }
    Ok(Exit::Fine)
}

/// The page sizes to measure: those of the command line, or all.
fn pages(args: &BenchArgs) -> Vec<PageSize> {
    let all = [PageSize::Base, PageSize::Thp, PageSize::HUGE_2M];
    let given = if args.page.is_empty() { &all[..] } else { &args.page };
    let mut pages = given.to_vec();
    if args.kind == SegmentKind::Hugetlb {
        pages.retain(|page| page.hugetlb_bytes().is_some());
        if pages.is_empty() {
            pages.push(PageSize::HUGE_2M);
        }
    }
    pages
}

/// The size of a segment, which leaves room for the huge pages that are reserved.
fn size(args: &BenchArgs, pages: &[PageSize], window: &Window) -> Result<u64, Failure> {
    let failure = |line: String| Failure::new(Exit::Findings, line);
    let available = available(window)?;
    let pools = pages.iter().filter(|page| page.hugetlb_bytes().is_some()).count() as u64;
    let parts = if args.reserve { 1 + pools } else { 1 };
    let most = available.saturating_sub(RESERVE_BYTES) / parts;
    let default = DEFAULT_BYTES.min((available as f64 * DEFAULT_SHARE) as u64 / parts).min(most);
    let granule = if pages.contains(&PageSize::HUGE_1G) { GIB } else { 64 * MIB };
    let bytes = args.size.unwrap_or(default / granule * granule);
    if bytes == 0 || bytes > most {
        let requested = args.size.map_or("64M".to_owned(), format_bytes);
        return Err(failure(format!(
            "{requested} is too much: {} are available to this process, of which {} stay free{}; use \
             --size {}M",
            format_bytes(available),
            format_bytes(RESERVE_BYTES),
            if parts > 1 { " and huge pages are reserved as well" } else { "" },
            most / MIB,
        )));
    }
    Ok(bytes)
}

/// The memory that is available to this process, in bytes.
fn available(window: &Window) -> Result<u64, Failure> {
    let machine = derived::available_bytes(&window.now)
        .map_err(|missing| Failure::new(Exit::CouldNotCheck, missing))?;
    Ok(caller::available(&window.now, machine).bytes)
}

/// Fails if `check --for` does.
fn preflight(window: &Window, bytes: u64) -> Result<(), Failure> {
    let could_not = |error: &dyn std::fmt::Display| Failure::new(Exit::CouldNotCheck, error);
    let request: Request = format!("{bytes},lock").parse().map_err(|error| could_not(&error))?;
    let assessment =
        mw_rules::preflight::assess(window, &request).map_err(|missing| could_not(&missing))?;
    match assessment.answer() {
        Answer::No => Err(Failure::new(Exit::Findings, describe(&assessment).summary)),
        Answer::Yes | Answer::Slowly | Answer::Unknown => Ok(()),
    }
}

fn reserve(
    args: &BenchArgs,
    config: &Config,
    pages: &[PageSize],
    bytes: u64,
) -> Result<Vec<PoolReservation>, Failure> {
    if !args.reserve {
        return Ok(Vec::new());
    }
    let sizes = pages.iter().filter_map(|page| page.hugetlb_bytes());
    let state_dir = config.state_dir(args.state_dir.as_deref());
    let pools: Result<Vec<Vec<PoolReservation>>, Failure> =
        sizes.map(|size| pool::reserve_for(&args.place, size as u64, bytes, &state_dir)).collect();
    pools.map(|pools| pools.into_iter().flatten().collect())
}

/// The variants to measure: plain system calls, memwright with each page size and number of threads, and
/// the methods of other programs.
fn variants(args: &BenchArgs, pages: &[PageSize]) -> Vec<BenchVariant> {
    let threads = threads(args);
    let most = threads.iter().copied().max().unwrap_or(1);
    let (kind, place) = (args.kind, &args.place);
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
fn threads(args: &BenchArgs) -> Vec<usize> {
    if !args.threads.is_empty() {
        return args.threads.clone();
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
    args: &BenchArgs,
    bytes: u64,
    variants: Vec<BenchVariant>,
    signals: &SignalsBlocked,
) -> Result<BenchReport, Failure> {
    let bar = bar(((variants.len() + 1) * args.rounds + 2) as u64);
    let run = BenchRun { bytes, signals, cancel: Cancel::new(), bar };
    let mut rows: Vec<BenchRow> = variants.into_iter().map(BenchRow::new).collect();
    run.warm_up();
    let other_load = other_load::OtherLoad::start();
    let threads = threads(args);
    let mut zeroing =
        zeroing_bandwidth::ZeroingBandwidth::new(threads.iter().copied().max().unwrap_or(1));
    for round in 0..args.rounds {
        for number in 0..rows.len() {
            let number = (number + round) % rows.len();
            run.row(&mut rows[number])?;
        }
        run.step("zeroing bandwidth")?;
        zeroing.measure(bytes);
    }
    run.step("mmap latency")?;
    let latency = mmap_latency::measure(args.kind, bytes);
    let other_cpus = other_load.cpus();
    run.bar.finish_and_clear();
    Ok(BenchReport { other_cpus, ..BenchReport::new(bytes, args, rows, zeroing, latency) })
}

fn bar(steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    let template = "{bar:30} {pos}/{len} {msg} ({elapsed}, {eta} left)";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// A run in progress.
struct BenchRun<'a> {
    bytes: u64,
    signals: &'a SignalsBlocked,
    cancel: Cancel,
    bar: ProgressBar,
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
    fn row(&self, row: &mut BenchRow) -> Result<(), Failure> {
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

    fn step(&self, what: &str) -> Result<(), Failure> {
        self.bar.set_message(what.to_owned());
        self.bar.inc(1);
        if self.signals.is_termination_requested() {
            return Err(Failure::new(Exit::RolledBack, "interrupted; all memory was released"));
        }
        Ok(())
    }
}
