//! Incidents for a terminal: the verdict in one line, then what to do, then what was seen.

use super::{Layout, MIN_WIDTH, Page, time};
use crate::incident_words::sections;
use crate::visible::on_terminal;
use anstyle::{AnsiColor, Style};
use jiff::tz::TimeZone;
use mw_model::{
    Cause, Finding, Incident, IncidentState, KernelWait, Role, Shift, TriggerKind,
    format_duration_ms, visible,
};
use std::fmt::Write;

/// The most rows of one list.
const MAX_ROWS: usize = 8;

pub fn incident(incident: &Incident, layout: Layout) -> String {
    let layout = Layout { width: layout.width.max(MIN_WIDTH), ..layout };
    let mut page = Page { layout, text: String::new() };
    page.stall(incident);
    if let Some(path) = &incident.path {
        page.heading("where the time of the slowest request went");
        page.critical_path(path);
    }
    let findings: Vec<Finding> =
        incident.causes.iter().map(|cause| cause.finding.clone()).collect();
    page.remedies(&findings);
    for cause in &incident.causes {
        page.finding(&cause.finding);
        page.line(&format!("  {}", certainty(cause)));
    }
    for section in sections(incident) {
        page.heading(section.heading);
        section.lines.iter().for_each(|line| page.folded(2, "", line));
    }
    page.roles("victims", &incident.suffering);
    page.roles("culprits", &incident.causing);
    page.waits(&incident.waits);
    page.difference(&incident.difference);
    page.unseen(incident);
    on_terminal(&page.text, layout.colour)
}

/// How sure a cause is, and how much it explains.
fn certainty(cause: &Cause) -> String {
    let explains = cause
        .explains_percent
        .map_or(String::new(), |percent| format!("explains {percent}% of the request, "));
    format!("{explains}{}% sure", cause.confidence_percent)
}

/// A moment in local time, to the second.
fn moment(unix_ms: u64) -> String {
    time(unix_ms, &TimeZone::system()).unwrap_or_else(|| "at an unknown time ".to_owned())
}

impl Page {
    fn stall(&mut self, incident: &Incident) {
        let memory = incident.causes.iter().any(|cause| cause.finding.subject.is_memory());
        let style = if memory { AnsiColor::Red } else { AnsiColor::Yellow };
        let verdict = self.painted(style.on_default().bold(), &incident.verdict);
        self.line(&verdict);
        let trigger = &incident.trigger;
        let worst = format_duration_ms(trigger.worst_ms);
        let limit = format_duration_ms(trigger.limit_ms);
        let shown = match trigger.kind {
            TriggerKind::Probe => format!("{} took {worst} (limit {limit})", trigger.name),
            TriggerKind::Canary => format!("a page fault took {worst} (canary, limit {limit})"),
            TriggerKind::Pressure => format!("tasks waited for memory {limit} or more in a second"),
            TriggerKind::Heartbeat => format!("a heartbeat was {worst} late (limit {limit})"),
        };
        let lasted = format_duration_ms(incident.duration_ms() as f64);
        let shown = match &trigger.failure {
            Some(why) => format!("{} failed: {why}; no good answer for {lasted}", trigger.name),
            None => shown,
        };
        let text = format!(
            "{}, for {lasted}, on {}, kernel {}: {shown}",
            moment(incident.started_unix_ms),
            incident.host.name,
            incident.host.kernel
        );
        self.folded(2, "", &text);
        match incident.state {
            IncidentState::Closed => {}
            IncidentState::Open => self.folded(2, "", "the stall lasts: the cause is provisional"),
            IncidentState::Interrupted => self.folded(2, "", "the recorder ended during the stall"),
        }
    }

    fn roles(&mut self, heading: &str, roles: &[Role]) {
        if roles.is_empty() {
            return;
        }
        self.heading(heading);
        for role in roles.iter().take(MAX_ROWS) {
            let first = format!("  {} ({})  ", visible::line(&role.task), role.pid);
            self.folded(first.chars().count(), &first, &role.why);
        }
    }

    fn waits(&mut self, waits: &[KernelWait]) {
        let told: Vec<&KernelWait> = waits.iter().filter(|wait| wait.is_worth_telling()).collect();
        if told.is_empty() {
            return;
        }
        self.heading("waits in the kernel");
        for wait in told.into_iter().take(MAX_ROWS) {
            let order = wait.order.map(|order| format!(", order {order}")).unwrap_or_default();
            let node = wait.node.map(|node| format!(", node {node}")).unwrap_or_default();
            let task = visible::line(&wait.task);
            let _ = write!(self.text, "  {task:<16} {:>7}  {}{order}{node}", wait.pid, wait.kind);
            let _ = write!(self.text, ": {} times", wait.count);
            if wait.total_us > 0 {
                let [total, most] =
                    [wait.total_us, wait.max_us].map(|us| format_duration_ms(us as f64 / 1000.0));
                let _ = write!(self.text, ", {total} in total, {most} at most");
            }
            self.text.push('\n');
        }
    }

    fn difference(&mut self, difference: &[Shift]) {
        if difference.is_empty() {
            return;
        }
        self.heading("what the kernel did more of than before (share of all CPUs)");
        for shift in difference.iter().take(MAX_ROWS) {
            let _ = writeln!(
                self.text,
                "  {:<40} {:>5.1}% -> {:>5.1}%",
                visible::line(&shift.function),
                shift.before_percent,
                shift.during_percent
            );
        }
    }

    fn unseen(&mut self, incident: &Incident) {
        if incident.unseen.is_empty() && incident.lost_records == 0 {
            return;
        }
        self.heading("what could not be recorded");
        for missing in &incident.unseen {
            self.folded(2, "", &missing.to_string());
        }
        if incident.lost_records > 0 {
            let lost = format!("{} profile and tracepoint records", incident.lost_records);
            self.folded(2, "", &lost);
        }
        let style = Style::new().dimmed();
        let all = self.painted(style, "full report with charts: memwright report ID -o FILE.html");
        self.line(&all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::{Area, Severity, Trigger, WaitKind};

    #[test]
    fn the_first_line_is_the_answer() {
        let finding =
            Finding::new(Severity::Critical, Area::TransparentHugePages, "waited for huge pages");
        let page = incident(
            &Incident {
                verdict: "db did not answer for 8.2 s: compaction".to_owned(),
                trigger: Trigger { name: "db".to_owned(), worst_ms: 8200.0, ..Trigger::default() },
                causes: vec![Cause::new(
                    Finding { rule: "thp-compaction".to_owned(), ..finding },
                    93,
                )],
                ..Incident::default()
            },
            Layout::default(),
        );
        assert_eq!(page.lines().next(), Some("db did not answer for 8.2 s: compaction"));
        assert!(page.contains("thp-compaction") && page.contains("93% sure"), "{page}");
    }

    #[test]
    fn a_task_does_not_steer_the_terminal() {
        let role = Role { task: "\u{1b}[2Jtask".to_owned(), ..Role::default() };
        let hostile = Incident { suffering: vec![role], ..Incident::default() };
        let page = incident(&hostile, Layout { colour: true, ..Layout::default() });
        assert!(page.contains("\\u{1b}[2Jtask") && !page.contains("\u{1b}[2J"), "{page}");
    }

    #[test]
    fn waits_without_time_are_left_out() {
        let wait = |kind, count, total_us| KernelWait {
            task: "db".to_owned(),
            kind,
            count,
            total_us,
            max_us: total_us,
            ..KernelWait::default()
        };
        let waits = vec![
            wait(WaitKind::DirectReclaim, 3, 2_500),
            wait(WaitKind::Compaction, 7, 30),
            wait(WaitKind::Swap, 19_415, 0),
        ];
        let page = incident(&Incident { waits, ..Incident::default() }, Layout::default());
        assert!(page.contains("direct reclaim: 3 times, 2.5 ms in total"), "{page}");
        assert!(page.contains("major page faults: 19415 times\n"), "{page}");
        assert!(!page.contains("compaction"), "{page}");
    }
}
