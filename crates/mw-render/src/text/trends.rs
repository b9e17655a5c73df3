//! What grows: the answer in one sentence, then every trend.

use super::{Layout, MIN_WIDTH, Page};
use crate::visible::on_terminal;
use anstyle::{AnsiColor, Style};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use mw_model::{Trend, Trends};

/// Growth that is older is told with its date.
const MAX_WEEKDAY_MS: u64 = 6 * 24 * 3_600_000;

/// The trends of a recording, with times in a time zone.
pub fn trends(trends: &Trends, zone: &TimeZone, layout: Layout) -> String {
    let layout = Layout { width: layout.width.max(MIN_WIDTH), ..layout };
    let mut page = Page { layout, text: String::new() };
    let until_unix_ms = trends.until_unix_ms;
    match trends.trends.as_slice() {
        [] => {
            let summary = page.painted(AnsiColor::Green.on_default().bold(), &trends.summary);
            page.line(&summary);
        }
        [first, others @ ..] => {
            let line = line(first, until_unix_ms, zone);
            let line = page.painted(Style::new().bold(), &line);
            page.line(&line);
            for trend in others {
                page.line("");
                page.folded(0, "", &self::line(trend, until_unix_ms, zone));
            }
        }
    }
    page.line("");
    let until = shown(until_unix_ms, "%Y-%m-%d %H:%M", zone);
    let judged = format!(
        "{} holders judged, {} samples until {until}; nine of ten ranges hold the true value",
        trends.holders, trends.samples
    );
    page.folded(0, "", &judged);
    on_terminal(&page.text, layout.colour)
}

fn line(trend: &Trend, until_unix_ms: u64, zone: &TimeZone) -> String {
    let age_ms = until_unix_ms.saturating_sub(trend.since_unix_ms);
    let format = if age_ms <= MAX_WEEKDAY_MS { "%a %H:%M" } else { "%Y-%m-%d" };
    let since = shown(trend.since_unix_ms, format, zone);
    format!("{} since {since}: {}", trend.growth, trend.forecast)
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
    use mw_model::{Estimate, FullKind, SizedHolder};

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
        }
    }

    #[test]
    fn the_first_line_is_the_answer() {
        let layout = Layout::default();
        let text = trends(&sample(2), &TimeZone::UTC, layout);
        assert_eq!(
            text.lines().next().unwrap(),
            "cgroup /app\\u{1b}[2J grows 1.2 GiB/day (1.0 to 1.4) since Tue 22:14: its limit of 8 GiB is \
             reached in 2.1 days (1.8 to 2.6)"
        );
        let text = trends(&sample(0), &TimeZone::UTC, layout);
        assert!(text.starts_with("nothing grows steadily towards a limit"), "{text}");
        assert!(text.ends_with("nine of ten ranges hold the true value\n"), "{text}");
    }

    #[test]
    fn it_fits_forty_columns_but_for_the_answer() {
        let layout = Layout { width: 40, ..Layout::default() };
        let text = trends(&sample(3), &TimeZone::UTC, layout);
        let longest = text.lines().skip(1).map(|line| line.chars().count()).max();
        assert!(longest <= Some(40), "{text}");
    }
}
