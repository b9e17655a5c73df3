//! What lies over a view: the keys, a rule's page, the details of what is selected.

use super::Pen;
use super::hazards::folded;
use super::row::TextRow;
use crate::face::TextRole;
use crate::keys::BINDINGS;

/// A column of keys with what they do.
const HELP_COLUMN: usize = 40;

const LEGEND: &[&str] = &[
    "some, full: share of the last 10 s in which some or all tasks waited (PSI)",
    "m l h: min, low and high watermark. Below l kswapd reclaims, below m programs wait",
    "unusable: free memory in blocks too small for a huge page; the curve shows where",
    "free memory by block order; blocks right of the fence can back a huge page",
    "?, -: unknown. What could not be checked is listed with the hazards",
];

impl Pen<'_> {
    /// The keys, in as many columns as there is room for.
    pub(super) fn help(&self, width: usize, room: usize) -> Vec<TextRow> {
        let columns = (width / HELP_COLUMN).clamp(1, 2);
        let lines = BINDINGS.len().div_ceil(columns);
        let mut rows: Vec<TextRow> = Vec::new();
        for line in 0..lines {
            let mut row = TextRow::new();
            for column in 0..columns {
                let Some(binding) = BINDINGS.get(column * lines + line) else { continue };
                row.fill_to(column * HELP_COLUMN);
                row.left(binding.label, 11, TextRole::Accent).put(binding.help, TextRole::Plain);
            }
            rows.push(row);
        }
        rows.push(TextRow::new());
        let legend = LEGEND.join(". ");
        rows.extend(folded(&legend, width, 0, TextRole::Faint));
        self.scrolled(rows, room)
    }

    pub(super) fn page(&self, text: &str, width: usize, room: usize) -> Vec<TextRow> {
        let mut rows = Vec::new();
        for paragraph in paragraphs(text) {
            rows.extend(match paragraph.strip_prefix('#') {
                Some(heading) => {
                    folded(heading.trim_start_matches(['#', ' ']), width, 0, TextRole::Strong)
                }
                None => folded(&paragraph, width, 0, TextRole::Plain),
            });
        }
        self.scrolled(rows, room)
    }

    /// The incident that is shown, or the hazard that is selected.
    pub(super) fn details(&self, width: usize, room: usize) -> Vec<TextRow> {
        let mut rows = Vec::new();
        if let Some(incident) = &self.screen.incident {
            rows.extend(self.incident(incident, width));
            rows.push(TextRow::new());
        }
        if let Some(finding) = self.moment().findings.get(self.top.selected) {
            rows.extend(self.finding(finding, width));
        }
        if rows.is_empty() {
            rows.push(TextRow::from_text("nothing is selected", TextRole::Faint));
        }
        self.scrolled(rows, room)
    }
}

/// The paragraphs of a page in Markdown, each on one line; what begins a line (headings,
/// lists, tables, code) is not joined.
fn paragraphs(text: &str) -> Vec<String> {
    let mut paragraphs: Vec<String> = Vec::new();
    let mut goes_on = false;
    let mut is_code = false;
    for line in text.lines() {
        is_code ^= line.starts_with("```");
        let apart = is_code || line.is_empty() || line.starts_with(['#', '-', '|', ' ']);
        match paragraphs.last_mut().filter(|_| goes_on && !apart) {
            Some(last) => {
                last.push(' ');
                last.push_str(line);
            }
            None => paragraphs.push(line.to_owned()),
        }
        goes_on = !apart || line.starts_with('-');
    }
    paragraphs
}
