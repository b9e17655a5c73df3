//! Forecasts of simulated histories: how far off they are, and how often there is one where nothing leaks.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that cannot go on fails")]

mod pages;
mod simulated;

use mw_model::{Exhaustion, SizeHistory, Supply};
use mw_rules::trend::{Growth, TrendPoint, growth};
use mw_rules::{exhausted, exhaustion, supplies};
use proptest::prelude::*;
use simulated::{DECOYS, LEAKS, Random, decoy, leak};

/// Number of histories of each kind.
fn histories() -> u64 {
    mw_test::rounds(40, 150)
}

/// Seeds that no limit was chosen by.
const SEED: u64 = 0x6672_6573_6821;

/// Fails where the median of the errors is larger.
const MAX_MEDIAN_ERROR: f64 = 0.30;

const MAX_FALSE_ALARMS: f64 = 0.02;

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Promise (Trends): The time until a limit is reached is off by at most 30% in the median, for leaks of every kind
/// that is simulated, and at least 80% of the ranges hold it.
#[test]
fn forecasts_of_leaks_are_right_within_30_percent() {
    let histories = histories();
    let mut all = Vec::new();
    let (mut held, mut leaks) = (0, 0);
    for (number, kind) in LEAKS.iter().enumerate() {
        let mut errors = Vec::new();
        let mut within = 0;
        for at in 0..histories {
            let history = leak(kind, &mut Random(SEED + at * 1000 + number as u64));
            let Some((limit, truth_s)) = history.reaches else { continue };
            leaks += 1;
            let left = growth(&history.points).and_then(|growth| growth.reaches(limit));
            let Some(left) = left else { continue };
            within += u64::from((left.least_s..=left.most_s).contains(&truth_s));
            errors.push((left.expected_s - truth_s).abs() / truth_s);
        }
        held += within;
        let (found, inside) = (errors.len(), within);
        all.extend_from_slice(&errors);
        println!(
            "{kind:>20}: {found:3} of {histories} found, median error {:4.1}%, interval holds {inside}",
            median(&mut errors) * 100.0
        );
        assert!(median(&mut errors) <= MAX_MEDIAN_ERROR, "{kind}");
    }
    let found = all.len() as f64;
    let share = held as f64 / found;
    println!("all: {found} of {leaks}, median {:.1}%, held {share:.2}", median(&mut all) * 100.0);
    assert!(median(&mut all) <= MAX_MEDIAN_ERROR);
    assert!(found >= 0.8 * f64::from(leaks), "{found} of {leaks} found");
    assert!(share >= 0.8, "the interval holds {share:.2} of the truth");
}

/// Promise (Trends): At most 2% of histories without a leak get a forecast: noise, walks, caches that fill, saws,
/// steps, nightly batches, the load of a day.
#[test]
fn nothing_is_forecast_where_nothing_leaks() {
    let histories = histories();
    let mut false_alarms = 0;
    for (number, kind) in DECOYS.iter().enumerate() {
        let seeds = (0..histories).map(|at| SEED + at * 1000 + number as u64);
        let growing =
            seeds.filter(|seed| growth(&decoy(kind, &mut Random(*seed)).points).is_some());
        let count = growing.count();
        println!("{kind:>20}: {count} of {histories}");
        false_alarms += count;
    }
    let share = false_alarms as f64 / (histories * DECOYS.len() as u64) as f64;
    println!("false alarms: {:.2}%", share * 100.0);
    assert!(share <= MAX_FALSE_ALARMS, "{share}");
}

/// Time from which a request for 2 MiB pages can no longer be served.
fn exhausts(history: &SizeHistory, request_bytes: u64) -> Option<Exhaustion> {
    let supplies = supplies(history);
    let pages = supplies.iter().find(|supply| supply.supply == Supply::HugePages).unwrap();
    exhaustion(pages, request_bytes)
}

/// Promise (Trends): The time until huge pages run out is off by at most 30% in the median, for declines of every
/// kind that is simulated, and at least 80% of the ranges hold it.
#[test]
fn forecasts_of_huge_pages_are_right_within_30_percent() {
    let histories = histories();
    let mut all = Vec::new();
    let (mut held, mut declines) = (0_u64, 0_u32);
    for (number, kind) in pages::DECLINES.iter().enumerate() {
        let mut errors = Vec::new();
        let mut within = 0;
        for at in 0..histories {
            let pages = pages::decline(kind, &mut Random(SEED + at * 1000 + number as u64));
            let (request, truth_s) = pages.runs_out.unwrap();
            declines += 1;
            let Some(found) = exhausts(&pages.history, request) else { continue };
            let hours = truth_s / 3600.0;
            let left = found.hours_left;
            within += u64::from(left.least <= hours && left.most.is_none_or(|most| hours <= most));
            errors.push((left.expected - hours).abs() / hours);
        }
        held += within;
        let found = errors.len();
        let error = median(&mut errors);
        println!(
            "{kind:>20}: {found:3} of {histories} found, median error {:4.1}%, interval holds {within}",
            error * 100.0
        );
        assert!(error <= MAX_MEDIAN_ERROR, "{kind}");
        all.append(&mut errors);
    }
    let found = all.len() as f64;
    let share = held as f64 / found;
    println!(
        "all: {found} of {declines}, median {:.1}%, held {share:.2}",
        median(&mut all) * 100.0
    );
    assert!(found >= 0.7 * f64::from(declines), "{found} of {declines} found");
    assert!(share >= 0.8, "the interval holds {share:.2} of the truth");
}

/// Promise (Trends): At most 2% of histories whose huge pages come back get a forecast: jobs, compaction, a pool that
/// is reserved, the load of a day.
#[test]
fn nothing_is_forecast_where_huge_pages_come_back() {
    let histories = histories();
    let mut false_alarms = 0;
    for (number, kind) in pages::DECOYS.iter().enumerate() {
        let seeds = (0..histories).map(|at| SEED + at * 1000 + number as u64);
        let is_said = |seed: &u64| {
            let pages = pages::no_decline(kind, &mut Random(*seed));
            let supplies = supplies(&pages.history);
            let half = supplies[0].bytes / 2;
            !exhausted(&supplies).is_empty() || exhausts(&pages.history, half).is_some()
        };
        let count = seeds.filter(is_said).count();
        println!("{kind:>24}: {count} of {histories}");
        false_alarms += count;
    }
    let share = false_alarms as f64 / (histories * pages::DECOYS.len() as u64) as f64;
    println!("false alarms: {:.2}%", share * 100.0);
    assert!(share <= MAX_FALSE_ALARMS, "{share}");
}

fn line(rate: f64, base: f64, count: usize) -> Vec<TrendPoint> {
    (0..count)
        .map(|at| at as f64 * 60.0)
        .map(|at_s| TrendPoint { at_s, value: base + rate * at_s })
        .collect()
}

proptest! {
    #[test]
    fn a_line_is_found_as_it_is(rate in 1e-3..1e9_f64, base in 0.0..1e12_f64, count in 40_usize..3000) {
        let found = growth(&line(rate, base, count)).unwrap();
        prop_assert!((found.per_s / rate - 1.0).abs() < 0.02 + 1e-12 * base / rate);
        prop_assert!(found.least_per_s <= found.per_s && found.per_s <= found.most_per_s);
    }

    #[test]
    fn what_falls_or_stays_does_not_grow(rate in -1e9..=0.0_f64, count in 0_usize..500) {
        prop_assert_eq!(growth(&line(rate, 1e12, count)), None);
    }

    /// Promise (Trends): Any numbers are judged without a panic.
    #[test]
    fn any_numbers_are_judged(values in proptest::collection::vec(any::<(f64, f64)>(), 0..300)) {
        let points: Vec<TrendPoint> =
            values.iter().map(|(at_s, value)| TrendPoint { at_s: *at_s, value: *value }).collect();
        let mut sorted = points.clone();
        sorted.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        for points in [points, sorted] {
            let is_ordered = |g: Growth| g.least_per_s <= g.most_per_s && g.since_s <= g.until_s;
            prop_assert!(growth(&points).is_none_or(is_ordered));
        }
    }

    #[test]
    fn gaps_change_little(seed in any::<u64>(), from in 0.1..0.8_f64) {
        let mut points = line(1.0, 100.0, 1000);
        let gap = (from * 1000.0) as usize;
        points.drain(gap..gap + 100);
        let mut random = Random(seed);
        points.retain(|_| random.within(0.0, 1.0) > 0.3);
        let found = growth(&points).unwrap();
        prop_assert!((found.per_s - 1.0).abs() < 0.02);
    }
}
