//! Sizes and counts in text.

const KIB: u64 = 1 << 10;

/// Suffixes of sizes and their factors, the largest first.
pub const SIZE_SUFFIXES: [(&str, u64); 5] =
    [("P", 1 << 50), ("T", 1 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", KIB)];

/// Formats bytes: `512 B`, `64 KiB`, `1.5 GiB`; exact multiples without a fraction.
pub fn format_bytes(bytes: u64) -> String {
    if bytes < KIB {
        return format!("{bytes} B");
    }
    // What would be rounded to 1024.0 of a unit is written in the next one.
    let fits = |factor: u64| bytes >= factor - factor / 20_480;
    let (suffix, factor) =
        SIZE_SUFFIXES.iter().find(|(_, factor)| fits(*factor)).copied().unwrap_or(("K", KIB));
    if bytes.is_multiple_of(factor) {
        return format!("{} {suffix}iB", bytes / factor);
    }
    format!("{:.1} {suffix}iB", bytes as f64 / factor as f64)
}

/// Formats a count with its noun, which is given in the singular and has a regular plural: `1 thread`, `4 threads`,
/// `2 processes`.
pub fn format_count<N: PartialEq + From<u8> + std::fmt::Display>(count: N, noun: &str) -> String {
    let is_sibilant = ["s", "x", "ch", "sh"].iter().any(|ending| noun.ends_with(ending));
    let ending = match (count == N::from(1), is_sibilant) {
        (true, _) => "",
        (false, true) => "es",
        (false, false) => "s",
    };
    format!("{count} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written() {
        for (bytes, text) in
            [(0, "0 B"), (1023, "1023 B"), (65_536, "64 KiB"), (3 << 29, "1.5 GiB")]
        {
            assert_eq!(format_bytes(bytes), text);
        }
        for (_, factor) in SIZE_SUFFIXES.iter().filter(|(_, factor)| *factor > KIB) {
            for below in [1, factor / 30_000, factor / 20_480, factor / 10_000] {
                let text = format_bytes(factor - below);
                assert!(!text.starts_with("1024"), "{text}");
            }
        }
    }

    #[test]
    fn a_noun_agrees_with_its_count() {
        for (count, noun, text) in [
            (0, "node", "0 nodes"),
            (1, "node", "1 node"),
            (2, "node", "2 nodes"),
            (1, "process", "1 process"),
            (3, "process", "3 processes"),
        ] {
            assert_eq!(format_count(count, noun), text);
        }
    }
}
