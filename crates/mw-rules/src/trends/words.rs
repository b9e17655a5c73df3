//! Trends in words.

use mw_model::{
    Estimate, Exhaustion, FullKind, Request, SizedHolder, Supply, SupplyTrend, Trend, format_bytes,
    visible,
};

const MS_PER_HOUR: f64 = 3_600_000.0;

/// From so many hours left on, time is told in days, and growth by the day.
const MIN_HOURS_AS_DAYS: f64 = 48.0;

/// Below it, time is told in minutes.
const MIN_HOURS: f64 = 2.0;

/// Multiple of a unit from which memory is printed without a digit after the point.
const MIN_WITHOUT_DIGIT: f64 = 10.0;

/// The answer in one sentence: what is full or runs out first, and how many more.
pub(super) fn summary(trends: &[Trend], exhaustion: &[Exhaustion], span_ms: u64) -> String {
    let grows = trends
        .first()
        .map(|first| (first.hours_left.expected, format!("{}: {}", first.growth, first.forecast)));
    let declines = exhaustion
        .first()
        .map(|first| (first.hours_left.expected, format!("{}: {}", first.decline, first.forecast)));
    let first = grows.into_iter().chain(declines).min_by(|(a, _), (b, _)| a.total_cmp(b));
    let Some((_, first)) = first else {
        let span = duration(span_ms as f64 / MS_PER_HOUR);
        return format!("nothing grows steadily towards a limit ({span} recorded)");
    };
    match trends.len().saturating_add(exhaustion.len()) {
        0 | 1 => first,
        2 => format!("{first} (1 more trend)"),
        count => format!("{first} ({} more trends)", count.saturating_sub(1)),
    }
}

/// The answer of a request.
pub(super) fn of_request(
    supply: &SupplyTrend,
    request: &Request,
    found: Option<&Exhaustion>,
    span_ms: u64,
) -> String {
    if let Some(found) = found {
        return found.forecast.clone();
    }
    let (left, span) = (format_bytes(supply.bytes), duration(span_ms as f64 / MS_PER_HOUR));
    let (pages, _) = pages(supply, request.size_bytes);
    if supply.bytes < request.size_bytes {
        return format!(
            "no forecast for {pages}: {left} are available, without a steady decline ({span} recorded)"
        );
    }
    format!("no steady decline of {pages}: {left} are available ({span} recorded)")
}

/// Name of the pages, and its number (singular or plural).
fn pages(supply: &SupplyTrend, request_bytes: u64) -> (String, &'static str) {
    let page = supply.page_bytes.map(format_bytes).unwrap_or_default();
    let (what, verb) = match supply.supply {
        Supply::Memory => ("available memory".to_owned(), "runs"),
        Supply::Pool => (format!("free {page} pages of the pool"), "run"),
        Supply::Contiguous => (format!("transparent huge pages of {page}"), "run"),
        Supply::HugePages => (format!("{page} pages"), "run"),
    };
    let node = supply.node.map_or(String::new(), |node| format!(" on node {node}"));
    let request = match request_bytes {
        0 => String::new(),
        bytes => format!(" for {}", format_bytes(bytes)),
    };
    (format!("{what}{node}{request}"), verb)
}

/// Supply that runs out, and the time.
pub(super) fn exhaustion(supply: &SupplyTrend, request_bytes: u64, left: Estimate) -> String {
    let (pages, verb) = pages(supply, request_bytes);
    if left.expected <= 0.0 {
        let have = if verb == "runs" { "has" } else { "have" };
        return format!("{pages} {have} run out");
    }
    format!("{pages} {verb} out in {}", time_left(left))
}

/// Rate of its decline.
pub(super) fn decline(per_hour: Estimate, hours_left: Estimate, left: &str) -> String {
    format!("{left} left, {} less", rate(per_hour, hours_left))
}

/// Holder that grows, and the rate.
pub(super) fn growth(holder: &SizedHolder, per_hour: Estimate, hours_left: Estimate) -> String {
    let grow = if matches!(holder, SizedHolder::PageTables | SizedHolder::UnreclaimableSlab) {
        "grow"
    } else {
        "grows"
    };
    format!("{} {grow} {}", name(holder), rate(per_hour, hours_left))
}

/// `1.2 GiB/day (1.0 to 1.4)`.
fn rate(per_hour: Estimate, hours_left: Estimate) -> String {
    let (hours, unit) =
        if hours_left.expected >= MIN_HOURS_AS_DAYS { (24.0, "day") } else { (1.0, "h") };
    let expected = format_bytes((per_hour.expected * hours) as u64);
    let suffix = expected.split_once(' ').map_or("B", |(_, suffix)| suffix);
    let factor = match suffix {
        "KiB" => 1_u64 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        "PiB" => 1 << 50,
        _ => 1,
    };
    let number = |bytes: f64| number(bytes * hours / factor as f64);
    let Estimate { expected, least, most } = per_hour;
    format!(
        "{} {suffix}/{unit} ({} to {})",
        number(expected),
        number(least),
        number(most.unwrap_or(expected))
    )
}

/// Limit that is full, and the time.
pub(super) fn forecast(
    holder: &SizedHolder,
    full: FullKind,
    full_bytes: u64,
    left: Estimate,
) -> String {
    let when = time_left(left);
    match (full, holder) {
        (FullKind::Memory, _) => format!("memory is full in {when}"),
        (FullKind::OwnLimit, SizedHolder::Tmpfs { .. }) => {
            format!("its size of {} is full in {when}", format_bytes(full_bytes))
        }
        (FullKind::OwnLimit, _) => {
            format!("its limit of {} is reached in {when}", format_bytes(full_bytes))
        }
    }
}

fn name(holder: &SizedHolder) -> String {
    let text = |text: &str| visible::line(text);
    match holder {
        SizedHolder::Machine => "memory in use".to_owned(),
        SizedHolder::SharedMemory => "shared memory".to_owned(),
        SizedHolder::PageTables => "page tables".to_owned(),
        SizedHolder::UnreclaimableSlab => "kernel objects".to_owned(),
        SizedHolder::Process { pid, name, .. } => format!("process {} ({pid})", text(name)),
        SizedHolder::Cgroup { path } => format!("cgroup {}", text(path)),
        SizedHolder::SlabCache { name } => format!("slab cache {}", text(name)),
        SizedHolder::Tmpfs { target } => format!("tmpfs {}", text(target)),
        SizedHolder::PoolPages { .. } | SizedHolder::Contiguous { .. } => holder.to_string(),
    }
}

/// `2.1 days (1.8 to 2.6)`.
fn time_left(left: Estimate) -> String {
    let (factor, unit) = unit(left.expected);
    let (expected, least) = (number(left.expected * factor), number(left.least * factor));
    match left.most {
        Some(most) => format!("{expected} {unit} ({least} to {})", number(most * factor)),
        None => format!("{expected} {unit} ({least} or more)"),
    }
}

fn duration(hours: f64) -> String {
    let (factor, unit) = unit(hours);
    format!("{} {unit}", number(hours * factor))
}

/// The unit in which so many hours are told.
fn unit(hours: f64) -> (f64, &'static str) {
    if hours >= MIN_HOURS_AS_DAYS {
        (1.0 / 24.0, "days")
    } else if hours >= MIN_HOURS {
        (1.0, "h")
    } else {
        (60.0, "min")
    }
}

/// With one digit after the point where that matters.
fn number(value: f64) -> String {
    if value >= MIN_WITHOUT_DIGIT { format!("{value:.0}") } else { format!("{value:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(expected: f64, least: f64, most: f64) -> Estimate {
        Estimate { expected, least, most: Some(most) }
    }

    #[test]
    fn the_answer_is_one_sentence() {
        let gib = f64::from(1_u32 << 30);
        let per_hour = estimate(1.2 * gib / 24.0, gib / 24.0, 1.4 * gib / 24.0);
        let left = estimate(50.4, 43.2, 62.4);
        let holder = SizedHolder::Cgroup { path: "/app\n".to_owned() };
        let said = growth(&holder, per_hour, left);
        assert_eq!(said, "cgroup /app\\u{a} grows 1.2 GiB/day (1.0 to 1.4)");
        let said = forecast(&holder, FullKind::OwnLimit, 8 << 30, left);
        assert_eq!(said, "its limit of 8 GiB is reached in 2.1 days (1.8 to 2.6)");
        let said = forecast(
            &holder,
            FullKind::Memory,
            0,
            Estimate { most: None, ..estimate(9.0, 6.0, 9.0) },
        );
        assert_eq!(said, "memory is full in 9.0 h (6.0 or more)");
        let said = growth(&SizedHolder::PageTables, per_hour, estimate(1.0, 0.5, 2.0));
        assert_eq!(said, "page tables grow 51 MiB/h (43 to 60)");
    }
}
