//! Holds a run against what the case promises, in pure functions.

pub mod run_outcome;
pub mod stall;
pub mod transcript;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Outcome;
use crate::case::expect::{Bound, EffectBounds, Expect};
use crate::judge::transcript::{CheckReport, RunPhase, Transcript};
use crate::vm::kernel_log::Trouble;
use crate::vm::qemu::GuestRun;

/// Findings of this severity do not name memory as the cause.
const NOTE: &str = "note";

/// One measurement in all phases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasurementSeries {
    pub name: String,
    pub unit: String,
    /// True if the case promises bounds for it.
    #[serde(default)]
    pub has_bounds: bool,
    /// By the phases in which it was measured.
    pub values: BTreeMap<RunPhase, f64>,
}

/// The outcome, with the guest's transcript where it could be read.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseJudgement {
    pub outcome: Outcome,
    pub transcript: Transcript,
}

pub fn judge(expect: &Expect, run: &GuestRun) -> CaseJudgement {
    let said = run_outcome::run_outcome(run);
    let transcript = match Transcript::read(&run.frames) {
        Ok(transcript) => transcript,
        Err(why) => {
            let outcome = if said == Outcome::Passed { Outcome::Failed(why) } else { said };
            return CaseJudgement { outcome, transcript: Transcript::default() };
        }
    };
    let outcome = match said {
        Outcome::Passed => {
            let mut problems = surprises(&run.troubles, &expect.log);
            problems.extend(broken_promises(expect, &transcript));
            if problems.is_empty() { said } else { Outcome::Failed(problems.join("; ")) }
        }
        other => other,
    };
    CaseJudgement { outcome, transcript }
}

/// Each measurement, with its values in all phases.
pub fn measured(expect: &Expect, transcript: &Transcript) -> Vec<MeasurementSeries> {
    let mut all: Vec<MeasurementSeries> = Vec::new();
    for (phase, measurements) in &transcript.measured {
        for one in measurements {
            let known = all.iter().position(|other| other.name == one.name);
            let at = known.unwrap_or_else(|| {
                let (name, unit) = (one.name.clone(), one.unit.clone());
                let has_bounds = expect.effect.contains_key(&name);
                all.push(MeasurementSeries { name, unit, has_bounds, values: BTreeMap::new() });
                all.len() - 1
            });
            all[at].values.insert(*phase, one.value);
        }
    }
    all
}

/// Severe lines of the kernel's log that the case does not expect.
fn surprises(troubles: &[Trouble], expected: &[String]) -> Vec<String> {
    let is_expected = |line: &str| expected.iter().any(|part| line.contains(part));
    let severe = troubles.iter().filter(|trouble| trouble.is_severe());
    let surprise = severe.filter(|trouble| !is_expected(&trouble.line));
    surprise.map(|trouble| format!("the guest's kernel logged: {}", trouble.line)).collect()
}

fn broken_promises(expect: &Expect, transcript: &Transcript) -> Vec<String> {
    let mut problems = Vec::new();
    if expect.measured_only {
        let none = transcript.measured.get(&RunPhase::During).is_none_or(Vec::is_empty);
        problems.extend(none.then(|| "measure.sh printed no measurement".to_owned()));
        return problems;
    }
    match transcript.checks.get(&RunPhase::During) {
        Some(check) => problems.extend(diagnosis(expect, check)),
        None => {
            problems.push("memwright check did not run while the condition was in force".to_owned())
        }
    }
    if !expect.fix.is_empty() {
        problems.extend(fix_and_revert(expect, transcript));
    }
    let measured = measured(expect, transcript);
    for (name, effect) in &expect.effect {
        match measured.iter().find(|one| one.name == *name) {
            Some(one) => problems.extend(effects(one, effect)),
            None => problems.push(format!("measure.sh did not measure {name}")),
        }
    }
    problems
}

/// Of the findings while the condition is in force.
fn diagnosis(expect: &Expect, check: &CheckReport) -> Vec<String> {
    let said = |rule: &str| check.findings.iter().find(|found| found.rule == rule);
    let missing = expect.found.iter().filter(|rule| said(rule).is_none());
    let mut problems: Vec<String> = missing
        .map(|rule| {
            format!("{rule} reported no finding while the condition was in force ({})", list(check))
        })
        .collect();
    for (rule, part) in &expect.says {
        let findings = check.findings.iter().filter(|found| found.rule == *rule);
        let said: Vec<&str> = findings.map(|found| found.headline.as_str()).collect();
        if !said.is_empty() && !said.iter().any(|headline| headline.contains(part)) {
            problems.push(format!("the finding of {rule} lacks {part:?}: {}", said.join("; ")));
        }
    }
    for rule in &expect.absent {
        if let Some(found) = said(rule) {
            problems.push(format!("{rule} reported a finding, expected none: {}", found.headline));
        }
        if check.skipped.iter().any(|skipped| skipped.rule == *rule) {
            problems.push(format!("{rule} could not be checked"));
        }
    }
    if expect.no_finding {
        let blames = check.findings.iter().filter(|found| found.severity != NOTE);
        let surplus = blames.filter(|found| !expect.found.contains(&found.rule));
        problems.extend(surplus.map(|found| {
            format!("{} reported a finding, expected none: {}", found.rule, found.headline)
        }));
    }
    problems
}

/// Of `fix` and `undo`.
fn fix_and_revert(expect: &Expect, transcript: &Transcript) -> Vec<String> {
    let mut problems = Vec::new();
    if transcript.changes.is_empty() {
        problems.push("fix changed nothing".to_owned());
    }
    for change in &transcript.changes {
        let Some(before) = &change.before else { continue };
        let now = transcript.settings.get(&change.path).map(|text| chosen(text));
        if now != Some(before.trim()) {
            let path = &change.path;
            problems.push(format!("undo left {path} at {now:?}, before the fix it was {before:?}"));
        }
    }
    let finds = |phase, rule: &str| {
        let check: Option<&CheckReport> = transcript.checks.get(&phase);
        check.map(|check| check.findings.iter().any(|found| found.rule == rule))
    };
    for rule in &expect.fix {
        if finds(RunPhase::Fixed, rule) != Some(false) {
            problems.push(format!("{rule} still reported a finding after fix"));
        }
        if finds(RunPhase::Reverted, rule) != Some(!expect.stays) {
            let word = if expect.stays { "a" } else { "no" };
            problems.push(format!("{rule} reported {word} finding after undo"));
        }
    }
    problems
}

/// The word in brackets of `always [madvise] never`, or else the text.
fn chosen(text: &str) -> &str {
    let mut words = text.split_whitespace();
    let bracketed = words.find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    bracketed.unwrap_or(text.trim())
}

fn effects(measured: &MeasurementSeries, effect: &EffectBounds) -> Vec<String> {
    let of = |phase| measured.values.get(&phase).copied();
    let (before, during) = (of(RunPhase::Before), of(RunPhase::During));
    let bounds = [
        (RunPhase::During, effect.during),
        (RunPhase::Fixed, effect.fixed),
        (RunPhase::Reverted, effect.reverted),
    ];
    let check = |(phase, bound): (RunPhase, Bound)| {
        if bound == Bound::default() {
            return None;
        }
        let why = match of(phase) {
            Some(value) => bound.broken_by(before, during, value)?,
            None => "not measured".to_owned(),
        };
        Some(format!("{} {} was {why}", measured.name, phase.name()))
    };
    bounds.into_iter().filter_map(check).collect()
}

fn list(check: &CheckReport) -> String {
    let rules: Vec<&str> = check.findings.iter().map(|found| found.rule.as_str()).collect();
    if rules.is_empty() {
        "no findings".to_owned()
    } else {
        format!("findings: {}", rules.join(", "))
    }
}

#[cfg(test)]
mod tests;
