//! Plays of the same case on the same kernel, taken together.

use std::collections::{BTreeMap, BTreeSet};

use crate::Outcome;
use crate::judge::Measured;
use crate::play::Play;
use crate::report::{Tally, effect, short};
use crate::transcript::Phase;

/// Whether any case was played more than once on a kernel.
pub(crate) fn are(plays: &[Play]) -> bool {
    let different: BTreeSet<_> =
        plays.iter().map(|play| (play.full_name(), &play.kernel)).collect();
    different.len() < plays.len()
}

/// How often it did what it says, and why it did not.
pub(crate) fn outcomes(plays: &[&Play]) -> String {
    let all: Vec<Play> = plays.iter().copied().cloned().collect();
    let passed = Tally::of(&all).passed;
    let times: Vec<f64> = plays.iter().map(|play| play.wall_s).collect();
    let mut line = format!(
        "passed {passed} of {}, in {:.0} s",
        plays.len(),
        median(times).unwrap_or_default()
    );
    let again = plays.iter().filter(|play| play.tries > 1).count();
    if again > 0 {
        line += &format!(", {again} of them not at the first try");
    }
    let but = plays.iter().filter(|play| play.outcome != Outcome::Passed);
    but.fold(line, |line, play| format!("{line}; **{}**", play.outcome))
}

/// A line for each measurement: the medians, and how far apart the rounds are while the condition was
/// in force, as shares of what it was before.
pub(crate) fn effects(plays: &[&Play]) -> Vec<String> {
    let mut names: Vec<&Measured> = Vec::new();
    for measured in plays.iter().flat_map(|play| &play.measured) {
        if !names.iter().any(|known| known.name == measured.name) {
            names.push(measured);
        }
    }
    names.into_iter().map(|first| together(first, plays)).collect()
}

fn together(first: &Measured, plays: &[&Play]) -> String {
    let all = plays.iter().flat_map(|play| &play.measured);
    let rounds: Vec<&Measured> = all.filter(|measured| measured.name == first.name).collect();
    let phases: BTreeSet<Phase> =
        rounds.iter().flat_map(|round| round.values.keys().copied()).collect();
    let in_phase =
        |phase| rounds.iter().filter_map(|round| round.values.get(&phase).copied()).collect();
    let values: BTreeMap<Phase, f64> =
        phases.into_iter().filter_map(|phase| Some((phase, median(in_phase(phase))?))).collect();
    let line = effect(&Measured { name: first.name.clone(), unit: first.unit.clone(), values });
    let factor = |round: &&Measured| {
        let before = round.values.get(&Phase::Before).filter(|before| **before > 0.0)?;
        Some(round.values.get(&Phase::During)? / before)
    };
    let mut factors: Vec<f64> = rounds.iter().filter_map(factor).collect();
    factors.sort_by(f64::total_cmp);
    match factors.as_slice() {
        [least, .., most] => format!("{line}; during x{} to x{}", short(*least), short(*most)),
        _ => line,
    }
}

/// The lower of the middle two of an even number.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied()
}
