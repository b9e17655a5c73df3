//! All memory of a machine: the answer in one sentence, then a table of its parts.

use super::{MIN_WIDTH, TextLayout, TextPage, percent};
use crate::visible::on_terminal;
use anstyle::Style;
use mw_model::{AccountEntry, MemoryAccount, format_bytes, visible};
use std::fmt::Write;

/// The columns before a name: bytes and percent.
const NUMBERS: usize = 17;
/// By how much each level is indented.
const STEP: usize = 2;
/// The most parts of an entry that are shown without `--verbose`.
const MOST_SHOWN: usize = 5;
/// From which share of memory on, in percent, a part is shown without `--verbose`.
const LEAST_PERCENT: f64 = 0.5;

pub fn account(account: &MemoryAccount, layout: TextLayout) -> String {
    let layout = TextLayout { width: layout.width.max(MIN_WIDTH), ..layout };
    let mut page = TextPage { layout, text: String::new() };
    let summary = page.painted(Style::new().bold(), &account.summary);
    page.line(&summary);
    page.line("");
    for entry in &account.parts {
        page.entry(entry, 0, account.total_bytes);
    }
    page.processes(account);
    page.not_counted(account);
    on_terminal(&page.text, layout.colour)
}

impl TextPage {
    fn entry(&mut self, entry: &AccountEntry, depth: usize, total_bytes: u64) {
        self.row(&entry.name, entry.bytes, depth, total_bytes);
        let only = match entry.parts.as_slice() {
            // A heading with one part under it: the part is what it is.
            [only] if depth == 0 => only,
            _ => entry,
        };
        if self.layout.verbose {
            for text in [Some(&only.source), only.note.as_ref()].into_iter().flatten() {
                self.folded(NUMBERS + STEP * (depth + 1), "", text);
            }
        }
        let shown = self.shown(&only.parts, total_bytes);
        for part in only.parts.iter().take(shown) {
            self.entry(part, depth + 1, total_bytes);
        }
        let others = only.parts.get(shown..).unwrap_or_default();
        if !others.is_empty() {
            let bytes = others.iter().map(|part| part.bytes).fold(0, u64::saturating_add);
            self.row(&format!("{} more", others.len()), bytes, depth + 1, total_bytes);
        }
    }

    /// Number of these that are shown one by one: never all but one.
    fn shown(&self, parts: &[AccountEntry], total_bytes: u64) -> usize {
        if self.layout.verbose || parts.len() <= 1 {
            return parts.len();
        }
        let is_large = |part: &&AccountEntry| percent(part.bytes, total_bytes) >= LEAST_PERCENT;
        let large = parts.iter().rposition(|part| is_large(&part)).map_or(0, |last| last + 1);
        let shown = large.min(MOST_SHOWN);
        if shown + 1 == parts.len() { parts.len() } else { shown }
    }

    fn row(&mut self, name: &str, bytes: u64, depth: usize, total_bytes: u64) {
        let share = format!("{:.0}%", percent(bytes, total_bytes));
        let mut numbers = String::new();
        let _ = write!(
            numbers,
            "{:>10} {share:>4}  {:indent$}",
            format_bytes(bytes),
            "",
            indent = STEP * depth
        );
        self.folded(NUMBERS + STEP * depth, &numbers, name);
    }

    fn processes(&mut self, account: &MemoryAccount) {
        if !self.layout.verbose || account.processes.is_empty() {
            return;
        }
        self.heading("processes with the most anonymous memory (shared pages count in each)");
        for process in &account.processes {
            let name = visible::line(&process.name);
            let bytes = format_bytes(process.anon_bytes);
            let _ = writeln!(self.text, "{bytes:>10}  {name} ({})", process.pid);
        }
    }

    fn not_counted(&mut self, account: &MemoryAccount) {
        if account.overcounted_bytes > 0 || !account.unseen.is_empty() {
            self.line("");
        }
        if account.overcounted_bytes > 0 {
            let over = format_bytes(account.overcounted_bytes);
            let why = if percent(account.overcounted_bytes, account.total_bytes) < 1.0 {
                "the kernel updates its counters in batches"
            } else {
                "counters contradict each other (memwright check)"
            };
            let text = format!("the parts exceed the total by {over}: {why}");
            self.folded(0, "", &text);
        }
        for missing in &account.unseen {
            self.folded(9, "unknown  ", &missing.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::Missing;

    const MIB: u64 = 1 << 20;

    fn entry(name: &str, mib: u64, parts: Vec<AccountEntry>) -> AccountEntry {
        let name = name.to_owned();
        AccountEntry { name, bytes: mib * MIB, parts, ..AccountEntry::default() }
    }

    fn machine() -> MemoryAccount {
        let files = vec![
            entry(
                "/var/lib/postgresql/17/main/base/16384/with-a-long-name\x1b[2J",
                300,
                Vec::new(),
            ),
            entry("/b", 40, Vec::new()),
            entry("files not open in any process", 1, Vec::new()),
            entry("c", 1, Vec::new()),
        ];
        let clean = entry("clean", 342, files);
        let cache = entry("page cache", 342, vec![clean]);
        MemoryAccount {
            schema: 1,
            memwright: String::new(),
            root: "live".to_owned(),
            kernel: None,
            taken_unix_ms: None,
            summary: "1000 MiB: 658 MiB free".to_owned(),
            total_bytes: 1000 * MIB,
            overcounted_bytes: MIB,
            parts: vec![entry("free", 658, Vec::new()), cache],
            processes: Vec::new(),
            unseen: vec![Missing::absent("/proc/slabinfo", "not in this tree")],
        }
    }

    /// Promise (All memory): The first line is the answer, and the table fits 40 columns.
    #[test]
    fn it_fits_forty_columns() {
        for verbose in [false, true] {
            let page = account(&machine(), TextLayout { width: 40, verbose, colour: false });
            assert!(page.lines().all(|line| line.chars().count() <= 40), "{page}");
            assert!(!page.contains('\x1b'), "{page}");
        }
    }

    #[test]
    fn small_parts_are_one_row() {
        let page = account(&machine(), TextLayout::default());
        let rows: Vec<&str> = page.lines().skip(2).map(str::trim).take(6).collect();
        assert_eq!(rows[0], "658 MiB  66%  free");
        assert_eq!(rows[1], "342 MiB  34%  page cache");
        assert!(rows[2].starts_with("300 MiB  30%    /var/lib/postgresql"), "{page}");
        assert_eq!(rows[3..5], ["40 MiB   4%    /b", "2 MiB   0%    2 more"]);
        let all = account(&machine(), TextLayout { verbose: true, ..TextLayout::default() });
        assert!(all.contains("files not open in any process"), "{all}");
    }
}
