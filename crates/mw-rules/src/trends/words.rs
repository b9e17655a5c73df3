//! Trends in words.

use mw_model::{Estimate, FullKind, SizedHolder, Trend, format_bytes, visible};

/// From so many hours left on, time is told in days, and growth by the day.
const MIN_HOURS_AS_DAYS: f64 = 48.0;

/// Below it, time is told in minutes.
const MIN_HOURS: f64 = 2.0;

/// What memory is full of more than once is told without a digit after the point.
const MIN_WITHOUT_DIGIT: f64 = 10.0;

/// The answer in one sentence.
pub(super) fn summary(trends: &[Trend], span_ms: u64) -> String {
    let span = duration(span_ms as f64 / 3_600_000.0);
    match trends {
        [] => format!("nothing grows steadily towards a limit ({span} recorded)"),
        [only] => format!("{}: {}", only.growth, only.forecast),
        [first, others @ ..] => {
            let others = match others.len() {
                1 => "1 more grows".to_owned(),
                count => format!("{count} more grow"),
            };
            format!("{}: {} ({others})", first.growth, first.forecast)
        }
    }
}

/// Who grows, and how fast.
pub(super) fn growth(holder: &SizedHolder, per_hour: Estimate, hours_left: Estimate) -> String {
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
        "{} {} {} {suffix}/{unit} ({} to {})",
        name(holder),
        if matches!(holder, SizedHolder::PageTables | SizedHolder::UnreclaimableSlab) {
            "grow"
        } else {
            "grows"
        },
        number(expected),
        number(least),
        number(most.unwrap_or(expected))
    )
}

/// What is full, and when.
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
