//! What a running program did, as text: the answer, its share by part, and its slowest requests.

use super::{MIN_WIDTH, TextLayout, TextPage};
use crate::path_words::{answer, chain, duration, name, remarks, stacks};
use crate::visible::{on_terminal, whole_words};
use anstyle::Style;
use mw_critical_path::{Nanos, PathSummary};
use mw_model::{format_count, visible};

/// Slow requests that are shown; the first with its table.
const MAX_SLOW: usize = 3;
/// Shares below this are shown as less.
const LEAST_PERCENT: f64 = 0.1;

/// Trace of a program.
#[derive(Debug, Clone)]
pub struct ProgramReport {
    /// Its name in the request: `postgres (812)`, `redis.service`.
    pub name: String,
    pub traced_ns: Nanos,
    /// It ended before the time was over.
    pub has_ended: bool,
    pub threads: usize,
    /// Time of all threads.
    pub idle_ns: Nanos,
    /// Use of the time in which they were not idle.
    pub busy: PathSummary,
    pub cycles: usize,
    /// Its cycles are requests of other programs.
    pub listens: bool,
    /// The slowest first.
    pub slowest: Vec<SlowCycle>,
}

/// A slow request, explained.
#[derive(Debug, Clone)]
pub struct SlowCycle {
    /// From when tracing began.
    pub began_ns: Nanos,
    pub path: PathSummary,
}

/// The report of a running program.
pub fn program(report: &ProgramReport, layout: TextLayout) -> String {
    let layout = TextLayout { width: layout.width.max(MIN_WIDTH), ..layout };
    let mut page = TextPage { layout, text: String::new() };
    page.bold(&first_line(report));
    page.folded(2, "", &overview(report));
    if report.busy.total_ns > 0 {
        page.heading("when not idle");
        page.path_bar(&report.busy);
        page.path_table(&report.busy);
    }
    for (index, slow) in report.slowest.iter().take(MAX_SLOW).enumerate() {
        page.slow(report, index, slow);
    }
    let remarks = report.slowest.first().map(|slow| remarks(&slow.path)).unwrap_or_default();
    for remark in remarks {
        page.folded(2, "", &remark);
    }
    on_terminal(&page.text, layout.colour)
}

impl TextPage {
    fn bold(&mut self, text: &str) {
        for line in textwrap::wrap(&visible::line(text), whole_words(self.layout.width)) {
            let line = self.painted(Style::new().bold(), &line);
            self.line(&line);
        }
    }

    fn slow(&mut self, report: &ProgramReport, index: usize, slow: &SlowCycle) {
        let unit = if report.listens { "slow request" } else { "busy time" };
        let task = &slow.path.task;
        let began = duration(slow.began_ns);
        self.heading(&format!("{unit} {}: {}, at {began}", index + 1, name(task, None)));
        let Some(answer) = answer(&slow.path) else { return };
        self.folded(2, "", &answer);
        if index == 0 {
            self.path_bar(&slow.path);
            self.path_table(&slow.path);
        }
        for line in chain(&slow.path).iter().chain(&stacks(&slow.path)) {
            self.folded(2, "", line);
        }
    }
}

fn first_line(report: &ProgramReport) -> String {
    let name = &report.name;
    let slowest = report.slowest.first().and_then(|slow| answer(&slow.path));
    match slowest {
        None => format!("{name} was idle for {}", duration(report.traced_ns)),
        Some(answer) if report.listens => format!("slowest request of {name}: {answer}"),
        Some(answer) => format!("longest busy time of {name}: {answer}"),
    }
}

fn overview(report: &ProgramReport) -> String {
    let total = report.idle_ns + report.busy.total_ns;
    let percent = |time: Nanos| match time as f64 * 100.0 / total.max(1) as f64 {
        0.0 => "0%".to_owned(),
        percent if percent < LEAST_PERCENT => format!("below {LEAST_PERCENT}%"),
        percent => format!("{percent:.1}%"),
    };
    let threads = format_count(report.threads, "thread");
    let cycles = match (report.listens, report.cycles) {
        (true, cycles) => format!(", {}", format_count(cycles, "request")),
        (false, _) => String::new(),
    };
    let ended = if report.has_ended { "; it ended" } else { "" };
    format!(
        "traced for {}{ended}: {threads}{cycles}, idle {} of the threads' time, not idle {} ({})",
        duration(report.traced_ns),
        percent(report.idle_ns),
        percent(report.busy.total_ns),
        duration(report.busy.total_ns),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> ProgramReport {
        ProgramReport {
            name: "redis-server (812)".to_owned(),
            traced_ns: 10_000_000_000,
            has_ended: false,
            threads: 5,
            idle_ns: 50_000_000_000,
            busy: PathSummary::default(),
            cycles: 0,
            listens: true,
            slowest: Vec::new(),
        }
    }

    #[test]
    fn an_idle_program_is_no_problem() {
        let page = program(&report(), TextLayout::default());
        let lines: Vec<&str> = page.lines().collect();
        assert_eq!(lines[0], "redis-server (812) was idle for 10.0 s");
        let overview = "traced for 10.0 s: 5 threads, 0 requests, idle 100.0% of the threads' time";
        assert!(lines[1].trim_start().starts_with(overview), "{}", lines[1]);
    }

    #[test]
    fn names_do_not_steer_the_terminal() {
        let hostile = ProgramReport { name: "\u{1b}[2J".to_owned(), ..report() };
        let page = program(&hostile, TextLayout { colour: true, ..TextLayout::default() });
        assert!(!page.contains("\u{1b}[2J"), "{page}");
    }
}
