//! The list of incidents: open ones first, then the others, similar ones as one entry, the latest last.

use super::{MIN_WIDTH, TextLayout, TextPage, time};
use crate::visible::{on_terminal, whole_words};
use anstyle::{AnsiColor, Style};
use jiff::tz::TimeZone;
use mw_model::{
    FailureKind, IncidentRow, IncidentState, Subject, TriggerKind, format_count,
    format_duration_ms, visible,
};
use std::collections::BTreeMap;

/// From this width on text stands beside the time, below it under the time.
const WIDE: usize = 72;
/// Indentation of an entry's text under its first line.
const INDENT: usize = 6;
const DATE_BYTES: usize = "2026-11-22".len();
const MINUTE_BYTES: usize = "2026-11-22 21:02".len();

/// The list to show.
#[derive(Debug, Clone, Copy)]
pub struct IncidentList<'a> {
    /// In any order.
    pub rows: &'a [IncidentRow],
    /// Incidents that are not listed, because others were asked for.
    pub others: usize,
    /// True if similar incidents are one entry.
    pub is_grouped: bool,
    pub now_unix_ms: u64,
}

/// Key that similar incidents share.
type Likeness<'a> =
    (Option<&'a str>, Option<&'a Subject>, TriggerKind, &'a str, Option<FailureKind>);

/// The incidents of a recording.
pub fn incidents(list: IncidentList<'_>, layout: TextLayout) -> String {
    let layout = TextLayout { width: layout.width.max(MIN_WIDTH), ..layout };
    let mut view = IncidentListView {
        now: at(list.now_unix_ms),
        now_unix_ms: list.now_unix_ms,
        page: TextPage { layout, text: String::new() },
    };
    view.head(&list);
    let (open, ended): (Vec<&IncidentRow>, Vec<&IncidentRow>) =
        list.rows.iter().partition(|row| row.state == IncidentState::Open);
    for row in open {
        view.open(row);
    }
    for entry in entries(ended, list.is_grouped) {
        match entry.as_slice() {
            [row] => view.single(row),
            rows => view.group(rows),
        }
    }
    on_terminal(&view.page.text, layout.colour)
}

/// Incidents with the same cause, subject and probe together, the earliest first.
fn entries(rows: Vec<&IncidentRow>, is_grouped: bool) -> Vec<Vec<&IncidentRow>> {
    let mut entries: Vec<Vec<&IncidentRow>> = if is_grouped {
        let mut alike: BTreeMap<Likeness<'_>, Vec<&IncidentRow>> = BTreeMap::new();
        for row in rows {
            alike.entry(likeness(row)).or_default().push(row);
        }
        alike.into_values().collect()
    } else {
        rows.into_iter().map(|row| vec![row]).collect()
    };
    for rows in &mut entries {
        rows.sort_by_key(|row| (row.started_unix_ms, row.id));
    }
    entries.sort_by_key(|rows| rows.last().map(|row| (row.started_unix_ms, row.id)));
    entries
}

fn likeness(row: &IncidentRow) -> Likeness<'_> {
    let (kind, name) = (row.trigger_kind, row.trigger_name.as_str());
    (row.cause.as_deref(), row.subject.as_ref(), kind, name, row.failure_kind)
}

struct IncidentListView {
    now: String,
    now_unix_ms: u64,
    page: TextPage,
}

impl IncidentListView {
    fn head(&mut self, list: &IncidentList<'_>) {
        let open = list.rows.iter().filter(|row| row.state == IncidentState::Open).count();
        let others = match list.others {
            0 => String::new(),
            others => format!(" ({})", format_count(others, "other")),
        };
        let open = match open {
            0 => String::new(),
            open => format!(", {open} open"),
        };
        let text = match (list.rows.len(), list.others) {
            (0, 0) => "no incidents: nothing stalled while it was recorded".to_owned(),
            (0, _) => format!("no such incidents{others}"),
            (1, 0) => format!("1 incident{open}; see it with: memwright report last"),
            (1, _) => format!("1 incident{others}{open}; see it with: memwright report ID"),
            (count, _) => {
                format!("{count} incidents{others}{open}; see one with: memwright report ID")
            }
        };
        self.page.folded(0, "", &text);
    }

    fn open(&mut self, row: &IncidentRow) {
        let lasts = self.now_unix_ms.saturating_sub(row.started_unix_ms);
        let lasts = format_duration_ms(lasts as f64);
        let text = format!("{:>4}  open for {lasts}: {}, provisional", row.id, row.verdict);
        self.hanging(AnsiColor::Red.on_default().bold(), &text);
    }

    /// Painted text, of which all lines but the first are indented.
    fn hanging(&mut self, style: Style, text: &str) {
        let indent = " ".repeat(INDENT);
        let folding = whole_words(self.page.layout.width).subsequent_indent(&indent);
        for line in textwrap::wrap(&visible::line(text), folding) {
            let line = self.page.painted(style, &line);
            self.page.line(&line);
        }
    }

    fn single(&mut self, row: &IncidentRow) {
        let first = format!("{:>4}  {}  ", row.id, at(row.started_unix_ms));
        let lasted = format_duration_ms(row.duration_ms() as f64);
        let lasted = match row.state {
            IncidentState::Interrupted => format!("{lasted}, then the recorder ended"),
            IncidentState::Closed | IncidentState::Open => lasted,
        };
        if self.page.layout.width >= WIDE {
            let text = format!("{lasted}  {}", row.verdict);
            self.page.folded(first.len(), &first, &text);
        } else {
            self.hanging(Style::new(), &format!("{first}{lasted}"));
            self.page.folded(INDENT, "", &row.verdict);
        }
        if let (Some(cause), Some(confidence)) = (&row.cause, row.confidence_percent) {
            self.page.folded(INDENT, "", &format!("{cause}, confidence {confidence}%"));
        }
    }

    fn group(&mut self, rows: &[&IncidentRow]) {
        let worst = rows.iter().max_by(|a, b| a.slowest_ms().total_cmp(&b.slowest_ms()));
        let (Some(first), Some(last), Some(worst)) = (rows.first(), rows.last(), worst) else {
            return;
        };
        let text = format!(
            "{}: {} times since {}, worst {} ({}), last {} ({})",
            name(first),
            rows.len(),
            self.minute(first.started_unix_ms),
            format_duration_ms(worst.slowest_ms()),
            worst.id,
            self.minute(last.started_unix_ms),
            last.id,
        );
        self.hanging(Style::new().bold(), &text);
        self.page.folded(INDENT, "", &worst.verdict);
    }

    /// A time to the minute; of today without the date.
    fn minute(&self, unix_ms: u64) -> String {
        let text = at(unix_ms);
        let minute = text.get(..MINUTE_BYTES).unwrap_or(&text);
        let is_today = text.get(..DATE_BYTES) == self.now.get(..DATE_BYTES);
        let time = minute.get(DATE_BYTES + 1..).filter(|_| is_today);
        time.unwrap_or(minute).to_owned()
    }
}

/// Facts that the incidents of an entry share.
fn name(row: &IncidentRow) -> String {
    let cause = match (&row.cause, row.failure_kind) {
        (Some(cause), _) => cause.clone(),
        (None, Some(failure)) => failure.to_string(),
        (None, None) => "cause unknown".to_owned(),
    };
    let subject = match &row.subject {
        Some(Subject::Cgroup(Some(path))) => format!(" on {path}"),
        Some(Subject::Area(area)) => format!(" ({area})"),
        Some(subject) => format!(" on {subject}"),
        None => String::new(),
    };
    let trigger = match row.trigger_kind {
        TriggerKind::Probe => format!(", probe {}", row.trigger_name),
        _ => format!(", {}", row.trigger_name),
    };
    format!("{cause}{subject}{trigger}")
}

fn at(unix_ms: u64) -> String {
    time(unix_ms, &TimeZone::system()).unwrap_or_else(|| "at an unknown time ".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::Area;

    /// 2026-11-22, 12:00 in UTC.
    const NOON_MS: u64 = 1_795_348_800_000;

    fn row(id: u64, started_unix_ms: u64, worst_ms: u64) -> IncidentRow {
        IncidentRow {
            id,
            started_unix_ms,
            ended_unix_ms: started_unix_ms + worst_ms,
            trigger_name: "db".to_owned(),
            worst_ms: worst_ms as f64,
            verdict: format!("db did not answer for {worst_ms} ms: its cgroup is too small"),
            cause: Some("cgroup-limit".to_owned()),
            subject: Some(Subject::Cgroup(Some("/system.slice/db.service".to_owned()))),
            confidence_percent: Some(90),
            ..IncidentRow::default()
        }
    }

    fn list(rows: &[IncidentRow]) -> IncidentList<'_> {
        IncidentList { rows, others: 0, is_grouped: true, now_unix_ms: NOON_MS }
    }

    fn page(rows: &[IncidentRow]) -> String {
        incidents(list(rows), TextLayout::default())
    }

    #[test]
    fn a_list_starts_with_the_count() {
        assert!(page(&[]).starts_with("no incidents:"));
        let other = IncidentRow { trigger_name: "web".to_owned(), ..row(2, 0, 5) };
        let list = page(&[row(1, 0, 5), other]);
        assert_eq!(list.lines().next(), Some("2 incidents; see one with: memwright report ID"));
        let filtered = IncidentList { others: 3, ..super::tests::list(&[]) };
        assert_eq!(incidents(filtered, TextLayout::default()), "no such incidents (3 others)\n");
    }

    /// Promise (The recorder): `incidents` shows open incidents first, groups similar ones and fits 40 columns;
    /// `worst` is the slowest answer.
    #[test]
    fn open_incidents_come_first_and_their_cause_is_provisional() {
        let open = IncidentRow { state: IncidentState::Open, ..row(1, NOON_MS - 12_000, 900) };
        let interrupted = IncidentRow { state: IncidentState::Interrupted, ..row(3, NOON_MS, 700) };
        let page = page(&[open, row(2, NOON_MS - 50_000, 800), interrupted]);
        let lines: Vec<&str> = page.lines().collect();
        assert!(lines[0].starts_with("3 incidents, 1 open;"), "{page}");
        assert!(lines[1].starts_with("   1  open for 12.0 s: db did"), "{page}");
        assert!(page.contains(", provisional\n"), "{page}");
        let group = "cgroup-limit on /system.slice/db.service, probe db: 2 times";
        assert!(lines[2].starts_with(group), "{page}");
    }

    #[test]
    fn similar_incidents_are_one_entry() {
        let mut rows: Vec<IncidentRow> =
            (0..37).map(|at| row(at + 1, NOON_MS - 3_600_000 + at * 60_000, 100 + at)).collect();
        rows[16].worst_ms = 5_100.0;
        rows.push(IncidentRow { subject: Some(Area::Disk.into()), ..row(38, NOON_MS, 5) });
        let page = page(&rows);
        let minute = |unix_ms| at(unix_ms)[11..16].to_owned();
        let expected = format!(
            "cgroup-limit on /system.slice/db.service, probe db: 37 times since {}, worst 5.1 s (17), last {} (37)",
            minute(NOON_MS - 3_600_000),
            minute(rows[36].started_unix_ms),
        );
        assert!(page.replace("\n      ", " ").contains(&expected), "{expected}\n{page}");
        assert!(page.contains("\n  38  2026-11-22"), "{page}");
        assert_eq!(page.lines().last(), Some("      cgroup-limit, confidence 90%"));
        let all =
            incidents(IncidentList { is_grouped: false, ..list(&rows) }, TextLayout::default());
        assert!(all.contains("\n  16  2026-11-22") && all.contains("\n  17  2026-11-22"), "{all}");
    }

    #[test]
    fn an_outage_is_as_slow_as_it_is_long() {
        let refused = |id, lasted_ms| IncidentRow {
            failure_kind: Some(FailureKind::Refused),
            cause: None,
            subject: None,
            worst_ms: 3.0,
            ..row(id, NOON_MS - 86_400_000 * 2, lasted_ms)
        };
        let page = page(&[refused(1, 90_000), refused(2, 2_000)]);
        let first = page.lines().nth(1).unwrap();
        assert!(
            first.starts_with("connection refused, probe db: 2 times since 2026-11-20 "),
            "{page}"
        );
        assert!(first.contains("worst 1 min 30 s (1)"), "{page}");
    }

    #[test]
    fn narrow_terminals_are_enough() {
        let open = IncidentRow { state: IncidentState::Open, ..row(1, NOON_MS - 12_000, 900) };
        let rows = [open, row(2, NOON_MS, 5), row(3, NOON_MS, 7), row(104, NOON_MS, 9)];
        for width in [40, 80] {
            for is_grouped in [true, false] {
                let list = IncidentList { is_grouped, ..list(&rows) };
                let page = incidents(list, TextLayout { width, ..TextLayout::default() });
                let longest = page.lines().map(|line| line.chars().count()).max();
                assert!(longest.is_some_and(|longest| longest <= width), "{width}:\n{page}");
                let words: Vec<&str> = page.split_whitespace().collect();
                let verdicts = words.join(" ").matches("db did not answer for").count();
                assert_eq!(verdicts, if is_grouped { 2 } else { 4 }, "{width}:\n{page}");
            }
        }
    }
}
