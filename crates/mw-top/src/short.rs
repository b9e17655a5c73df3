//! Numbers for narrow columns: five characters at most.

/// Bytes: `0`, `812M`, `14.2G`.
pub(crate) fn bytes(bytes: u64) -> String {
    scaled(bytes as f64, 1024.0, &["B", "K", "M", "G", "T", "P", "E"], "0")
}

/// Bytes of an optional number; `?` where it was not seen.
pub(crate) fn maybe_bytes(value: Option<u64>) -> String {
    value.map_or_else(|| "?".to_owned(), bytes)
}

/// A count or a rate: `0`, `0.3`, `812`, `14.2k`.
pub(crate) fn count(value: f64) -> String {
    if value > 0.0 && value < 9.95 && value.fract() > 0.0 {
        return if value < 0.05 { "0.1".to_owned() } else { format!("{value:.1}") };
    }
    scaled(value, 1000.0, &["", "k", "M", "G", "T", "P", "E"], "0")
}

/// Percent: `0%`, `0.4%`, `51%`.
pub(crate) fn percent(value: f64) -> String {
    if value < 0.05 {
        "0%".to_owned()
    } else if value < 9.95 {
        format!("{value:.1}%")
    } else {
        format!("{value:.0}%")
    }
}

fn scaled(value: f64, base: f64, units: &[&str], zero: &str) -> String {
    if !value.is_finite() || value < 0.5 {
        return zero.to_owned();
    }
    let mut value = value;
    let mut at = 0;
    while value >= 999.5 && at + 1 < units.len() {
        value /= base;
        at += 1;
    }
    let unit = units.get(at).copied().unwrap_or("");
    if at == 0 {
        format!("{value:.0}{unit}")
    } else if value < 99.95 {
        format!("{value:.1}{unit}")
    } else {
        format!("{value:.0}{unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fit_their_columns() {
        for (value, text) in [
            (0, "0"),
            (512, "512B"),
            (4096, "4.0K"),
            (812 << 20, "812M"),
            (1020 << 20, "1.0G"),
            (15_247_000_000, "14.2G"),
            (u64::MAX, "16.0E"),
        ] {
            assert_eq!(bytes(value), text);
        }
        for (value, text) in [
            (0.0, "0"),
            (0.01, "0.1"),
            (0.34, "0.3"),
            (9.0, "9"),
            (812.4, "812"),
            (14_234.0, "14.2k"),
            (999_700.0, "1.0M"),
            (f64::NAN, "0"),
        ] {
            assert_eq!(count(value), text);
        }
        for (value, text) in [(0.01, "0%"), (0.44, "0.4%"), (51.2, "51%"), (100.0, "100%")] {
            assert_eq!(percent(value), text);
        }
    }
}
