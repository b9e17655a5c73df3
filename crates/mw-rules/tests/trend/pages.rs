//! Simulated histories of what is left of huge pages: it declines below jobs and compaction, or comes back each time.

use crate::simulated::{Random, STEP_S};
use mw_model::{SizeHistory, SizeSeries, SizedHolder};

const HOUR_S: f64 = 3600.0;
const DAY_S: f64 = 24.0 * HOUR_S;
const START_MS: u64 = 1_700_000_040_000;

const PAGE_BYTES: u64 = 2 << 20;

/// Blocks of a machine with 64 GiB.
const BLOCKS: f64 = 32768.0;

/// Blocks whose pages are looked at, at most: the share of the movable is uncertain by that sample.
const SAMPLED: f64 = 512.0;

pub(crate) const DECLINES: [&str; 6] = [
    "line",
    "decay",
    "jobs above it",
    "compaction above it",
    "load of a day",
    "after a deployment",
];

pub(crate) const DECOYS: [&str; 9] = [
    "noise",
    "jobs",
    "irregular jobs",
    "compaction",
    "load of a day",
    "nightly batch",
    "a pool is reserved",
    "kernel objects level off",
    "random walk",
];

/// Recorded samples, and for a decline a request with the seconds from the end until there is never as much again.
pub(crate) struct Pages {
    pub(crate) history: SizeHistory,
    pub(crate) runs_out: Option<(u64, f64)>,
}

fn history(shares: &[f64]) -> SizeHistory {
    let at = |minute: usize| START_MS + minute as u64 * (STEP_S * 1000.0) as u64;
    let bytes = |share: &f64| (share.max(0.0) * BLOCKS) as u64 * PAGE_BYTES;
    let sizes = shares.iter().enumerate().map(|(minute, share)| (at(minute), bytes(share)));
    let series = SizeSeries {
        holder: SizedHolder::Contiguous { page_bytes: PAGE_BYTES, node: None },
        limit_bytes: None,
        sizes: sizes.collect(),
    };
    SizeHistory { at_unix_ms: (0..shares.len()).map(at).collect(), series: vec![series] }
}

/// The share as a sample of blocks tells it.
fn sampled(share: f64, random: &mut Random) -> f64 {
    let share = share.clamp(0.0, 1.0);
    share + random.normal() * (share * (1.0 - share) / SAMPLED).sqrt()
}

/// A decline of which the history shows some hours or days; it goes on until nothing is left.
pub(crate) fn decline(kind: &str, random: &mut Random) -> Pages {
    let days = matches!(kind, "load of a day" | "after a deployment");
    let history_s = random.log_within(if days { 2.0 * DAY_S } else { 3.0 * HOUR_S }, 7.0 * DAY_S);
    let first = random.within(0.6, 0.95);
    // Of the share at the beginning, what is lost within the history.
    let lost = random.within(0.15, 0.5);
    let begins = if kind == "after a deployment" { random.within(0.1, 0.6) } else { 0.0 };
    let (period, taken) = (random.within(0.01, 0.06), random.within(0.2, 0.8));
    let (busy, phase) = (random.within(0.2, 0.7), random.within(0.0, DAY_S));
    let load = random.within(0.02, 0.1);
    let value = |at_s: f64, random: &mut Random| {
        let at = at_s / history_s;
        let left = match kind {
            "decay" => (at * (1.0 - lost).ln()).exp(),
            "after a deployment" => 1.0 - lost * (at - begins).max(0.0) / (1.0 - begins),
            _ => 1.0 - lost * at,
        };
        let part = (at / period).fract();
        let free = match kind {
            "jobs above it" if part < busy => 1.0 - taken,
            "compaction above it" => 1.0 - part * taken * 0.3,
            "load of a day" => {
                1.0 - load * (1.0 + ((at_s + phase) / DAY_S * std::f64::consts::TAU).sin())
            }
            _ => 1.0,
        };
        sampled(first * left * free, random)
    };
    let count = (history_s / STEP_S) as usize;
    let shares: Vec<f64> = (0..=count).map(|at| value(at as f64 * STEP_S, random)).collect();
    let end = first * (1.0 - lost);
    let wanted = end * random.within(0.3, 0.9);
    let later = (count + 1..count * 12).map(|at| (at, value(at as f64 * STEP_S, random)));
    let last = later.filter(|(_, share)| *share >= wanted).map(|(at, _)| at).last();
    let truth_s = last.unwrap_or(count).saturating_sub(count) as f64 * STEP_S;
    let request = (wanted * BLOCKS) as u64 * PAGE_BYTES;
    Pages { history: history(&shares), runs_out: Some((request, truth_s)) }
}

/// Histories that come back, or step once. A pattern that comes back has done so at least once.
pub(crate) fn no_decline(kind: &str, random: &mut Random) -> Pages {
    let daily = matches!(kind, "nightly batch" | "load of a day");
    let history_s = random.log_within(if daily { 1.5 * DAY_S } else { 3.0 * HOUR_S }, 7.0 * DAY_S);
    let first = random.within(0.5, 0.95);
    let (period, taken) = (random.log_within(0.01, 0.4), random.within(0.1, 0.9));
    let (busy, shift) = (random.within(0.2, 0.7), random.within(0.0, 1.0));
    let step = random.within(0.05, 0.95);
    let batch_s = random.within(1.0, 5.0) * HOUR_S;
    let (mut walk, mut since, mut length) = (0.0, -shift * period, period);
    let mut value = |at_s: f64, random: &mut Random| {
        let at = at_s / history_s;
        if at - since >= length {
            (since, length) = (at, period * random.within(0.6, 1.4));
        }
        let day_s = (at_s / DAY_S + shift).fract() * DAY_S;
        walk += random.normal() * (STEP_S / history_s).sqrt();
        let lacks = match kind {
            "jobs" => f64::from((at / period + shift).fract() < busy) * taken,
            "irregular jobs" => f64::from((at - since) / length < busy) * taken,
            "compaction" => (at / period + shift).fract() * taken * 0.5,
            "load of a day" => taken * 0.3 * (1.0 + (day_s / DAY_S * std::f64::consts::TAU).sin()),
            "nightly batch" if day_s < batch_s => taken * day_s / batch_s,
            "a pool is reserved" => f64::from(at > step) * taken,
            "kernel objects level off" => taken * (1.0 - (-at / (period * 0.8)).exp()),
            "random walk" => walk * 0.2,
            _ => 0.0,
        };
        sampled(first * (1.0 - lacks), random)
    };
    let count = (history_s / STEP_S) as usize;
    let shares: Vec<f64> = (0..=count).map(|at| value(at as f64 * STEP_S, random)).collect();
    Pages { history: history(&shares), runs_out: None }
}
