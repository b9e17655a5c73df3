//! Blame: the answer in one line, then a row for each victim, culprit and cause, the most time first.

use super::{MIN_WIDTH, TextLayout, TextPage};
use crate::visible::on_terminal;
use anstyle::Style;
use mw_model::{BlameList, BlameRow, BlameShare, format_count, format_duration_ms, visible};
use std::fmt::Write;

/// Rows that are shown.
const MAX_SHOWN: usize = 40;
/// Between two columns.
const GAP: usize = 2;
/// The column of times, where rows are folded.
const TIME: usize = 14;

const HEADINGS: [&str; 5] = ["victim", "culprit", "cause", "lost", "stalls"];

/// The answer in one line, of the victim that lost most: what it lost within a `span`, and to whom most of that.
pub fn blame_summary(list: &BlameList, span: &str) -> String {
    let Some(first) = list.victims.first() else { return format!("no stall {span}") };
    let lost = format!(
        "{} lost {} in {} {span}",
        first.victim,
        format_duration_ms(first.lost_ms as f64),
        format_count(usize::try_from(first.stalls).unwrap_or(usize::MAX), "stall")
    );
    let own = list.rows.iter().filter(|row| row.share.victim.is_same(&first.victim));
    let Some(row) = own.into_iter().find(|row| row.share.is_proven()) else {
        return format!("{lost}; no culprit is proven");
    };
    let BlameShare { culprit, lost_ms, .. } = &row.share;
    let (time, cause) = (format_duration_ms(*lost_ms as f64), row.share.cause_name());
    match row.share.is_own() {
        true => format!("{lost}; {time} at its own limit ({cause})"),
        false => format!("{lost}; {time} by {culprit} ({cause})"),
    }
}

/// The page of a list.
pub fn blame(list: &BlameList, layout: TextLayout) -> String {
    let layout = TextLayout { width: layout.width.max(MIN_WIDTH), ..layout };
    let mut page = TextPage { layout, text: String::new() };
    for line in textwrap::wrap(&visible::line(&list.summary), layout.width) {
        let line = page.painted(Style::new().bold(), &line);
        page.line(&line);
    }
    if !list.rows.is_empty() {
        page.line("");
        page.blame_rows(list);
    }
    if !list.notes.is_empty() {
        page.line("");
    }
    for note in &list.notes {
        page.folded(TIME, "note", note);
    }
    on_terminal(&page.text, layout.colour)
}

/// The cells of a row.
fn cells(row: &BlameRow) -> [String; 5] {
    let share = &row.share;
    let culprit = if share.is_own() { "itself".to_owned() } else { share.culprit.to_string() };
    let texts = [share.victim.to_string(), culprit, share.cause_name().to_owned()];
    let [victim, culprit, cause] = texts.map(|text| visible::line(&text));
    let lost = format_duration_ms(share.lost_ms as f64);
    [victim, culprit, cause, lost, row.stalls.to_string()]
}

impl TextPage {
    /// A table where it fits into the width, else a paragraph for each row.
    fn blame_rows(&mut self, list: &BlameList) {
        let rows: Vec<[String; 5]> = list.rows.iter().take(MAX_SHOWN).map(cells).collect();
        let headings = HEADINGS.map(str::to_owned);
        let chars = |row: &[String; 5], column: usize| row[column].chars().count();
        let all = || rows.iter().chain([&headings]);
        let widths: [usize; 5] =
            std::array::from_fn(|column| all().map(|row| chars(row, column)).max().unwrap_or(0));
        if widths.iter().sum::<usize>() + 4 * GAP <= self.layout.width {
            for row in [&headings].into_iter().chain(&rows) {
                self.blame_line(row, widths);
            }
        } else {
            for [victim, culprit, cause, lost, stalls] in &rows {
                let text = format!("{victim} to {culprit}: {cause}; stalls: {stalls}");
                self.folded(TIME, lost, &text);
            }
        }
        let beyond = list.rows.len().saturating_sub(MAX_SHOWN);
        if beyond > 0 {
            self.line("");
            self.folded(TIME, "note", &format!("{} with less time", format_count(beyond, "row")));
        }
    }

    /// Names to the left, numbers to the right.
    fn blame_line(&mut self, row: &[String; 5], widths: [usize; 5]) {
        let mut line = String::new();
        for (column, (text, width)) in row.iter().zip(widths).enumerate() {
            let fill = " ".repeat(width.saturating_sub(text.chars().count()));
            let (before, after) =
                if column < 3 { ("", fill.as_str()) } else { (fill.as_str(), "") };
            let _ = write!(line, "{before}{text}{after}{:GAP$}", "");
        }
        self.line(line.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::{BlameParty, PartyKind};

    fn share(culprit: BlameParty, cause: Option<&str>, lost_ms: u64) -> BlameShare {
        BlameShare {
            victim: BlameParty::of_cgroup("/system.slice/db.service"),
            culprit,
            cause: cause.map(str::to_owned),
            lost_ms,
        }
    }

    fn list(shares: Vec<BlameShare>) -> BlameList {
        let mut list = BlameList::default();
        list.add_all([(7, shares)]);
        list.summary = blame_summary(&list, "in the last day");
        list
    }

    fn page(list: &BlameList, width: usize) -> String {
        blame(list, TextLayout { width, ..TextLayout::default() })
    }

    #[test]
    fn the_first_line_is_the_answer() {
        let backup = BlameParty::of_cgroup("/system.slice/backup.service");
        let of_backup = share(backup, Some("page-cache-flood"), 31_200);
        let rest = share(BlameParty::default(), None, 9_800);
        let text = page(&list(vec![of_backup, rest.clone()]), 100);
        let rows = "db.service lost 41.0 s in 1 stall in the last day; 31.2 s by backup.service (page-cache-flood)\n\n\
                    victim      culprit         cause               lost  stalls\n\
                    db.service  backup.service  page-cache-flood  31.2 s       1\n\
                    db.service  unknown         unknown            9.8 s       1\n";
        assert_eq!(text, rows);
        let own = BlameParty::of_cgroup("/system.slice/db.service/a");
        let own = list(vec![share(own, Some("cgroup-limit"), 2000), rest.clone()]);
        assert!(
            own.summary.ends_with("; 2.0 s at its own limit (cgroup-limit)"),
            "{}",
            own.summary
        );
        assert!(page(&own, 100).contains("db.service  itself   cgroup-limit  2.0 s"), "{own:?}");
        assert!(list(vec![rest]).summary.ends_with("; no culprit is proven"));
        assert_eq!(list(Vec::new()).summary, "no stall in the last day");
    }

    #[test]
    fn names_steer_no_terminal_and_fit_forty_columns() {
        let hostile = BlameParty::named(PartyKind::Process, "x\u{1b}[2J\ny");
        let text = page(&list(vec![share(hostile, Some("reclaim-storm"), 4000)]), 40);
        assert!(!text.contains('\u{1b}') && text.contains("x\\u{1b}[2J\\u{a}y"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
    }
}
