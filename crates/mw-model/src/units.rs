//! Sizes, durations and quantities in text.

use mw_memory::{SIZE_SUFFIXES, format_bytes};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A size that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// Not a number with a suffix.
    #[error("invalid size '{0}' (use a number with K, M, G, T or P, for example 32G or 512M)")]
    Malformed(String),
    /// Zero, or more than 64 bits can hold.
    #[error("size '{0}' is out of range (at least 1 byte, below 16 EiB)")]
    OutOfRange(String),
}

/// Parses a size such as `4096`, `64k`, `2M`, `1.5G`, `32GiB`. Suffixes are powers of 1024.
///
/// # Errors
/// [`SizeError`] if the text is not a size, or the size is zero or does not fit into 64 bits.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let malformed = || SizeError::Malformed(text.to_owned());
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, suffix) = trimmed.split_at(split);
    let suffix = suffix.trim().to_ascii_uppercase();
    let unit = suffix.strip_suffix("IB").or_else(|| suffix.strip_suffix('B')).unwrap_or(&suffix);
    let factor = match unit {
        "" => 1,
        _ => SIZE_SUFFIXES.iter().find(|(s, _)| *s == unit).ok_or_else(malformed)?.1,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || (number.contains('.') && fraction.is_empty()) || fraction.len() > 6 {
        return Err(malformed());
    }
    let out_of_range = || SizeError::OutOfRange(text.to_owned());
    let whole: u64 = parse_digits(whole, malformed, out_of_range)?;
    let scale = 10_u64.pow(u32::try_from(fraction.len()).unwrap_or(0));
    let fraction: u64 =
        if fraction.is_empty() { 0 } else { parse_digits(fraction, malformed, out_of_range)? };
    let bytes = u128::from(whole) * u128::from(factor)
        + u128::from(fraction) * u128::from(factor) / u128::from(scale);
    u64::try_from(bytes).ok().filter(|b| *b > 0).ok_or_else(out_of_range)
}

fn parse_digits(
    digits: &str,
    malformed: impl Fn() -> SizeError,
    out_of_range: impl Fn() -> SizeError,
) -> Result<u64, SizeError> {
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(malformed());
    }
    digits.parse().map_err(|_| out_of_range())
}

/// Formats milliseconds: `5 µs`, `0.4 ms`, `85 ms`, `2.3 s`, `4 min 10 s`, `2 h 5 min`.
pub fn format_duration_ms(ms: f64) -> String {
    if !ms.is_finite() || ms < 0.0 {
        return "unknown".to_owned();
    }
    // Limits are where rounding would reach the next unit.
    let seconds = ms / 1000.0;
    if ms == 0.0 {
        "0 ms".to_owned()
    } else if ms < 0.05 {
        format!("{:.0} µs", (ms * 1000.0).max(1.0))
    } else if ms < 9.95 {
        format!("{ms:.1} ms")
    } else if ms < 999.5 {
        format!("{ms:.0} ms")
    } else if seconds < 59.95 {
        format!("{seconds:.1} s")
    } else if seconds < 3599.5 {
        let whole = seconds.round() as u64;
        format!("{} min {} s", whole / 60, whole % 60)
    } else {
        let minutes = (seconds / 60.0).round() as u64;
        format!("{} h {} min", minutes / 60, minutes % 60)
    }
}

/// A number with its unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "unit", content = "value", rename_all = "snake_case")]
pub enum Quantity {
    /// Bytes of memory or of a device.
    Bytes(u64),
    /// A plain count, or the value of a setting.
    Count(u64),
    /// Percent, 0 to 100.
    Percent(f64),
    /// A ratio or an index, 0 to 1.
    Ratio(f64),
    /// Events or pages a second.
    PerSecond(f64),
    /// Bytes a second.
    BytesPerSecond(u64),
    /// Milliseconds.
    Milliseconds(f64),
    /// Text, such as the selected choice of a kernel file.
    Text(String),
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => f.write_str(&format_bytes(*bytes)),
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(percent) if *percent >= 10.0 => write!(f, "{percent:.0}%"),
            Self::Percent(percent) => write!(f, "{percent:.1}%"),
            Self::Ratio(ratio) => write!(f, "{ratio:.2}"),
            Self::PerSecond(rate) => write!(f, "{rate:.0}/s"),
            Self::BytesPerSecond(rate) => write!(f, "{}/s", format_bytes(*rate)),
            Self::Milliseconds(ms) => f.write_str(&format_duration_ms(*ms)),
            Self::Text(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [
            ("4096", 4096),
            ("64k", 65_536),
            ("2M", 2 << 20),
            ("1.5G", 3 << 29),
            ("32GiB", 32 << 30),
            ("1 TB", 1 << 40),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "12X", "G", "1.", ".5G", "-1G", "1..5G", "1e3", "0x10", "1GG", "1,5G"] {
            assert!(matches!(parse_size(text), Err(SizeError::Malformed(_))), "{text}");
        }
        for text in ["0", "0G", "99999999999999999999", "16384P"] {
            assert!(matches!(parse_size(text), Err(SizeError::OutOfRange(_))), "{text}");
        }
    }

    #[test]
    fn durations_are_written() {
        for (ms, text) in [
            (0.0, "0 ms"),
            (1e-7, "1 µs"),
            (0.0049, "5 µs"),
            (0.44, "0.4 ms"),
            (9.97, "10 ms"),
            (999.7, "1.0 s"),
            (59_970.0, "1 min 0 s"),
            (3_599_700.0, "1 h 0 min"),
            (85.2, "85 ms"),
            (2_340.0, "2.3 s"),
            (250_000.0, "4 min 10 s"),
            (7_500_000.0, "2 h 5 min"),
            (f64::NAN, "unknown"),
        ] {
            assert_eq!(format_duration_ms(ms), text);
        }
    }
}
