//! Which holder of a history is reported, with what forecast, and which is not.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use mw_model::{FullKind, Request, SizeHistory, SizeSeries, SizedHolder, Supply, Trends};
use mw_rules::{exhausted, forecast, supplies, trends};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const MINUTE_MS: u64 = 60_000;
const START_MS: u64 = 1_700_000_040_000;

/// Minutes of a history: two days.
const MINUTES: u64 = 2880;

fn history(series: Vec<SizeSeries>) -> SizeHistory {
    let mut history = SizeHistory {
        at_unix_ms: (0..MINUTES).map(|at| START_MS + at * MINUTE_MS).collect(),
        series: vec![series_of(SizedHolder::Machine, Some(64 * GIB), 0..MINUTES, |_| 32 * GIB)],
    };
    history.series.extend(series);
    history
}

fn series_of(
    holder: SizedHolder,
    limit_bytes: Option<u64>,
    minutes: std::ops::Range<u64>,
    bytes: impl Fn(u64) -> u64,
) -> SizeSeries {
    let sizes = minutes.map(|at| (START_MS + at * MINUTE_MS, bytes(at))).collect();
    SizeSeries { holder, limit_bytes, sizes }
}

fn group(path: &str) -> SizedHolder {
    SizedHolder::Cgroup { path: path.to_owned() }
}

fn process(pid: u32) -> SizedHolder {
    SizedHolder::Process { pid, started_ticks: u64::from(pid), name: "batch".to_owned() }
}

fn judged(series: Vec<SizeSeries>) -> Trends {
    trends(&history(series), "recording.db", None).unwrap()
}

fn names(trends: &Trends) -> Vec<String> {
    trends.trends.iter().map(|trend| trend.holder.to_string()).collect()
}

#[test]
fn a_cgroup_that_leaks_reaches_its_limit() {
    let app = series_of(group("/app"), Some(8 * GIB), 0..MINUTES, |at| GIB + at * MIB);
    let found = judged(vec![app]);
    let [trend] = found.trends.as_slice() else { panic!("{found:?}") };
    assert_eq!((trend.full, trend.full_bytes), (FullKind::OwnLimit, 8 * GIB));
    let truth = (8 * GIB - GIB - MINUTES * MIB) as f64 / MIB as f64 / 60.0;
    assert!((trend.hours_left.expected / truth - 1.0).abs() < 0.01, "{trend:?}");
    assert_eq!(trend.since_unix_ms, START_MS);
    assert_eq!(
        found.summary,
        "cgroup /app grows 1.4 GiB/day (1.4 to 1.4): its limit of 8 GiB is reached in 3.0 days (3.0 to 3.0)"
    );
}

#[test]
fn what_explains_the_growth_of_a_larger_holder_is_named() {
    let leak = |at: u64| GIB + at * MIB;
    let grows = |holder| series_of(holder, None, 0..MINUTES, leak);
    let mut series = vec![
        grows(group("/app")),
        grows(group("/app/worker")),
        grows(group("/application")),
        grows(SizedHolder::SharedMemory),
        grows(SizedHolder::Tmpfs { target: "/run".to_owned() }),
        grows(SizedHolder::UnreclaimableSlab),
    ];
    let slow = |at: u64| GIB + at * MIB / 2;
    series.push(series_of(SizedHolder::SlabCache { name: "x".to_owned() }, None, 0..MINUTES, slow));
    let mut found = names(&judged(series));
    found.sort();
    let expected =
        ["cgroup./app/worker", "cgroup./application", "slab.x", "tmpfs./run", "unreclaimable-slab"];
    assert_eq!(found, expected);
}

#[test]
fn the_machine_is_full_at_the_rate_of_all_that_grow() {
    let leak = |rate: u64| move |at: u64| GIB + at * rate * MIB;
    let mut history = history(vec![series_of(process(7), None, 0..MINUTES, leak(1))]);
    let all = series_of(SizedHolder::Machine, Some(64 * GIB), 0..MINUTES, leak(4));
    history.series[0] = all;
    let found = trends(&history, "", None).unwrap();
    assert_eq!(names(&found), ["machine", "process.7.7.batch"], "one does not explain the other");
    let left = |at: usize| found.trends[at].hours_left.expected;
    let truth = (64 * GIB - GIB - MINUTES * 4 * MIB) as f64 / (4 * MIB) as f64 / 60.0;
    assert!((left(0) / truth - 1.0).abs() < 0.01 && (left(1) / truth - 1.0).abs() < 0.01);
}

/// Promise (Trends): A batch that comes every night, a holder that has gone, and a cgroup whose child explains its
/// growth are not reported.
#[test]
fn a_batch_that_comes_every_night_is_silent_until_it_exceeds_the_earlier_ones() {
    let night = |pid, begins: u64, lasts| {
        let sizes = move |at: u64| 100 * MIB + (at - begins) * 20 * MIB;
        series_of(process(pid), None, begins..begins + lasts, sizes)
    };
    let found = judged(vec![night(1, 100, 180), night(2, 1540, 180), night(3, 2780, 100)]);
    assert_eq!(names(&found), Vec::<String>::new());
    assert_eq!(found.summary, "nothing grows steadily towards a limit (48 h recorded)");
    let found = judged(vec![night(1, 100, 90), night(3, 2780, 100)]);
    assert_eq!(names(&found), ["process.3.3.batch"]);
}

#[test]
fn what_has_gone_or_is_far_from_a_limit_is_silent() {
    let leak = |at: u64| GIB + at * MIB;
    let gone = series_of(process(1), None, 0..MINUTES - 10, leak);
    let slow = series_of(group("/slow"), Some(1 << 50), 0..MINUTES, |at| GIB + at * 4096);
    let found = judged(vec![gone, slow]);
    assert_eq!(names(&found), Vec::<String>::new());
    assert_eq!(found.holders, 2, "the machine, and the group");
}

#[test]
fn a_short_history_is_not_judged() {
    let mut short = history(Vec::new());
    short.at_unix_ms.truncate(20);
    let missing = trends(&short, "a.db", None).unwrap_err();
    assert!(missing.to_string().contains("20 samples"), "{missing}");
    let missing = trends(&SizeHistory::default(), "a.db", None).unwrap_err();
    assert!(missing.to_string().contains("memwright watch"), "{missing}");
}

const PAGE_BYTES: u64 = 2 * MIB;

/// Memory that is left at first, and its decrease in MiB a minute.
fn left(first: u64, mib_per_min: u64) -> SizeSeries {
    let holder = SizedHolder::Contiguous { page_bytes: PAGE_BYTES, node: None };
    series_of(holder, None, 0..MINUTES, move |at| first - at * mib_per_min * MIB)
}

fn request(text: &str) -> Request {
    text.parse().unwrap()
}

#[test]
fn a_forecast_of_an_hour_ago_counts_from_now_and_an_older_one_is_none() {
    let pool = SizedHolder::PoolPages { page_bytes: PAGE_BYTES, node: None };
    let pool = series_of(pool, Some(2 * GIB), 0..MINUTES, |_| GIB);
    let supplies = supplies(&history(vec![left(40 * GIB, 8), pool]));
    let until = START_MS + (MINUTES - 1) * MINUTE_MS;
    let hours = |text: &str, now| {
        let found = forecast(&supplies, Some(&request(text)), now);
        found.first().map(|found| found.hours_left.expected)
    };
    // 41 GiB less 8 MiB a minute in two days are 18.5 GiB.
    let truth = |size_gib: f64| (41.0 * 1024.0 - 8.0 * 2879.0 - size_gib * 1024.0) / 8.0 / 60.0;
    for (age_h, size_gib) in [(0, 16), (1, 16), (1, 10)] {
        let found = hours(&format!("{size_gib}G,huge=2M"), until + age_h * 60 * MINUTE_MS).unwrap();
        let truth = truth(size_gib as f64) - age_h as f64;
        assert!((found - truth).abs() < 0.1, "{age_h} h old, {size_gib} GiB: {found} of {truth}");
    }
    assert_eq!(hours("16G,huge=2M", until + 3 * 60 * MINUTE_MS), None);
    assert_eq!(hours("16G", until), None, "memory does not decline");
    assert_eq!(hours("16G,huge=2M,node=1", until), None);
    let all = forecast(&supplies, None, until);
    assert_eq!(all.iter().map(|found| found.supply).collect::<Vec<_>>(), [Supply::HugePages]);
    assert_eq!(all[0].forecast, "2 MiB pages run out in 39 h (39 to 39)");
}

/// Promise (Trends): Huge pages that memory in use takes are reported as growth, unless a request asks for them.
#[test]
fn pages_that_memory_in_use_takes_are_no_forecast_of_their_own() {
    let mut history = history(vec![left(40 * GIB, 8)]);
    assert_eq!(exhausted(&supplies(&history)).len(), 1);
    history.series[0] =
        series_of(SizedHolder::Machine, Some(64 * GIB), 0..MINUTES, |at| GIB + at * 8 * MIB);
    assert_eq!(exhausted(&supplies(&history)), []);
    let found = trends(&history, "", Some(&request("16G,huge=2M"))).unwrap();
    assert_eq!(found.exhaustion.len(), 1, "a request is answered");
    assert!(found.summary.starts_with("2 MiB pages for 16 GiB run out in 3."), "{}", found.summary);
}
