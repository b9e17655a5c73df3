//! Moments on the command line.

use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan, Zoned};
use std::str::FromStr;

/// Numbers from here on are milliseconds since 1970; below, seconds.
const LEAST_MS: u64 = 100_000_000_000;

/// A time: RFC 3339, a local date with or without a time of day, a time of day, a span that has
/// passed (`2 h ago`), `now`, or seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeArg {
    /// In milliseconds since 1970.
    At(u64),
    /// The last such time of day that a recording has.
    TimeOfDay(Time),
}

impl TimeArg {
    /// In milliseconds since 1970, for a recording that ends at `last_ms`.
    pub fn unix_ms(self, last_ms: u64) -> u64 {
        match self {
            Self::At(unix_ms) => unix_ms,
            Self::TimeOfDay(time) => last_before(time, last_ms, TimeZone::system()).unwrap_or(0),
        }
    }

    /// The beginning of a period that ends at `last_ms`: as given, or `usual_ms` before its end. In milliseconds since 1970.
    pub fn since(given: Option<Self>, last_ms: u64, usual_ms: u64) -> u64 {
        given.map_or_else(|| last_ms.saturating_sub(usual_ms), |given| given.unix_ms(last_ms))
    }
}

impl FromStr for TimeArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Ok(number) = text.parse::<u64>() {
            let unix_ms = if number < LEAST_MS { number * 1000 } else { number };
            return Ok(Self::At(unix_ms));
        }
        let timestamp = match point(text) {
            Some(timestamp) => timestamp,
            None => match text.parse() {
                // Before spans, which may be written with colons too.
                Ok(time) => return Ok(Self::TimeOfDay(time)),
                Err(_) => past(text).ok_or_else(|| invalid(text))?,
            },
        };
        let unix_ms = u64::try_from(timestamp.as_millisecond()).map_err(|_| invalid(text))?;
        Ok(Self::At(unix_ms))
    }
}

fn invalid(text: &str) -> String {
    format!(
        "invalid time '{text}' (use for example 10:19, '2026-03-01 10:19', 2026-03-01T10:19:00Z, \
         '2 h ago')"
    )
}

/// `now`, RFC 3339, or a local date.
fn point(text: &str) -> Option<Timestamp> {
    if text == "now" {
        return Some(Timestamp::now());
    }
    if let Ok(timestamp) = text.parse() {
        return Some(timestamp);
    }
    // With a time zone in brackets, which a local date would pass over.
    if let Ok(zoned) = text.parse::<Zoned>() {
        return Some(zoned.timestamp());
    }
    let civil = text.parse::<DateTime>().ok()?;
    Some(civil.to_zoned(TimeZone::system()).ok()?.timestamp())
}

/// A span before now.
fn past(text: &str) -> Option<Timestamp> {
    let span: Span = text.parse().ok()?;
    // With or without `ago`: what is yet to come is in no recording.
    Some(Zoned::now().checked_sub(span.abs()).ok()?.timestamp())
}

/// The last such time of day that is not after `last_ms`.
fn last_before(time: Time, last_ms: u64, zone: TimeZone) -> Option<u64> {
    let last = Timestamp::from_millisecond(i64::try_from(last_ms).ok()?).ok()?;
    let last = last.to_zoned(zone.clone());
    let same_day = last.date().to_datetime(time).to_zoned(zone).ok()?;
    let before = if same_day > last { same_day.checked_sub(1.day()).ok()? } else { same_day };
    u64::try_from(before.timestamp().as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, unix_ms: u64) {
        assert_eq!(text.parse(), Ok(TimeArg::At(unix_ms)), "{text}");
    }

    #[test]
    fn absolute_times() {
        check("2023-11-14T22:14:00.250Z", 1_700_000_040_250);
        check("2023-11-14T23:14:00+01:00", 1_700_000_040_000);
        check("2023-11-14T23:14:00[Europe/Berlin]", 1_700_000_040_000);
        check("1700000040", 1_700_000_040_000);
        check("1700000040250", 1_700_000_040_250);
        let local: DateTime = "2023-11-14T10:00".parse().unwrap();
        let local = local.to_zoned(TimeZone::system()).unwrap().timestamp().as_millisecond();
        check("2023-11-14 10:00", local.unsigned_abs());
    }

    #[test]
    fn spans_that_have_passed() {
        for (text, span_ms) in [
            ("now", 0),
            ("90s", 90_000),
            ("2h", 7_200_000),
            ("2 h ago", 7_200_000),
            ("1 hour 30 minutes ago", 5_400_000),
            ("3d", 3 * 86_400_000),
        ] {
            let now = Timestamp::now().as_millisecond().unsigned_abs();
            let moment: TimeArg = text.parse().unwrap();
            let TimeArg::At(unix_ms) = moment else { panic!("{text}: {moment:?}") };
            // A day may have an hour more or less, where clocks are changed.
            assert!((now - span_ms).abs_diff(unix_ms) <= 3_660_000, "{text}");
        }
    }

    /// Promise (The recorder): Every command takes times, durations and the JSON option in the same form.
    #[test]
    fn a_time_of_day_is_the_last_one_of_the_recording() {
        let ms = |text: &str| {
            let time: Timestamp = text.parse().unwrap();
            time.as_millisecond().unsigned_abs()
        };
        let last_ms = ms("2026-11-22T12:00:00Z");
        for (text, means) in [
            ("10:19:30", "2026-11-22T10:19:30Z"),
            ("10:19", "2026-11-22T10:19:00Z"),
            ("12:00", "2026-11-22T12:00:00Z"),
            ("23:59", "2026-11-21T23:59:00Z"),
        ] {
            let Ok(TimeArg::TimeOfDay(time)) = text.parse() else { panic!("{text}") };
            assert_eq!(last_before(time, last_ms, TimeZone::UTC), Some(ms(means)), "{text}");
        }
        // A night in which clocks are changed, and an empty recording.
        assert_eq!(last_before(Time::midnight(), 0, TimeZone::UTC), Some(0));
    }

    #[test]
    fn what_is_no_time_says_how_to_write_one() {
        for text in ["", "noon", "25:61", "1.5.2026", "-5", "99999-01-01"] {
            let error = text.parse::<TimeArg>().unwrap_err();
            assert!(error.contains("2 h ago"), "{error}");
        }
    }
}
