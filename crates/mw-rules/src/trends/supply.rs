//! How much is left of memory and of huge pages, how it declines, and when a request can no longer be served.
//!
//! A job takes pages and gives them back, and reclaim and compaction make some whole again: what counts is how much
//! there is after the best of recoveries. The estimator judges lows of what grows, so that it gets the negated
//! amounts. Pages run out when the line through the highs falls below the request. Where the decline slows down
//! because fewer blocks are left to be hit, its logarithm is the line; where both fit, the range holds both.

use super::history::{EXPLAINS, MAX_HOURS_LEFT, MS_PER_S, S_PER_HOUR, hours, is_current, points};
use super::words;
use crate::trend::{self, Growth, TimeLeft, TrendPoint};
use mw_model::{
    Decline, Estimate, Exhaustion, Missing, PageSize, Request, SizeHistory, SizedHolder, Supply,
    SupplyTrend, format_bytes,
};
use std::collections::BTreeMap;

/// An older forecast is none: the recorder makes one every hour.
const MAX_AGE_MS: u64 = 2 * 3_600_000;

/// Amounts over time: milliseconds since 1970, and bytes.
type Amounts = Vec<(u64, u64)>;

/// History of a supply.
struct SupplySeries {
    supply: Supply,
    page_bytes: Option<u64>,
    node: Option<u32>,
    amounts: Amounts,
}

/// All supplies of a history that its last samples have.
#[must_use]
pub fn supplies(history: &SizeHistory) -> Vec<SupplyTrend> {
    let memory = memory(history);
    let used = |amounts: &SupplySeries| growth(&amounts.amounts).map(|growth| growth.per_s);
    let in_use_per_s = memory.as_ref().and_then(used);
    let all = memory.into_iter().chain(pages(history));
    all.filter_map(|series| supply_trend(&series, in_use_per_s)).collect()
}

fn supply_trend(series: &SupplySeries, in_use_per_s: Option<f64>) -> Option<SupplyTrend> {
    let (until_unix_ms, bytes) = *series.amounts.last()?;
    let line = growth(&series.amounts).map(decline);
    let explains =
        |in_use_per_s: f64| line.is_some_and(|line| in_use_per_s >= line.per_s * EXPLAINS);
    Some(SupplyTrend {
        supply: series.supply,
        page_bytes: series.page_bytes,
        node: series.node,
        bytes,
        until_unix_ms,
        line,
        decay: trend::growth(&logarithms(&series.amounts)).map(decline),
        is_memory_in_use: in_use_per_s.is_some_and(explains),
    })
}

/// The estimator's growth of what was negated.
fn decline(growth: Growth) -> Decline {
    Decline {
        since_unix_ms: (growth.since_s * MS_PER_S) as u64,
        high: -growth.low,
        per_s: growth.per_s,
        least_per_s: growth.least_per_s.max(0.0),
        most_per_s: growth.most_per_s,
    }
}

fn growth(amounts: &[(u64, u64)]) -> Option<Growth> {
    trend::growth(&points(amounts, -1.0)).filter(|growth| growth.until_s > growth.since_s)
}

/// The negated logarithms of amounts; nothing is none.
fn logarithms(amounts: &[(u64, u64)]) -> Vec<TrendPoint> {
    let point = |point: TrendPoint| TrendPoint { value: -point.value.max(1.0).ln(), ..point };
    points(amounts, 1.0).into_iter().map(point).collect()
}

/// Memory that is available without swap.
fn memory(history: &SizeHistory) -> Option<SupplySeries> {
    let machine = history.series.iter().find(|s| s.holder == SizedHolder::Machine)?;
    let total = machine.limit_bytes.filter(|_| is_current(history, machine))?;
    let available = |(at, used): &(u64, u64)| (*at, total.saturating_sub(*used));
    let amounts = machine.sizes.iter().map(available).collect();
    Some(SupplySeries { supply: Supply::Memory, page_bytes: None, node: None, amounts })
}

fn pages(history: &SizeHistory) -> Vec<SupplySeries> {
    let mut pools: BTreeMap<(u64, Option<u32>), Amounts> = BTreeMap::new();
    let mut whole = pools.clone();
    for series in history.series.iter().filter(|series| is_current(history, series)) {
        let (of, key) = match series.holder {
            SizedHolder::PoolPages { page_bytes, node } => (&mut pools, (page_bytes, node)),
            SizedHolder::Contiguous { page_bytes, node } => (&mut whole, (page_bytes, node)),
            _ => continue,
        };
        of.insert(key, series.sizes.clone());
    }
    let series = |supply, (page_bytes, node): (u64, Option<u32>), amounts| SupplySeries {
        supply,
        page_bytes: Some(page_bytes),
        node,
        amounts,
    };
    let mut all = Vec::new();
    for (key, whole) in whole {
        let sum = sum(&whole, pools.get(&key).map_or(&[], Vec::as_slice));
        all.push(series(Supply::HugePages, key, sum));
        all.push(series(Supply::Contiguous, key, whole));
    }
    all.extend(pools.into_iter().map(|(key, pool)| series(Supply::Pool, key, pool)));
    all
}

/// The pool beside what is whole; a pool without pages has no samples.
fn sum(whole: &[(u64, u64)], pool: &[(u64, u64)]) -> Amounts {
    let pool: BTreeMap<u64, u64> = pool.iter().copied().collect();
    let both =
        |(at, whole): &(u64, u64)| (*at, whole.saturating_add(pool.get(at).copied().unwrap_or(0)));
    whole.iter().map(both).collect()
}

/// Supplies that serve a request.
///
/// # Errors
/// It was not recorded.
pub(super) fn of_request<'a>(
    supplies: &'a [SupplyTrend],
    request: &Request,
    recording: &str,
) -> Result<&'a SupplyTrend, Missing> {
    supply_for(supplies, request).ok_or_else(|| {
        let place = request.node.map_or(String::new(), |node| format!(" on node {node}"));
        let why = match request.page {
            PageSize::Folio(_) => "free blocks below a huge page are not recorded (use huge=thp, whose blocks \
                                   serve folios as well)"
                .to_owned(),
            PageSize::Base | PageSize::Best if request.node.is_some() => {
                "available memory is recorded for the machine, not for its nodes".to_owned()
            }
            PageSize::Base | PageSize::Best => "available memory is not in its last samples".to_owned(),
            PageSize::Thp | PageSize::Hugetlb(_) => format!(
                "how many huge pages are left{place} is not in its last samples: 'memwright watch' records \
                 free pages of pools, and as root what can become whole 2 MiB pages"
            ),
        };
        Missing::absent(recording, why)
    })
}

fn supply_for<'a>(supplies: &'a [SupplyTrend], request: &Request) -> Option<&'a SupplyTrend> {
    let find = |supply, page_bytes: Option<u64>| {
        supplies.iter().find(|known| {
            known.supply == supply
                && known.node == request.node
                && (page_bytes.is_none() || known.page_bytes == page_bytes)
        })
    };
    match request.page {
        PageSize::Base | PageSize::Best => find(Supply::Memory, None),
        PageSize::Folio(_) => None,
        PageSize::Thp => find(Supply::Contiguous, None),
        PageSize::Hugetlb(bytes) => {
            find(Supply::HugePages, Some(bytes)).or_else(|| find(Supply::Pool, Some(bytes)))
        }
    }
}

/// Time from which there is never again so much of a supply; none where it does not decline, or where that is too far away to
/// say.
#[must_use]
pub fn exhaustion(supply: &SupplyTrend, request_bytes: u64) -> Option<Exhaustion> {
    let line = supply.line.and_then(|line| left(supply, line, -(request_bytes as f64)));
    // What loses the same share in equal times never ends.
    let decay = supply.decay.filter(|_| request_bytes > 0);
    let decay = decay.and_then(|decay| left(supply, decay, -(request_bytes as f64).ln()));
    let is_decay = match (supply.line.zip(line), supply.decay.zip(decay)) {
        (Some((line, _)), Some((decay, _))) => spread(decay) < spread(line),
        (line, _) => line.is_none(),
    };
    let (one, other) = if is_decay { (decay?, line) } else { (line?, decay) };
    let hours_left = hours(either(one, other));
    if hours_left.expected > MAX_HOURS_LEFT {
        return None;
    }
    let (decline, bytes) = match (supply.line, supply.decay) {
        (_, Some(decay)) if is_decay => (decay, decay.high.exp()),
        (line, _) => (line?, 1.0),
    };
    let per_hour = |per_s: f64| per_s * bytes * S_PER_HOUR;
    let bytes_per_hour = Estimate {
        expected: per_hour(decline.per_s),
        least: per_hour(decline.least_per_s),
        most: Some(per_hour(decline.most_per_s)),
    };
    Some(Exhaustion {
        supply: supply.supply,
        page_bytes: supply.page_bytes,
        node: supply.node,
        request_bytes,
        bytes: supply.bytes,
        forecast: words::exhaustion(supply, request_bytes, hours_left),
        decline: words::decline(bytes_per_hour, hours_left, &format_bytes(supply.bytes)),
        since_unix_ms: decline.since_unix_ms,
        bytes_per_hour,
        hours_left,
    })
}

/// Time along a decline until its line reaches a limit, which is negated as well.
fn left(supply: &SupplyTrend, decline: Decline, limit: f64) -> Option<TimeLeft> {
    let growth = Growth {
        since_s: decline.since_unix_ms as f64 / MS_PER_S,
        until_s: supply.until_unix_ms as f64 / MS_PER_S,
        level: -decline.high,
        low: -decline.high,
        rise: 0.0,
        per_s: decline.per_s,
        least_per_s: decline.least_per_s,
        most_per_s: decline.most_per_s,
    };
    growth.lows_reach(limit)
}

/// The width of the interval, compared to the slope.
fn spread(decline: Decline) -> f64 {
    (decline.most_per_s - decline.least_per_s) / decline.per_s
}

/// One time, with a range that holds the other as well.
fn either(one: TimeLeft, other: Option<TimeLeft>) -> TimeLeft {
    let other = other.unwrap_or(one);
    TimeLeft {
        expected_s: one.expected_s,
        least_s: one.least_s.min(other.least_s),
        most_s: one.most_s.max(other.most_s),
    }
}

/// The huge pages of the machine that run out, the first first. Where memory in use grows as fast, trends of holders
/// tell it.
#[must_use]
pub fn exhausted(supplies: &[SupplyTrend]) -> Vec<Exhaustion> {
    let is_said = |supply: &&SupplyTrend| {
        let is_pages = matches!(supply.supply, Supply::HugePages | Supply::Pool);
        is_pages && supply.node.is_none() && !supply.is_memory_in_use
    };
    let said = supplies.iter().filter(is_said);
    let mut found: Vec<Exhaustion> = said.filter_map(|supply| exhaustion(supply, 0)).collect();
    found.sort_by(|a, b| a.hours_left.expected.total_cmp(&b.hours_left.expected));
    found
}

/// Forecast that was made a while ago, as of now: of the request, or else of huge pages. None of one that is
/// older than [`MAX_AGE_MS`].
#[must_use]
pub fn forecast(
    supplies: &[SupplyTrend],
    request: Option<&Request>,
    now_unix_ms: u64,
) -> Vec<Exhaustion> {
    let is_recent =
        |supply: &&SupplyTrend| now_unix_ms.saturating_sub(supply.until_unix_ms) <= MAX_AGE_MS;
    let supplies: Vec<SupplyTrend> =
        supplies.iter().filter(is_recent).map(|supply| as_of(supply, now_unix_ms)).collect();
    match request {
        Some(request) => {
            let supply = supply_for(&supplies, request);
            supply.and_then(|supply| exhaustion(supply, request.size_bytes)).into_iter().collect()
        }
        None => exhausted(&supplies),
    }
}

/// The same, had it declined as before until now.
fn as_of(supply: &SupplyTrend, now_unix_ms: u64) -> SupplyTrend {
    let age_s = now_unix_ms.saturating_sub(supply.until_unix_ms) as f64 / MS_PER_S;
    let later =
        |decline: Decline| Decline { high: decline.high - decline.per_s * age_s, ..decline };
    SupplyTrend {
        until_unix_ms: supply.until_unix_ms.max(now_unix_ms),
        line: supply.line.map(later),
        decay: supply.decay.map(later),
        ..supply.clone()
    }
}
