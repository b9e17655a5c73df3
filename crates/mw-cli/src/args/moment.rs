//! A time on the command line.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};
use std::str::FromStr;

/// Numbers from here on are milliseconds since 1970; below, seconds.
const LEAST_MS: u64 = 100_000_000_000;

/// A time: RFC 3339, a local date with or without a time of day, a span that has passed (`2 h
/// ago`), `now`, or seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// In milliseconds since 1970.
    pub unix_ms: u64,
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Ok(number) = text.parse::<u64>() {
            let unix_ms = if number < LEAST_MS { number * 1000 } else { number };
            return Ok(Self { unix_ms });
        }
        let wrong = || {
            format!(
                "'{text}' is no time: write 2026-03-01T10:19:00Z, '2026-03-01 10:19', '2 h ago'"
            )
        };
        let timestamp = timestamp(text).ok_or_else(wrong)?;
        let unix_ms = u64::try_from(timestamp.as_millisecond()).map_err(|_| wrong())?;
        Ok(Self { unix_ms })
    }
}

fn timestamp(text: &str) -> Option<Timestamp> {
    if text == "now" {
        return Some(Timestamp::now());
    }
    if let Ok(timestamp) = text.parse() {
        return Some(timestamp);
    }
    if let Ok(civil) = text.parse::<DateTime>() {
        return Some(civil.to_zoned(TimeZone::system()).ok()?.timestamp());
    }
    let span: Span = text.parse().ok()?;
    // With or without `ago`: what is yet to come is in no recording.
    Some(Zoned::now().checked_sub(span.abs()).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, unix_ms: u64) {
        assert_eq!(text.parse(), Ok(Moment { unix_ms }), "{text}");
    }

    #[test]
    fn absolute_times() {
        check("2023-11-14T22:14:00.250Z", 1_700_000_040_250);
        check("2023-11-14T23:14:00+01:00", 1_700_000_040_000);
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
            let moment: Moment = text.parse().unwrap();
            // A day may have an hour more or less, where clocks are changed.
            assert!((now - span_ms).abs_diff(moment.unix_ms) <= 3_660_000, "{text}");
        }
    }

    #[test]
    fn what_is_no_time_says_how_to_write_one() {
        for text in ["", "yesterday-ish", "25:61", "1.5.2026", "-5", "99999-01-01"] {
            let error = text.parse::<Moment>().unwrap_err();
            assert!(error.contains("2 h ago"), "{error}");
        }
    }
}
