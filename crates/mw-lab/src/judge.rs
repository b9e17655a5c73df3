//! Whether a play was what the case promises. Pure: from the promise and what came back.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::Outcome;
use crate::expect::{Bound, Effect, Expect};
use crate::klog::Trouble;
use crate::qemu::Run;
use crate::transcript::{Check, Phase, Transcript};
use crate::verdict;

/// Findings of this severity are worth knowing, and blame nothing.
const NOTE: &str = "note";

/// One measurement in all phases.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// What was measured.
    pub name: String,
    /// In which unit.
    pub unit: String,
    /// How much it was in each phase in which it was measured.
    pub values: BTreeMap<Phase, f64>,
}

/// The outcome of a play, with what the guest sent where it could be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The outcome.
    pub outcome: Outcome,
    /// What the guest sent.
    pub transcript: Transcript,
}

/// Holds `run` against `expect`.
pub fn judge(expect: &Expect, run: &Run) -> Judged {
    let said = verdict::of_run(run);
    let transcript = match Transcript::read(&run.frames) {
        Ok(transcript) => transcript,
        Err(why) => {
            let outcome = if said == Outcome::Passed { Outcome::Failed(why) } else { said };
            return Judged { outcome, transcript: Transcript::default() };
        }
    };
    let outcome = match said {
        Outcome::Passed => {
            let mut problems = surprises(&run.troubles, &expect.log);
            problems.extend(broken(expect, &transcript));
            if problems.is_empty() { said } else { Outcome::Failed(problems.join("; ")) }
        }
        other => other,
    };
    Judged { outcome, transcript }
}

/// The measurements of all phases, each once.
pub fn measured(transcript: &Transcript) -> Vec<Measured> {
    let mut all: Vec<Measured> = Vec::new();
    for (phase, measurements) in &transcript.measured {
        for one in measurements {
            let known = all.iter().position(|other| other.name == one.name);
            let at = known.unwrap_or_else(|| {
                let (name, unit) = (one.name.clone(), one.unit.clone());
                all.push(Measured { name, unit, values: BTreeMap::new() });
                all.len() - 1
            });
            all[at].values.insert(*phase, one.value);
        }
    }
    all
}

/// Grave lines of the kernel's log that the case does not expect.
fn surprises(troubles: &[Trouble], expected: &[String]) -> Vec<String> {
    let is_expected = |line: &str| expected.iter().any(|part| line.contains(part));
    let grave = troubles.iter().filter(|trouble| trouble.is_grave());
    let surprise = grave.filter(|trouble| !is_expected(&trouble.line));
    surprise.map(|trouble| format!("the guest's kernel said: {}", trouble.line)).collect()
}

/// What is not as promised.
fn broken(expect: &Expect, transcript: &Transcript) -> Vec<String> {
    let mut problems = Vec::new();
    if expect.measured_only {
        let none = transcript.measured.get(&Phase::During).is_none_or(Vec::is_empty);
        problems.extend(none.then(|| "measure.sh did not measure anything".to_owned()));
        return problems;
    }
    match transcript.checks.get(&Phase::During) {
        Some(check) => problems.extend(diagnosis(expect, check)),
        None => {
            problems.push("memwright has not looked while the condition was in force".to_owned())
        }
    }
    if !expect.fix.is_empty() {
        problems.extend(mending(expect, transcript));
    }
    let measured = measured(transcript);
    for (name, effect) in &expect.effect {
        match measured.iter().find(|one| one.name == *name) {
            Some(one) => problems.extend(effects(one, effect)),
            None => problems.push(format!("measure.sh did not measure {name}")),
        }
    }
    problems
}

/// What is wrong with the findings while the condition is in force.
fn diagnosis(expect: &Expect, check: &Check) -> Vec<String> {
    let said = |rule: &str| check.findings.iter().find(|found| found.rule == rule);
    let missing = expect.found.iter().filter(|rule| said(rule).is_none());
    let mut problems: Vec<String> = missing
        .map(|rule| {
            format!("{rule} was not found while the condition was in force ({})", list(check))
        })
        .collect();
    for (rule, part) in &expect.says {
        let findings = check.findings.iter().filter(|found| found.rule == *rule);
        let said: Vec<&str> = findings.map(|found| found.headline.as_str()).collect();
        if !said.is_empty() && !said.iter().any(|headline| headline.contains(part)) {
            problems.push(format!("{rule} did not say {part:?}: {}", said.join("; ")));
        }
    }
    for rule in &expect.absent {
        if let Some(found) = said(rule) {
            problems.push(format!("{rule} was found and should not be: {}", found.headline));
        }
        if check.skipped.iter().any(|skipped| skipped.rule == *rule) {
            problems.push(format!("{rule} could not look"));
        }
    }
    if expect.no_finding {
        let blames = check.findings.iter().filter(|found| found.severity != NOTE);
        let surplus = blames.filter(|found| !expect.found.contains(&found.rule));
        problems.extend(surplus.map(|found| {
            format!("{} is not to blame, but was found: {}", found.rule, found.headline)
        }));
    }
    problems
}

/// What is wrong with `fix` and `undo`.
fn mending(expect: &Expect, transcript: &Transcript) -> Vec<String> {
    let mut problems = Vec::new();
    if transcript.changes.is_empty() {
        problems.push("fix has changed nothing".to_owned());
    }
    for change in &transcript.changes {
        let Some(before) = &change.before else { continue };
        let now = transcript.settings.get(&change.path).map(|text| chosen(text));
        if now != Some(before.trim()) {
            let path = &change.path;
            problems.push(format!("undo left {path} at {now:?}, which was {before:?} before"));
        }
    }
    let finds = |phase, rule: &str| {
        let check: Option<&Check> = transcript.checks.get(&phase);
        check.map(|check| check.findings.iter().any(|found| found.rule == rule))
    };
    for rule in &expect.fix {
        if finds(Phase::Fixed, rule) != Some(false) {
            problems.push(format!("{rule} was still found after fix"));
        }
        if finds(Phase::Undone, rule) != Some(!expect.stays) {
            let word = if expect.stays { "found again" } else { "not found again" };
            problems.push(format!("{rule} was {word} after undo"));
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

fn effects(measured: &Measured, effect: &Effect) -> Vec<String> {
    let of = |phase| measured.values.get(&phase).copied();
    let (before, during) = (of(Phase::Before), of(Phase::During));
    let bounds = [
        (Phase::During, effect.during),
        (Phase::Fixed, effect.fixed),
        (Phase::Undone, effect.undone),
    ];
    let check = |(phase, bound): (Phase, Bound)| {
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

fn list(check: &Check) -> String {
    let rules: Vec<&str> = check.findings.iter().map(|found| found.rule.as_str()).collect();
    if rules.is_empty() { "nothing was".to_owned() } else { format!("found: {}", rules.join(", ")) }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
