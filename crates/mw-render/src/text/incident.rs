//! Incidents for a terminal: the verdict in one line, then what to do, then what was seen.

use super::{MIN_WIDTH, TextLayout, TextPage, time};
use crate::incident_words::{badge, heartbeats, sections};
use crate::path_words::unit;
use crate::visible::{on_terminal, whole_words};
use anstyle::AnsiColor;
use jiff::tz::TimeZone;
use mw_model::{
    Finding, Incident, IncidentState, KernelWait, Role, Shift, TriggerKind, format_duration_ms,
    visible,
};
use std::fmt::Write;

/// The most rows of one list.
const MAX_ROWS: usize = 8;
/// From this width on the numbers of a function stand beside it.
const WIDE: usize = 72;

pub fn incident(incident: &Incident, layout: TextLayout) -> String {
    let layout = TextLayout { width: layout.width.max(MIN_WIDTH), ..layout };
    let mut page = TextPage { layout, text: String::new() };
    page.stall(incident);
    if let Some(path) = &incident.path {
        page.heading("critical path of the slowest request");
        page.critical_path(path);
    }
    let findings: Vec<Finding> =
        incident.causes.iter().map(|cause| cause.finding.clone()).collect();
    page.remedies(&findings);
    for cause in &incident.causes {
        page.finding(&cause.finding);
        page.line(&format!("  {}", badge(cause)));
    }
    for section in sections(incident) {
        page.heading(section.heading);
        section.lines.iter().for_each(|line| page.folded(2, "", line));
    }
    page.roles("victims", &incident.suffering, incident);
    page.roles("culprits", &incident.causing, incident);
    page.waits(incident);
    page.difference(&incident.difference);
    page.unseen(incident);
    on_terminal(&page.text, layout.colour)
}

/// A task with its number and its unit, as far as it is known.
fn task(of: &Incident, name: &str, pid: u32) -> String {
    match of.cgroups.get(&pid).and_then(|cgroup| unit(cgroup)) {
        None if pid == 0 => name.to_owned(),
        Some(unit) => format!("{name} ({pid}, {unit})"),
        None => format!("{name} ({pid})"),
    }
}

/// A moment in local time, to the second.
fn moment(unix_ms: u64) -> String {
    time(unix_ms, &TimeZone::system()).unwrap_or_else(|| "at an unknown time ".to_owned())
}

impl TextPage {
    fn stall(&mut self, incident: &Incident) {
        let memory = incident.causes.iter().any(|cause| !cause.is_outside_memory);
        let style = if memory { AnsiColor::Red } else { AnsiColor::Yellow };
        let verdict = self.painted(style.on_default().bold(), &incident.verdict);
        self.line(&verdict);
        if let Some(cause) = incident.causes.first() {
            self.folded(2, "", &badge(cause));
        }
        let trigger = &incident.trigger;
        let worst = format_duration_ms(trigger.worst_ms);
        let limit = format_duration_ms(trigger.limit_ms);
        let shown = match trigger.kind {
            TriggerKind::Probe => format!("{} took {worst} (limit {limit})", trigger.name),
            TriggerKind::Canary => format!("a page fault took {worst} (canary, limit {limit})"),
            TriggerKind::Pressure => format!(
                "some task, kswapd included, waited for memory for {worst} (trigger: {limit} of a second)"
            ),
            TriggerKind::Heartbeat => format!("a heartbeat was {worst} late (limit {limit})"),
            TriggerKind::OomKill => "the OOM killer killed a process".to_owned(),
            TriggerKind::Requested => "evidence on request".to_owned(),
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
        heartbeats(incident).iter().for_each(|line| self.folded(2, "", line));
        match incident.state {
            IncidentState::Closed => {}
            IncidentState::Open => self.folded(2, "", "the stall lasts: the cause is provisional"),
            IncidentState::Interrupted => self.folded(2, "", "the recorder ended during the stall"),
        }
    }

    /// A line of a list, whose later lines are indented.
    fn item(&mut self, text: &str) {
        let folding =
            whole_words(self.layout.width).initial_indent("  ").subsequent_indent("      ");
        for line in textwrap::wrap(&visible::line(text), folding) {
            self.line(&line);
        }
    }

    fn roles(&mut self, heading: &str, roles: &[Role], of: &Incident) {
        if roles.is_empty() {
            return;
        }
        self.heading(heading);
        for role in roles.iter().take(MAX_ROWS) {
            self.item(&format!("{}: {}", task(of, &role.task, role.pid), role.why));
        }
    }

    fn waits(&mut self, of: &Incident) {
        let told: Vec<&KernelWait> =
            of.waits.iter().filter(|wait| wait.is_worth_telling()).collect();
        if told.is_empty() {
            return;
        }
        self.heading("waits in the kernel");
        for wait in told.into_iter().take(MAX_ROWS) {
            let order = wait.order.map(|order| format!(", order {order}")).unwrap_or_default();
            let node = wait.node.map(|node| format!(", node {node}")).unwrap_or_default();
            let task = task(of, &wait.task, wait.pid);
            let times =
                if wait.count == 1 { "once".to_owned() } else { format!("{} times", wait.count) };
            let mut text = format!("{task}: {}{order}{node}: {times}", wait.kind);
            if wait.total_us > 0 {
                let [total, most] =
                    [wait.total_us, wait.max_us].map(|us| format_duration_ms(us as f64 / 1000.0));
                let _ = write!(text, ", {total} in total, {most} at most");
            }
            self.item(&text);
        }
    }

    fn difference(&mut self, difference: &[Shift]) {
        if difference.is_empty() {
            return;
        }
        self.heading("kernel functions that grew (share of all CPUs)");
        for shift in difference.iter().take(MAX_ROWS) {
            let [before, during] = [shift.before_percent, shift.during_percent];
            let function = visible::line(&shift.function);
            if self.layout.width < WIDE {
                self.item(&format!("{function}: {before:.1}% -> {during:.1}%"));
            } else {
                self.line(&format!("  {function:<40} {before:>5.1}% -> {during:>5.1}%"));
            }
        }
    }

    fn unseen(&mut self, incident: &Incident) {
        if incident.unseen.is_empty() && incident.lost_records == 0 {
            return;
        }
        self.heading("missing evidence");
        for missing in &incident.unseen {
            self.folded(2, "", &missing.to_string());
        }
        if incident.lost_records > 0 {
            let lost = format!("{} profile and tracepoint records", incident.lost_records);
            self.folded(2, "", &lost);
        }
        let command = format!("memwright report {} -o FILE.html", incident.id);
        self.line("");
        self.folded(0, "", &format!("full report with charts: {command}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::{Area, Cause, Severity, Trigger, WaitKind};

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
            TextLayout::default(),
        );
        assert_eq!(page.lines().next(), Some("db did not answer for 8.2 s: compaction"));
        assert_eq!(page.lines().nth(1), Some("  thp-compaction, confidence 93%"));
    }

    #[test]
    fn a_task_does_not_steer_the_terminal() {
        let role = Role { task: "\u{1b}[2Jtask".to_owned(), ..Role::default() };
        let hostile = Incident { suffering: vec![role], ..Incident::default() };
        let page = incident(&hostile, TextLayout { colour: true, ..TextLayout::default() });
        assert!(page.contains("\\u{1b}[2Jtask") && !page.contains("\u{1b}[2J"), "{page}");
    }

    /// A stalled database whose tasks have long names and units.
    fn everything() -> Incident {
        let role =
            |pid, task: &str, why: &str| Role { pid, task: task.to_owned(), why: why.to_owned() };
        let wait = KernelWait {
            pid: 2_114_811,
            task: "postgres".to_owned(),
            kind: WaitKind::Compaction,
            order: Some(9),
            node: Some(0),
            count: 412,
            total_us: 6_900_000,
            max_us: 1_900_000,
        };
        let shift = Shift {
            function: "compact_zone_with_a_name_that_is_longer_than_most".to_owned(),
            during_percent: 61.3,
            ..Shift::default()
        };
        let unit = "/system.slice/system-postgresql.slice/postgresql@15-main.service/worker";
        Incident {
            verdict: "db did not answer for 8.2 s: compaction".to_owned(),
            suffering: vec![role(2_114_811, "postgres", "waited 6.9 s in compaction, 412 times")],
            causing: vec![role(98, "khugepaged", "compacted node 0")],
            waits: vec![wait],
            difference: vec![shift],
            cgroups: [(2_114_811, unit.to_owned()), (98, "/".to_owned())].into(),
            lost_records: 31,
            ..Incident::default()
        }
    }

    /// Promise (The recorder): Tasks of an incident are named with their unit, also in 40 columns.
    #[test]
    fn tasks_have_their_number_and_unit() {
        let page = incident(&everything(), TextLayout { width: 120, ..TextLayout::default() });
        let names = "  postgres (2114811, postgresql@15-main.service): ";
        assert!(page.contains(&format!("{names}waited 6.9 s in compaction")), "{page}");
        assert!(page.contains(&format!("{names}compaction, order 9, node 0: 412 times")), "{page}");
        assert!(
            page.contains("  khugepaged (98): compacted node 0"),
            "the root is no unit: {page}"
        );
    }

    #[test]
    fn it_fits_forty_columns() {
        let page = incident(&everything(), TextLayout { width: 40, ..TextLayout::default() });
        let widest = page.lines().map(|line| line.chars().count()).max();
        assert!(widest.is_some_and(|widest| widest <= 40), "{page}");
        let words: Vec<&str> = page.split_whitespace().collect();
        assert!(words.join(" ").contains("postgres (2114811, postgresql@15-main.service): waited"));
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
        let page = incident(&Incident { waits, ..Incident::default() }, TextLayout::default());
        assert!(page.contains("direct reclaim: 3 times, 2.5 ms in total"), "{page}");
        assert!(page.contains("major page faults: 19415 times\n"), "{page}");
        assert!(!page.contains("compaction"), "{page}");
    }
}
