//! Predicted against actual time.

use crate::{Failure, ask};
use mw_memory::NumaPolicy;
use mw_model::{Answer, Calibration, PageSize, Preflight, Request, format_bytes};
use mw_sys::Region;
use mw_test::HugePages;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
const HUGE: u64 = 2 * MIB;
const SIZES_MIB: [u64; 6] = [256, 512, 1024, 2048, 4096, 8192];
const QUICK_SIZES_MIB: [u64; 3] = [256, 1024, 4096];
/// Pages of the pool beyond the largest size, so that the calibration finds some as well.
const SPARE_PAGES: u64 = 32;
/// How often each request is really taken; the median counts, since these machines are noisy.
const TAKES: usize = 3;
/// How often the same request is predicted for cold memory.
const REPETITIONS: usize = 4;
/// How long memory stays free before it counts as cold.
const COOLING: Duration = Duration::from_secs(60);

/// One prediction and what came of it.
struct Case {
    request: Request,
    preflight: Preflight,
    calibration: Option<Calibration>,
    actual: Option<Actual>,
}

/// How long taking the memory took.
#[derive(Clone, Copy)]
pub(crate) struct Actual {
    pub(crate) wall_ms: f64,
    /// CPU time: what it would have taken without other threads on the CPUs.
    pub(crate) processor_ms: f64,
}

impl Case {
    /// Predicted over actual.
    fn ratio(&self) -> Option<f64> {
        Some(self.preflight.time.as_ref()?.likely_ms / self.actual?.wall_ms)
    }

    /// The same without what other threads take of the CPUs, in both.
    fn processor_ratio(&self) -> Option<f64> {
        let crowding = self.calibration.as_ref()?.crowding;
        let predicted = self.preflight.time.as_ref()?.likely_ms / crowding;
        Some(predicted / self.actual?.processor_ms)
    }

    /// Whether the actual time is between the shortest and the longest that were stated.
    fn in_range(&self) -> bool {
        let (Some(time), Some(actual)) = (&self.preflight.time, self.actual) else { return false };
        (time.low_ms..=time.high_ms).contains(&actual.wall_ms)
    }

    fn print(&self, label: &str) {
        let page = match self.request.page {
            PageSize::Base | PageSize::Folio(_) | PageSize::Best => "4K",
            PageSize::Thp => "thp",
            PageSize::Hugetlb(_) => "2M",
        };
        let time = self.preflight.time.as_ref();
        let number = |ms: Option<f64>| ms.map_or("-".to_owned(), |ms| format!("{ms:.0}"));
        let ratio = |r: Option<f64>| r.map_or("-".to_owned(), |r| format!("{r:.2}"));
        let calibration = self.calibration.as_ref();
        println!(
            "{label:<5} {:>8} {:<4} {page:<4} {:<6} {:>9} {:>9} {:>6} {:>6} {:>6} {:>7} {:>6}",
            format_bytes(self.request.size_bytes),
            if self.request.lock { "lock" } else { "" },
            self.preflight.answer,
            number(time.map(|t| t.likely_ms)),
            number(self.actual.map(|actual| actual.wall_ms)),
            ratio(self.ratio()),
            ratio(self.processor_ratio()),
            ratio(calibration.map(|c| c.crowding)),
            time.map_or("-".to_owned(), |t| format!("{:?}", t.confidence)),
            number(calibration.map(|c| c.took_ms)),
        );
    }
}

/// Runs all cases; whether the predictions are within their bounds.
pub(crate) fn run(quick: bool, no_cold: bool) -> Result<bool, Failure> {
    let sizes: &[u64] = if quick { &QUICK_SIZES_MIB } else { &SIZES_MIB };
    let largest = sizes.iter().max().copied().unwrap_or(0) * MIB;
    println!(
        "                                predicted    actual     predicted/                calib."
    );
    println!(
        "          size lock page answer        ms        ms   wall    cpu  crowd    sure     ms"
    );
    let mut cases = Vec::new();
    println!("load average: {}", std::fs::read_to_string("/proc/loadavg")?.trim_end());
    warm(largest, PageSize::Base)?;
    for size in sizes {
        for page in [PageSize::Base, PageSize::Thp] {
            for lock in [false, true] {
                warm(size * MIB, page)?;
                cases.push(case("warm", *size * MIB, page, lock)?);
            }
        }
    }
    cases.extend(on_pool(sizes, largest)?);
    let fine = summarise(&cases);
    if !no_cold {
        cold()?;
    }
    Ok(fine)
}

fn on_pool(sizes: &[u64], largest: u64) -> Result<Vec<Case>, Failure> {
    let wanted = largest / HUGE + SPARE_PAGES;
    let _alone = mw_test::alone();
    let Some(_pages) = HugePages::more(HUGE as usize, wanted) else {
        println!("skipped: the kernel does not make {wanted} huge pages");
        return Ok(Vec::new());
    };
    touch(wanted * HUGE, PageSize::Hugetlb(HUGE))?;
    let mut cases = Vec::new();
    for size in sizes {
        for lock in [false, true] {
            cases.push(case("warm", size * MIB, PageSize::Hugetlb(HUGE), lock)?);
        }
    }
    Ok(cases)
}

/// Memory that was free for a while; a host that takes free memory back has taken it by then.
fn cold() -> Result<(), Failure> {
    println!("\nAfter {} s of rest, not part of the bounds:", COOLING.as_secs());
    for page in [PageSize::Base, PageSize::Thp] {
        std::thread::sleep(COOLING);
        repeated(1024 * MIB, page)?;
        case("cold", 1024 * MIB, page, true)?;
    }
    Ok(())
}

/// The same question several times in a row: each measurement backs memory that the next one finds.
fn repeated(size_bytes: u64, page: PageSize) -> Result<(), Failure> {
    let request = Request { size_bytes, lock: true, page, node: None };
    let mut predicted = Vec::new();
    for _ in 0..REPETITIONS {
        let (preflight, calibration) = ask(&request)?;
        let time = preflight.time.as_ref().ok_or("nothing was predicted")?;
        let crowding = calibration.map_or(1.0, |calibration| calibration.crowding);
        predicted.push(time.likely_ms / crowding);
    }
    let most = predicted.iter().copied().fold(0.0, f64::max);
    let least = predicted.iter().copied().fold(f64::INFINITY, f64::min);
    let ms: Vec<String> = predicted.iter().map(|ms| format!("{ms:.0}")).collect();
    println!(
        "predicted {REPETITIONS} times: {} ms of processor time, apart by {:.2}",
        ms.join(", "),
        most / least
    );
    Ok(())
}

fn case(label: &str, size_bytes: u64, page: PageSize, lock: bool) -> Result<Case, Failure> {
    let request = Request { size_bytes, lock, page, node: None };
    let (preflight, calibration) = ask(&request)?;
    let actual = match preflight.answer {
        Answer::No => None,
        Answer::Yes | Answer::Slowly | Answer::Unknown => Some(take_often(&request)?),
    };
    let case = Case { request, preflight, calibration, actual };
    case.print(label);
    if std::env::var_os("VERBOSE").is_some() {
        println!("      {}\n      {:?}", case.preflight.summary, case.calibration);
    }
    Ok(case)
}

/// Takes the memory [`TAKES`] times; the median.
fn take_often(request: &Request) -> Result<Actual, Failure> {
    let mut takes = (0..TAKES).map(|_| take(request)).collect::<Result<Vec<Actual>, Failure>>()?;
    takes.sort_by(|a, b| a.wall_ms.total_cmp(&b.wall_ms));
    takes.get(TAKES / 2).copied().ok_or_else(|| "nothing was taken".into())
}

/// Takes the memory as the request says; how long it took.
pub(crate) fn take(request: &Request) -> Result<Actual, Failure> {
    let bytes = usize::try_from(request.size_bytes)?;
    let (start, used) = (Instant::now(), mw_sys::thread_time());
    let mapping = Region::anonymous(bytes, request.page)?;
    if let Some(node) = request.node {
        mapping.set_policy(0..mapping.bytes(), &NumaPolicy::Bind(vec![node]))?;
    }
    mapping.populate(0..mapping.bytes())?;
    if request.lock {
        mapping.lock(0..mapping.bytes())?;
    }
    let used = mw_sys::thread_time().saturating_sub(used);
    Ok(Actual {
        wall_ms: start.elapsed().as_secs_f64() * 1000.0,
        processor_ms: used.as_secs_f64() * 1000.0,
    })
}

/// Touches twice the size and some more, so that the request finds memory that the host has
/// backed even when the host takes some of it back in the meantime. With the pages that are asked
/// for: huge ones would leave the small free blocks out.
pub(crate) fn warm(bytes: u64, page: PageSize) -> Result<(), Failure> {
    let window = mw_collect::window(&mw_collect::Source::live()?);
    let ready = mw_model::derived::ready_bytes(&window.now)?;
    let most = ready - ready / 8;
    let pages = match page {
        PageSize::Base | PageSize::Folio(_) | PageSize::Best => PageSize::Base,
        PageSize::Thp | PageSize::Hugetlb(_) => PageSize::Thp,
    };
    touch((2 * bytes + 2048 * MIB).min(most) / HUGE * HUGE, pages)
}

pub(crate) fn touch(bytes: u64, pages: PageSize) -> Result<(), Failure> {
    let mapping = Region::anonymous(usize::try_from(bytes)?, pages)?;
    Ok(mapping.populate(0..mapping.bytes())?)
}

fn summarise(cases: &[Case]) -> bool {
    let ratios = |of: fn(&Case) -> Option<f64>| cases.iter().filter_map(of).collect::<Vec<f64>>();
    let wall = ratios(Case::ratio);
    let refused = cases.iter().filter(|case| case.actual.is_none()).count();
    let took = cases.iter().filter_map(|case| Some(case.calibration.as_ref()?.took_ms));
    println!(
        "\n{} cases, {} predicted, {refused} refused; slowest calibration {:.0} ms",
        cases.len(),
        wall.len(),
        took.fold(0.0, f64::max),
    );
    for (name, ratios) in
        [("wall time:", &wall), ("processor time:", &ratios(Case::processor_ratio))]
    {
        let (quarter, twice) = (quarter(ratios), twice(ratios));
        println!("{name} {quarter} within 25%, {twice} within a factor of two");
    }
    let in_range = cases.iter().filter(|case| case.in_range()).count();
    println!("{in_range} within the range that was stated (wall time)");
    let all = refused == 0 && wall.len() == cases.len();
    all && quarter(&wall) * 10 >= cases.len() * 9 && twice(&wall) == cases.len()
}

/// Predictions within a quarter of the actual time, to either side.
fn quarter(ratios: &[f64]) -> usize {
    ratios.iter().filter(|ratio| (**ratio - 1.0).abs() <= 0.25).count()
}

fn twice(ratios: &[f64]) -> usize {
    ratios.iter().filter(|ratio| (0.5..=2.0).contains(*ratio)).count()
}
