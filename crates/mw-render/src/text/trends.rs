//! What grows: the answer in one sentence, then every trend.

use super::{MIN_WIDTH, TextLayout, TextPage};
use crate::visible::on_terminal;
use anstyle::{AnsiColor, Style};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use mw_model::{Trends, format_count};

/// Growth that is older is told with its date.
const MAX_WEEKDAY_MS: u64 = 6 * 24 * 3_600_000;

/// The trends of a recording, with times in a time zone.
pub fn trends(trends: &Trends, zone: &TimeZone, layout: TextLayout) -> String {
    let layout = TextLayout { width: layout.width.max(MIN_WIDTH), ..layout };
    let mut page = TextPage { layout, text: String::new() };
    let until_unix_ms = trends.until_unix_ms;
    match lines(trends, zone).as_slice() {
        [] => {
            let summary = page.painted(AnsiColor::Green.on_default().bold(), &trends.summary);
            page.line(&summary);
        }
        [first, others @ ..] => {
            let line = page.painted(Style::new().bold(), first);
            page.line(&line);
            for line in others {
                page.line("");
                page.folded(0, "", line);
            }
        }
    }
    page.line("");
    let until = shown(until_unix_ms, "%Y-%m-%d %H:%M", zone);
    let judged = format!(
        "{} judged, {} until {until}; ranges are 90% intervals",
        format_count(trends.holders, "holder"),
        format_count(trends.samples, "sample")
    );
    page.folded(0, "", &judged);
    on_terminal(&page.text, layout.colour)
}

/// A line each for what is full and for what runs out, the first first.
fn lines(trends: &Trends, zone: &TimeZone) -> Vec<String> {
    let since = |unix_ms| since(unix_ms, trends.until_unix_ms, zone);
    let grow = trends.trends.iter().map(|trend| {
        let line =
            format!("{} since {}: {}", trend.growth, since(trend.since_unix_ms), trend.forecast);
        (trend.hours_left.expected, line)
    });
    let decline = trends.exhaustion.iter().map(|found| {
        let line =
            format!("{}: {} since {}", found.forecast, found.decline, since(found.since_unix_ms));
        (found.hours_left.expected, line)
    });
    let mut lines: Vec<(f64, String)> = grow.chain(decline).collect();
    lines.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    lines.into_iter().map(|(_, line)| line).collect()
}

fn since(since_unix_ms: u64, until_unix_ms: u64, zone: &TimeZone) -> String {
    let age_ms = until_unix_ms.saturating_sub(since_unix_ms);
    let format = if age_ms <= MAX_WEEKDAY_MS { "%a %H:%M" } else { "%Y-%m-%d" };
    shown(since_unix_ms, format, zone)
}

fn shown(unix_ms: u64, format: &str, zone: &TimeZone) -> String {
    let timestamp = i64::try_from(unix_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let shown =
        timestamp.map(|timestamp| timestamp.to_zoned(zone.clone()).strftime(format).to_string());
    shown.unwrap_or_else(|| format!("{unix_ms} ms after 1970"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::{Estimate, Exhaustion, FullKind, SizedHolder, Supply, Trend};

    fn sample(trends: usize) -> Trends {
        let estimate = Estimate { expected: 1.0, least: 0.5, most: Some(2.0) };
        let trend = Trend {
            holder: SizedHolder::Machine,
            growth: "cgroup /app\u{1b}[2J grows 1.2 GiB/day (1.0 to 1.4)".to_owned(),
            forecast: "its limit of 8 GiB is reached in 2.1 days (1.8 to 2.6)".to_owned(),
            bytes: 1,
            since_unix_ms: 1_700_000_040_000,
            bytes_per_hour: estimate,
            full: FullKind::OwnLimit,
            full_bytes: 8 << 30,
            hours_left: estimate,
        };
        Trends {
            schema: 1,
            memwright: String::new(),
            recording: String::new(),
            since_unix_ms: 1_700_000_040_000,
            until_unix_ms: 1_700_200_040_000,
            samples: 3333,
            holders: 113,
            summary: "nothing grows steadily towards a limit (2.3 days recorded)".to_owned(),
            trends: vec![trend; trends],
            exhaustion: Vec::new(),
        }
    }

    #[test]
    fn what_runs_out_is_among_what_is_full() {
        let mut sample = sample(1);
        let hours_left = Estimate { expected: 0.9, least: 0.6, most: None };
        sample.exhaustion.push(Exhaustion {
            supply: Supply::HugePages,
            page_bytes: Some(2 << 20),
            node: None,
            request_bytes: 23 << 30,
            bytes: 31 << 30,
            forecast: "2 MiB pages for 23 GiB run out in 54 min (36 or more)".to_owned(),
            decline: "31 GiB left, 8.9 GiB/h (8.0 to 12) less".to_owned(),
            since_unix_ms: 1_700_000_040_000,
            bytes_per_hour: hours_left,
            hours_left,
        });
        let text = trends(&sample, &TimeZone::UTC, TextLayout::default());
        let first = "2 MiB pages for 23 GiB run out in 54 min (36 or more): 31 GiB left, 8.9 GiB/h (8.0 to 12) \
                     less since Tue 22:14";
        assert_eq!(text.lines().next().unwrap(), first);
        assert!(text.contains("\ncgroup /app"), "{text}");
    }

    #[test]
    fn the_first_line_is_the_answer() {
        let layout = TextLayout::default();
        let text = trends(&sample(2), &TimeZone::UTC, layout);
        assert_eq!(
            text.lines().next().unwrap(),
            "cgroup /app\\u{1b}[2J grows 1.2 GiB/day (1.0 to 1.4) since Tue 22:14: its limit of 8 GiB is \
             reached in 2.1 days (1.8 to 2.6)"
        );
        let text = trends(&sample(0), &TimeZone::UTC, layout);
        assert!(text.starts_with("nothing grows steadily towards a limit"), "{text}");
        assert!(text.ends_with("ranges are 90% intervals\n"), "{text}");
    }

    #[test]
    fn it_fits_forty_columns_but_for_the_answer() {
        let layout = TextLayout { width: 40, ..TextLayout::default() };
        let text = trends(&sample(3), &TimeZone::UTC, layout);
        let longest = text.lines().skip(1).map(|line| line.chars().count()).max();
        assert!(longest <= Some(40), "{text}");
    }
}
