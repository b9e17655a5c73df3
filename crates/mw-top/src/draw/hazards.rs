//! Hazards and incidents: lists, and the details of what is selected.

use super::Pen;
use super::row::TextRow;
use crate::face::{Face, TextRole};
use crate::view::View;
use mw_model::{
    Consent, Finding, Incident, Remedy, Severity, Step, format_count, format_duration_ms, visible,
};

/// The longest rule's name, and two blanks.
const RULE_COLUMN: usize = 22;

impl Pen<'_> {
    /// The list, and below it the details of what is selected.
    pub(super) fn hazards(&self, width: usize, room: usize) -> Vec<TextRow> {
        let mut rows = vec![self.hazards_heading(width)];
        let list = self.hazard_count().min((room / 3).max(3));
        rows.extend(self.hazard_list(width, list));
        rows.push(TextRow::new());
        let room = room.saturating_sub(rows.len());
        match self.moment().findings.get(self.top.selected) {
            Some(finding) => rows.extend(self.finding(finding, width).into_iter().take(room)),
            None => rows.extend(self.not_seen(width).into_iter().take(room)),
        }
        rows
    }

    pub(super) fn hazards_heading(&self, width: usize) -> TextRow {
        let moment = self.moment();
        let count = |severity| moment.findings.iter().filter(|f| f.severity == severity).count();
        let mut row = TextRow::from_text("hazards", TextRole::Strong);
        for (severity, name) in [
            (Severity::Critical, "critical"),
            (Severity::Warning, "warning"),
            (Severity::Note, "note"),
        ] {
            let count = count(severity);
            if count > 0 {
                row.put("  ", TextRole::Plain);
                row.put(&format!("{count} {name}"), role_of(severity));
            }
        }
        let mut text = format!("  {} passed", format_count(moment.quiet, "rule"));
        if !moment.skipped.is_empty() {
            text = format!("{text}, {} could not be checked", moment.skipped.len());
        }
        let room = width.saturating_sub(row.width());
        row.put(&self.cut(&text, room), TextRole::Faint);
        row
    }

    /// Number of lines of the whole list.
    pub(super) fn hazard_count(&self) -> usize {
        self.moment().findings.len().max(1)
    }

    /// A line a finding, so that the selected one is among them.
    pub(super) fn hazard_list(&self, width: usize, lines: usize) -> Vec<TextRow> {
        let findings = &self.moment().findings;
        if findings.is_empty() {
            let text = match self.moment().skipped.first() {
                Some(skipped) => format!("none; could not be checked: {}", skipped.missing),
                None => "none".to_owned(),
            };
            return vec![TextRow::from_text(&self.cut(&text, width), TextRole::Faint)]
                .into_iter()
                .take(lines)
                .collect();
        }
        let selected = self.top.selected.min(findings.len() - 1);
        let from = (selected + 1).saturating_sub(lines.max(1));
        let numbered = findings.iter().enumerate().skip(from).take(lines);
        numbered.map(|(at, finding)| self.hazard(finding, at == selected, width)).collect()
    }

    fn hazard(&self, finding: &Finding, selected: bool, width: usize) -> TextRow {
        let role = role_of(finding.severity);
        let mark = match finding.severity {
            Severity::Critical => "!! ",
            Severity::Warning => " ! ",
            Severity::Note => " - ",
        };
        let mut row = TextRow::from_text(if selected { ">" } else { " " }, TextRole::Accent);
        row.put(mark, role);
        if width >= 70 {
            row.left(&finding.rule, RULE_COLUMN, role);
        } else {
            row.put(&finding.rule, role).put(" ", TextRole::Plain);
        }
        let room = width.saturating_sub(row.width());
        let said = finding.headline.contains(&finding.subject.to_string());
        let subject = if said { String::new() } else { format!("{}: ", finding.subject) };
        row.put(&self.cut(&format!("{subject}{}", finding.headline), room), TextRole::Plain);
        if selected && self.top.view == View::Hazards {
            row.selected(width);
        }
        row
    }

    /// Remedy of the selected finding, in one line.
    pub(super) fn what_to_do(&self, width: usize) -> Option<TextRow> {
        let finding = self.moment().findings.get(self.top.selected)?;
        let text = command(finding, finding.remedy.as_ref()?);
        let mut row = TextRow::from_text("    ", TextRole::Plain);
        row.put(&self.cut(&text, width.saturating_sub(4)), TextRole::Good);
        Some(row)
    }

    /// A finding in full: what it does, what to do, what was seen.
    pub(super) fn finding(&self, finding: &Finding, width: usize) -> Vec<TextRow> {
        let mut rows = Vec::new();
        let mut title =
            TextRow::from_text(&finding.severity.to_string(), role_of(finding.severity));
        title.put(&format!(" {}: {}", finding.rule, finding.subject), TextRole::Strong);
        rows.push(title);
        rows.extend(folded(&finding.headline, width, 2, TextRole::Plain));
        rows.extend(folded(&finding.impact, width, 2, TextRole::Faint));
        if let Some(remedy) = &finding.remedy {
            rows.extend(remedy_rows(finding, remedy, width));
        }
        let what = finding.evidence.iter().map(|seen| seen.what.chars().count()).max().unwrap_or(0);
        let what = what.min(width / 2);
        for seen in &finding.evidence {
            let mut row = TextRow::new();
            row.put("  ", TextRole::Plain).left(&seen.what, what + 2, TextRole::Plain);
            row.left(&seen.quantity.to_string(), 14, TextRole::Strong);
            let room = width.saturating_sub(row.width());
            row.put(&self.cut(&seen.source, room), TextRole::Faint);
            rows.push(row);
        }
        rows
    }

    /// Rules that could not be checked, and why.
    pub(super) fn not_seen(&self, width: usize) -> Vec<TextRow> {
        let skipped = self.moment().skipped.iter();
        skipped
            .flat_map(|s| folded(&format!("{}: {}", s.rule, s.missing), width, 2, TextRole::Faint))
            .collect()
    }

    /// The incidents of a recording.
    pub(super) fn incidents(&self, width: usize, room: usize) -> Vec<TextRow> {
        let incidents = &self.screen.timeline.incidents;
        if incidents.is_empty() {
            return vec![TextRow::from_text("no incident in this recording", TextRole::Faint)];
        }
        let mut heading = TextRow::new();
        heading.left("  id", 6, TextRole::Strong).left("began", 17, TextRole::Faint);
        heading.left("lasted", 11, TextRole::Faint).put("verdict", TextRole::Faint);
        let selected = self.top.selected.min(incidents.len() - 1);
        let lines = room.saturating_sub(1);
        let from = (selected + 1).saturating_sub(lines.max(1));
        let mut rows = vec![heading];
        for (at, incident) in incidents.iter().enumerate().skip(from).take(lines) {
            let mut row =
                TextRow::from_text(if at == selected { "> " } else { "  " }, TextRole::Accent);
            row.left(&incident.id.to_string(), 4, TextRole::Strong);
            row.left(&self.formatted(incident.started_ms, "%d %b %H:%M:%S"), 17, TextRole::Plain);
            let lasted = incident.ended_ms.saturating_sub(incident.started_ms);
            row.left(&format_duration_ms(lasted as f64), 11, TextRole::Plain);
            let room = width.saturating_sub(row.width());
            row.put(&self.cut(&incident.verdict, room), TextRole::Plain);
            if at == selected {
                row.selected(width);
            }
            rows.push(row);
        }
        rows
    }

    /// An incident in full: verdict, causes, who suffered, who caused it.
    pub(super) fn incident(&self, incident: &Incident, width: usize) -> Vec<TextRow> {
        let title = format!(
            "incident {}: {} exceeded {}, worst {}",
            incident.id,
            incident.trigger.name,
            format_duration_ms(incident.trigger.limit_ms),
            format_duration_ms(incident.trigger.worst_ms)
        );
        let mut rows = vec![TextRow::from_text(&self.cut(&title, width), TextRole::Bad)];
        rows.extend(folded(&incident.verdict, width, 2, TextRole::Strong));
        rows.push(TextRow::new());
        rows.extend(self.parts_in(incident, width, 8));
        for cause in &incident.causes {
            rows.push(TextRow::from_text(&mw_render::badge(cause), TextRole::Faint));
            rows.extend(self.finding(&cause.finding, width));
            rows.push(TextRow::new());
        }
        rows
    }
}

fn role_of(severity: Severity) -> TextRole {
    match severity {
        Severity::Note => TextRole::Accent,
        other => Face::severity(Some(other)),
    }
}

fn remedy_rows(finding: &Finding, remedy: &Remedy, width: usize) -> Vec<TextRow> {
    let mut rows = folded(&command(finding, remedy), width, 2, TextRole::Good);
    if remedy.is_ours() && remedy.consent == Consent::Named {
        let text = "applied only when named: it may remove something that is in use";
        rows.extend(folded(text, width, 4, TextRole::Faint));
    }
    for step in &remedy.steps {
        let text = match step {
            Step::Write { path, value } => format!("write {value} to {path}"),
            Step::Once { path, value } => format!("write {value} to {path} once"),
            Step::Manual { command } => command.clone(),
            Step::BootParameter { parameter } => format!("boot with {parameter}"),
        };
        rows.extend(folded(&text, width, 4, TextRole::Plain));
    }
    rows
}

/// The command that fixes a finding, and what it does.
fn command(finding: &Finding, remedy: &Remedy) -> String {
    match remedy.is_ours() {
        true => format!("memwright fix {}: {}", finding.rule, remedy.summary),
        false => remedy.summary.clone(),
    }
}

/// Text over as many lines as it needs, indented.
pub(super) fn folded(text: &str, width: usize, indent: usize, role: TextRole) -> Vec<TextRow> {
    let room = width.saturating_sub(indent).max(10);
    let folding = textwrap::Options::new(room).word_splitter(textwrap::WordSplitter::NoHyphenation);
    let mut rows = Vec::new();
    for line in textwrap::wrap(&visible::line(text), folding) {
        let mut row = TextRow::new();
        row.fill_to(indent).put(&line, role);
        rows.push(row);
    }
    rows
}
