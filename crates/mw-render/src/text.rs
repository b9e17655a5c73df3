//! Text for people: the verdict in one line, then what to do, then what was seen.

mod account;
mod bench;
mod blame;
mod changes;
mod critical_path;
mod fix;
mod incident;
mod incidents;
mod kernel_log;
mod killed;
mod pool;
mod program;
mod room;
mod trends;

pub use account::account;
pub use bench::bench;
pub(crate) use bench::{bench_machine, bench_verdict};
pub use blame::{blame, blame_summary};
pub use changes::{changes, undone};
pub use critical_path::critical_path;
pub use fix::fix;
pub use incident::incident;
pub use incidents::{IncidentList, incidents};
pub use kernel_log::kernel_log;
pub use killed::{kill_summary, kills};
pub use pool::{pool_statistics, pools};
pub use program::{ProgramReport, SlowCycle, program};
pub use room::room;
pub use trends::trends;

use crate::visible::{on_terminal, whole_words};
use anstyle::{AnsiColor, Style};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use mw_model::{
    Answer, Consent, Finding, FolioShare, FolioSupply, HugePageExcess, Preflight, Quantity, Remedy,
    Report, Severity, Step, format_bytes, format_duration_ms, visible,
};
use std::fmt::Write;

/// Layout of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextLayout {
    /// True if it may have colour.
    pub colour: bool,
    /// Columns of the terminal.
    pub width: usize,
    /// Whether to list the rules that passed.
    pub verbose: bool,
}

/// Columns where there is no terminal.
pub const USUAL_WIDTH: usize = 100;
const MIN_WIDTH: usize = 40;

/// The widest column of names; a longer name moves what follows it. The formatter panics beyond 65,535.
const MAX_NAME_CHARS: usize = 80;

impl Default for TextLayout {
    fn default() -> Self {
        Self { colour: false, width: USUAL_WIDTH, verbose: false }
    }
}

/// A time in milliseconds since the epoch as people of a time zone write it, to the second; none where no
/// calendar has it.
pub fn time(unix_ms: u64, zone: &TimeZone) -> Option<String> {
    let timestamp = Timestamp::from_millisecond(i64::try_from(unix_ms).ok()?).ok()?;
    Some(timestamp.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// A page that is being written.
struct TextPage {
    layout: TextLayout,
    text: String,
}

pub fn report(report: &Report, layout: TextLayout) -> String {
    let layout = TextLayout { width: layout.width.max(MIN_WIDTH), ..layout };
    let mut page = TextPage { layout, text: String::new() };
    let is_unknown = report.is_unknown();
    if is_unknown {
        page.verdict(report);
    }
    if let Some(preflight) = &report.preflight {
        page.preflight(preflight);
        page.exhaustion(report);
        page.heading("this machine");
    }
    if !is_unknown {
        page.verdict(report);
    }
    if report.preflight.is_none() {
        page.exhaustion(report);
    }
    page.remedies(&report.findings);
    for finding in &report.findings {
        page.finding(finding);
    }
    page.not_found(report);
    on_terminal(&page.text, layout.colour)
}

impl TextPage {
    fn painted(&self, style: Style, text: &str) -> String {
        let text = visible::line(text);
        if self.layout.colour { format!("{style}{text}{style:#}") } else { text }
    }

    /// A line that may have been painted; names in it are spelt out already.
    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// Text folded to the width, the first line behind `first`, the others indented as far.
    fn folded(&mut self, indent: usize, first: &str, text: &str) {
        let room = self.layout.width.saturating_sub(indent).max(MIN_WIDTH / 2);
        let (first, text) = (visible::line(first), visible::line(text));
        for (number, line) in textwrap::wrap(&text, whole_words(room)).iter().enumerate() {
            let before = if number == 0 { first.as_str() } else { "" };
            let _ = writeln!(self.text, "{before:<indent$}{line}");
        }
    }

    fn heading(&mut self, text: &str) {
        self.text.push('\n');
        for line in textwrap::wrap(&visible::line(text), whole_words(self.layout.width)) {
            let line = self.painted(Style::new().bold(), &line);
            self.line(&line);
        }
    }

    fn verdict(&mut self, report: &Report) {
        let style = match report.worst {
            _ if report.is_unknown() => colour(Severity::Warning),
            None | Some(Severity::Note) => AnsiColor::Green,
            Some(severity) => colour(severity),
        };
        let verdict = self.painted(style.on_default().bold(), &report.verdict);
        self.line(&verdict);
        let program = report.largest_program.as_ref();
        let excess = program.and_then(|of| Some(excess_words(&of.name, of.huge_pages?)));
        let program = program.map(|of| (of.label(), of.bytes));
        let other = report.largest_other.as_ref().map(|of| (of.name.clone(), of.bytes));
        let mut holders: Vec<(String, u64)> = [program, other].into_iter().flatten().collect();
        holders.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let Some(memory) = report.memory_bytes else { return };
        let words = |name: &str, bytes: u64| {
            format!("{name} with {} ({:.0}%)", format_bytes(bytes), percent(bytes, memory))
        };
        let cache = report.page_cache_bytes;
        let cache = cache.map(|bytes| words("page cache", bytes) + ", which is available");
        let holders: Vec<String> =
            holders.iter().map(|(name, bytes)| words(name, *bytes)).collect();
        if !holders.is_empty() {
            let cache = cache.map_or(String::new(), |cache| format!("; {cache}"));
            let excess = excess.unwrap_or_default();
            self.folded(0, "", &format!("most memory: {}{excess}{cache}", holders.join(", ")));
        } else if let Some(cache) = cache {
            self.folded(0, "", &format!("most memory: {cache}"));
        }
    }

    fn exhaustion(&mut self, report: &Report) {
        for found in &report.exhaustion {
            self.folded(0, "", &format!("forecast: {} ({})", found.forecast, found.decline));
        }
    }

    fn remedies(&mut self, findings: &[Finding]) {
        let mended: Vec<(&Finding, &Remedy)> =
            findings.iter().filter_map(|f| Some((f, f.remedy.as_ref()?))).collect();
        if mended.is_empty() {
            return;
        }
        self.heading("what to do");
        let automatic = |r: &Remedy| r.is_ours() && r.consent == Consent::Automatic;
        if mended.iter().filter(|(_, remedy)| automatic(remedy)).count() > 1 {
            self.folded(2, "", "memwright fix (applies everything marked *)");
        }
        let mut said = Vec::new();
        for (finding, remedy) in mended {
            let text = command(finding, remedy);
            if said.contains(&text) {
                continue;
            }
            let mark = if automatic(remedy) { "* " } else { "  " };
            self.folded(2, mark, &text);
            for step in &remedy.steps {
                self.step(step);
            }
            said.push(text);
        }
    }

    /// Steps that memwright does not take itself.
    fn step(&mut self, step: &Step) {
        match step {
            Step::Write { .. } | Step::Once { .. } => {}
            // Folded within a quoted name it would be another command.
            Step::Manual { command } if command.contains('\'') => {
                self.line(&format!("    - {}", visible::line(command)));
            }
            Step::Manual { command } => self.folded(6, "    - ", command),
            Step::BootParameter { parameter } => {
                self.folded(6, "    - ", &format!("boot with {parameter}"));
            }
        }
    }

    fn finding(&mut self, finding: &Finding) {
        let severity = finding.severity.to_string();
        let severity = self.painted(colour(finding.severity).on_default().bold(), &severity);
        let rule = self.painted(Style::new().bold(), &finding.rule);
        let _ = writeln!(
            self.text,
            "\n{severity} {rule}: {}",
            visible::line(&finding.subject.to_string())
        );
        self.folded(2, "", &finding.headline);
        self.folded(2, "", &finding.impact);
        let names: Vec<String> = finding.evidence.iter().map(|e| visible::line(&e.what)).collect();
        let lengths = names.iter().map(|name| name.chars().count());
        let width = lengths.max().unwrap_or(0).min(MAX_NAME_CHARS);
        for (evidence, name) in finding.evidence.iter().zip(&names) {
            let source = self.painted(Style::new().dimmed(), &evidence.source);
            let quantity = visible::line(&evidence.quantity.to_string());
            let _ = writeln!(self.text, "    {name:<width$}  {quantity:<12}  {source}");
        }
    }

    fn not_found(&mut self, report: &Report) {
        let limits = &report.limits_unseen;
        if !report.quiet.is_empty() || !report.skipped.is_empty() || !limits.is_empty() {
            self.text.push('\n');
        }
        for missing in limits {
            self.folded(11, "unknown    ", &missing.to_string());
        }
        if !report.quiet.is_empty() {
            let rules = if report.quiet.len() == 1 { "rule" } else { "rules" };
            let count = format!("{} {rules} passed", report.quiet.len());
            let text = match self.layout.verbose {
                true => format!("{count}: {}", report.quiet.join(", ")),
                false => count,
            };
            self.folded(0, "", &text);
        }
        if report.input.is_some() && !self.layout.verbose && report.skipped.len() > 1 {
            let rules: Vec<&str> = report.skipped.iter().map(|skipped| &*skipped.rule).collect();
            let text = format!(
                "{} rules, which need other files of the machine: {}",
                rules.len(),
                rules.join(", ")
            );
            return self.folded(11, "unchecked  ", &text);
        }
        for skipped in &report.skipped {
            let text = format!("{}: {}", skipped.rule, skipped.missing);
            self.folded(11, "unchecked  ", &text);
        }
    }

    fn preflight(&mut self, preflight: &Preflight) {
        let style = match preflight.answer {
            Answer::Yes => AnsiColor::Green,
            Answer::Slowly | Answer::Unknown => AnsiColor::Yellow,
            Answer::No => AnsiColor::Red,
        };
        let summary = self.painted(style.on_default().bold(), &preflight.summary);
        self.line(&summary);
        for obstacle in &preflight.obstacles {
            let how = if obstacle.blocks { "blocked by" } else { "slowed by" };
            let mut text = obstacle.what.clone();
            if let (Some(needed), Some(had)) = (obstacle.needed_bytes, obstacle.available_bytes) {
                let (needed, had) = (format_bytes(needed), format_bytes(had));
                let _ = write!(text, ": {needed} needed, {had} available");
            }
            self.folded(13, &format!("  {how:<10} "), &text);
            self.folded(13, "", &format!("fix: {}", obstacle.lift));
        }
        if let Some(time) = &preflight.time {
            let [likely, low, high] =
                [time.likely_ms, time.low_ms, time.high_ms].map(format_duration_ms);
            let text = format!("{likely} with one thread ({low} to {high}); {}", time.basis);
            self.folded(13, "  time       ", &text);
        }
        for missing in &preflight.unseen {
            self.folded(13, "  unknown    ", &missing.to_string());
        }
        if let Some(room) = preflight.dev_shm_bytes {
            let text = format!(
                "{} free, which bounds shared memory (shm_open); a program that allocates the request there needs a larger tmpfs: \
                 mount -o remount,size=SIZE /dev/shm, or --shm-size of the container",
                format_bytes(room)
            );
            self.folded(13, "  /dev/shm   ", &text);
        }
        for supply in &preflight.folios {
            self.folio_supply(supply);
        }
        if let [supply] = &preflight.folios[..] {
            let why = [&supply.private, &supply.shared].map(|of| of.why_none.as_deref());
            let [private, shared] = why;
            for why in private.into_iter().chain(shared.filter(|why| Some(*why) != private)) {
                self.folded(13, "", why);
            }
        }
        for node in &preflight.nodes {
            let name = format!("  node {:<6}", node.node);
            let text = format!(
                "{} of {}: {} free, {} clean cache, {} dirty, {} swappable, {} below watermarks",
                format_bytes(node.taken_bytes),
                format_bytes(node.total_bytes),
                format_bytes(node.free_bytes),
                format_bytes(node.clean_bytes),
                format_bytes(node.dirty_bytes),
                format_bytes(node.swappable_bytes),
                format_bytes(node.watermark_bytes)
            );
            self.folded(13, &name, &text);
            for share in &node.unreclaimable {
                let bytes = Quantity::Bytes(share.bytes).to_string();
                self.folded(13, "", &format!("{bytes} held by {}", share.holder));
            }
        }
    }

    fn folio_supply(&mut self, supply: &FolioSupply) {
        let share = |of: &FolioShare| match &of.why_none {
            Some(_) => "not allowed".to_owned(),
            None => format_bytes(of.bytes),
        };
        let text = format!(
            "{} free in blocks of {} and more, above the watermarks; private memory {}, memfd {}",
            format_bytes(supply.free_bytes),
            format_bytes(supply.page_bytes),
            share(&supply.private),
            share(&supply.shared)
        );
        self.folded(13, "  folios     ", &text);
    }
}

fn percent(bytes: u64, total_bytes: u64) -> f64 {
    if total_bytes == 0 { 0.0 } else { bytes as f64 * 100.0 / total_bytes as f64 }
}

fn colour(severity: Severity) -> AnsiColor {
    match severity {
        Severity::Note => AnsiColor::Cyan,
        Severity::Warning => AnsiColor::Yellow,
        Severity::Critical => AnsiColor::Red,
    }
}

/// The command that fixes a finding, and what it does.
fn command(finding: &Finding, remedy: &Remedy) -> String {
    if remedy.is_ours() {
        format!("memwright fix {}: {}", finding.rule, remedy.summary)
    } else {
        format!("{}: {}", finding.rule, remedy.summary)
    }
}

/// Words that follow the program with most memory.
fn excess_words(name: &str, excess: HugePageExcess) -> String {
    match excess {
        HugePageExcess::Stacks { threads } => format!(
            "; {threads} threads of {name} may have a transparent huge page of stack each: madvise in \
             transparent_hugepage/enabled, or smaller stacks, keep them small"
        ),
        HugePageExcess::LargePages { page_bytes } => format!(
            "; a transparent huge page has {} here, however little of it a program touches: madvise in \
             transparent_hugepage/enabled makes them on request alone",
            format_bytes(page_bytes)
        ),
        HugePageExcess::Refilled { made_bytes } => format!(
            "; khugepaged has made {} of transparent huge pages since boot, and may refill what {name} releases: 0 in \
             khugepaged/max_ptes_none, or madvise in transparent_hugepage/enabled, keeps it small",
            format_bytes(made_bytes)
        ),
    }
}
