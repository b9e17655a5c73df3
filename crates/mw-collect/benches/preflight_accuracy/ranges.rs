//! Whether the stated ranges hold: many requests in many conditions, until the time is used.
//!
//! Each request is asked four times in a row and then taken once. Three figures count: how often the
//! wall time lies within the range that was stated last, the median ratio of the range's ends, and how
//! far the four answers are apart.

use crate::accuracy::{Actual, take, touch, warm};
use crate::{Failure, ask};
use mw_model::{Answer, PageSize, Request, format_bytes};
use mw_test::HugePages;
use mw_test::measure::median;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
const HUGE: u64 = 2 * MIB;
const SIZES_MIB: [u64; 8] = [64, 128, 256, 512, 1024, 2048, 4096, 8192];
/// What other programs of the machine keep at all times.
const LEFT_TO_OTHERS: u64 = 6 << 30;
/// How long memory stays free before it counts as cold.
const COOLING: Duration = Duration::from_secs(60);
const REPETITIONS: usize = 4;
/// Pages of the pool beyond the largest request, for the calibration.
const SPARE_PAGES: u64 = 32;
/// The largest request that is made of a pool: making the pool takes long on cold memory.
const MOST_POOL: u64 = 2048 * MIB;

/// What was done before the question.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    /// As much memory as the request takes and more was used just now.
    Warm,
    /// Nothing for a minute.
    Cold,
    /// Whatever the earlier requests left: memory of all ages.
    Mixed,
    /// A large process ended just now.
    Freed,
    /// Most free memory holds clean page cache.
    Cache,
    /// One or two threads compute.
    Hog,
    /// Of a pool of huge pages.
    Pool,
}

impl Condition {
    const ALL: [(Self, &'static str); 7] = [
        (Self::Warm, "warm"),
        (Self::Cold, "cold"),
        (Self::Mixed, "mixed"),
        (Self::Freed, "freed"),
        (Self::Cache, "cache"),
        (Self::Hog, "hog"),
        (Self::Pool, "pool"),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(condition, _)| *condition == self).map_or("", |(_, name)| name)
    }
}

/// What came of one request.
struct Outcome {
    condition: Condition,
    /// `likely_ms` without the competition for CPUs, of each repetition.
    answers: Vec<f64>,
    range: Option<(f64, f64)>,
    actual: Actual,
}

impl Outcome {
    fn is_inside(&self) -> bool {
        self.range.is_some_and(|(low, high)| (low..=high).contains(&self.actual.wall_ms))
    }

    fn width(&self) -> Option<f64> {
        self.range.map(|(low, high)| high / low)
    }

    fn repeat_factor(&self) -> Option<f64> {
        let most = self.answers.iter().copied().fold(f64::NAN, f64::max);
        let least = self.answers.iter().copied().fold(f64::NAN, f64::min);
        (!self.answers.is_empty()).then_some(most / least)
    }
}

/// A sequence that is the same for a seed (an LCG with the constants of Knuth's MMIX).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % end.max(1)
    }
}

/// Runs for about `seconds`; whether the figures are reached.
pub(crate) fn run(seconds: u64, seed: u64, only: Option<&str>) -> Result<bool, Failure> {
    // Whatever runs short of memory here, this process goes first.
    std::fs::write("/proc/self/oom_score_adj", "1000")?;
    let mut dice = Dice(seed);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut outcomes = Vec::new();
    println!(
        "kind   size     lock page answer  low..high ms (likely)  actual wall (cpu) ms  answers"
    );
    while Instant::now() < end {
        for (condition, name) in Condition::ALL {
            if Instant::now() < end && only.is_none_or(|only| only.split(',').any(|o| o == name)) {
                outcomes.extend(conditioned(condition, &mut dice)?);
            }
        }
    }
    Ok(report(&outcomes))
}

/// A few requests in one condition.
fn conditioned(condition: Condition, dice: &mut Dice) -> Result<Vec<Outcome>, Failure> {
    let mut outcomes = Vec::new();
    match condition {
        Condition::Warm => {
            for _ in 0..4 {
                let request = request(dice, 8192 * MIB);
                warm(request.size_bytes, request.page)?;
                outcomes.extend(outcome(condition, request)?);
            }
        }
        Condition::Cold => {
            std::thread::sleep(COOLING);
            outcomes.extend(outcome(condition, request(dice, 2048 * MIB))?);
            for _ in 0..2 {
                outcomes.extend(outcome(Condition::Mixed, request(dice, 4096 * MIB))?);
            }
        }
        Condition::Mixed => {
            for _ in 0..3 {
                std::thread::sleep(Duration::from_secs(dice.below(12) as u64));
                outcomes.extend(outcome(condition, request(dice, 4096 * MIB))?);
            }
        }
        Condition::Freed => {
            for _ in 0..2 {
                let used = [512, 1024, 3072][dice.below(3)] * MIB;
                let page = if dice.below(2) == 0 { PageSize::Base } else { PageSize::Thp };
                touch(used, page)?;
                outcomes.extend(outcome(condition, request(dice, 4096 * MIB))?);
            }
        }
        Condition::Cache => {
            let _cache = PageCache::fill()?;
            for _ in 0..3 {
                let mut request = request(dice, 4096 * MIB);
                request.page = PageSize::Base;
                outcomes.extend(outcome(condition, request)?);
            }
        }
        Condition::Hog => {
            let _hogs = Hogs::start(1 + dice.below(2))?;
            for _ in 0..4 {
                let request = request(dice, 4096 * MIB);
                warm(request.size_bytes, request.page)?;
                outcomes.extend(outcome(condition, request)?);
            }
        }
        Condition::Pool => {
            let _alone = mw_test::alone();
            let wanted = MOST_POOL / HUGE + SPARE_PAGES;
            let Some(_pages) = HugePages::more(HUGE as usize, wanted) else { return Ok(outcomes) };
            for _ in 0..4 {
                let mut request = request(dice, MOST_POOL);
                request.page = PageSize::Hugetlb(HUGE);
                outcomes.extend(outcome(condition, request)?);
            }
        }
    }
    Ok(outcomes)
}

fn request(dice: &mut Dice, most: u64) -> Request {
    let sizes: Vec<u64> = SIZES_MIB.iter().map(|mib| mib * MIB).filter(|s| *s <= most).collect();
    Request {
        size_bytes: sizes[dice.below(sizes.len())],
        lock: dice.below(2) == 1,
        page: if dice.below(2) == 0 { PageSize::Base } else { PageSize::Thp },
        node: None,
    }
}

fn available() -> Result<u64, Failure> {
    let window = mw_collect::window(&mw_collect::Source::live()?);
    Ok(mw_model::derived::ready_bytes(&window.now)?)
}

/// Asks and takes; nothing where too little would be left to others or the answer is no.
fn outcome(condition: Condition, request: Request) -> Result<Option<Outcome>, Failure> {
    if available()? < request.size_bytes + LEFT_TO_OTHERS {
        return Ok(None);
    }
    let mut answers = Vec::new();
    let mut last = None;
    for _ in 0..REPETITIONS {
        let (preflight, calibration) = ask(&request)?;
        let crowding = calibration.as_ref().map_or(1.0, |c| c.crowding);
        answers.extend(preflight.time.as_ref().map(|time| time.likely_ms / crowding));
        last = Some((preflight, calibration));
    }
    let Some((preflight, calibration)) = last else { return Ok(None) };
    if preflight.answer == Answer::No {
        return Ok(None);
    }
    let actual = take(&request)?;
    let range = preflight.time.as_ref().map(|time| (time.low_ms, time.high_ms));
    let outcome = Outcome { condition, answers, range, actual };
    print(&outcome, &request, &preflight, calibration.as_ref());
    Ok(Some(outcome))
}

fn print(
    outcome: &Outcome,
    request: &Request,
    preflight: &mw_model::Preflight,
    calibration: Option<&mw_model::Calibration>,
) {
    let page = match request.page {
        PageSize::Base | PageSize::Folio(_) | PageSize::Best => "4K",
        PageSize::Thp => "thp",
        PageSize::Hugetlb(_) => "2M",
    };
    let (low, high) = outcome.range.unwrap_or((f64::NAN, f64::NAN));
    let likely = preflight.time.as_ref().map_or(f64::NAN, |time| time.likely_ms);
    let loadavg = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let running = loadavg.split(' ').nth(3).unwrap_or("").to_owned();
    println!(
        "{:<6} {:>8} {:<4} {page:<4} {:<7} {low:>7.0}..{high:<7.0} ({likely:>6.0}) {:>7.0} ({:>6.0}) {} x{:.2} crowd {:.2} calib {:.0} ms, run {running}",
        outcome.condition.name(),
        format_bytes(request.size_bytes),
        if request.lock { "lock" } else { "" },
        preflight.answer,
        outcome.actual.wall_ms,
        outcome.actual.processor_ms,
        if outcome.is_inside() { "in " } else { "OUT" },
        outcome.repeat_factor().unwrap_or(f64::NAN),
        calibration.map_or(f64::NAN, |c| c.crowding),
        calibration.map_or(f64::NAN, |c| c.took_ms),
    );
    if std::env::var_os("VERBOSE").is_some() {
        println!("      {}\n      {calibration:?}", preflight.summary);
        println!("      {}", preflight.time.as_ref().map_or("", |time| &time.basis));
    }
}

/// Prints the three figures by kind and in all; whether they are reached in all.
fn report(outcomes: &[Outcome]) -> bool {
    println!(
        "\nkind    requests  no range  inside        median high/low  repeats within 1.5 (median)"
    );
    let mut good = false;
    let kinds = Condition::ALL.iter().map(|(kind, name)| (Some(*kind), *name));
    for (kind, name) in kinds.chain([(None, "all")]) {
        let of: Vec<&Outcome> =
            outcomes.iter().filter(|o| kind.is_none_or(|kind| kind == o.condition)).collect();
        let stated = of.iter().filter(|o| o.range.is_some()).count();
        if stated == 0 {
            continue;
        }
        let inside = of.iter().filter(|o| o.is_inside()).count();
        let width = median(of.iter().filter_map(|o| o.width()).collect());
        let repeats: Vec<f64> = of.iter().filter_map(|o| o.repeat_factor()).collect();
        let agree = repeats.iter().filter(|factor| **factor <= 1.5).count();
        println!(
            "{name:<7} {:>8}  {:>8}  {inside:>4} ({:>3.0}%)  {width:>16.2}  {agree:>4} ({:>3.0}%)  ({:.2})",
            of.len(),
            of.len() - stated,
            100.0 * inside as f64 / stated as f64,
            100.0 * agree as f64 / repeats.len().max(1) as f64,
            median(repeats),
        );
        good = inside * 100 >= stated * 95 && width <= 4.0;
    }
    good
}

/// Fills free memory with page cache of a file without blocks; gone with the file.
struct PageCache(std::path::PathBuf);

impl PageCache {
    fn fill() -> Result<Self, Failure> {
        let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("preflight-page-cache");
        let free = {
            let window = mw_collect::window(&mw_collect::Source::live()?);
            window.now.sample.meminfo.value().and_then(|m| m.mem_free_bytes).unwrap_or(0)
        };
        let mut file = std::fs::File::options()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .open(&path)?;
        let cache = Self(path);
        file.set_len(free.saturating_sub(256 * MIB))?;
        let mut buffer = vec![0; MIB as usize];
        while file.read(&mut buffer)? > 0 {}
        Ok(cache)
    }
}

impl Drop for PageCache {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

struct Hogs(Vec<Child>);

impl Hogs {
    fn start(number: usize) -> Result<Self, Failure> {
        let mut hogs = Self(Vec::new());
        for _ in 0..number {
            let child =
                Command::new(std::env::current_exe()?).arg("--hog").stdin(Stdio::null()).spawn()?;
            hogs.0.push(child);
        }
        // The load is there when the question comes.
        std::thread::sleep(Duration::from_millis(200));
        Ok(hogs)
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The child that computes until it is killed, or for ten minutes.
pub(crate) fn hog() {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(600) {
        std::hint::black_box((0..1_000_000_u64).fold(0, u64::wrapping_add));
    }
}
