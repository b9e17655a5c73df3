//! Durations on the command line.

use jiff::Span;
use std::time::Duration;

/// Reads a duration such as `500ms`, `1s`, `60d`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let duration = delay(text)?;
    if duration.is_zero() {
        return Err(format!("invalid duration '{text}': it must be more than 0"));
    }
    Ok(duration)
}

/// Reads a duration that may be `0s`.
pub(crate) fn delay(text: &str) -> Result<Duration, String> {
    let wrong = || format!("invalid duration '{text}' (use for example 500ms, 1s, 5min, 2h, 60d)");
    let span: Span = text.parse().map_err(|_| wrong())?;
    let days = jiff::SpanRelativeTo::days_are_24_hours();
    let duration = span.to_duration(days).map_err(|_| wrong())?;
    Duration::try_from(duration).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        for (text, ms) in [("500ms", 500), ("1s", 1000), ("1.5s", 1500), ("2h", 7_200_000)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(duration("60d"), Ok(Duration::from_secs(60 * 86_400)));
        assert_eq!(delay("0s"), Ok(Duration::ZERO));
        for text in ["", "0s", "-1s", "1 parsec", "5"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
