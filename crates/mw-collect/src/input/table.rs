//! The tables that free(1) and vmstat(8) print, as lines of /proc/meminfo.

use crate::memory_tree::MemoryTree;
use std::fmt::Write;

/// Memory that a table tells, in kB by the kernel's names, and what it was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableMemory {
    kb: Vec<(&'static str, u64)>,
    name: String,
}

impl TableMemory {
    /// Adds it as /proc/meminfo, unless that is there.
    pub(super) fn add(self, tree: &mut MemoryTree) -> Option<String> {
        if tree.file("proc/meminfo").is_ok() {
            return None;
        }
        let mut lines = String::new();
        for (name, kb) in &self.kb {
            let _ = writeln!(lines, "{name}: {kb} kB");
        }
        tree.insert("proc/meminfo", lines.into_bytes()).ok()?;
        Some(self.name)
    }
}

/// Columns of free(1) and their names in /proc/meminfo. Of `buff/cache` only the sum is known, and `shared` is `Shmem`
/// since procps 3.3.10.
const FREE: &[(&str, &str)] = &[
    ("total", "MemTotal"),
    ("free", "MemFree"),
    ("shared", "Shmem"),
    ("buffers", "Buffers"),
    ("buff/cache", "Cached"),
    ("cache", "Cached"),
    ("cached", "Cached"),
    ("available", "MemAvailable"),
];

/// The memory in the output of free(1). Its unit is that of its arguments; without them the smallest is taken with which the
/// machine has at least [`PLAUSIBLE_KB`].
pub(super) fn free(text: &str, arguments: Option<&str>) -> Option<TableMemory> {
    let mut lines = text.lines();
    let columns: Vec<&str> = lines
        .by_ref()
        .find(|line| line.contains("total") && line.contains("used") && line.contains("free"))?
        .split_whitespace()
        .collect();
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split_whitespace().collect()).collect();
    let row = |name: &str| {
        rows.iter().find(|row| row.first() == Some(&name)).and_then(|row| row.get(1..))
    };
    let memory = row("Mem:")?;
    let total = quantity(memory.first()?, 1)?;
    let unit = arguments.and_then(unit_kb).unwrap_or_else(|| plausible_kb(total));
    let value = |text: &str| quantity(text, unit);
    let mut kb = Vec::new();
    for (column, text) in columns.iter().zip(memory) {
        let name = FREE.iter().find(|(title, _)| title == column).map(|(_, name)| *name);
        kb.extend(name.zip(value(text)));
    }
    let swap = row("Swap:").unwrap_or_default();
    kb.extend(swap.first().and_then(|total| value(total)).map(|total| ("SwapTotal", total)));
    kb.extend(swap.get(2).and_then(|free| value(free)).map(|free| ("SwapFree", free)));
    let unit = match unit {
        1 => "KiB",
        1024 => "MiB",
        _ => "GiB",
    };
    Some(TableMemory { kb, name: format!("the output of 'free' in {unit}") })
}

/// The unit of free's output by its options, in KiB.
fn unit_kb(arguments: &str) -> Option<u64> {
    let has =
        |option: &str| arguments.split_whitespace().any(|argument| argument.starts_with(option));
    [("-m", 1 << 10), ("-g", 1 << 20), ("-k", 1), ("-h", 1)]
        .into_iter()
        .find(|(option, _)| has(option))
        .map(|(_, kb)| kb)
        .or(arguments.trim().is_empty().then_some(1))
}

/// A machine of which somebody sends the numbers has more than this.
const PLAUSIBLE_KB: u64 = 512 << 10;

fn plausible_kb(total: u64) -> u64 {
    let units = [1, 1 << 10, 1 << 20];
    // 4,194,304 is 4 GiB in KiB and 4 TiB in MiB.
    let fits =
        |unit: &u64| total.saturating_mul(*unit) >= PLAUSIBLE_KB * if *unit == 1 { 8 } else { 1 };
    units.into_iter().find(fits).unwrap_or(1)
}

/// `123` in `unit` kB, or `1.5Gi` of `free -h`, in kB.
fn quantity(text: &str, unit: u64) -> Option<u64> {
    if let Ok(number) = text.parse::<u64>() {
        return number.checked_mul(unit);
    }
    let split = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, suffix) = text.split_at_checked(split)?;
    let scale = match suffix.trim_end_matches(['i', 'B']) {
        "" => 1.0 / 1024.0,
        "K" | "k" => 1.0,
        "M" => 1024.0,
        "G" => 1024.0 * 1024.0,
        "T" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let number: f64 = number.parse().ok()?;
    (number >= 0.0 && number.is_finite()).then_some((number * scale) as u64)
}

/// The memory in the last line of vmstat(8), whose unit is KiB.
pub(super) fn vmstat(text: &str) -> Option<TableMemory> {
    let mut lines = text.lines();
    let columns: Vec<&str> = lines
        .by_ref()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .find(|names| names.contains(&"swpd") && names.contains(&"buff"))?;
    let is_row = |row: &Vec<u64>| row.len() == columns.len();
    let row = lines
        .filter_map(|line| line.split_whitespace().map(|word| word.parse().ok()).collect())
        .rfind(is_row)?;
    let names = [("free", "MemFree"), ("buff", "Buffers"), ("cache", "Cached")];
    let value = |name: &str| row.get(columns.iter().position(|column| *column == name)?).copied();
    let kb = names.into_iter().filter_map(|(column, name)| Some((name, value(column)?))).collect();
    Some(TableMemory { kb, name: "the output of 'vmstat'".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kb(memory: &TableMemory, name: &str) -> Option<u64> {
        memory.kb.iter().find(|(key, _)| *key == name).map(|(_, kb)| *kb)
    }

    const NEW: &str = "               total        used        free      shared  buff/cache   available\n\
                       Mem:          257000      201000        1200         800       54800       53000\n\
                       Swap:           8191        8000         191\n";

    #[test]
    fn numbers_of_free_are_read_in_the_unit_of_its_arguments() {
        let memory = free(NEW, Some("-m")).unwrap();
        assert_eq!(kb(&memory, "MemTotal"), Some(257_000 << 10));
        assert_eq!(kb(&memory, "MemAvailable"), Some(53_000 << 10));
        assert_eq!(kb(&memory, "SwapFree"), Some(191 << 10));
        assert_eq!(kb(&free(NEW, Some("")).unwrap(), "MemTotal"), Some(257_000));
    }

    #[test]
    fn without_arguments_the_unit_is_the_smallest_that_is_plausible() {
        assert_eq!(kb(&free(NEW, None).unwrap(), "MemTotal"), Some(257_000 << 10));
        let large = "  total used free\nMem: 65000000 1 2\n";
        assert_eq!(kb(&free(large, None).unwrap(), "MemTotal"), Some(65_000_000));
        let human =
            "  total used free shared buff/cache available\nMem: 62Gi 1.5Gi 512Mi 0B 3Gi 60Gi\n";
        let human = free(human, None).unwrap();
        assert_eq!(
            (kb(&human, "MemTotal"), kb(&human, "MemFree")),
            (Some(62 << 20), Some(512 << 10))
        );
    }

    #[test]
    fn the_last_line_of_vmstat_counts() {
        let text = "procs -----------memory----------\n r  b   swpd   free   buff  cache   si   so\n \
                    1  0      0    100     20     30    0    0\n 2  3      0     90     21     31   5   6\n";
        let memory = vmstat(text).unwrap();
        assert_eq!((kb(&memory, "MemFree"), kb(&memory, "Cached")), (Some(90), Some(31)));
        assert_eq!(vmstat(" r b swpd free buff\n1 2\n"), None);
    }

    #[test]
    fn numbers_beyond_any_machine_are_none() {
        assert_eq!(quantity("18446744073709551615", 1024), None);
        assert_eq!(quantity("-3Gi", 1), None);
        assert_eq!(quantity("1e999Gi", 1), None);
    }
}
