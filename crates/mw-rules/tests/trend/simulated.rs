//! Simulated histories: leaks, and decoys that look like one for a while.

use mw_rules::trend::TrendPoint;

/// Seconds between two points, as the recorder takes them.
pub(crate) const STEP_S: f64 = 60.0;

const HOUR_S: f64 = 3600.0;
const DAY_S: f64 = 24.0 * HOUR_S;

/// SplitMix64: the same histories on every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn within(&mut self, from: f64, to: f64) -> f64 {
        from + (to - from) * (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Small and large ones alike.
    pub(crate) fn log_within(&mut self, from: f64, to: f64) -> f64 {
        self.within(from.ln(), to.ln()).exp()
    }

    pub(crate) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.within(0.0, 1.0)).sum::<f64>() - 6.0
    }
}

/// A simulated history, and what comes after it.
pub(crate) struct History {
    pub(crate) points: Vec<TrendPoint>,
    /// The limit, and when it is reached, from the end of the history on.
    pub(crate) reaches: Option<(f64, f64)>,
}

pub(crate) const LEAKS: [&str; 7] = [
    "line",
    "saw above it",
    "walk above it",
    "load of a day",
    "after a deployment",
    "restart",
    "chunks",
];

pub(crate) const DECOYS: [&str; 12] = [
    "noise",
    "wandering",
    "random walk",
    "cache fills",
    "cache is full",
    "saw",
    "irregular saw",
    "steps",
    "nightly batch",
    "load of a day",
    "logarithm",
    "pulses",
];

/// A leak of which the history shows `history_s`; it goes on until the limit is reached.
pub(crate) fn leak(kind: &str, random: &mut Random) -> History {
    let days = matches!(kind, "load of a day" | "after a deployment");
    let history_s = random.log_within(if days { 2.0 * DAY_S } else { 3.0 * HOUR_S }, 7.0 * DAY_S);
    // In units of the rise within the history.
    let base = random.within(0.2, 20.0);
    let noise = random.log_within(0.001, 0.15);
    let begins = if kind == "after a deployment" { random.within(0.1, 0.6) } else { 0.0 };
    let restart = random.within(0.05, 0.4);
    let (load, phase) = (random.within(0.1, 0.5), random.within(0.0, DAY_S));
    let (period, height) = (random.within(0.01, 0.06), random.within(0.2, 2.0));
    let chunk = random.within(0.02, 0.06);
    let mut walk = 0.0;
    let mut value = |at_s: f64, random: &mut Random| {
        let at = at_s / history_s;
        walk = walk * 0.99 + random.normal() * noise * 0.14;
        let angle = |s: f64| (s + phase) / DAY_S * std::f64::consts::TAU;
        let trend = match kind {
            "after a deployment" => (at - begins).max(0.0) / (1.0 - begins),
            "load of a day" => {
                at - load * DAY_S / std::f64::consts::TAU / history_s
                    * (angle(at_s).cos() - angle(0.0).cos())
            }
            "restart" if at < restart => at,
            "restart" => at - restart,
            "chunks" => (at / chunk).floor() * chunk,
            _ => at,
        };
        let above = match kind {
            "saw above it" => (at / period).fract() * height,
            "walk above it" => walk,
            _ => 0.0,
        };
        base + trend + above + random.normal() * noise
    };
    let mut points = Vec::new();
    let mut at_s = 0.0;
    while at_s <= history_s {
        points.push(TrendPoint { at_s, value: value(at_s, random) });
        at_s += STEP_S;
    }
    let most = points.iter().map(|point| point.value).fold(0.0, f64::max);
    let limit = most + random.log_within(0.2, 5.0);
    let end_s = at_s - STEP_S;
    while at_s < history_s * 20.0 {
        if value(at_s, random) >= limit {
            return History { points, reaches: Some((limit, at_s - end_s)) };
        }
        at_s += STEP_S;
    }
    History { points, reaches: None }
}

/// Histories without a leak. A pattern that comes back has done so at least once.
pub(crate) fn decoy(kind: &str, random: &mut Random) -> History {
    let daily = matches!(kind, "nightly batch" | "load of a day");
    let history_s = random.log_within(if daily { 1.5 * DAY_S } else { 3.0 * HOUR_S }, 7.0 * DAY_S);
    let base = random.within(0.2, 5.0);
    let noise = random.log_within(0.001, 0.1);
    let scale = match kind {
        "cache fills" => random.log_within(0.03, 0.5),
        "cache is full" => random.within(0.1, 0.85),
        "logarithm" => random.log_within(0.001, 0.1),
        _ => random.log_within(0.01, 0.6),
    };
    let (shift, height) = (random.within(0.0, 1.0), random.within(0.5, 1.0));
    let mut steps: Vec<f64> = (0..1 + random.next() % 4).map(|_| random.within(0.0, 1.0)).collect();
    steps.sort_by(f64::total_cmp);
    let batch_s = random.within(1.0, 5.0) * HOUR_S;
    let (mut walk, mut since, mut length) = (0.0, -shift * scale, scale);
    let mut points = Vec::new();
    let mut at_s = 0.0;
    while at_s <= history_s {
        let at = at_s / history_s;
        if at - since >= length {
            (since, length) = (at, scale * random.within(0.6, 1.4));
        }
        let day = ((at_s / DAY_S + shift).fract()) * DAY_S;
        walk = match kind {
            "wandering" => walk * 0.995 + random.normal() * 0.1,
            "random walk" => walk + random.normal() * (STEP_S / history_s).sqrt(),
            _ => 0.0,
        };
        let shape = match kind {
            "cache fills" => 1.0 - (-at / scale).exp(),
            "cache is full" => (at / scale).min(1.0),
            "saw" => (at / scale + shift).fract(),
            "irregular saw" => (at - since) / length,
            "steps" => steps.iter().filter(|step| **step < at).count() as f64,
            "nightly batch" if day < batch_s => day / batch_s,
            "load of a day" => (day / DAY_S * std::f64::consts::TAU).sin(),
            "logarithm" => (1.0 + at / scale).ln(),
            "pulses" => f64::from((at / scale).fract() < 0.3) * height,
            _ => walk,
        };
        points.push(TrendPoint { at_s, value: base + shape + random.normal() * noise });
        at_s += STEP_S;
    }
    History { points, reaches: None }
}
