//! Which holders of memory grow steadily in a recording, and what is full when.
//!
//! The series of a recording are judged one by one (`trend.rs`). What is reported is a holder that still exists,
//! whose growth fills its own limit or the machine's memory within [`MAX_HOURS_LEFT`]; a holder whose growth
//! another one explains is left out. What is left of huge pages is judged beside them (`supply.rs`).

mod history;
mod supply;
mod words;

use crate::trend::{self, Growth};
use history::{EXPLAINS, MAX_HOURS_LEFT, MS_PER_S, S_PER_HOUR, hours, is_current, points, range};
use mw_model::{
    Estimate, FullKind, Missing, Request, SizeHistory, SizeSeries, SizedHolder, TRENDS_SCHEMA,
    Trend, Trends,
};
pub use supply::{exhausted, exhaustion, forecast, supplies};

/// A series that grows, before it is known what is full when.
struct GrowingSeries<'a> {
    series: &'a SizeSeries,
    growth: Growth,
}

/// Holders that grow steadily until the end of a history, and pages that run out; of a request, the time at which it can no longer be
/// served.
///
/// # Errors
/// The history is too short, or has nothing of the request's pages.
pub fn trends(
    history: &SizeHistory,
    recording: &str,
    request: Option<&Request>,
) -> Result<Trends, Missing> {
    let (since_unix_ms, until_unix_ms) = range(history, recording)?;
    let span_ms = until_unix_ms.saturating_sub(since_unix_ms);
    let made = |holders, summary, trends, exhaustion| Trends {
        schema: TRENDS_SCHEMA,
        memwright: env!("CARGO_PKG_VERSION").to_owned(),
        recording: recording.to_owned(),
        since_unix_ms,
        until_unix_ms,
        samples: history.at_unix_ms.len() as u64,
        holders,
        summary,
        trends,
        exhaustion,
    };
    let supplies = supplies(history);
    if let Some(request) = request {
        let supply = supply::of_request(&supplies, request, recording)?;
        let found: Vec<_> = exhaustion(supply, request.size_bytes).into_iter().collect();
        let summary = words::of_request(supply, request, found.first(), span_ms);
        return Ok(made(1, summary, Vec::new(), found));
    }
    let judged = TrendJudgement::of(history);
    let machine = judged.growing.iter().find(|g| g.series.holder == SizedHolder::Machine);
    let available = available_bytes(history);
    let mut trends: Vec<Trend> = judged
        .growing
        .iter()
        .filter_map(|growing| trend(growing, available, machine.map(|machine| machine.growth)))
        .collect();
    remove_explained(&mut trends);
    trends.sort_by(|a, b| a.hours_left.expected.total_cmp(&b.hours_left.expected));
    let found = exhausted(&supplies);
    let summary = words::summary(&trends, &found, span_ms);
    Ok(made(judged.count, summary, trends, found))
}

/// The series that grow, and how many were judged.
struct TrendJudgement<'a> {
    growing: Vec<GrowingSeries<'a>>,
    count: u64,
}

impl<'a> TrendJudgement<'a> {
    fn of(history: &'a SizeHistory) -> Self {
        let mut judged = Self { growing: Vec::new(), count: 0 };
        let series = history.series.iter().filter(|series| is_holder(&series.holder));
        let series = series.filter(|series| is_current(history, series));
        for series in series {
            judged.count = judged.count.saturating_add(1);
            let points = points(&series.sizes, 1.0);
            let growth = trend::growth(&points).filter(|growth| {
                growth.until_s > growth.since_s && exceeds_earlier_runs(history, series, growth)
            });
            judged.growing.extend(growth.map(|growth| GrowingSeries { series, growth }));
        }
        judged
    }
}

/// True if it holds memory.
fn is_holder(holder: &SizedHolder) -> bool {
    !matches!(holder, SizedHolder::PoolPages { .. } | SizedHolder::Contiguous { .. })
}

/// True if a process is larger, or has run for longer, than each earlier one of its name: a batch that starts
/// every night grows every night.
fn exceeds_earlier_runs(history: &SizeHistory, series: &SizeSeries, growth: &Growth) -> bool {
    let SizedHolder::Process { name, .. } = &series.holder else { return true };
    let ended = history.series.iter().filter(|other| {
        matches!(&other.holder, SizedHolder::Process { name: theirs, .. } if theirs == name)
            && other.holder != series.holder
            && !is_current(history, other)
    });
    let span_ms = |series: &SizeSeries| {
        let ends = series.sizes.first().zip(series.sizes.last());
        ends.map_or(0, |((first, _), (last, _))| last.saturating_sub(*first))
    };
    let most = |series: &SizeSeries| series.sizes.iter().map(|(_, bytes)| *bytes).max();
    let age_ms = span_ms(series);
    ended.into_iter().all(|earlier| {
        age_ms > span_ms(earlier) || growth.level > most(earlier).unwrap_or(0) as f64
    })
}

/// Memory of the machine that is available without swap, at the end.
fn available_bytes(history: &SizeHistory) -> Option<f64> {
    let machine = history.series.iter().find(|s| s.holder == SizedHolder::Machine)?;
    let (_, used) = machine.sizes.last()?;
    Some(machine.limit_bytes?.saturating_sub(*used) as f64)
}

/// Limit that a holder's growth fills, where that is near enough to say.
fn trend(
    growing: &GrowingSeries<'_>,
    available: Option<f64>,
    machine: Option<Growth>,
) -> Option<Trend> {
    let GrowingSeries { series, growth } = growing;
    let own = match series.holder {
        SizedHolder::Machine => None,
        _ => series.limit_bytes.map(|limit| limit as f64),
    };
    let own = own.and_then(|limit| Some((growth.reaches(limit)?, FullKind::OwnLimit, limit)));
    let memory = available.and_then(|available| {
        // Others grow too.
        let faster = machine.filter(|machine| machine.per_s > growth.per_s);
        let limit = |growth: &Growth| growth.level + available;
        let left = match faster {
            Some(machine) => machine.reaches(limit(&machine))?,
            None => growth.reaches(limit(growth))?,
        };
        let full = growth.level + growth.per_s * left.expected_s;
        Some((left, FullKind::Memory, full))
    });
    let (left, full, full_bytes) = [own, memory]
        .into_iter()
        .flatten()
        .min_by(|(a, ..), (b, ..)| a.expected_s.total_cmp(&b.expected_s))?;
    let hours_left = hours(left);
    if hours_left.expected > MAX_HOURS_LEFT {
        return None;
    }
    let bytes_per_hour = Estimate {
        expected: growth.per_s * S_PER_HOUR,
        least: growth.least_per_s.max(0.0) * S_PER_HOUR,
        most: Some(growth.most_per_s * S_PER_HOUR),
    };
    Some(Trend {
        growth: words::growth(&series.holder, bytes_per_hour, hours_left),
        forecast: words::forecast(&series.holder, full, full_bytes as u64, hours_left),
        holder: series.holder.clone(),
        bytes: series.sizes.last()?.1,
        since_unix_ms: (growth.since_s * MS_PER_S) as u64,
        bytes_per_hour,
        full,
        full_bytes: full_bytes as u64,
        hours_left,
    })
}

/// Removes what another trend explains better: a cgroup by one below it, kernel objects by their cache, shared
/// memory by its tmpfs, and the machine by anything.
fn remove_explained(trends: &mut Vec<Trend>) {
    let all = trends.clone();
    trends.retain(|trend| {
        let explains = |other: &Trend| {
            is_part(&other.holder, &trend.holder)
                && other.bytes_per_hour.expected >= trend.bytes_per_hour.expected * EXPLAINS
        };
        trend.full == FullKind::OwnLimit || !all.iter().any(explains)
    });
}

/// True if the memory of one is part of the memory of the other.
fn is_part(part: &SizedHolder, whole: &SizedHolder) -> bool {
    match (part, whole) {
        (SizedHolder::Cgroup { path: part }, SizedHolder::Cgroup { path: whole }) => {
            part.strip_prefix(whole.as_str()).is_some_and(|rest| rest.starts_with('/'))
        }
        (part, SizedHolder::Machine) => *part != SizedHolder::Machine,
        (SizedHolder::SlabCache { .. }, SizedHolder::UnreclaimableSlab)
        | (SizedHolder::Tmpfs { .. }, SizedHolder::SharedMemory) => true,
        _ => false,
    }
}
