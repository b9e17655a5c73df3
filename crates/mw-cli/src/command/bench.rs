//! `memwright bench`: what it costs on this machine to create, lock and destroy a segment, the
//! plain way and ours, in one run.

mod baseline;
mod ceiling;
mod drawing;
mod latency;
mod others;
mod pool;
mod report;
mod table;
mod ways;

use crate::args::BenchArgs;
use crate::config::Config;
use crate::{Exit, Failure, live};
use indicatif::{ProgressBar, ProgressStyle};
use mw_model::{Answer, Request, Window, caller, derived, format_bytes};
use mw_segment::{Cancel, Kind, Options, PageSize};
use mw_sys::SignalsBlocked;
use pool::Pool;
use report::{Report, Row};
use ways::{How, Way};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The default size, on a machine that has it.
const USUAL_BYTES: u64 = 4 * GIB;
/// The share of available memory that the default size takes at most.
const USUAL_SHARE: f64 = 0.4;
/// What is always left free.
const ROOM_BYTES: u64 = 2 * GIB;

/// What `--json` prints: its version and its JSON schema.
#[cfg(feature = "schema")]
pub(crate) fn schema() -> (u32, schemars::Schema) {
    (report::SCHEMA, schemars::schema_for!(Report))
}

pub(crate) fn run(args: &BenchArgs, config: &Config) -> Result<Exit, Failure> {
    args.svg.as_deref().map_or(Ok(()), drawing::check)?;
    let pages = pages(args);
    let window = live::window()?;
    let bytes = size(args, &pages, &window)?;
    preflight(&window, bytes)?;
    // A bench that is interrupted gives back what it holds, then ends by the signal.
    let signals =
        SignalsBlocked::new().map_err(|error| Failure::new(Exit::CouldNotCheck, error))?;
    let pools = reserve(args, config, &pages, bytes)?;
    let ways = ways(args, &pages);
    let measured = measure(args, bytes, ways, &signals);
    drop(pools);
    drop(signals);
    let report = measured?;
    if let Some(path) = &args.svg {
        drawing::write(&report, path)?;
    }
    if args.format.is_json() {
        super::print_json(&report)?;
    } else {
        crate::terminal::print(&table::text(&report));
    }
    Ok(Exit::Fine)
}

/// The page sizes to measure: those given, or those that this machine can do.
fn pages(args: &BenchArgs) -> Vec<PageSize> {
    let all = [PageSize::Base, PageSize::Thp, PageSize::HUGE_2M];
    let given = if args.page.is_empty() { &all[..] } else { &args.page };
    let mut pages = given.to_vec();
    if args.kind == Kind::Hugetlb {
        pages.retain(|page| page.hugetlb_bytes().is_some());
        if pages.is_empty() {
            pages.push(PageSize::HUGE_2M);
        }
    }
    pages
}

/// What is measured at once, huge pages that are reserved beside the segment included.
fn size(args: &BenchArgs, pages: &[PageSize], window: &Window) -> Result<u64, Failure> {
    let refused = |line: String| Failure::new(Exit::Findings, line);
    let available = available(window)?;
    let pools = pages.iter().filter(|page| page.hugetlb_bytes().is_some()).count() as u64;
    let parts = if args.reserve { 1 + pools } else { 1 };
    let most = available.saturating_sub(ROOM_BYTES) / parts;
    let usual = USUAL_BYTES.min((available as f64 * USUAL_SHARE) as u64 / parts).min(most);
    let granule = if pages.contains(&PageSize::HUGE_1G) { GIB } else { 64 * MIB };
    let bytes = args.size.unwrap_or(usual / granule * granule);
    if bytes == 0 || bytes > most {
        let asked = args.size.map_or("64M".to_owned(), format_bytes);
        return Err(refused(format!(
            "{asked} is too much: this process can get {}, of which {} are left free{}; use \
             --size {}M",
            format_bytes(available),
            format_bytes(ROOM_BYTES),
            if parts > 1 { " and huge pages are reserved as well" } else { "" },
            most / MIB,
        )));
    }
    Ok(bytes)
}

/// What this process can get.
fn available(window: &Window) -> Result<u64, Failure> {
    let machine = derived::available_bytes(&window.now)
        .map_err(|missing| Failure::new(Exit::CouldNotCheck, missing))?;
    Ok(caller::available(&window.now, machine).bytes)
}

/// What `check --for` would refuse is not tried.
fn preflight(window: &Window, bytes: u64) -> Result<(), Failure> {
    let could_not = |error: &dyn std::fmt::Display| Failure::new(Exit::CouldNotCheck, error);
    let request: Request = format!("{bytes},lock").parse().map_err(|error| could_not(&error))?;
    let answer = mw_rules::preflight::answer(window, &request, None)
        .map_err(|missing| could_not(&missing))?;
    match answer.answer {
        Answer::No => Err(Failure::new(Exit::Findings, answer.summary)),
        Answer::Yes | Answer::Slowly | Answer::Unknown => Ok(()),
    }
}

fn reserve(
    args: &BenchArgs,
    config: &Config,
    pages: &[PageSize],
    bytes: u64,
) -> Result<Vec<Pool>, Failure> {
    if !args.reserve {
        return Ok(Vec::new());
    }
    let sizes = pages.iter().filter_map(|page| page.hugetlb_bytes());
    let state_dir = config.state_dir(args.state_dir.as_deref());
    let pools: Result<Vec<Vec<Pool>>, Failure> =
        sizes.map(|size| Pool::reserve_for(&args.place, size as u64, bytes, &state_dir)).collect();
    pools.map(|pools| pools.into_iter().flatten().collect())
}

/// What is measured: the plain way, ours in every page size and number of threads, and the ways of
/// others.
fn ways(args: &BenchArgs, pages: &[PageSize]) -> Vec<Way> {
    let threads = threads(args);
    let most = threads.iter().copied().max().unwrap_or(1);
    let (kind, place) = (args.kind, &args.place);
    let way =
        |how, page, threads, slowed| Way { how, kind, page, threads, slowed, place: place.clone() };
    let mut ways = vec![way(How::Before, PageSize::Base, 1, 1)];
    for page in pages {
        ways.extend(threads.iter().map(|threads| way(How::Ours, *page, *threads, 1)));
    }
    if let Some(page) = pages.first().copied() {
        ways.push(way(How::EqualShare, page, most, 1));
        ways.push(way(How::PageByPage, page, 1, 1));
        if most > 1 {
            ways.push(way(How::Ours, page, most, ways::SLOWED));
            ways.push(way(How::EqualShare, page, most, ways::SLOWED));
        }
    }
    ways
}

/// 1, 2, 4 and so on up to the processors that this process may use, 16 at most.
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

/// All ways in turn, in several rounds, each beginning with another, so that none always meets the
/// memory that the host has reclaimed.
fn measure(
    args: &BenchArgs,
    bytes: u64,
    ways: Vec<Way>,
    signals: &SignalsBlocked,
) -> Result<Report, Failure> {
    let bar = bar(((ways.len() + 1) * args.rounds + 2) as u64);
    let run = Run { bytes, signals, cancel: Cancel::new(), bar };
    let mut rows: Vec<Row> = ways.into_iter().map(Row::new).collect();
    run.warm_up();
    let others = others::Others::start();
    let threads = threads(args);
    let mut ceiling = ceiling::Ceiling::new(threads.iter().copied().max().unwrap_or(1));
    for round in 0..args.rounds {
        for number in 0..rows.len() {
            let number = (number + round) % rows.len();
            run.row(&mut rows[number])?;
        }
        run.step("ceiling")?;
        ceiling.measure(bytes);
    }
    run.step("mmap beside")?;
    let latency = latency::beside(args.kind, bytes);
    let others = others.processors();
    run.bar.finish_and_clear();
    Ok(Report { others_processors: others, ..Report::new(bytes, args, rows, ceiling, latency) })
}

fn bar(steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    let template = "{bar:30} {pos}/{len} {msg} ({elapsed}, {eta} left)";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// A run that goes on.
struct Run<'a> {
    bytes: u64,
    signals: &'a SignalsBlocked,
    cancel: Cancel,
    bar: ProgressBar,
}

impl Run<'_> {
    /// Takes as much memory as the next measurement will and gives it back, so that it meets
    /// memory that the host of a virtual machine has not taken away meanwhile. The kernel hands out
    /// first what was freed last.
    fn warm_up(&self) {
        let warm = Options::new(usize::try_from(self.bytes).unwrap_or(usize::MAX))
            .kind(Kind::Anon)
            .page_size(PageSize::Thp)
            .lenient(true)
            .cancel(&self.cancel);
        let made = warm.create_with(&mut |_| self.look());
        // What cannot be had now will be said of the way that needs it.
        drop(made);
    }

    /// Stops what is being made when somebody has asked the program to end.
    fn look(&self) {
        if self.signals.is_termination_requested() {
            self.cancel.cancel();
        }
    }

    /// Measures a way once more; what cannot be done here says why, once.
    fn row(&self, row: &mut Row) -> Result<(), Failure> {
        self.step(&row.way.name())?;
        if row.missing.is_some() {
            return Ok(());
        }
        self.warm_up();
        match row.way.measure(self.bytes, &self.cancel, &|| self.look()) {
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
