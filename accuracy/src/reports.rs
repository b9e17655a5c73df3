//! Public reports of people who had trouble with memory, rebuilt in fixtures/reports: what their threads found is compared
//! with the first screen that memwright shows.

use crate::campaign;
use anyhow::Context;
use fancy_regex::Regex;
use mw_collect::text_archive::TextArchive;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use xtask::ages;
use xtask::workspace::{self, built, root};

/// Lines of output that a reader sees first.
const SCREEN_LINES: usize = 25;

/// Reports that are judged at once.
const JOBS: usize = 2;

const FOLDER: &str = "fixtures/reports";
/// The verdicts that CI holds memwright to, and those when a report was first opened.
const VERDICTS: &str = "fixtures/reports/verdicts.toml";
const PAGE: &str = "docs/reports.md";

/// A report: `report.toml` of its archive.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PublicReport {
    /// Address of the thread.
    source: String,
    kernel: String,
    /// What the thread found.
    cause: String,
    /// What the thread did not give.
    #[serde(rename = "filled")]
    _filled: String,
    /// Not opened before the rules were done.
    #[serde(default)]
    set_aside: bool,
    /// `check`, `check --for REQUEST` or `explain-log`.
    command: String,
    /// Patterns of which each has to match the first screen.
    must: Vec<String>,
    /// Patterns of which none may.
    must_not: Vec<String>,
}

/// What the first screen is worth to somebody with the trouble of the report; the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ReportVerdict {
    /// It says something that is false or harmful.
    Wrong,
    /// It does not mention the cause.
    Silent,
    /// It mentions a part of the cause.
    Partly,
    Right,
}

impl ReportVerdict {
    const ALL: [Self; 4] = [Self::Right, Self::Partly, Self::Silent, Self::Wrong];

    fn word(self) -> &'static str {
        match self {
            Self::Wrong => "wrong",
            Self::Silent => "silent",
            Self::Partly => "partly",
            Self::Right => "right",
        }
    }
}

/// Verdicts of a report.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct KnownVerdict {
    /// When it was opened.
    first: ReportVerdict,
    now: ReportVerdict,
}

/// A report and where it is.
struct ReportCase {
    name: String,
    report: PublicReport,
    archive: TextArchive,
    path: PathBuf,
}

/// The outcome of one report.
#[derive(Debug)]
struct ReportOutcome {
    name: String,
    report: PublicReport,
    verdict: ReportVerdict,
    /// Patterns that missed, and words that must not be there.
    reasons: Vec<String>,
    /// Words that a reader has read when all of it has been said.
    words: usize,
    screen: String,
}

/// Selection of reports and of what becomes of the verdicts.
#[derive(Debug, Default)]
pub(crate) struct ReportSelection {
    /// All, or those whose names begin so.
    pub(crate) names: Vec<String>,
    /// Those that were set aside, too.
    pub(crate) set_aside: bool,
    /// Store the verdicts and write the page.
    pub(crate) write: bool,
    /// Print the first screens of those that are not right.
    pub(crate) show: bool,
}

/// Judges reports; fails where a verdict is worse than the stored one.
pub(crate) fn run(selection: &ReportSelection) -> anyhow::Result<()> {
    let mut known = known()?;
    let chosen = chosen(selection, &known)?;
    let done = Mutex::new(Vec::new());
    campaign::each(chosen, JOBS, |one| {
        let outcome = judge(one);
        done.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
    });
    let mut judged = done
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .into_iter()
        .collect::<anyhow::Result<Vec<_>>>()?;
    judged.sort_by(|one, other| one.name.cmp(&other.name));
    judged.iter().for_each(|one| println!("{}", one.line(selection.show)));
    println!("{}", counts(judged.iter().map(|one| one.verdict)));
    let is_worse =
        |one: &&ReportOutcome| known.get(&one.name).is_some_and(|known| one.verdict < known.now);
    let worse: Vec<&str> = judged.iter().filter(is_worse).map(|one| one.name.as_str()).collect();
    if selection.write {
        for ReportOutcome { name, verdict, .. } in &judged {
            let entry = KnownVerdict { first: *verdict, now: *verdict };
            known.entry(name.clone()).or_insert(entry).now = *verdict;
        }
        std::fs::write(root().join(VERDICTS), toml::to_string(&known)?)?;
        return ages::write(PAGE, &page(&judged, &known));
    }
    anyhow::ensure!(worse.is_empty(), "worse than before: {}", worse.join(", "));
    Ok(())
}

/// The reports that are named and opened, or set aside and asked for.
fn chosen(
    selection: &ReportSelection,
    known: &BTreeMap<String, KnownVerdict>,
) -> anyhow::Result<Vec<ReportCase>> {
    let mut chosen = Vec::new();
    for (name, path) in archives()? {
        let is_named = selection.names.iter().any(|chosen| name.starts_with(chosen.as_str()));
        if selection.names.is_empty() || is_named {
            let archive = TextArchive::load(&path)?;
            let report = description(&archive).with_context(|| name.clone())?;
            if known.contains_key(&name) || !report.set_aside || selection.set_aside {
                chosen.push(ReportCase { name, report, archive, path });
            }
        }
    }
    Ok(chosen)
}

fn known() -> anyhow::Result<BTreeMap<String, KnownVerdict>> {
    Ok(toml::from_str(&workspace::read(&root().join(VERDICTS))?)?)
}

/// The archives by name, in order.
fn archives() -> anyhow::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root().join(FOLDER))? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str()).map(str::to_owned);
        found.extend(name.filter(|_| path.extension().is_some_and(|e| e == "txt")).zip(Some(path)));
    }
    found.sort_unstable();
    Ok(found)
}

fn description(archive: &TextArchive) -> anyhow::Result<PublicReport> {
    let text = archive.tree.file("report.toml").context("no report.toml")?;
    Ok(toml::from_str(std::str::from_utf8(text)?)?)
}

fn judge(case: ReportCase) -> anyhow::Result<ReportOutcome> {
    let ReportCase { name, report, archive, path } = case;
    let log = tempfile::NamedTempFile::new()?;
    let mut command = Command::new(built("memwright"));
    command.env("NO_COLOR", "1");
    match report.command.strip_prefix("check") {
        Some(request) => {
            command.arg("check").args(request.split_whitespace()).arg("--root").arg(&path)
        }
        None => {
            let text = archive.tree.file("kernel.log").context("no kernel.log")?;
            std::fs::write(log.path(), text)?;
            command.args(["explain", "--log"]).arg(log.path())
        }
    };
    let output = command.output()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let screen = text.lines().take(SCREEN_LINES).collect::<Vec<_>>().join("\n");
    let crash = match output.status.code() {
        Some(101) | None => vec![format!("it crashed: {}", output.status)],
        Some(_) => Vec::new(),
    };
    let (verdict, reasons, words) =
        verdict(&screen, &report, crash).with_context(|| name.clone())?;
    Ok(ReportOutcome { name, report, verdict, reasons, words, screen })
}

/// The verdict, its reasons, and the words up to the last of what has to be said.
fn verdict(
    screen: &str,
    report: &PublicReport,
    crash: Vec<String>,
) -> anyhow::Result<(ReportVerdict, Vec<String>, usize)> {
    // A sentence may be folded over two lines.
    let flat = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    let find = |pattern: &str| -> anyhow::Result<Option<(String, usize)>> {
        let pattern = Regex::new(&format!("(?im){pattern}"))?;
        for text in [screen, &flat] {
            if let Some(found) = pattern.find(text)? {
                let until = text.get(..found.end()).unwrap_or(text).split_whitespace().count();
                return Ok(Some((found.as_str().to_owned(), until)));
            }
        }
        Ok(None)
    };
    let mut wrong = crash;
    for pattern in &report.must_not {
        wrong.extend(find(pattern)?.map(|(words, _)| format!("says {words:?}")));
    }
    let mut missed = Vec::new();
    let mut words = 0;
    for pattern in &report.must {
        match find(pattern)? {
            Some((_, until)) => words = until.max(words),
            None => missed.push(format!("not said: {pattern}")),
        }
    }
    let verdict = match () {
        () if !wrong.is_empty() => ReportVerdict::Wrong,
        () if missed.is_empty() => ReportVerdict::Right,
        () if missed.len() < report.must.len() => ReportVerdict::Partly,
        () => ReportVerdict::Silent,
    };
    wrong.extend(missed);
    Ok((verdict, wrong, words))
}

impl ReportOutcome {
    fn line(&self, show: bool) -> String {
        let mut text = format!("{:<6} {}", self.verdict.word(), self.name);
        if self.verdict != ReportVerdict::Right {
            let _ = write!(text, ": {}", self.reasons.join("; "));
            if show {
                let _ = write!(text, "\n  cause: {}", self.report.cause);
                self.screen.lines().for_each(|line| text += &format!("\n  | {line}"));
            }
        }
        text
    }
}

/// `right 20, partly 3, silent 1, wrong 0 of 24`.
fn counts(verdicts: impl Iterator<Item = ReportVerdict> + Clone) -> String {
    let count = |verdict| verdicts.clone().filter(|one| *one == verdict).count();
    let each: Vec<String> = ReportVerdict::ALL
        .iter()
        .map(|verdict| format!("{} {}", verdict.word(), count(*verdict)))
        .collect();
    format!("{} of {}", each.join(", "), verdicts.clone().count())
}

/// `Words: median 41, 9 of 10 at most 120.`
fn words(of_kind: &[&ReportOutcome]) -> String {
    let right = of_kind.iter().filter(|one| one.verdict == ReportVerdict::Right);
    let mut words: Vec<usize> = right.map(|one| one.words).collect();
    words.sort_unstable();
    let at = |tenths: usize| words.get(words.len() * tenths / 10).copied().unwrap_or(0);
    format!("Words: median {}, 9 of 10 at most {}.", at(5), at(9))
}

/// The page with a row for each report.
fn page(judged: &[ReportOutcome], known: &BTreeMap<String, KnownVerdict>) -> String {
    let mut text = "\
# Public reports

Reports of people who run databases, clusters and virtual machines, whose threads found the cause. Each was rebuilt from
the numbers in it as a tree or a kernel log ([fixtures/reports](../fixtures/reports)); names and addresses are replaced.
The first 25 lines of the answer are judged by patterns that were written with the report, before memwright was asked:
*right* names the cause, *partly* a part of it, *silent* nothing of it, *wrong* says something false or harmful. Those set
aside were opened once, when the rules were done: *first* is what they got then. `cargo xtask reports` judges them, and
CI fails where one gets worse. *Words* are those up to the last of what has to be said: cause, object and remedy.

Generated by `cargo xtask reports --write`.
"
    .to_owned();
    for (set_aside, title) in [(true, "Set aside"), (false, "Seen while the rules were written")] {
        let of_kind: Vec<&ReportOutcome> =
            judged.iter().filter(|one| one.report.set_aside == set_aside).collect();
        let first = of_kind.iter().filter_map(|one| known.get(&one.name)).map(|known| known.first);
        let _ = write!(
            text,
            "\n## {title}\n\nFirst: {}. Now: {}. {}\n\n| report | kernel | cause | first | now | words |\n|---|---|---|---|---|---|\n",
            counts(first),
            counts(of_kind.iter().map(|one| one.verdict)),
            words(&of_kind),
        );
        for ReportOutcome { name, report, verdict, words, .. } in of_kind {
            let first = known.get(name).map_or(*verdict, |known| known.first).word();
            let cause = report.cause.replace('|', "\\|").replace('\n', " ");
            let source = report.source.split_whitespace().next().unwrap_or_default();
            let kernel = &report.kernel;
            let now = verdict.word();
            let words = match verdict {
                ReportVerdict::Right => words.to_string(),
                _ => String::new(),
            };
            let _ = writeln!(
                text,
                "| [{name}]({source}) | {kernel} | {cause} | {first} | {now} | {words} |"
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(must: &[&str], must_not: &[&str]) -> PublicReport {
        let all = |patterns: &[&str]| patterns.iter().map(|p| (*p).to_owned()).collect();
        PublicReport {
            source: String::new(),
            kernel: String::new(),
            cause: String::new(),
            _filled: String::new(),
            set_aside: false,
            command: "check".to_owned(),
            must: all(must),
            must_not: all(must_not),
        }
    }

    #[test]
    fn a_screen_is_judged_by_what_it_says_and_does_not_say() {
        let screen = "ready: 3 GiB\nthe slab\n  cache is full";
        let judge = |must: &[&str], must_not: &[&str]| {
            verdict(screen, &report(must, must_not), Vec::new()).unwrap().0
        };
        assert_eq!(judge(&["SLAB cache", "full"], &["swap"]), ReportVerdict::Right);
        assert_eq!(judge(&["slab", "zone"], &["swap"]), ReportVerdict::Partly);
        assert_eq!(judge(&["zone"], &[]), ReportVerdict::Silent);
        assert_eq!(judge(&["slab"], &["^ready"]), ReportVerdict::Wrong);
        let (.., words) =
            verdict(screen, &report(&["full", "slab cache"], &[]), Vec::new()).unwrap();
        assert_eq!(words, 8);
    }

    #[test]
    fn every_report_is_complete_and_its_patterns_can_be_read() {
        let archives = archives().unwrap();
        assert!(!archives.is_empty());
        for (name, path) in archives {
            let archive = TextArchive::load(&path).unwrap();
            let report = description(&archive).unwrap();
            assert!(report.source.starts_with("http"), "{name}");
            assert!(!report.must.is_empty() && !report.cause.is_empty(), "{name}");
            verdict("", &report, Vec::new()).unwrap();
            let has_log = archive.tree.file("kernel.log").is_ok();
            assert_eq!(report.command == "explain-log", has_log, "{name}: {}", report.command);
        }
    }
}
