//! The plugin output that Nagios, Icinga, Naemon and Checkmk read: one line with the state, the
//! verdict and the performance data, then a line a finding. The exit status of a plugin is the
//! state: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.

use mw_model::{Answer, Report, Severity, visible};
use std::fmt::{Display, Write};

/// A plugin's state; its number is the exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PluginState {
    /// Nothing worse than a note.
    Ok = 0,
    /// A warning, or a request that is served slowly.
    Warning = 1,
    /// A critical finding, or a request that is refused.
    Critical = 2,
    /// The machine could not be checked.
    Unknown = 3,
}

/// The state of a report.
pub fn state(report: &Report) -> PluginState {
    if report.is_unknown() {
        return PluginState::Unknown;
    }
    let findings = match report.worst {
        None | Some(Severity::Note) => PluginState::Ok,
        Some(Severity::Warning) => PluginState::Warning,
        Some(Severity::Critical) => PluginState::Critical,
    };
    let preflight = match report.preflight.as_ref().map(|preflight| preflight.answer) {
        None | Some(Answer::Yes) => PluginState::Ok,
        Some(Answer::Slowly) => PluginState::Warning,
        Some(Answer::No) => PluginState::Critical,
        // What is critical is so whatever a limit refuses.
        Some(Answer::Unknown) if findings == PluginState::Critical => findings,
        Some(Answer::Unknown) => PluginState::Unknown,
    };
    findings.max(preflight)
}

pub fn report(report: &Report) -> String {
    let state = state(report);
    let word = match state {
        PluginState::Ok => "OK",
        PluginState::Warning => "WARNING",
        PluginState::Critical => "CRITICAL",
        PluginState::Unknown => "UNKNOWN",
    };
    let preflight = report.preflight.as_ref().filter(|_| !report.is_unknown());
    let answer = preflight.map_or(&report.verdict, |preflight| &preflight.summary);
    let mut out = format!("MEMWRIGHT {word} - {}", without_bar(answer));
    let perfdata = perfdata(report);
    if !perfdata.is_empty() {
        let _ = write!(out, " | {perfdata}");
    }
    out.push('\n');
    for finding in &report.findings {
        let headline = without_bar(&finding.headline);
        let _ = writeln!(out, "{} {}: {headline}", finding.severity, without_bar(&finding.rule));
    }
    for skipped in &report.skipped {
        let why = without_bar(&skipped.missing.to_string());
        let _ = writeln!(out, "skipped {}: {why}", without_bar(&skipped.rule));
    }
    out
}

/// The plugin output where there is no report.
pub fn unknown(why: &dyn Display) -> String {
    format!("MEMWRIGHT UNKNOWN - {}\n", without_bar(&why.to_string()))
}

fn perfdata(report: &Report) -> String {
    let count = |severity| report.findings.iter().filter(|f| f.severity == severity).count();
    let mut data = vec![
        format!("critical={}", count(Severity::Critical)),
        format!("warnings={}", count(Severity::Warning)),
        format!("notes={}", count(Severity::Note)),
        format!("skipped={}", report.skipped.len()),
    ];
    if let (Some(ready), Some(memory)) = (report.ready_bytes, report.memory_bytes) {
        data.push(format!("ready={ready}B;;;0;{memory}"));
    }
    data.join(" ")
}

/// A bar ends the text and begins the performance data, and an end of a line forges another.
fn without_bar(text: &str) -> String {
    visible::line(&text.replace('|', "/"))
}
